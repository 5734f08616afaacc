"""What the floor withholds where cells are missing, rows are nearly copies, or one row or person outweighs others."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import kfed
import kfed.device.rows.batches
from kfed.device import cluster_columns, with_moments
from kfed.site import cluster_file
from kfed.wire import Column, FeatureSchema

FLOOR = 5


def schema(n_columns):
    return FeatureSchema.of_columns([Column(f"c{i}") for i in range(n_columns)])


def sent(values, n_clusters=2, **options):
    how = {"random_state": 0, "min_cluster_size": FLOOR, **options}
    return cluster_columns(values, schema(values.shape[1]), n_clusters, **how).to_message("a")


def patients(n_copies=6):
    """Sixty ordinary rows, and copies of one patient far from them that differ by rounding."""
    rng = np.random.default_rng(0)
    copies = np.tile([30.0, 40.0, 50.0, 60.0, 70.0], (n_copies, 1))
    return np.vstack([rng.normal(size=(60, 5)), copies * (1 + 1e-6 * rng.uniform(-1, 1, size=copies.shape))])


# Rows that are alike, where cells are missing -------------------------------------------------------------------


@pytest.mark.parametrize("gap", [None, (0, 1), (62, 0)], ids=["complete", "of another row", "of a copy"])
def test_a_missing_cell_does_not_make_copies_of_one_patient_different(gap):
    values = patients()
    if gap is not None:
        values[gap] = np.nan
    assert sent(values).counts.tolist() == [60]


def test_copies_with_different_missing_cells_are_one_patient():
    values = patients(n_copies=12)
    values[60:] = values[60]
    values[range(60, 65), range(5)] = np.nan
    assert sent(values).counts.tolist() == [60]


def test_rows_that_differ_in_cells_that_they_share_are_counted_whatever_else_is_missing():
    values = patients()
    values[60:, 0] += np.arange(6)
    values[61, 1], values[0, 2] = np.nan, np.nan
    assert sorted(sent(values).counts.tolist()) == [6, 60]


def test_a_row_of_few_cells_does_not_stand_for_all_others():
    values = np.random.default_rng(0).normal(size=(40, 4))
    values[:, 2:] = np.arange(40)[:, None] % (FLOOR - 1)
    values[: FLOOR - 1, :2] = np.nan  # each like all rows of its kind
    assert sent(values, 1).counts.tolist() == [40]


@pytest.mark.parametrize(("n_rows_there", "is_sent"), [(0, True), (1, False), (FLOOR - 1, False), (FLOOR, True)])
def test_a_center_is_no_row_in_the_cells_that_the_row_has(n_rows_there, is_sent):
    values = np.random.default_rng(0).normal(size=(40, 3))
    values -= values[FLOOR:].mean(axis=0)
    values[:n_rows_there, :2] = 0  # where the center is; what is missing beside it makes it no other
    values[:n_rows_there, 2] = np.nan
    values[n_rows_there:FLOOR] = np.nan
    assert (len(sent(values, 1).counts) == 1) == is_sent


@pytest.mark.parametrize(("n_people", "is_sent"), [(1, False), (FLOOR - 1, False), (FLOOR, True)])
def test_a_center_is_no_row_of_few_people_in_the_cells_that_the_row_has(n_people, is_sent):
    values = np.random.default_rng(0).normal(size=(40, 3))
    values -= values[10:].mean(axis=0)
    values[:10, :2] = 0  # where the center is
    values[0, 2] = np.nan
    people = np.arange(40)
    people[:10] %= n_people
    assert (len(sent(values, 1, ids=people).counts) == 1) == is_sent


@pytest.mark.parametrize("n_local_clusters", [None, 3])
def test_rows_without_numbers_withhold_no_group_of_which_all_have_their_category(n_local_clusters):
    """As where a laboratory has not seen some patients."""
    rng = np.random.default_rng(0)
    groups = rng.integers(3, size=400)
    table = pd.DataFrame({f"lab{i}": rng.normal(10 * groups, 1).round(2) for i in range(3)})
    table.loc[rng.random(400) < 0.05] = np.nan
    smokes = rng.random((400, 3)) < np.choose(groups, [0.05, 0.95, 0.5])[:, None]
    table = table.assign(ward=np.array(list("abc"))[groups], **{f"flag{i}": own for i, own in enumerate(smokes.T)})
    kept = cluster_file(table, n_local_clusters, "north", random_state=0, warn=False)
    assert kept.to_message().counts.sum() > 0.9 * len(table)
    kept = cluster_file(table[["lab0", "ward"]], 3, "north", random_state=0, warn=False)
    assert kept.to_message().counts.sum() > 0.9 * len(table)


def test_a_level_is_named_whose_first_row_has_no_other_cell():
    rows = pd.DataFrame({"age": np.random.default_rng(0).normal(size=40).round(3), "ward": ["a"] * 20 + ["b"] * 20})
    rows.loc[0, "age"] = np.nan
    assert cluster_file(rows, 2, "a", warn=False).to_message().feature_names == ("age", "ward=a", "ward=b")


def test_a_column_that_is_filled_for_copies_of_one_patient_alone_is_not_told():
    values = np.random.default_rng(0).normal(size=(40, 3))
    values[:, 2] = np.nan
    values[:20] = values[0]
    values[:20, 2] = 7.5
    assert not sent(values, 1).details.observed[0, 2]
    values[:20] += np.random.default_rng(1).normal(size=(20, 3))
    assert sent(values, 1).details.observed[0, 2] == 20


# One row, or one person, behind a column ------------------------------------------------------------------------


def lab_results(n_filled):
    values = np.random.default_rng(0).normal(size=(200, 3))
    values[n_filled:, 2] = np.nan
    return values


def test_an_average_that_one_heavy_row_makes_up_is_not_told():
    weights = np.ones(200)
    assert sent(lab_results(16), 1, sample_weight=weights).details.observed[0, 2] == 16
    weights[1:16] = 0.001
    message = sent(lab_results(16), 1, sample_weight=weights)
    assert not message.details.observed[0, 2]
    assert message.details.observed[0, 0] > 180


def test_rows_without_weight_do_not_hide_copies():
    values, weights = patients(n_copies=12), np.ones(72)
    values[66:, 0] += np.arange(6)
    values[0, 0] = np.nan
    weights[66:] = 0
    assert sent(values, sample_weight=weights).counts.tolist() == [60]


@pytest.mark.parametrize(("n_of_one", "is_told"), [(38, True), (60, False)])
def test_an_average_of_which_one_person_holds_more_than_half_is_not_told(n_of_one, is_told):
    ids = np.arange(200)
    ids[:n_of_one] = 0
    assert bool(sent(lab_results(76), 1, ids=ids).details.observed[0, 2]) == is_told


# Values that are large and close together -----------------------------------------------------------------------


def times_of_day(offset, n_rows=100):
    """Two groups of rows, each with a spread of 100."""
    rng = np.random.default_rng(0)
    return offset + np.repeat([0.0, 5000.0], n_rows)[:, None] + rng.normal(scale=100, size=(2 * n_rows, 2))


@pytest.mark.parametrize("fleet", [False, True])
def test_values_far_from_zero_are_sent_if_many_of_them_differ(fleet):
    points = times_of_day(1.7e9)
    local = kfed.cluster_fleet([points], 2)[0] if fleet else kfed.cluster_device(points, 2, random_state=0)
    assert sorted(local.to_message("a").counts.tolist()) == [100, 100]


@pytest.mark.parametrize("jitter", [1e-7, 1e-6])
def test_one_row_that_was_rounded_in_several_ways_is_withheld_with_or_without_others_beside_it(jitter):
    rng = np.random.default_rng(0)
    copies = 70.0 * (1 + jitter * rng.uniform(size=(29, 3)))
    with pytest.warns(kfed.KFedWarning, match="no cluster of this device may be sent"):
        assert kfed.cluster_device(copies, 1, random_state=0).withheld.all()
    many = 70.0 * (1 + jitter * rng.uniform(size=(200, 3)))
    for others in (rng.normal(size=(60, 3)), 70.3 + 0.01 * rng.normal(size=(60, 3))):
        local = kfed.cluster_device(np.vstack([many, others]), 2, random_state=0)
        assert local.to_message("a").counts.tolist() == [60]


def test_a_device_and_a_server_say_that_nothing_is_sent_and_what_to_do():
    points = times_of_day(1.7e9, n_rows=10)
    with pytest.warns(kfed.KFedWarning, match="large and close together, subtract a constant") as caught:
        local = kfed.cluster_device(points, 2, random_state=0)
    assert caught[0].message.code == "nothing sent"
    with pytest.raises(kfed.TooFewCentersError, match=r"no device sent a center \(2 devices\): clusters"):
        kfed.aggregate([local.to_message("a"), local.to_message("b")], 2)
    assert not kfed.cluster_device(points - 1.7e9, 2, random_state=0).withheld.any()


def test_a_device_says_how_many_rows_are_behind_clusters_that_are_not_sent():
    points = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.warns(kfed.KFedWarning, match="of 100 rows of this device are in clusters that may not be") as caught:
        local = kfed.cluster_device(points, 90, random_state=0)
    assert [one.message.code for one in caught] == ["rows left out"]
    assert str(caught[0].message).startswith(f"{100 - int(local.to_message('a').counts.sum())} of 100 rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kfed.cluster_device(points, 5, random_state=0)
        kfed.cluster_device(points, random_state=0)
        kfed.cluster_device(np.vstack([points[:15], [[99.0, 0, 0], [99.0, 1, 1]]]), 2, random_state=0)


def test_the_command_line_says_it_once(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(100, 3)))
    ran = subprocess.run(
        [sys.executable, "-m", "kfed", "device", "a.npy", "-k", "40"], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.stdout.count("76 of 100 rows of this device are in clusters that may not be sent") == 1
    assert "Warning" not in ran.stderr


# At the door ----------------------------------------------------------------------------------------------------


def test_privacy_of_points_is_not_taken_for_privacy_of_people():
    points, privacy = np.random.default_rng(0).normal(size=(400, 2)), kfed.Privacy(epsilon=8.0, delta=1e-6, radius=5.0)
    agreed = FeatureSchema.of_columns([Column(name, shift=0.0, scale=1.0) for name in "ab"], "agreed")
    for ids, is_refused in ((np.arange(400), False), (np.arange(400) // 2, True)):
        for cluster in (kfed.cluster_device, lambda points, k, **how: cluster_columns(points, agreed, k, **how)):
            if is_refused:
                with pytest.raises(kfed.InvalidInputError, match="some ids occur more than once: keep or average one"):
                    cluster(points, 2, ids=ids, privacy=privacy)
            else:
                assert cluster(points, 2, ids=ids, privacy=privacy).private is not None


@pytest.mark.parametrize("through", ["device", "fleet", "blocks"])
def test_tiny_single_precision_points_are_clustered_as_their_multiples_are(through, monkeypatch):
    if through == "blocks":
        monkeypatch.setattr(kfed.device.rows.batches, "LARGE_BYTES", 0)
    rng = np.random.default_rng(0)
    points = (np.repeat([0.0, 20.0], 60)[:, None] + rng.normal(size=(120, 2))).astype(np.float32)
    near_zero = points * np.float32(1e-24)
    clustered = [
        kfed.cluster_fleet([own, points], 2, random_state=0)[0]
        if through == "fleet"
        else kfed.cluster_device(own, 2, random_state=0)
        for own in (points, near_zero)
    ]
    assert sorted(clustered[1].counts.tolist()) == [60, 60]
    assert clustered[1].spectral_deviation == pytest.approx(1e-24 * clustered[0].spectral_deviation, rel=1e-3)
    assert clustered[1].to_message("a").n_local_clusters == 2


def test_zeros_are_points_like_others():
    assert kfed.cluster_device(np.zeros((10, 2)), 1).counts.tolist() == [10]
    assert kfed.cluster_fleet([np.zeros((10, 2)), np.ones((10, 2))], 1)[0].counts.tolist() == [10]


def test_what_can_be_clustered_can_be_sent():
    points = np.random.default_rng(0).uniform(-1, 1, size=(40, 2))
    assert kfed.cluster_device(1e100 * points, 1).to_message("a").n_local_clusters == 1
    for through in (kfed.cluster_device, lambda points, k: kfed.cluster_fleet([points, 1e-120 * points], k)):
        with pytest.raises(kfed.InvalidInputError, match=r"at most 1e\+100 in size"):
            through(1e120 * points, 1)


def test_clusters_without_any_spread_are_told_apart_without_a_warning():
    local = kfed.cluster_device(np.repeat([[0.0], [1000.0], [2000.0]], 40, axis=0), "auto", random_state=0)
    assert local.counts.tolist() == [40, 40, 40]


# The scatter ----------------------------------------------------------------------------------------------------


def test_the_scatter_of_few_rows_is_sent_the_same_whichever_rows_have_it():
    signs = np.array([[1.0]])
    while len(signs) < 32:
        signs = np.block([[signs, signs], [signs, -signs]])
    rows = 3 * signs[:12] + np.linspace(0, 1, 32)
    turn = np.linalg.qr(np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=(12, 11))]))[0]
    mirror = turn @ np.diag([1.0] * 6 + [-1.0] * 6) @ turn.T  # leaves the mean in place
    others = mirror @ rows
    sent = []
    for own in (rows, others):
        local = kfed.cluster_device(own, 1, random_state=0, min_cluster_size=3)
        factor = with_moments(local, own).to_message("a").details.scatter
        centered = own - own.mean(axis=0)
        np.testing.assert_allclose(factor.T @ factor, centered.T @ centered, atol=1e-9)
        lengths = np.linalg.norm(factor, axis=1).max(), np.linalg.norm(centered, axis=1)
        assert (np.abs(factor @ centered.T) < 0.95 * lengths[0] * lengths[1]).all()
        sent.append(factor)
    np.testing.assert_allclose(sent[0].T @ sent[0], sent[1].T @ sent[1], atol=1e-9)
    np.testing.assert_allclose(*sent, atol=1e-6)


def without_numbers(seed):
    """Sixty rows of two groups, by categories, flags and dates alone."""
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=60)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(300 * group + rng.integers(9, size=60), unit="D")
    ward = np.where(group == 0, "surgery", np.where(rng.random(60) < 0.5, "heart", "lungs"))
    frame = pd.DataFrame({"ward": ward, "smoker": np.where(group, "yes", "no"), "admitted": days.strftime("%Y-%m-%d")})
    return frame, group


def test_a_table_without_a_column_of_numbers_is_clustered():
    tables = [without_numbers(seed) for seed in range(3)]
    for columns in (["admitted", "smoker"], ["ward", "smoker", "admitted"]):
        kept = [cluster_file(frame[columns], None, f"{i}") for i, (frame, _) in enumerate(tables)]
        result = kfed.aggregate([own.to_message() for own in kept], 2)
        labels = np.concatenate([own.labels(result) for own in kept])
        assert adjusted_rand_score(np.concatenate([group for _, group in tables]), labels) == 1


def test_a_group_in_which_every_level_is_rare_tells_nothing_of_that_column():
    """Were it told as `other`, the group would be far from all rows, and those with a common level near to most."""
    rng = np.random.default_rng(0)
    levels = [*np.resize([f"corps {i}" for i in range(9)], 72), "guard", "guard", "guard", "fleet", "fleet", "fleet"]
    frames = [pd.DataFrame({"corps": levels, "year": rng.normal(size=78)}) for _ in range(4)]
    kept = [cluster_file(frame, None, f"{i}") for i, frame in enumerate(frames)]
    messages = [own.to_message() for own in kept]
    for message in messages:
        assert message.schema.columns[0].levels[-1] == "other"
        place = len(message.schema.columns[0].levels) - 1
        is_other = message.centers[message.details.observed[:, place] > 0, place] == 1
        assert is_other.sum() <= 1  # six rows of two levels are others indeed
    result = kfed.aggregate(messages, 3)
    labels = np.concatenate([own.labels(result) for own in kept])
    sizes = np.sort(np.bincount(labels, minlength=3)) / len(labels)
    assert np.abs(sizes - np.sort(result.cluster_sizes) / result.cluster_sizes.sum()).max() < 0.1


@pytest.mark.parametrize("two", [("1", "2"), ("-4.5", "7"), ("2025-01-01", "1950-05-05")])
@pytest.mark.parametrize("n_odd", [1, 4])
def test_of_two_values_the_one_that_few_rows_have_leaves_no_trace(write, two, n_odd):
    usual, odd = two
    rng = np.random.default_rng(0)
    ages = rng.normal(50, 9, 120).round(1)

    def message(n):
        rows = "".join(f"{age},{odd if i < n else usual}\n" for i, age in enumerate(ages))
        return cluster_file(write("age,x\n" + rows), 1, "a", warn=False).to_message()

    assert message(n_odd).to_bytes() == message(0).to_bytes()
    assert message(30).to_bytes() != message(0).to_bytes()
