"""Algorithm 2 on the server: the textbook's answer, the start, the counts of Theorem 2, the robust rule, bad input."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kfed
from kfed._base import geometry
from kfed.server import farthest_first
from worlds import blobs, gatherings, mixture_world, same_partition

RULES = ["paper", "robust"]


def message(name, centers, counts=None, **more):
    centers = np.atleast_2d(np.asarray(centers, float)).reshape(-1, np.shape(centers)[-1])
    return kfed.DeviceMessage(name, centers, [10] * len(centers) if counts is None else counts, **more)


def textbook(centers, first, n_clusters):
    """Steps 2 to 8 of Algorithm 2, word for word, with distances as `numpy` takes them."""
    centers = centers.astype(float)
    chosen, distances = list(first), []  # step 2
    while len(chosen) < n_clusters:  # steps 3 to 6
        to_set = np.min([((centers - centers[i]) ** 2).sum(axis=1) for i in chosen], axis=0)
        to_set[chosen] = -1
        distances.append(np.sqrt(to_set.max()))
        chosen.append(int(to_set.argmax()))
    to_each = np.array([((centers - centers[i]) ** 2).sum(axis=1) for i in chosen])
    labels = to_each.argmin(axis=0)  # step 7, one round
    means = [centers[labels == r].mean(axis=0) if (labels == r).any() else centers[i] for r, i in enumerate(chosen)]
    return centers[chosen], np.array(distances), labels, np.array(means)


def first_rows(result, n_clusters):
    """The stated rule: the device that speaks for most points among those with at most k centers; the first id."""
    n_points = [
        (result.messages.counts[result.messages.owners == i].sum(), -i)
        for i in range(result.messages.n_devices)
        if 0 < (result.messages.owners == i).sum() <= n_clusters
    ]
    if n_points:
        return np.flatnonzero(result.messages.owners == -max(n_points)[1])
    everyone = [(result.messages.counts[result.messages.owners == i].sum(), -i) for i in set(result.messages.owners)]
    rows = np.flatnonzero(result.messages.owners == -max(everyone)[1])
    return rows[[result.messages.counts[rows].argmax()]]


# The textbook's answer ------------------------------------------------------------------------------------------


@given(gathering=gatherings())
def test_the_paper_rule_is_the_textbook_even_where_distances_tie(gathering):
    sent, n_clusters = gathering
    result = kfed.aggregate(sent, n_clusters)
    initial, distances, labels, means = textbook(result.messages.centers, first_rows(result, n_clusters), n_clusters)
    np.testing.assert_array_equal(result.grouping.initial_centers, initial)
    np.testing.assert_allclose(result.grouping.traversal, distances)
    np.testing.assert_array_equal(result.center_labels, labels)
    np.testing.assert_allclose(result.cluster_centers, means, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("seed", range(3))
def test_the_paper_rule_is_the_textbook_on_centers_that_overlap(seed, offset, dtype):
    rng = np.random.default_rng(seed)
    sent = [
        kfed.DeviceMessage(f"{i:03}", (offset + rng.normal(size=(4, 6))).astype(dtype), rng.integers(3, 50, 4))
        for i in range(100)
    ]
    result = kfed.aggregate(sent, 25)
    initial, distances, labels, means = textbook(result.messages.centers, first_rows(result, 25), 25)
    np.testing.assert_array_equal(result.grouping.initial_centers, initial)
    np.testing.assert_allclose(result.grouping.traversal, distances, rtol=1e-12)
    np.testing.assert_array_equal(result.center_labels, labels)
    np.testing.assert_allclose(result.cluster_centers, means, rtol=1e-5 if dtype == np.float32 else 1e-12)
    assert (np.diff(result.grouping.traversal) <= 0).all()


def test_the_paper_rule_runs_one_round_of_lloyd_and_no_more():
    sent = [message("a", [[0.0], [10.0]], [99, 99]), message("b", [[4.9], [4.8], [4.7], [5.4]])]
    result = kfed.aggregate(sent, 2)
    assert result.grouping.initial_centers.tolist() == [[0.0], [10.0]]
    assert result.center_labels.tolist() == [0, 1, 0, 0, 0, 1]
    np.testing.assert_allclose(result.cluster_centers, [[3.6], [7.7]])
    second_round = np.abs(result.messages.centers - result.cluster_centers.T).argmin(axis=1)
    assert second_round.tolist() == [0, 1, 0, 0, 0, 0]  # so another round would have changed the answer


def test_means_are_of_centers_not_of_points_in_the_paper_rule():
    sent = [message("a", [[0.0], [100.0]], [1000, 3]), message("b", [[1.0]], [3])]
    np.testing.assert_allclose(kfed.aggregate(sent, 2).cluster_centers, [[0.5], [100.0]])
    np.testing.assert_allclose(kfed.aggregate(sent, 2, rule="robust").cluster_centers, [[3 / 1003], [100.0]])


# The first device -----------------------------------------------------------------------------------------------


def test_the_first_device_is_the_one_that_speaks_for_most_points():
    sent = [message("a", [[0.0], [1.0]], [5, 5]), message("b", [[7.0], [9.0]], [6, 5]), message("c", [[3.0]], [11])]
    assert kfed.aggregate(sent, 3).grouping.initial_centers[:2].tolist() == [[7.0], [9.0]]  # "b" before "c"
    assert kfed.aggregate(sent, 1).grouping.initial_centers.tolist() == [[3.0]]  # only "c" has no more than one center


def test_the_caller_may_name_the_first_device():
    sent = [message("a", [[0.0], [1.0]]), message("b", [[7.0]]), message("none", np.empty((0, 1)))]
    result = kfed.aggregate(sent, 2, first_device="b")
    assert result.grouping.initial_centers.tolist() == [[7.0], [0.0]]
    assert result.settings.first_device == "b"
    with pytest.raises(kfed.UnknownDeviceError, match="'z'"):
        kfed.aggregate(sent, 2, first_device="z")
    with pytest.raises(kfed.InvalidInputError, match="'none' sent none"):
        kfed.aggregate(sent, 2, first_device="none")


def test_a_first_device_with_more_centers_than_clusters_starts_with_its_largest():
    sent = [message("a", [[0.0], [5.0], [9.0]], [3, 8, 4])]
    result = kfed.aggregate(sent, 2, first_device="a")
    assert result.grouping.initial_centers.tolist() == [[5.0], [0.0]]


# The counts of Theorem 2 ----------------------------------------------------------------------------------------


class Counter:
    """Counts the distances that `geometry` is asked for, by whatever way."""

    def __init__(self, monkeypatch):
        self.n_distances = 0
        for name in ("squared_distances", "half_bounds", "product_distances"):
            if hasattr(geometry, name):
                monkeypatch.setattr(geometry, name, self._counting(getattr(geometry, name)))

    def _counting(self, function):
        def counted(left, right, *args, **options):
            self.n_distances += self._length(left) * self._length(right)
            return function(left, right, *args, **options)

        return counted

    @staticmethod
    def _length(points):
        return len(getattr(points, "points", points))


def overlapping(n_devices, seed):
    rng = np.random.default_rng(seed)
    return [message(f"{i}", rng.normal(size=(4, 8)), rng.integers(3, 50, 4)) for i in range(n_devices)]


def count_by_stage(sent, n_clusters, monkeypatch):
    """Distances of the traversal, then those of the assignment."""
    counter = Counter(monkeypatch)
    traverse, in_traversal = farthest_first, []

    def counted(*args):
        found = traverse(*args)
        in_traversal.append(counter.n_distances)
        return found

    monkeypatch.setattr("kfed.server.algorithm2.farthest_first", counted)
    kfed.aggregate(sent, n_clusters)
    return in_traversal[0], counter.n_distances - in_traversal[0]


@pytest.mark.parametrize(
    ("make", "share_assigned"),
    [
        (lambda: overlapping(250, 0), 1.1),
        (lambda: mixture_world(25, 32, devices_per_group=20).messages(), 0.25),
    ],
    ids=["overlapping", "separated"],
)
def test_the_traversal_takes_at_most_k_distances_for_each_center_and_the_assignment_no_more(
    make, share_assigned, monkeypatch
):
    sent = make()
    n_centers = sum(one.n_local_clusters for one in sent)
    in_traversal, in_assignment = count_by_stage(sent, 25, monkeypatch)
    assert n_centers <= in_traversal <= n_centers * 25
    assert 25**2 <= in_assignment <= share_assigned * n_centers * 25


@pytest.mark.parametrize(
    ("centers", "n_clusters"),
    [
        (np.eye(80), 40),
        (np.repeat(np.eye(20), 20, axis=0), 60),
        (np.stack(np.meshgrid(range(20), range(20)), axis=-1).reshape(-1, 2), 100),
        (np.arange(300)[:, None], 150),
        (2.0 ** np.arange(60)[:, None], 50),
    ],
    ids=["all equally far", "copies", "grid", "line", "powers"],
)
def test_where_distances_tie_each_is_taken_at_most_twice(centers, n_clusters, monkeypatch):
    sent = [message(f"{i:03}", center[None]) for i, center in enumerate(centers)]
    in_traversal, in_assignment = count_by_stage(sent, n_clusters, monkeypatch)
    assert len(centers) <= in_traversal <= 2 * len(centers) * n_clusters
    assert in_assignment <= 2 * len(centers) * n_clusters


@pytest.mark.parametrize("rule", RULES)
def test_a_late_device_takes_exactly_k_times_k_distances(rule, monkeypatch):
    result = kfed.aggregate(overlapping(60, 1), 11, rule=rule)
    late = message("late", np.random.default_rng(2).normal(size=(7, 8)))
    counter = Counter(monkeypatch)
    result.assign(late)
    assert counter.n_distances == 7 * 11


def test_asking_for_an_identity_takes_no_distance(monkeypatch):
    result = kfed.aggregate(overlapping(60, 1), 11)
    counter = Counter(monkeypatch)
    assert len(result.identity("7")) == 4
    assert counter.n_distances == 0


# The robust rule ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gap", [8.0, 20.0, 200.0])
def test_the_robust_rule_gives_the_papers_answer_on_clean_separated_data(seed, gap):
    sent = mixture_world(gap=gap, seed=seed).messages()
    paper, robust = (kfed.aggregate(sent, 16, rule=rule) for rule in RULES)
    np.testing.assert_array_equal(robust.center_labels, paper.center_labels)
    np.testing.assert_array_equal(robust.grouping.initial_centers, paper.grouping.initial_centers)
    np.testing.assert_allclose(robust.cluster_centers, paper.cluster_centers, atol=0.5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_outliers", [1, 4])
def test_a_handful_of_outlier_centers_does_not_derail_the_robust_rule(seed, n_outliers):
    world = mixture_world(gap=20.0, points_per_cluster=40, seed=seed)
    clean = world.messages()
    rng = np.random.default_rng(seed)
    strays = [message(f"stray {i}", 500 * rng.normal(size=(1, 24)), [3]) for i in range(n_outliers)]
    target = kfed.aggregate(clean, 16).center_labels
    robust = kfed.aggregate([*clean, *strays], 16, rule="robust")
    assert same_partition(robust.center_labels[: len(target)], target)
    assert np.abs(robust.cluster_centers).max() < 50
    derailed = kfed.aggregate([*clean, *strays], 16).center_labels[: len(target)]
    assert not same_partition(derailed, target)  # the paper's rule is, which is what the robust one is for


def test_a_small_cluster_that_several_devices_found_is_no_stray():
    rng = np.random.default_rng(0)
    sent = [
        message(
            f"{i}", [rng.normal(size=2), 40 + rng.normal(size=2), np.add([0, 300], rng.normal(size=2))], [200, 200, 4]
        )
        for i in range(8)
    ]
    result = kfed.aggregate(sent, 3, rule="robust")
    assert same_partition(result.center_labels, np.tile([0, 1, 2], 8))


def test_the_robust_rule_weighs_centers_by_their_counts_and_runs_to_convergence():
    rng = np.random.default_rng(3)
    sent = [message(f"{i}", rng.normal(size=(4, 3)), rng.integers(20, 99, 4)) for i in range(40)]
    result = kfed.aggregate(sent, 5, rule="robust")
    for cluster in range(5):
        own = result.center_labels == cluster
        mean = np.average(result.messages.centers[own], axis=0, weights=result.messages.counts[own])
        np.testing.assert_allclose(result.cluster_centers[cluster], mean)
    apart = np.linalg.norm(result.messages.centers[:, None] - result.cluster_centers, axis=2)
    np.testing.assert_array_equal(result.center_labels, apart.argmin(axis=1))


# Degenerate but legal -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_exactly_k_centers_in_all_are_k_clusters(rule):
    sent = [message("a", [[0.0], [1.0]]), message("b", [[7.0]])]
    result = kfed.aggregate(sent, 3, rule=rule)
    assert sorted(result.center_labels.tolist()) == [0, 1, 2]
    np.testing.assert_array_equal(result.cluster_centers[result.center_labels], result.messages.centers)


@pytest.mark.parametrize("rule", RULES)
def test_centers_that_coincide_are_clustered_without_a_not_a_number(rule):
    sent = [message(f"{i}", [[1.0, 2.0]] * 3) for i in range(4)]
    for n_clusters in (1, 3, 5, 12):
        result = kfed.aggregate(sent, n_clusters, rule=rule)
        assert result.cluster_centers.tolist() == [[1.0, 2.0]] * n_clusters
        assert result.cluster_sizes.sum() == 120
        assert len(result.grouping.traversal) in (n_clusters - 3, n_clusters - 1)
        assert not result.grouping.traversal.any()


@pytest.mark.parametrize("rule", RULES)
def test_one_cluster_is_the_mean(rule):
    sent = [message("a", [[0.0], [3.0]], [10, 10]), message("b", [[6.0]], [10])]
    result = kfed.aggregate(sent, 1, rule=rule)
    assert result.center_labels.tolist() == [0, 0, 0]
    np.testing.assert_allclose(result.cluster_centers, [[3.0]])
    assert result.cluster_sizes.tolist() == [30]


@pytest.mark.parametrize("rule", RULES)
def test_one_device_alone_is_a_network(rule):
    local = kfed.cluster_device(blobs(60, 3, 4, seed=0, gap=30), 4, random_state=0)
    result = kfed.aggregate([local.to_message("only")], 4, rule=rule)
    assert same_partition(local.induced_labels(result.identity("only")), local.labels)
    with pytest.raises(kfed.InvalidInputError, match="'only' is the only device"):
        result.without("only")


@pytest.mark.parametrize("rule", RULES)
def test_devices_may_have_more_local_clusters_than_there_are_global_ones(rule):
    world = [blobs(80, 3, 6, seed=0, gap=30) + shift for shift in (0.0, 0.1, 0.2)]
    sent = [local.to_message(f"{i}") for i, local in enumerate(kfed.cluster_fleet(world, 6, random_state=0))]
    result = kfed.aggregate(sent, 2, rule=rule)
    assert result.n_clusters == 2
    assert set(result.center_labels.tolist()) == {0, 1}
    assert result.cluster_sizes.sum() == 240


def test_a_device_without_a_center_is_served_and_may_leave():
    empty = message("empty", np.empty((0, 2)))
    sent = [message("a", [[0.0, 0.0], [9.0, 9.0]]), empty]
    result = kfed.aggregate(sent, 2)
    assert result.messages.device_ids == ("a", "empty")
    assert "empty" in result
    assert len(result.identity("empty")) == 0
    assert result.messages.message("empty") == empty
    assert result.without("empty") == kfed.aggregate(sent[:1], 2)
    only_empty = [empty]
    with pytest.raises(kfed.TooFewCentersError):
        kfed.aggregate(only_empty, 1)


# Bad input ------------------------------------------------------------------------------------------------------


def test_more_clusters_than_centers_is_an_error_that_says_how_many():
    sent = [message("a", [[0.0], [1.0]]), message("b", [[7.0]])]
    with pytest.raises(kfed.TooFewCentersError, match=r"got 4, but 2 devices sent 3 centers.* more local clusters"):
        kfed.aggregate(sent, 4)


def test_where_devices_sent_no_center_the_error_names_the_floor():
    sent = [message("a", [[0.0], [1.0]]), message("small", np.empty((0, 1)))]
    with pytest.raises(kfed.TooFewCentersError, match=r"lower min_cluster_size .* \(1 device sent none\)"):
        kfed.aggregate(sent, 3)


def test_one_column_too_many_at_one_site_names_both_sites():
    named = {"feature_names": ["height", "weight"]}
    sent = [message("a", [[0.0, 1.0]], **named), message("b", [[0.0, 1.0, 2.0]])]
    with pytest.raises(kfed.FeatureMismatchError, match="'a' has 2 and 'b' has 3"):
        kfed.aggregate(sent, 1)
    sent[1] = message("b", [[0.0, 1.0, 2.0]], feature_names=["height", "weight", "age"])
    with pytest.raises(kfed.FeatureMismatchError, match="'age' is missing at 'a'"):
        kfed.aggregate(sent, 1)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["weight", "height"], "feature 0 is 'height' for 'a' and 'weight' for 'b'"),
        (["height", "Weight"], "feature 1 is 'weight' for 'a' and 'Weight' for 'b'"),
    ],
)
def test_feature_names_that_differ_are_an_error_that_says_where(names, said):
    one = message("a", [[0.0, 1.0]], feature_names=["height", "weight"])
    with pytest.raises(kfed.FeatureMismatchError, match=f"in the same order; {said}"):
        kfed.aggregate([one, message("b", [[0.0, 1.0]], feature_names=names)], 1)


def test_devices_without_names_go_along_with_those_that_have_them():
    sent = [message("a", [[0.0, 1.0]]), message("b", [[3.0, 1.0]], feature_names=["x", "y"])]
    result = kfed.aggregate(sent, 1)
    assert result.schema.names == ("x", "y")
    result.assign(message("c", [[0.0, 1.0]]))
    with pytest.raises(kfed.FeatureMismatchError):
        result.assign(message("c", [[0.0, 1.0]], feature_names=["y", "x"]))
    with pytest.raises(kfed.FeatureMismatchError):
        result.assign(message("c", [[0.0]]))


def test_the_same_message_twice_counts_once_and_two_that_differ_are_an_error():
    one, again, other = message("a", [[0.0]]), message("a", [[0.0]]), message("a", [[0.5]])
    assert kfed.aggregate([one, again], 1) == kfed.aggregate([one], 1)
    with pytest.raises(kfed.DuplicateDeviceError, match="'a'"):
        kfed.aggregate([one, again, other], 1)
    for change in ({"counts": [11]}, {"sums_of_squares": [1.0]}, {"spectral_deviation": 1.0}, {"feature_names": ["x"]}):
        with pytest.raises(kfed.DuplicateDeviceError):
            kfed.aggregate([one, message("a", [[0.0]], **change)], 1)


@pytest.mark.parametrize("sent", [[], [None], ["a"], [b"bytes"], [np.ones((2, 2))], [[message("a", [[0.0]])]]])
def test_what_is_not_a_message_is_an_error(sent):
    with pytest.raises(kfed.InvalidInputError):
        kfed.aggregate(sent, 1)


@pytest.mark.parametrize("setting", [{"n_clusters": 0}, {"n_clusters": 1.0}, {"rule": "guess"}, {"rule": None}])
def test_bad_settings_get_a_clear_error(setting):
    with pytest.raises(kfed.InvalidInputError, match=next(iter(setting))):
        kfed.aggregate([message("a", [[0.0]])], **{"n_clusters": 1, **setting})


def test_a_device_that_was_never_met_is_an_error_that_says_what_to_do():
    result = kfed.aggregate([message("a", [[0.0]]), message("7", [[1.0]])], 1)
    remedies = {result.identity: "assign its message", result.without: "check its name"}
    for ask, remedy in (remedies | {result.messages.message: "check its name"}).items():
        for name in ("b", "", "zzz", 7, None):
            with pytest.raises(kfed.UnknownDeviceError, match=remedy):
                ask(name)
    assert "b" not in result
    assert 7 not in result
    assert "7" in result


# What comes out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(gathering=gatherings())
def test_an_aggregation_is_frozen_finite_and_survives_the_wire(rule, gathering):
    sent, n_clusters = gathering
    result = kfed.aggregate(sent, n_clusters, rule=rule)
    assert kfed.Aggregation.from_bytes(result.to_bytes()) == result
    sizes = {"cluster_sizes": result.cluster_sizes, "cluster_centers": result.cluster_centers}
    for name, array in {**vars(result.grouping), **sizes}.items():
        assert not array.flags.writeable, name
        assert np.isfinite(array).all(), name
    for name in ("centers", "owners", "counts", "sums_of_squares", "spectral_deviations"):
        array = getattr(result.messages, name)
        assert not array.flags.writeable, name
        if name not in ("sums_of_squares", "spectral_deviations"):
            assert np.isfinite(array).all(), name
    with pytest.raises(AttributeError):
        result.rule = "other"
    assert (result.n_clusters, result.schema.n_features) == result.cluster_centers.shape
    assert result.messages.n_devices == len(sent)
    np.testing.assert_allclose(result.cluster_sizes.sum(), sum(m.n_points for m in sent), rtol=1e-6)
    assert repr(result).startswith(f"Aggregation(n_clusters={n_clusters}, n_devices={len(sent)}")
    for one in sent:
        assert result.messages.message(one.device_id) == one
        identity = result.identity(one.device_id)
        owner = result.messages.device_ids.index(one.device_id)
        np.testing.assert_array_equal(np.asarray(identity), result.center_labels[result.messages.owners == owner])
        np.testing.assert_array_equal(identity.cluster_centers, result.cluster_centers)


@given(gathering=gatherings(), scale=st.sampled_from([1e-30, 1e30, 1e95]))
def test_centers_of_any_size_that_a_message_allows_give_finite_answers(gathering, scale):
    sent, n_clusters = gathering
    assume(any(m.n_local_clusters for m in sent))
    scaled = [
        kfed.DeviceMessage(m.device_id, m.centers.astype(np.float64) * scale, m.counts, feature_names=m.feature_names)
        for m in sent
    ]
    for rule in RULES:
        result = kfed.aggregate(scaled, n_clusters, rule=rule)
        assert np.isfinite(result.cluster_centers).all()
        assert np.isfinite(result.grouping.traversal).all()


def test_other_ids_name_the_same_clusters():
    messages = [
        kfed.DeviceMessage(f"{i}", np.array([[0.0, i], [9.0, i], [0.0, 30.0 + i]]), [5, 6, 7]) for i in range(4)
    ]
    result = kfed.aggregate(messages, 3)
    other = result.renumbered([2, 0, 1])
    np.testing.assert_array_equal(other.cluster_centers[[2, 0, 1]], result.cluster_centers)
    np.testing.assert_array_equal(other.cluster_sizes[[2, 0, 1]], result.cluster_sizes)
    for message in messages:
        old, new = result.identity(message.device_id), other.identity(message.device_id)
        np.testing.assert_array_equal(old.cluster_centers[old.cluster_ids], new.cluster_centers[new.cluster_ids])
    assert kfed.Aggregation.from_bytes(other.to_bytes()) == other
    for wrong in ([0, 1], [0, 0, 1], [1, 2, 3]):
        with pytest.raises(kfed.InvalidInputError, match="0 to 2 in some order"):
            result.renumbered(wrong)


@pytest.mark.parametrize("min_devices", [None, 2])
def test_a_first_device_without_centers_is_refused_whatever_else_is_asked(min_devices):
    sent = [kfed.DeviceMessage(f"{i}", [[0.0], [9.0]], [5, 5]) for i in range(3)]
    silent = kfed.DeviceMessage("silent", np.empty((0, 1)), [])
    with pytest.raises(kfed.InvalidInputError, match="first_device must have sent at least one center; 'silent' sent"):
        kfed.aggregate([*sent, silent], 2, first_device="silent", min_devices=min_devices)


def test_the_first_device_starts_the_traversal_also_where_clusters_must_rest_on_several():
    sent = [kfed.DeviceMessage(f"{i}", [[0.0 + i / 10], [9.0 + i / 10]], [5, 5]) for i in range(4)]
    result = kfed.aggregate(sent, 2, rule="paper", first_device="3", min_devices=2)
    assert sorted(result.grouping.initial_centers.ravel().tolist()) == pytest.approx([0.3, 9.3])
