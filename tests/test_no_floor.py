"""With a floor of 1 nothing of a table is withheld, as decision 0001 says."""

import numpy as np

from kfed.site import Table, cluster_table
from kfed.wire import Column, FeatureSchema


def test_a_table_without_a_floor_tells_of_every_row():
    rng = np.random.default_rng(0)
    schema = FeatureSchema.of_columns([Column("age"), Column("dose")])
    kept = cluster_table(Table(rng.normal(size=(12, 2)), ("age", "dose"), schema=schema), None, "a", min_cluster_size=1)
    assert kept.to_message().n_points == 12
    assert kept.n_withheld == 0
