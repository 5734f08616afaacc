"""Rows of a table go to the nearest cluster that their site holds, however large it is."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score

import kfed
from kfed.site import Table, cluster_table
from kfed.wire import Column, FeatureSchema

SCHEMA = FeatureSchema.of_columns([Column("age"), Column("dose")])
MEANS = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 40.0]])


def site(name, groups, rng):
    rows = MEANS[groups] + rng.normal(size=(len(groups), 2)) * [1, 10]
    table = Table(rows, ("age", "dose"), schema=SCHEMA)
    return rows, cluster_table(table, None, name, random_state=0)


def test_a_row_goes_to_the_nearest_cluster_that_its_site_holds():
    rng = np.random.default_rng(0)
    held = {"uneven": [0] * 180 + [1] * 20, "even": [0] * 60 + [1] * 60 + [2] * 60, "few": [2] * 60}
    sites = {name: site(name, np.array(groups), rng) for name, groups in held.items()}
    clusters = kfed.aggregate([kept.to_message() for _, kept in sites.values()], 3)
    rows, kept = sites["uneven"]
    among = np.unique(kept.labels(clusters, rows))
    assert len(among) == 2
    nearest = clusters.predict(rows)
    known = np.isin(nearest, among)
    assert np.array_equal(kept.labels(clusters, rows)[known], nearest[known])
    rows, kept = sites["few"]
    assert len(np.unique(kept.labels(clusters, rows))) == 1


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_sites_that_are_alike_are_labelled_as_well_as_by_pooled_k_means(missing):
    rng = np.random.default_rng(1)
    values, groups = load_breast_cancer(return_X_y=True)
    values[rng.random(values.shape) < missing] = np.nan
    filled = np.where(np.isnan(values), np.nanmean(values, axis=0), values)
    pooled = KMeans(2, n_init=3, random_state=0).fit((filled - filled.mean(axis=0)) / filled.std(axis=0)).labels_
    names = tuple(f"column {position}" for position in range(values.shape[1]))
    schema, site_of = FeatureSchema.of_columns(map(Column, names)), rng.permutation(len(values)) % 6
    tables = [Table(values[site_of == site], names, schema=schema) for site in range(6)]
    kept = [cluster_table(table, None, f"site {number}", random_state=0) for number, table in enumerate(tables)]
    clusters = kfed.aggregate([own.to_message() for own in kept], 2)
    labels = np.empty(len(values), int)
    for number, (own, table) in enumerate(zip(kept, tables, strict=True)):
        labels[site_of == number] = own.labels(clusters, table.values)
    assert adjusted_rand_score(groups, labels) > adjusted_rand_score(groups, pooled) - (0.02 if missing else 0.01)
