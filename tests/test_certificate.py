"""What a certificate promises: the truth of points that it never saw lies in its intervals; it says what it lacks."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed.device.rows.batches
import kfed.device.rows.blocked
import kfed.theory.deviation_bounds
from kfed.theory import Bounds, Presence, largest_eigenvalue
from worlds import few_examples, gatherings, mixture_world, rotation, theorem_world

# The truth, computed plainly from the points --------------------------------------------------------------------


@dataclass
class Round:
    """A whole round, and what only someone with all the points can know of it; withheld clusters are left out."""

    aggregation: kfed.Aggregation
    points: np.ndarray  # in double precision
    weights: np.ndarray  # in double precision, too: roots of float32 are off by more than a narrow interval
    devices: np.ndarray
    labels: np.ndarray  # global clusters

    @property
    def sizes(self):
        return np.bincount(self.labels, self.weights, minlength=self.aggregation.n_clusters)

    @property
    def means(self):
        sums = np.zeros((self.aggregation.n_clusters, self.points.shape[1]))
        np.add.at(sums, self.labels, self.points * self.weights[:, None])
        with np.errstate(invalid="ignore"):
            return sums / self.sizes[:, None]

    @property
    def norm(self):
        residuals = (self.points - self.means[self.labels]) * np.sqrt(self.weights)[:, None]
        if len(residuals) > 10_000:  # the singular values would take a while
            return np.sqrt(np.linalg.eigvalsh(residuals.T @ residuals)[-1])
        return np.linalg.norm(residuals, 2)

    @property
    def pieces(self):
        """Size of each cluster on each device, {(device, cluster): n}."""
        found = {}
        for device, cluster, weight in zip(self.devices, self.labels, self.weights, strict=True):
            found[device, cluster] = found.get((device, cluster), 0.0) + weight
        return found

    def ratio(self, r, s):
        pieces = self.pieces
        imbalance = max(self.sizes[cluster] / n for (_, cluster), n in pieces.items())
        most = max(sum(1 for device, _ in pieces if device == z) for z, _ in pieces)
        scales = most * self.norm / np.sqrt(self.sizes[[r, s]])
        distance = np.linalg.norm(self.means[r] - self.means[s])
        return distance / (2 * np.sqrt(imbalance) * scales.sum())


def play(points, n_local_clusters, n_clusters, weights=None, rule="paper", **options):
    """Run a round and keep what was sent."""
    ids = [f"{i:03}" for i in range(len(points))]
    weights = [None] * len(points) if weights is None else weights
    locals_ = [
        kfed.cluster_device(own, k, sample_weight=w, random_state=0, device_id=name, n_jobs=1, **options)
        for own, k, w, name in zip(points, n_local_clusters, weights, ids, strict=True)
    ]
    messages = [local.to_message(name) for local, name in zip(locals_, ids, strict=True)]
    n_centers = sum(message.n_local_clusters for message in messages)
    if n_centers == 0:
        return None
    aggregation = kfed.aggregate(messages, min(n_clusters, n_centers), rule=rule)
    kept = [~local.withheld[local.labels] for local in locals_]
    return Round(
        aggregation,
        np.concatenate([own[keep] for own, keep in zip(points, kept, strict=True)]).astype(np.float64),
        np.concatenate(
            [np.ones(len(k))[k] if w is None else w[k] for w, k in zip(weights, kept, strict=True)], dtype=np.float64
        ),
        np.repeat(np.arange(len(points)), [np.count_nonzero(keep) for keep in kept]),
        np.concatenate(
            [
                local.induced_labels(aggregation.identity(name))[keep]
                for local, name, keep in zip(locals_, ids, kept, strict=True)
            ]
        ),
    )


def assert_contains_the_truth(played):
    certificate = played.aggregation.certificate()
    lower, upper = certificate.spectral_deviation
    assert lower <= played.norm <= upper
    for bounds in (certificate.separation_ratios, certificate.attained):
        assert (np.isnan(bounds.lower) | (bounds.lower <= bounds.upper)).all()
    k = played.aggregation.n_clusters
    for r in range(k):
        for s in range(r):
            low, high = (bound[r, s] for bound in certificate.separation_ratios)
            if played.sizes[r] == 0 or played.sizes[s] == 0:
                assert np.isnan(low)
                assert np.isnan(high)
            else:
                with np.errstate(divide="ignore", invalid="ignore"):
                    assert low <= np.nan_to_num(played.ratio(r, s), nan=0.0, posinf=np.inf) <= high


@st.composite
def rounds(draw):
    """A round on a mixture of any shape: sizes, devices, features, spread, offset, precision, weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_devices, n_true = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    n_features = draw(st.sampled_from([1, 2, 3, 8, 40]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    spread = draw(st.sampled_from([np.ones(n_features), np.geomspace(5, 0.1, n_features), np.eye(1, n_features)[0]]))
    means = draw(st.sampled_from([0.0, 1.0, 30.0])) * rng.normal(size=(n_true, n_features))
    means += draw(st.sampled_from([0.0, 1000.0]))
    points, n_local = [], []
    for _ in range(n_devices):
        own = rng.permutation(n_true)[: rng.integers(1, n_true + 1)]
        target = np.repeat(own, rng.integers(1, 30, size=len(own)))
        points.append((means[target] + spread * rng.normal(size=(len(target), n_features))).astype(dtype))
        n_local.append(len(own))
    weights = None
    if draw(st.booleans()):
        weights = [rng.choice([0.5, 1.0, 3.0], size=len(own)).astype(dtype) for own in points]
    return play(points, n_local, draw(st.integers(1, 6)), weights, draw(st.sampled_from(["paper", "robust"])))


@given(rounds())
def test_the_intervals_contain_the_truth(played):
    if played is not None:
        assert_contains_the_truth(played)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(0, 700, 100))
def test_the_intervals_contain_the_truth_of_700_worlds_whose_norms_are_estimated(first_seed):
    for seed in range(first_seed, first_seed + 100):
        rng = np.random.default_rng(seed)
        n_features, n_true = int(rng.choice([40, 64, 150, 300])), int(rng.integers(1, 4))
        spread = [np.ones(n_features), np.geomspace(5, 0.1, n_features)][rng.integers(2)]
        means = rng.choice([1.0, 30.0]) * rng.normal(size=(n_true, n_features))
        targets = [rng.integers(n_true, size=rng.integers(20, 400)) for _ in range(rng.integers(1, 4))]
        dtype = [np.float32, np.float64][rng.integers(2)]
        points = [(means[own] + spread * rng.normal(size=(len(own), n_features))).astype(dtype) for own in targets]
        played = play(points, [n_true] * len(points), n_true)
        lower, upper = played.aggregation.certificate().spectral_deviation
        assert lower <= played.norm <= upper


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_the_intervals_contain_the_truth_of_devices_walked_in_blocks(dtype, offset, monkeypatch):
    monkeypatch.setattr(kfed.device.rows.batches, "LARGE_BYTES", 2**11)
    monkeypatch.setattr(kfed.device.rows.blocked, "BLOCK_BYTES", 2**12)
    world = mixture_world(4, 8, points_per_cluster=400)
    assert_contains_the_truth(play([(own + offset).astype(dtype) for own in world.points], [2] * 6, 4))


def test_the_intervals_contain_the_truth_of_sparse_devices():
    rng = np.random.default_rng(0)
    dense = [np.where(rng.random((60, 90)) < 0.1, rng.exponential(size=(60, 90)), 0.0) for _ in range(4)]
    played = play(dense, [3] * 4, 3)
    messages = [
        kfed.cluster_device(scipy.sparse.csr_array(own), 3, random_state=0, device_id=f"{i:03}").to_message(f"{i:03}")
        for i, own in enumerate(dense)
    ]
    played.aggregation = kfed.aggregate(messages, 3)
    assert_contains_the_truth(played)


def test_more_features_than_points_are_no_exception():
    rng = np.random.default_rng(1)
    points = [rng.normal(size=(9, 300)) + 40 * rng.normal(size=300) for _ in range(5)]
    assert_contains_the_truth(play(points, [1] * 5, 4))


@pytest.mark.parametrize("seed", range(20))
def test_means_nearer_than_their_rounding_are_in_doubt(seed):
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(20, 3))
    spread = np.concatenate([spread, -spread])  # so that a mean is where its device is
    points = [(place + spread).astype(np.float32) for place in 1000 + 1e-4 * rng.normal(size=(2, 1, 3))]
    played = play(points, [1, 1], 2)
    assert_contains_the_truth(played)


# How tight ------------------------------------------------------------------------------------------------------


def paper_mixture(points_per_cluster, spread=1.0):
    """A row of Table 1: d = 100, k = 16 in groups of 4, each group on m0 = 5 devices."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(16, 100))
    means *= 20 * np.max(spread) / np.linalg.norm(means, axis=1, keepdims=True)
    points = []
    for group in range(4):
        for _ in range(5):
            target = np.repeat(np.arange(4 * group, 4 * group + 4), points_per_cluster)
            points.append(means[target] + spread * rng.normal(size=(len(target), 100)))
    return play(points, [4] * 20, 16)


@pytest.mark.parametrize(
    ("points_per_cluster", "spread", "at_least", "at_most"),
    [
        (100, 1.0, 0.88, 1.37),
        pytest.param(2000, 1.0, 0.96 / 1.04, 1.09 * 1.04, marks=pytest.mark.slow),
        (100, np.r_[10.0, np.ones(99)], 0.2, 1.01),
    ],
)
def test_the_interval_is_as_tight_as_measured(points_per_cluster, spread, at_least, at_most):
    played = paper_mixture(points_per_cluster, spread)
    lower, upper = played.aggregation.certificate().spectral_deviation
    assert at_least <= lower / played.norm <= 1 <= upper / played.norm <= at_most


def test_one_device_that_sends_each_cluster_once_leaves_nothing_open():
    played = play([mixture_world(4, 6).points[0]], [2], 2)
    lower, upper = played.aggregation.certificate().spectral_deviation
    assert upper / lower < 1 + 1e-6


def test_one_feature_leaves_nothing_open():
    rng = np.random.default_rng(0)
    played = play([rng.normal(size=(50, 1)) + 9 * (np.arange(50) % 2)[:, None] for _ in range(5)], [2] * 5, 2)
    lower, upper = played.aggregation.certificate().spectral_deviation
    assert upper / lower < 1 + 1e-6


# Laws -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 99), st.integers(-8, 8))
@few_examples
def test_scaling_the_data_scales_norms_and_leaves_ratios(seed, exponent):
    world, factor = mixture_world(4, 5, gap=8.0, seed=seed), 2.0**exponent
    one = play(world.points, [2] * 6, 4).aggregation.certificate()
    other = play([own * factor for own in world.points], [2] * 6, 4).aggregation.certificate()
    np.testing.assert_allclose(other.spectral_deviation, np.array(one.spectral_deviation) * factor, rtol=1e-9)
    np.testing.assert_allclose(other.distances, one.distances * factor, rtol=1e-9)
    for ours, theirs in zip(one.separation_ratios, other.separation_ratios, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert one.verdict == other.verdict


def test_rotating_the_data_changes_nothing():
    world, turn = mixture_world(4, 5), rotation(5, 0)
    one = play(world.points, [2] * 6, 4).aggregation.certificate()
    other = play([own @ turn for own in world.points], [2] * 6, 4).aggregation.certificate()
    np.testing.assert_allclose(np.sort(one.distances, axis=None), np.sort(other.distances, axis=None), rtol=1e-9)
    np.testing.assert_allclose(one.spectral_deviation, other.spectral_deviation, rtol=1e-9)


@given(gatherings())
def test_any_sound_messages_have_a_certificate_that_speaks(gathering):
    sent, n_clusters = gathering
    certificate = kfed.aggregate(sent, n_clusters).certificate()
    assert certificate.verdict.split(":")[0] in ("guaranteed", "not guaranteed", "unknown")
    assert {"g": True, "n": False, "u": None}[certificate.verdict[0]] is certificate.is_guaranteed
    assert 0 <= certificate.spectral_deviation.lower <= certificate.spectral_deviation.upper
    for bounds in (certificate.separation_ratios, certificate.attained):
        assert not (bounds.lower > bounds.upper).any()
        assert (np.isnan(bounds.lower) == np.isnan(bounds.upper)).all()
    json.dumps(certificate.to_dict(), allow_nan=False)
    assert str(certificate).startswith(certificate.verdict)


def test_it_survives_a_file(tmp_path):
    result = kfed.aggregate(mixture_world().messages(), 16)
    result.save(tmp_path / "clusters.kfed")
    assert kfed.Aggregation.load(tmp_path / "clusters.kfed").certificate().to_dict() == result.certificate().to_dict()


def test_the_route_to_the_norm_does_not_matter(monkeypatch):
    result = kfed.aggregate(mixture_world(4, 12).messages(), 4)
    monkeypatch.setattr(kfed.theory.deviation_bounds, "_BLOCK_ELEMENTS", 24)
    by_features = result.certificate().spectral_deviation
    monkeypatch.setattr(kfed.theory.deviation_bounds, "WIDE", 11)
    by_iteration = result.certificate().spectral_deviation
    few = kfed.aggregate([result.messages.message(name) for name in result.messages.device_ids[:5]], 4)
    by_centers = few.certificate().spectral_deviation
    monkeypatch.setattr(kfed.theory.deviation_bounds, "WIDE", 100)
    np.testing.assert_allclose(by_iteration, by_features, rtol=1e-4)
    np.testing.assert_allclose(by_centers, few.certificate().spectral_deviation, rtol=1e-9)


def test_the_largest_eigenvalue_of_nothing_is_zero():
    assert largest_eigenvalue(np.zeros_like, 50) == 0


# The verdict ----------------------------------------------------------------------------------------------------


def test_separation_as_the_theorem_asks_it_is_certified():
    certificate = kfed.aggregate(theorem_world(200.0).messages(), 16).certificate()
    assert certificate.verdict == "guaranteed"
    assert certificate.is_guaranteed is True
    assert (certificate.attained.lower[~np.eye(16, dtype=bool)] >= 1).all()
    assert (certificate.max_local_clusters, certificate.size_imbalance) == (4, 3.0)


def test_clusters_that_are_too_near_are_named_with_how_much_is_missing():
    certificate = kfed.aggregate(mixture_world().messages(), 16).certificate()
    assert certificate.is_guaranteed is False
    assert certificate.verdict.startswith("not guaranteed: ")
    worst = np.nanmin(certificate.attained.upper)
    r, s = np.argwhere(certificate.attained.upper == worst)[0]
    assert f"{r} and {s} (at most {worst:.2g} of the required distance)" in certificate.verdict
    assert "wrong" not in certificate.verdict


def pair(second=(100.0, 0.0), **statistics):
    return [
        kfed.DeviceMessage("a", [[0.0, 0.0], second], [50, 50], **statistics),
        kfed.DeviceMessage("b", [[0.0, 0.0], second], [50, 50], **statistics),
    ]


def test_between_yes_and_no_it_says_that_messages_leave_it_open():
    messages = pair(second=(1212.0, 0.0), sums_of_squares=[50, 50], spectral_deviation=8.0)
    certificate = kfed.aggregate(messages, 2).certificate()
    assert certificate.is_guaranteed is None
    assert certificate.verdict == (
        "unknown: messages leave open whether distances are large enough for 1 of 1 pairs of clusters"
    )
    assert certificate.attained.lower[0, 1] < 1 <= certificate.attained.upper[0, 1]


def test_it_names_the_devices_that_did_not_say_how_far_their_points_spread():
    told, _ = pair(second=(1e6, 0.0), sums_of_squares=[50, 50], spectral_deviation=8.0)
    _, silent = pair(second=(1e6, 0.0))
    certificate = kfed.aggregate([told, silent], 2).certificate()
    assert certificate.is_guaranteed is None
    assert certificate.verdict == "unknown: 1 of 2 devices ('b') sent no spectral deviation"
    assert certificate.spectral_deviation.upper == np.inf
    assert certificate.spectral_deviation.lower == pytest.approx(8.0)
    assert certificate.to_dict()["spectral_deviation"]["upper"] is None


def test_a_device_that_did_not_say_can_not_save_clusters_that_are_too_near():
    told, _ = pair(second=(1.0, 0.0), sums_of_squares=[50, 50], spectral_deviation=8.0)
    _, silent = pair(second=(1.0, 0.0))
    assert kfed.aggregate([told, silent], 2).certificate().is_guaranteed is False


def test_sums_of_squares_alone_bound_the_norm_less_tightly_and_it_says_so():
    exact = kfed.aggregate(pair(sums_of_squares=[50, 50], spectral_deviation=8.0), 2).certificate()
    loose = kfed.aggregate(pair(sums_of_squares=[50, 50]), 2).certificate()
    assert loose.spectral_deviation.upper == pytest.approx(np.sqrt(200))
    assert exact.spectral_deviation.upper == pytest.approx(np.sqrt(128))
    assert any("2 devices sent sums of squares but no spectral deviation" in note for note in loose.notes)
    assert not any("looser" in note for note in exact.notes)


@pytest.mark.parametrize("deviation", [100.0, 0.1, 1e200])
def test_a_spread_that_can_not_be_is_not_believed(deviation):
    messages = pair(second=(1e5, 0.0), sums_of_squares=[50, 50], spectral_deviation=deviation)
    certificate = kfed.aggregate(messages, 2).certificate()
    assert certificate.is_guaranteed is (True if deviation == 1e200 else None)  # there, the sums of squares remain
    assert certificate.spectral_deviation.lower <= certificate.spectral_deviation.upper


def test_a_device_that_split_a_cluster_is_not_what_the_theorem_is_about():
    split = kfed.DeviceMessage("c", [[0.0, 0.1], [0.0, -0.1]], [50, 50], [5, 5], 1.0)
    certificate = kfed.aggregate(
        [*pair((1e5, 0.0), sums_of_squares=[5, 5], spectral_deviation=2.5), split], 2
    ).certificate()
    assert certificate.verdict == (
        "not guaranteed: 1 of 3 devices ('c') sent several centers of one cluster; use a smaller n_local_clusters there"
    )


def test_a_summary_is_not_advised_to_have_fewer_local_clusters():
    rows = np.random.default_rng(0).normal(loc=np.array([0, 50])[:, None, None], size=(2, 60, 2))
    messages = [kfed.cluster_device(own, random_state=0).to_message(str(i)) for i, own in enumerate(rows)]
    verdict = str(kfed.aggregate(messages, 2).certificate())
    assert "summaries do, but the theorem needs n_local_clusters to be set on each device" in verdict
    assert "smaller" not in verdict


def test_one_cluster_is_always_right():
    certificate = kfed.aggregate(pair(), 1).certificate()
    assert certificate.verdict == "guaranteed"
    assert certificate.active_pairs.shape == (0, 2)
    assert "pairs" not in str(certificate)


def test_a_cluster_without_points_is_named_and_has_no_ratios():
    messages = [kfed.DeviceMessage("a", [[0.0], [0.0], [9.0]], [5, 5, 5], [0, 0, 0], 0.0)]
    result = kfed.aggregate(messages, 3)
    assert 0 in result.cluster_sizes
    certificate, empty = result.certificate(), result.cluster_sizes.argmin()
    assert f"no points in cluster {empty}; use a smaller n_clusters" in certificate.verdict
    assert np.isnan(certificate.separation_ratios.upper[empty]).all()
    assert np.isnan(certificate.distances[empty]).all()


def test_points_without_any_spread_are_infinitely_separated():
    certificate = kfed.aggregate(pair(sums_of_squares=[0, 0], spectral_deviation=0.0), 2).certificate()
    assert certificate.spectral_deviation.upper < 1e-9
    assert certificate.separation_ratios.upper[0, 1] == np.inf
    assert certificate.verdict == "guaranteed"


def test_means_at_one_place_are_not_separated_even_without_spread():
    near, same = (kfed.DeviceMessage(name, [[5.0]], [9], [0.0], 0.0) for name in "ab")
    presence = Presence.of(np.array([0, 1]), np.array([0, 1]), np.array([9, 9]), n_clusters=2)
    assert presence.inactive_pairs.tolist() == [[0, 1]]
    gathering = kfed.aggregate([near, same], 1).messages
    certificate = kfed.Certificate.of(gathering, np.array([0, 1]), 2)
    assert certificate.separation_ratios.lower[0, 1] == 0
    assert certificate.is_guaranteed is not True


def test_withheld_clusters_are_outside_it_and_it_says_so():
    points = np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), [[500.0, 500.0]]])
    local = kfed.cluster_device(points, 2, random_state=0)
    assert local.withheld.any()
    certificate = kfed.aggregate([local.to_message("a")], 1).certificate()
    assert certificate.cluster_sizes.tolist() == [20]
    assert any("withheld" in note for note in certificate.notes)


def test_a_device_that_sent_nothing_changes_nothing():
    messages = pair(sums_of_squares=[50, 50], spectral_deviation=8.0)
    with_it = kfed.aggregate([*messages, kfed.DeviceMessage("c", np.empty((0, 2)), [])], 2).certificate()
    assert with_it.to_dict() == kfed.aggregate(messages, 2).certificate().to_dict()


def test_k_prime_above_the_root_of_k_is_noted():
    certificate = kfed.aggregate(pair(sums_of_squares=[50, 50], spectral_deviation=8.0), 2).certificate()
    assert any("not heterogeneous" in note for note in certificate.notes)


def test_a_certificate_never_changes():
    certificate = kfed.aggregate(pair(sums_of_squares=[50, 50], spectral_deviation=8.0), 2).certificate()
    for array in (
        *certificate.separation_ratios,
        *certificate.attained,
        certificate.distances,
        certificate.active_pairs,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(AttributeError):
        certificate.verdict = "guaranteed"
    assert isinstance(certificate.spectral_deviation, Bounds)


@pytest.mark.parametrize("required_ratio", [0, -1.0, np.inf, np.nan, "100", None, True])
def test_a_required_ratio_must_be_a_number_above_zero(required_ratio):
    with pytest.raises(kfed.InvalidInputError, match="required_ratio must be a finite number greater than zero"):
        kfed.aggregate(pair(), 1).certificate(required_ratio)


@pytest.mark.parametrize("required_ratio", [1.0, 99.9])
def test_a_c_for_which_nothing_is_proved_guarantees_nothing(required_ratio):
    result = kfed.aggregate(theorem_world(200.0).messages(), 16)
    certificate = result.certificate(required_ratio)
    assert certificate.verdict == f"unknown: the proofs need c of at least 100; got {required_ratio:g}"
    assert certificate.is_guaranteed is None
    assert result.certificate(100.0).is_guaranteed is True


def test_the_conditions_are_listed_with_their_place_in_the_paper_and_whether_they_are_met():
    certificate = kfed.aggregate(mixture_world().messages(), 16).certificate()
    unmet = [condition for condition in certificate.conditions if not condition.is_met]
    assert all(condition.reason in certificate.verdict for condition in unmet)
    assert all(condition.reason == "" for condition in certificate.conditions if condition.is_met)
    assert all("lemma:" in condition.source for condition in certificate.conditions)
    lines = str(certificate).splitlines()
    for condition in certificate.conditions:
        assert any(line.startswith(condition.name) and line.endswith((" yes", " no")) for line in lines)
    assert [entry["name"] for entry in certificate.to_dict()["conditions"]] == [c.name for c in certificate.conditions]


# Presence -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_devices_take_little_room():
    rng = np.random.default_rng(0)
    devices = np.repeat(np.arange(1_000_000), 2)
    clusters = rng.integers(0, 100, size=2_000_000)
    presence = Presence.of(devices, clusters, np.full(2_000_000, 3), n_clusters=100)
    assert presence.cluster_sizes.sum() == 6_000_000
    assert presence.max_local_clusters == 2
    assert len(presence.active_pairs) == 100 * 99 // 2
