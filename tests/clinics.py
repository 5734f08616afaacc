"""Clinics whose columns have different units."""

import numpy as np

from kfed.wire import Column, FeatureSchema

SECRET = "8675309.25"


UNITS = np.array([1.0, 1000.0, 0.01, 50.0])


SCHEMA = FeatureSchema.of_columns([Column(name) for name in "abcd"])


def clinics(seed=0, n_sites=8, missing=0.0):
    """Rows of four groups, two at each site, in columns of very different units; and the group of each row."""
    rng = np.random.default_rng(seed)
    means = 5 * rng.normal(size=(4, 4))
    sites = []
    for _ in range(n_sites):
        own = rng.permutation(4)[:2].repeat(40)
        rows = (means[own] + rng.normal(size=(len(own), 4))) * UNITS
        rows[rng.random(rows.shape) < missing] = np.nan
        sites.append((rows, own))
    return sites
