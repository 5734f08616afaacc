"""Worlds in which the number of clusters is looked for."""

from dataclasses import replace

import numpy as np
from sklearn.datasets import load_digits

import kfed


def with_outliers(world, n_outliers, seed=0, reach=200.0):
    """Put some points of random devices far out, each in a direction of its own."""
    rng = np.random.default_rng(seed)
    points = [own.copy() for own in world.points]
    for _ in range(n_outliers):
        own = points[rng.integers(len(points))]
        direction = rng.normal(size=own.shape[1])
        own[rng.integers(len(own))] = direction * (rng.uniform(0.5, 2) * reach / np.linalg.norm(direction))
    return replace(world, points=points)


def unequal(world, seed=0):
    """Take points away, of each cluster of each device another share, up to four fifths."""
    rng = np.random.default_rng(seed)
    kept = [rng.random(len(t)) < rng.uniform(0.2, 1, world.n_clusters)[t] for t in world.targets]
    parts = zip(world.points, world.targets, kept, strict=True)
    points, targets = zip(*((own[k], t[k]) for own, t, k in parts), strict=True)
    return replace(world, points=list(points), targets=list(targets))


def shared_digits(n_devices, n_local_clusters, n_shards=0, seed=0):
    """Messages about the digits of scikit-learn, spread at random or by `n_shards` sorted runs a device."""
    points, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(points))
    if n_shards:
        runs = np.array_split(order[np.argsort(digits[order], kind="stable")], n_shards * n_devices)
        rows = [np.concatenate([runs[i] for i in own]) for own in np.split(rng.permutation(len(runs)), n_devices)]
    else:
        rows = np.array_split(order, n_devices)
    found = kfed.cluster_fleet([points[own] for own in rows], n_local_clusters, random_state=seed)
    return [local.to_message(f"{i}") for i, local in enumerate(found)]


def changed(message, **values):
    """The same message but for some of what it says."""
    names = ("device_id", "centers", "counts", "sums_of_squares", "spectral_deviation", "feature_names")
    return kfed.DeviceMessage(**({name: getattr(message, name) for name in names} | values))


def assert_same_choice(one, other):
    assert one.facts() == other.facts()
    np.testing.assert_array_equal(one.distances, other.distances)
    np.testing.assert_array_equal(one.ratios, other.ratios)


def sent_by(devices, n_local_clusters, seed=0, prefix=""):
    found = kfed.cluster_fleet(devices, n_local_clusters, random_state=seed)
    return [local.to_message(f"{prefix}{i}") for i, local in enumerate(found)]


def square_of_places(side, apart):
    return apart * np.array([(i, j) for i in range(side) for j in range(side)], float)
