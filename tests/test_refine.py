"""`induced_labels(identity, refine=points)`: points move, but only to clusters that their device plausibly holds."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
from worlds import mixture_world, same_partition


def held_by_definition(local, identity, points):
    """The clusters that a device plausibly holds, word for word."""
    clusters, centers = local.global_clusters(identity), identity.cluster_centers
    held = {int(clusters[s]) for s in local.labels}
    nearest = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    for cluster in set(local.labels.tolist()):
        own = nearest[local.labels == cluster]
        for r in range(len(centers)):
            if np.sum(own == r) >= max(3, len(own) / 4):
                held.add(r)
    return sorted(held)


def two_in_one():
    """A device that looked for one cluster too few, and the answer to it."""
    rng = np.random.default_rng(0)
    centers = 20.0 * np.eye(6)
    targets = np.repeat([1, 4], 30)
    points = centers[targets] + rng.normal(size=(60, 6))
    local = kfed.cluster_device(points, 1, random_state=0)
    return points, targets, local, kfed.Identity("a", [1], centers)


# What it does ---------------------------------------------------------------------------------------------------


def test_a_local_cluster_that_is_two_global_ones_is_mended():
    points, targets, local, identity = two_in_one()
    assert set(local.induced_labels(identity)) == {1}
    np.testing.assert_array_equal(local.induced_labels(identity, refine=points), targets)


def test_a_point_does_not_move_to_a_cluster_that_its_device_does_not_hold():
    points, targets, local, identity = two_in_one()
    points[:2] = identity.cluster_centers[3]  # two points are no cluster
    refined = local.induced_labels(identity, refine=points)
    assert 3 not in refined
    np.testing.assert_array_equal(refined[2:], targets[2:])


def test_on_clean_data_no_label_changes():
    world = mixture_world()
    result = kfed.aggregate(world.messages(), 16)
    for local, name, points in zip(world.clusterings(), world.ids, world.points, strict=True):
        identity = result.identity(name)
        np.testing.assert_array_equal(local.induced_labels(identity), local.induced_labels(identity, refine=points))


def test_without_points_the_labels_are_those_of_the_paper():
    _, _, local, identity = two_in_one()
    np.testing.assert_array_equal(local.induced_labels(identity, refine=None), local.induced_labels(identity))


def test_withheld_points_keep_their_cluster():
    rng = np.random.default_rng(0)
    centers = 20.0 * np.eye(4)
    points = np.concatenate([centers[0] + rng.normal(size=(30, 4)), centers[2] + 0.1 * rng.normal(size=(2, 4))])
    local = kfed.cluster_device(points, 2, random_state=0)
    assert local.withheld.sum() == 1
    identity = kfed.Identity("a", [0], centers)
    assert local.induced_labels(identity, refine=points).tolist() == [0] * 30 + [2] * 2


def test_a_late_device_refines_too():
    world = mixture_world(points_per_cluster=30)
    result = kfed.aggregate(world.messages()[1:], 16)
    local = kfed.cluster_device(world.points[0], 2, random_state=0)
    refined = local.induced_labels(result.assign(local.to_message("late")), refine=world.points[0])
    assert same_partition(refined, world.targets[0])


# Laws -----------------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10**6),
    n_points=st.integers(1, 60),
    n_local_clusters=st.integers(1, 5),
    n_clusters=st.integers(1, 12),
    gap=st.sampled_from([0.5, 2.0, 5.0]),
)
def test_no_point_leaves_what_its_device_plausibly_holds_and_each_is_at_the_nearest(
    seed, n_points, n_local_clusters, n_clusters, gap
):
    rng = np.random.default_rng(seed)
    centers = gap * rng.normal(size=(n_clusters, 3))
    points = centers[rng.integers(n_clusters, size=n_points)] + rng.normal(size=(n_points, 3))
    local = kfed.cluster_device(points, n_local_clusters, random_state=seed)
    sent = np.count_nonzero(~local.withheld)
    identity = kfed.Identity("a", rng.integers(n_clusters, size=sent), centers)
    before = points.copy()
    refined = local.induced_labels(identity, refine=points)
    held = held_by_definition(local, identity, points)
    assert set(refined.tolist()) <= set(held)
    squares = ((points[:, None] - centers[held]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(refined, np.array(held)[squares.argmin(axis=1)])
    np.testing.assert_array_equal(points, before)


@pytest.mark.parametrize(
    "kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix, np.float32, pd.DataFrame, np.ndarray.tolist]
)
def test_points_of_any_kind_get_the_same_labels(kind, monkeypatch):
    monkeypatch.setattr("kfed.device.refine.SPARSE_ELEMENTS", 60)
    points, targets, local, identity = two_in_one()
    np.testing.assert_array_equal(local.induced_labels(identity, refine=kind(points)), targets)


# Bad input ------------------------------------------------------------------------------------------------------


def test_the_points_are_asked_for():
    _, _, local, identity = two_in_one()
    for flag in (True, False, np.True_):
        with pytest.raises(kfed.InvalidInputError, match="pass refine=points"):
            local.induced_labels(identity, refine=flag)


def test_points_of_another_device_are_refused():
    points, _, local, identity = two_in_one()
    for wrong in (points[:-1], points[:, :-1], np.concatenate([points, points])):
        with pytest.raises(kfed.InvalidInputError, match=r"the rows must be those that were clustered.* \(60, 6\)"):
            local.induced_labels(identity, refine=wrong)
    points[3, 2] = np.nan
    with pytest.raises(kfed.InvalidInputError, match="refine must be finite"):
        local.induced_labels(identity, refine=points)
    with pytest.raises(kfed.InvalidInputError, match="refine must be numbers"):
        local.induced_labels(identity, refine=[["a"] * 6] * 60)
