"""`Identity` and induced labels: the one answer back, and what a device makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from worlds import names_of_devices


@given(
    device_id=names_of_devices,
    n_clusters=st.integers(1, 5),
    n_features=st.integers(1, 4),
    data=st.data(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_what_is_encoded_is_decoded(device_id, n_clusters, n_features, data, dtype):
    ids = data.draw(st.lists(st.integers(0, n_clusters - 1), max_size=6))
    centers = np.random.default_rng(0).normal(size=(n_clusters, n_features)).astype(dtype)
    identity = kfed.Identity(device_id, ids, centers)
    decoded = kfed.Identity.from_bytes(identity.to_bytes())
    assert decoded == identity
    assert hash(decoded) == hash(identity)
    assert decoded.to_bytes() == identity.to_bytes()
    assert decoded.cluster_centers.dtype == dtype
    assert np.asarray(decoded).tolist() == ids
    assert (len(decoded), decoded.n_clusters, decoded.n_features) == (len(ids), n_clusters, n_features)


def test_an_identity_is_frozen_and_its_input_is_copied():
    ids, centers = np.array([1, 0]), np.ones((2, 3))
    identity = kfed.Identity("a", ids, centers)
    ids[:], centers[:] = 0, 9
    assert np.asarray(identity).tolist() == [1, 0]
    assert identity.cluster_centers.max() == 1
    for array in (identity.cluster_ids, identity.cluster_centers):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    copied = np.array(identity)
    copied[:] = 7
    assert np.asarray(identity, dtype=float).tolist() == [1.0, 0.0]
    assert identity != kfed.Identity("b", [1, 0], np.ones((2, 3)))
    assert identity != "an identity"


@pytest.mark.parametrize("ids", [[2], [-1], [0.0], [np.nan], [[0]], ["a"], [True], [10**30], 0, [[0], [0, 1]], None])
def test_cluster_ids_must_be_whole_numbers_below_the_number_of_clusters(ids):
    with pytest.raises(kfed.InvalidInputError):
        kfed.Identity("a", ids, [[0.0], [1.0]])


@pytest.mark.parametrize("centers", [[0.0], [[np.nan, 0.0]], [[np.inf]], [["a"]], [[0.0], [0.0, 1.0]], None])
def test_cluster_centers_must_be_finite_rows(centers):
    with pytest.raises(kfed.InvalidInputError):
        kfed.Identity("a", [], centers)


def test_shares_of_clusters_travel_with_the_answer():
    identity = kfed.Identity("a", [0], [[0.0], [1.0]], cluster_shares=[0.75, 0.25])
    decoded = kfed.Identity.from_bytes(identity.to_bytes())
    assert decoded == identity
    assert decoded.cluster_shares.tolist() == [0.75, 0.25]
    assert identity != kfed.Identity("a", [0], [[0.0], [1.0]])
    assert identity != kfed.Identity("a", [0], [[0.0], [1.0]], cluster_shares=[0.5, 0.5])


def test_an_answer_without_shares_is_read_as_before():
    identity = kfed.Identity("a", [0], [[0.0], [1.0]])
    assert kfed.Identity.from_bytes(identity.to_bytes()).cluster_shares is None


def test_an_aggregation_tells_the_share_of_each_cluster():
    messages = [kfed.DeviceMessage(f"{i}", [[0.0], [9.0]], [10 + i, 30 - i]) for i in range(3)]
    result = kfed.aggregate(messages, 2)
    shares = result.answer(messages[0]).cluster_shares
    np.testing.assert_allclose(shares, result.cluster_sizes / 120, rtol=0.05)
    assert all(share == float(f"{share:.1e}") for share in shares)  # what is exact tells the rows of others
    np.testing.assert_allclose(result.assign(kfed.DeviceMessage("late", [[8.0]], [5])).cluster_shares, shares)


@pytest.mark.parametrize("shares", [[0.5], [-0.1, 1.1], [np.nan, 0.5], [["a"], ["b"]], [[0.5, 0.5]], ["a", "b"]])
def test_shares_must_be_one_number_from_0_to_1_for_each_cluster(shares):
    with pytest.raises(kfed.InvalidInputError, match="cluster_shares must be 2 numbers from 0 to 1"):
        kfed.Identity("a", [], [[0.0], [1.0]], cluster_shares=shares)


# Induced labels -------------------------------------------------------------------------------------------------


def device():
    """Two crowds far apart, and a point on its own near (9, 0)."""
    points = np.array([[0.0, 0.1], [0.1, 0.0], [0.0, 0.0], [50.0, 0.1], [50.1, 0.0], [50.0, 0.0], [9.0, 0.0]])
    return kfed.cluster_device(points, 3, random_state=0)


def test_points_go_where_the_server_put_the_center_of_their_cluster():
    local = device()
    assert local.withheld.sum() == 1
    message = local.to_message("a")
    left_first = message.centers[0, 0] < 25
    far_away = [[1e6, 0.0], [2e6, 0.0], [8.0, 0.0]]  # the answer is not the nearest center but the server's word
    identity = kfed.Identity("a", [1, 0] if left_first else [0, 1], far_away)
    assert local.induced_labels(identity).tolist() == [1, 1, 1, 0, 0, 0, 2]
    clusters = local.global_clusters(identity)
    np.testing.assert_array_equal(clusters[local.labels], local.induced_labels(identity))
    np.testing.assert_array_equal(clusters[~local.withheld], np.asarray(identity))


def test_points_of_a_withheld_cluster_go_to_the_nearest_global_center():
    local = device()
    for centers, expected in (([[0.0, 0.0], [50.0, 0.0]], 0), ([[0.0, 0.0], [12.0, 0.0]], 1)):
        assert local.induced_labels(kfed.Identity("a", [0, 1], centers))[-1] == expected


def test_the_answer_to_another_device_is_refused():
    local = device()
    with pytest.raises(kfed.FeatureMismatchError, match="2 features"):
        local.induced_labels(kfed.Identity("a", [0, 0], [[0.0, 0.0, 0.0]]))
    for ids in ([], [0], [0, 0, 0]):
        with pytest.raises(kfed.InvalidInputError, match="must name 2 clusters, as many as this device sent"):
            local.induced_labels(kfed.Identity("a", ids, [[0.0, 0.0]]))


def test_a_saved_device_gives_the_same_labels(tmp_path):
    local = device()
    identity = kfed.aggregate([local.to_message("a")], 2).identity("a")
    local.save(tmp_path / "a.local")
    again = kfed.LocalClustering.load(tmp_path / "a.local")
    np.testing.assert_array_equal(again.induced_labels(identity), local.induced_labels(identity))
    assert again.to_message("a") == local.to_message("a")
    assert again.to_bytes() == local.to_bytes()
    with pytest.raises(ValueError, match="read-only"):
        again.labels[0] = 1


def test_the_answer_to_a_device_of_another_name_is_refused():
    rng = np.random.default_rng(0)
    own = {name: kfed.cluster_device(rng.normal(size=(30, 2)), 2, random_state=0) for name in "ab"}
    result = kfed.aggregate([local.to_message(name) for name, local in own.items()], 2)
    with pytest.raises(kfed.InvalidInputError, match=r"must be for 'a'.*got the identity for 'b'"):
        own["a"].induced_labels(result.identity("b"))
    assert len(own["a"].induced_labels(result.identity("a"))) == 30


@pytest.mark.parametrize("as_fleet", [False, True])
def test_the_answer_to_another_device_is_refused_by_a_device_that_made_no_message(as_fleet):
    rng = np.random.default_rng(0)
    points = {name: rng.normal(size=(30, 2)) for name in "AB"}

    def clustered():
        if as_fleet:
            return dict(zip("AB", kfed.cluster_fleet(points, 2, random_state=0), strict=True))
        return {name: kfed.cluster_device(own, 2, device_id=name, random_state=0) for name, own in points.items()}

    result = kfed.aggregate([own.to_message(name) for name, own in clustered().items()], 2)
    again = clustered()["A"]
    with pytest.raises(kfed.InvalidInputError, match="identity must be for 'A', the id of this device"):
        again.induced_labels(result.identity("B"))
    assert len(again.induced_labels(result.identity("A"))) == 30
