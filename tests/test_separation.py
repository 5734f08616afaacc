"""What a separation report promises: the numbers of the paper's section 3, as plain loops over the points give them."""

import json
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import kfed
import kfed.separation.problem
from kfed.separation import choose_by_separation, separation_report
from worlds import mixture_world, rotation, theorem_world

# The definitions, written out -----------------------------------------------------------------------------------


def brute_force(points, labels, devices, c=100.0):
    """Everything in a report, by loops over the definitions of the paper."""
    n, k, clusters = len(points), len(set(labels)), sorted(set(labels))
    mean = {r: np.mean([points[i] for i in range(n) if labels[i] == r], axis=0) for r in clusters}
    size = {r: sum(labels[i] == r for i in range(n)) for r in clusters}
    norm = spectral_norm([points[i] - mean[labels[i]] for i in range(n)])
    holds = {z: {labels[i] for i in range(n) if devices[i] == z} for z in sorted(set(devices))}
    piece = {(z, r): sum(devices[i] == z and labels[i] == r for i in range(n)) for z in holds for r in holds[z]}
    m0 = max(size[r] / piece[z, r] for z, r in piece)
    k_prime = max(len(own) for own in holds.values())
    smallest_device = min(sum(devices[i] == z for i in range(n)) for z in holds)
    n_min = min(smallest_device, *size.values())
    scale = {r: k_prime * norm / np.sqrt(size[r]) for r in clusters}
    inactive_scale = np.sqrt(k_prime) * norm / np.sqrt(n_min)
    facts = {
        "spectral_deviation": norm,
        "cluster_sizes": [size[r] for r in clusters],
        "smallest_device": smallest_device,
        "smallest_size": n_min,
        "size_imbalance": m0,
        "max_local_clusters": k_prime,
        "active_scales": [scale[r] for r in clusters],
        "inactive_scale": inactive_scale,
        "active_pairs": [],
        "inactive_pairs": [],
    }
    pairs = ("distances", "separation_ratios", "required_separations", "corollary_separations")
    facts |= {name: np.full((k, k), np.nan) for name in pairs}
    for i, r in enumerate(clusters):
        for j, s in enumerate(clusters):
            distance = np.linalg.norm(mean[r] - mean[s])
            facts["distances"][i, j] = distance
            if i == j:
                continue
            active = any(r in own and s in own for own in holds.values())
            if i < j:
                facts["active_pairs" if active else "inactive_pairs"].append([i, j])
            both = norm / np.sqrt(size[r]) + norm / np.sqrt(size[s])
            facts["separation_ratios"][i, j] = distance / (2 * np.sqrt(m0) * (scale[r] + scale[s]))
            needed = [10 * np.sqrt(m0) * inactive_scale]
            if active:
                needed.append(2 * c * np.sqrt(m0) * (scale[r] + scale[s]))
            facts["required_separations"][i, j] = max(needed)
            if active:
                facts["corollary_separations"][i, j] = 2 * c * np.sqrt(m0 * k) * both
            else:
                facts["corollary_separations"][i, j] = 10 * np.sqrt(m0) * k**0.25 * both
    facts["fails_globally"] = fails_proximity(points, labels)
    facts["fails_locally"] = np.zeros(n, bool)
    for z in holds:
        own = [i for i in range(n) if devices[i] == z]
        facts["fails_locally"][own] = fails_proximity(points[own], [labels[i] for i in own])
    facts["local_failures"] = [sum(facts["fails_locally"][i] for i in range(n) if devices[i] == z) for z in holds]
    return facts


def spectral_norm(rows):
    return np.linalg.svd(np.array(rows), compute_uv=False)[0]


def fails_proximity(points, labels):
    """Definition 1: project on the line through two means, compare the distances to them."""
    n, clusters = len(points), sorted(set(labels))
    mean = {r: np.mean([points[i] for i in range(n) if labels[i] == r], axis=0) for r in clusters}
    size = {r: sum(labels[i] == r for i in range(n)) for r in clusters}
    norm = spectral_norm([points[i] - mean[labels[i]] for i in range(n)])
    fails = np.zeros(n, bool)
    for i in range(n):
        s = labels[i]
        for r in clusters:
            if r != s:
                line = (mean[r] - mean[s]) / np.linalg.norm(mean[r] - mean[s])
                projected = mean[s] + ((points[i] - mean[s]) @ line) * line
                nearer = np.linalg.norm(projected - mean[r]) - np.linalg.norm(projected - mean[s])
                fails[i] |= nearer < (1 / np.sqrt(size[r]) + 1 / np.sqrt(size[s])) * norm
    return fails


@st.composite
def thirty_points(draw):
    """Thirty points in a few clusters on a few devices: separated, touching or mixed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_clusters, n_devices = draw(st.integers(2, 5)), draw(st.integers(1, 5))
    labels = np.concatenate([np.arange(n_clusters), rng.integers(n_clusters, size=30 - n_clusters)])
    spread = draw(st.sampled_from([np.ones(3), np.array([4.0, 1.0, 0.1])]))
    places = draw(st.sampled_from([1.0, 6.0, 50.0])) * rng.normal(size=(n_clusters, 3))
    if draw(st.booleans()):
        devices = rng.integers(n_devices, size=30)
    else:
        devices = (labels + rng.integers(2, size=30)) % n_devices  # few clusters on a device
    return places[labels] + spread * rng.normal(size=(30, 3)), labels, devices


@given(thirty_points())
def test_the_report_is_what_the_definitions_give_on_thirty_points(case):
    report = separation_report(*case)
    for name, expected in brute_force(*case).items():
        np.testing.assert_allclose(
            getattr(report, name),
            np.reshape(expected, np.shape(getattr(report, name))),
            rtol=1e-9,
            atol=1e-9,
            err_msg=name,
        )


# Laws -----------------------------------------------------------------------------------------------------------

ARRAYS = ("cluster_sizes", "active_scales", "active_pairs", "inactive_pairs", "distances", "separation_ratios")
ARRAYS += ("required_separations", "corollary_separations", "fails_globally", "fails_locally", "local_failures")
NUMBERS = (
    "spectral_deviation",
    "smallest_device",
    "smallest_size",
    "size_imbalance",
    "max_local_clusters",
    "inactive_scale",
)


def assert_same_report(one, other, rtol=1e-9):
    for name in ARRAYS + NUMBERS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-9, err_msg=name)
    assert one.verdict == other.verdict


@given(thirty_points(), st.integers(-20, 20))
def test_scaling_the_data_scales_norms_and_leaves_ratios(case, exponent):
    points, labels, devices = case
    one, other = separation_report(*case), separation_report(points * 2.0**exponent, labels, devices)
    for name in ("spectral_deviation", "active_scales", "inactive_scale", "distances", "required_separations"):
        np.testing.assert_allclose(getattr(other, name), np.multiply(getattr(one, name), 2.0**exponent), rtol=1e-12)
    np.testing.assert_allclose(other.separation_ratios, one.separation_ratios, rtol=1e-12)
    np.testing.assert_array_equal(other.fails_locally, one.fails_locally)


@given(thirty_points(), st.integers(0, 2**32 - 1))
def test_rotating_and_shifting_the_data_changes_nothing(case, seed):
    points, labels, devices = case
    rng = np.random.default_rng(seed)
    assert_same_report(
        separation_report(points @ rotation(3, seed) + rng.normal(size=3), labels, devices),
        separation_report(*case),
        1e-7,
    )


@given(thirty_points(), st.randoms(use_true_random=False))
def test_the_order_of_points_does_not_matter(case, random):
    points, labels, devices = case
    order = list(range(30))
    random.shuffle(order)
    one, other = separation_report(*case), separation_report(points[order], labels[order], devices[order])
    np.testing.assert_array_equal(one.fails_globally[order], other.fails_globally)
    np.testing.assert_array_equal(one.fails_locally[order], other.fails_locally)
    np.testing.assert_array_equal(one.local_failures, other.local_failures)
    np.testing.assert_allclose(one.separation_ratios, other.separation_ratios, rtol=1e-9)


@given(thirty_points())
def test_a_list_of_tables_is_a_table_with_groups(case):
    points, labels, devices = case
    present = np.unique(devices)
    order = np.argsort(devices, kind="stable")
    tables = [points[devices == z] for z in present]
    listed = separation_report(tables, [labels[devices == z] for z in present])
    grouped = separation_report(points[order], labels[order], groups=devices[order])
    assert_same_report(listed, grouped)
    assert listed.device_ids == tuple(map(str, range(len(present))))


@pytest.mark.parametrize("n_features", [5, 80])
def test_sparse_rows_are_the_same_as_dense_ones(n_features):
    rng = np.random.default_rng(0)
    labels, devices = np.arange(120) % 4, np.arange(120) % 6
    dense = np.where(rng.random((120, n_features)) < 0.3, rng.normal(size=(120, n_features)) + 5 * labels[:, None], 0.0)
    expected = separation_report(dense, labels, devices)
    assert_same_report(separation_report(scipy.sparse.csr_matrix(dense), labels, devices), expected, 1e-7)
    tables = [scipy.sparse.csr_array(dense[devices == z]) for z in range(6)]
    listed = separation_report(tables, [labels[devices == z] for z in range(6)])
    np.testing.assert_allclose(listed.separation_ratios, expected.separation_ratios, rtol=1e-7)


def test_single_precision_points_are_judged_in_double():
    world = mixture_world(4, 6, gap=8.0)
    points = [own.astype(np.float32) for own in world.points]
    single = separation_report(points, world.targets)
    double = separation_report([own.astype(np.float64) for own in points], world.targets)
    assert_same_report(single, double)


def test_blocks_and_threads_do_not_change_the_answer(monkeypatch):
    world = mixture_world(4, 6, gap=8.0, points_per_cluster=40)
    whole = separation_report(world.points, world.targets, n_jobs=1)
    monkeypatch.setattr(kfed.separation.problem, "_BLOCK_ELEMENTS", 64)
    monkeypatch.setattr(kfed.theory.means, "_BLOCK_ELEMENTS", 64)
    monkeypatch.setattr(kfed.device.rows.blocked, "BLOCK_BYTES", 512)
    assert_same_report(separation_report(world.points, world.targets, n_jobs=3), whole)


def test_a_norm_that_is_iterated_for_is_the_same(monkeypatch):
    world = mixture_world(4, 30, gap=8.0, points_per_cluster=40)
    exact = separation_report(world.points, world.targets)
    monkeypatch.setattr(kfed.separation.problem, "WIDE", 8)
    assert_same_report(separation_report(world.points, world.targets), exact, 1e-6)


# Both sides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [6.0, 20.0, 1e5])
def test_the_certificate_of_the_messages_contains_the_report_on_the_points(gap):
    world = mixture_world(gap=gap)
    result = kfed.aggregate(world.messages(), 16)
    found = [
        local.induced_labels(result.identity(name)) for local, name in zip(world.clusterings(), world.ids, strict=True)
    ]
    report, certificate = separation_report(world.points, found), result.certificate()
    lower, upper = certificate.spectral_deviation
    assert lower <= report.spectral_deviation <= upper
    apart = ~np.eye(16, dtype=bool)
    for bounds, values in [
        (certificate.separation_ratios, report.separation_ratios),
        (certificate.attained, report.attained),
    ]:
        assert (bounds.lower[apart] <= values[apart]).all()
        assert (values[apart] <= bounds.upper[apart]).all()
    assert certificate.size_imbalance == report.size_imbalance
    assert certificate.max_local_clusters == report.max_local_clusters
    np.testing.assert_array_equal(certificate.active_pairs, report.active_pairs)
    assert certificate.is_guaranteed in (None, report.is_guaranteed)


# The verdict ----------------------------------------------------------------------------------------------------


def test_the_theorems_own_world_is_guaranteed_for_every_point():
    world = theorem_world(100.0)
    report = separation_report(world.points, world.targets)
    assert report.verdict == "guaranteed for every point"
    assert report.is_guaranteed
    assert report.is_heterogeneous
    assert not report.fails_locally.any()


@pytest.mark.parametrize("required_ratio", [1.0, 99.9])
def test_a_c_for_which_nothing_is_proved_guarantees_nothing(required_ratio):
    world = theorem_world(100.0)
    report = separation_report(world.points, world.targets, required_ratio=required_ratio)
    assert report.verdict == f"unknown: the proofs need c of at least 100; got {required_ratio:g}"
    assert report.is_guaranteed is None
    assert separation_report(world.points, world.targets).is_guaranteed is True


def test_twice_the_distance_in_the_words_of_the_theorem_is_needed_for_its_proof():
    world = theorem_world(60.0)  # 120 by the theorem's own formula
    report = separation_report(world.points, world.targets)
    assert report.is_guaranteed is False
    unmet = [condition.name for condition in report.conditions if not condition.is_met]
    assert unmet == ["clusters that share a device: 2c sqrt(m0) (Delta_r + Delta_s) apart"]


def test_clusters_that_are_too_near_are_named_with_how_much_is_missing():
    world = mixture_world(4, 6)
    words = np.array(["ash", "beech", "cedar", "date"])
    report = separation_report(world.points, [words[own] for own in world.targets])
    assert report.clusters == tuple(words)
    assert report.verdict.startswith(
        "not guaranteed: 6 of 6 pairs of clusters are nearer than the main theorem requires: "
    )
    r, s = np.unravel_index(np.nanargmin(report.attained), (4, 4))
    assert f"{words[r]} and {words[s]} ({report.attained[r, s]:.2g} of the required distance)" in report.verdict


def test_points_that_fail_locally_leave_a_guarantee_for_most():
    points = np.concatenate([np.zeros((200_000, 1)), np.full((200_000, 1), 1e3)])
    points[0] = 510.0  # on the other side of the middle
    report = separation_report(points, np.repeat([0, 1], 200_000))
    assert report.verdict == "guaranteed for all but O(1/c^2) of the points"
    assert np.flatnonzero(report.fails_locally).tolist() == [0]
    assert report.local_failures.tolist() == [1]


def test_a_point_that_belongs_elsewhere_is_found_on_its_device_and_in_all():
    world = mixture_world(4, 6, gap=60.0, points_per_cluster=50)
    targets = [own.copy() for own in world.targets]
    stray = int(np.flatnonzero(targets[2] == 0)[0])
    targets[2][stray] = 1
    report = separation_report(world.points, targets)
    position = len(targets[0]) + len(targets[1]) + stray
    assert np.flatnonzero(report.fails_globally).tolist() == [position]
    assert np.flatnonzero(report.fails_locally).tolist() == [position]
    assert report.local_failures.tolist() == [0, 0, 1, 0, 0, 0]


def test_the_corollary_is_left_out_where_the_network_is_not_heterogeneous():
    points, labels = np.repeat([[0.0], [9.0]], 5, axis=0), np.repeat([0, 1], 5)
    report = separation_report(points, labels)
    assert not report.is_heterogeneous
    assert np.isnan(report.corollary_attained).all()
    assert "does not apply" in str(report)


def test_one_cluster_only_is_always_right():
    report = separation_report(np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20, int))
    assert report.verdict == "guaranteed for every point"
    assert report.separation_ratios.shape == (1, 1)
    assert np.isnan(report.separation_ratios).all()
    assert len(report.active_pairs) == len(report.inactive_pairs) == 0
    assert "pairs" not in str(report)
    json.dumps(report.to_dict(), allow_nan=False)


def test_points_on_their_means_are_infinitely_separated():
    report = separation_report([[0.0], [0.0], [9.0], [9.0]], [0, 0, 1, 1])
    assert report.separation_ratios[0, 1] == np.inf
    assert report.verdict == "guaranteed for every point"
    assert report.to_dict()["separation_ratios"] == [[None, None], [None, None]]


def test_two_clusters_at_one_place_are_not_separated():
    report = separation_report([[1.0], [1.0], [1.0], [1.0]], [0, 0, 1, 1])
    assert report.separation_ratios[0, 1] == 0
    assert not report.is_guaranteed


def test_a_report_never_changes_and_reads_well():
    world = mixture_world(4, 6)
    report = separation_report(world.points, world.targets)
    for name in ARRAYS:
        assert not getattr(report, name).flags.writeable, name
    with pytest.raises(AttributeError):
        report.spectral_deviation = 0.0
    facts = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert facts["verdict"] == report.verdict
    assert facts["fails_globally"] == int(report.fails_globally.sum())
    lines = str(report).splitlines()
    assert lines[0] == report.verdict
    assert max(map(len, lines[1:])) <= 100


# Bad input ------------------------------------------------------------------------------------------------------

POINTS = np.arange(12.0).reshape(6, 2)
LABELS = [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((POINTS, LABELS[:5]), {}, r"target_labels must have shape \(6,\), one label for each point"),
        ((POINTS, [LABELS]), {}, r"target_labels must have shape \(6,\), one label for each point"),
        (([POINTS, POINTS], [LABELS, LABELS[:2]]), {}, r"target_labels of device 1 must have shape \(6,\)"),
        (([POINTS, POINTS], [LABELS]), {}, "a list of 2 arrays, one for each table"),
        (([POINTS, POINTS], LABELS), {}, "a list of 2 arrays, one for each table"),
        (([POINTS, POINTS], np.zeros((2, 6))), {}, "must be a list"),
        (([POINTS, POINTS], [LABELS, LABELS], [0] * 12), {}, "groups must be None"),
        (([], []), {}, "at least one table"),
        (([POINTS, POINTS[:, :1]], [LABELS, LABELS]), {}, "got 2 in table 0 and 1 in table 1"),
        ((POINTS, LABELS, [0, 1]), {}, r"groups must have shape \(6,\), one label for each row"),
        ((POINTS, [0, 0, 1, 1, 2, np.nan]), {}, "target_labels must be finite"),
        ((POINTS, ["a", "a", "b", "b", "b", None]), {}, "without missing values"),
        ((POINTS, LABELS), {"n_clusters": 4}, "cluster 3 has none"),
        (
            (POINTS, [0, 0, 2, 2, 3, 3]),
            {"n_clusters": 4},
            "cluster 1 has none",
        ),
        ((POINTS, LABELS), {"n_clusters": 2}, "whole numbers from 0 to 1"),
        ((POINTS, LABELS), {"n_clusters": 0}, "n_clusters must be"),
        ((POINTS, LABELS), {"required_ratio": -3}, "required_ratio must be a finite number greater than zero"),
        ((np.full((6, 2), np.nan), LABELS), {}, "points must be finite"),
    ],
)
def test_bad_input_is_an_error_that_says_what_to_do(arguments, options, words):
    with pytest.raises(kfed.InvalidInputError, match=words):
        separation_report(*arguments, **options)


# Choosing k -----------------------------------------------------------------------------------------------------


def test_the_k_with_the_largest_share_of_separated_pairs_is_chosen():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 50)
    points = 60 * np.eye(4)[truth] + rng.normal(size=(200, 4))
    halves = truth * 2 + np.arange(200) % 2
    for candidates in ({2: truth // 2, 4: truth, 8: halves}, [halves, truth, truth // 2]):
        choice = choose_by_separation(points, candidates, groups=truth // 2)
        assert choice.n_clusters == 4
        assert list(choice.shares) == [2, 4, 8]
        report = separation_report(points, truth, truth // 2)
        above = report.separation_ratios[np.triu_indices(4, 1)]
        np.testing.assert_allclose(choice.separation_ratios[4], above)
        assert choice.shares[4] == np.mean(above > 0.5)
        assert str(choice).startswith("k = 4\n")


def test_no_k_is_chosen_where_nothing_is_separated():
    rng = np.random.default_rng(0)
    choice = choose_by_separation(rng.normal(size=(60, 2)), [rng.integers(k, size=60) for k in (2, 3)])
    assert choice.n_clusters is None
    assert str(choice).startswith("no k: no pair has c_rs above 0.5")


@pytest.mark.parametrize("candidates", [[], [[0] * 6], [LABELS, LABELS]])
def test_candidates_must_differ_and_have_two_clusters(candidates):
    with pytest.raises(kfed.InvalidInputError, match="candidate"):
        choose_by_separation(POINTS, candidates)


# Pictures -------------------------------------------------------------------------------------------------------


def test_the_picture_shows_every_pair_and_what_is_needed(tmp_path):
    world = mixture_world(16, 24, gap=12.0)
    report = separation_report(world.points, world.targets)
    axes = report.plot(tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")
    assert sum(bar.get_height() for bars in axes.containers for bar in bars) >= 120
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["24 active pairs", "96 inactive pairs"]
    assert any(text.get_text() == "active pairs need 100" for text in axes.texts)
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("points", "labels"),
    [([[0.0], [0.0], [9.0], [9.0]], [0, 0, 1, 1]), ([[0.0], [1.0]], [0, 0]), ([[1.0], [1.0]], [0, 1])],
)
def test_there_is_a_picture_even_of_no_pair_or_of_ratios_that_are_no_numbers(points, labels, tmp_path):
    separation_report(points, labels).plot(tmp_path / "ratios.svg")
    assert (tmp_path / "ratios.svg").read_text().startswith("<?xml")


def test_the_picture_of_a_choice_has_a_line_for_each_k(tmp_path):
    truth = np.repeat([0, 1, 2], 20)
    points = 60 * np.eye(3)[truth] + np.random.default_rng(0).normal(size=(60, 3))
    choice = choose_by_separation(points, {2: truth > 0, 3: truth})
    axes = choice.plot(tmp_path / "choice.png")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["k = 2: 0%", "k = 3: 100%, chosen"]


def test_a_picture_goes_where_it_is_told(tmp_path):
    from matplotlib.figure import Figure

    report, ax = separation_report(POINTS, LABELS), Figure().add_subplot()
    assert report.plot(ax=ax) is ax
    with pytest.raises(kfed.InvalidInputError, match="picture must end in"):
        report.plot(tmp_path / "ratios.txt")


def test_without_matplotlib_a_picture_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(kfed.MissingExtraError, match="kfed\\[plots\\]"):
        separation_report(POINTS, LABELS).plot(tmp_path / "ratios.png")
