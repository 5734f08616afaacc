"""A second message makes clusters better, says nothing of fewer rows than the first, and is never needed."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import kfed
from consoles import SITES, run, write_sites
from kfed import datasets
from kfed.datasets import partition
from kfed.device import cluster_columns, nearest_centers
from kfed.device.floor import group_moves
from kfed.device.floor.told_cells import ToldCells
from kfed.insight import diagnose
from kfed.server import AggregationSettings
from kfed.simulate import Round
from kfed.wire import Column, FeatureSchema, MessageBatch

NAMES = ["north", "south", "west"]


def cloud(seed=0, n_rows=150, n_features=3):
    """Devices with rows of one cloud: nothing is separated."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(n_rows, n_features)) for name in NAMES}


def cost(devices, centers):
    points = np.concatenate(list(devices.values()))
    return np.square(points[:, None] - centers).sum(axis=2).min(axis=1).sum()


def first_round(devices, n_local=6, k=4, **options):
    return Round.run(devices, k, n_local, rule="robust", random_state=0, **options)


def test_a_second_message_brings_clusters_nearer_to_those_of_all_rows():
    for seed in range(3):
        devices = cloud(seed)
        done = first_round(devices)
        again = done.refined(devices)
        assert cost(devices, again.aggregation.cluster_centers) < cost(devices, done.aggregation.cluster_centers)
        assert (again.aggregation.settings.rounds, again.sent.rounds, again.sent.messages) == (2, 2, 12)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_refined_centers_are_the_means_of_the_rows_that_devices_counted(kind):
    devices = {name: kind(rows) for name, rows in cloud().items()}
    again = first_round(devices).refined(devices)
    points = np.concatenate(list(cloud().values()))
    for cluster, center in enumerate(again.aggregation.cluster_centers):
        np.testing.assert_allclose(center, points[again.labels == cluster].mean(axis=0), atol=1e-9)
    np.testing.assert_array_equal(again.aggregation.cluster_sizes, np.bincount(again.labels, minlength=4))


def test_where_clusters_are_separated_a_second_message_changes_nothing():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [40.0, 0.0], [0.0, 40.0]])
    devices = {name: np.repeat(places, 20, axis=0) + rng.normal(size=(60, 2)) for name in NAMES}
    done = Round.run(devices, 3, 3, random_state=0, rounds=2)
    np.testing.assert_array_equal(done.labels, done.before.labels)
    np.testing.assert_allclose(done.aggregation.cluster_centers, done.before.aggregation.cluster_centers)


@pytest.mark.slow
def test_on_mnist_two_rounds_cost_what_the_trial_said():
    try:
        data = datasets.mnist()
    except kfed.MissingDataError as error:
        pytest.skip(str(error))
    devices = partition.iid(len(data.points), 100).devices(data.points)
    done = Round.run(devices, 20, 20, rule="robust", random_state=0, rounds=2)
    costs = []
    for found in (done.before, done):
        centers = found.aggregation.cluster_centers
        labels = nearest_centers(data.points, centers)
        costs.append(np.square(data.points - centers[labels]).sum(dtype=np.float64) / len(data.points))
    assert costs[1] <= 35.38 < costs[0]


# What two messages tell together ---------------------------------------------------------------------------------


def fewest_told(first, second, told, n_clusters):
    """The fewest rows that any sum of whole clusters of both messages, some subtracted, is about; by trying all."""
    n_local, fewest = first.max() + 1, np.inf
    for chosen in itertools.product([0, 1], repeat=n_local + n_clusters):
        own, other = np.array(chosen[:n_local]), np.array(chosen[n_local:])
        n_rows = np.count_nonzero((own[first] != other[second]) & told)
        fewest = min(fewest, n_rows) if n_rows else fewest
    return fewest


@pytest.mark.parametrize("floor", [3, 5])
def test_no_difference_of_the_two_messages_is_about_fewer_rows_than_the_floor(floor):
    n_moved = 0
    for seed in range(12):
        devices = cloud(seed, n_rows=40, n_features=2)
        done = first_round(devices, n_local=4, k=3, min_cluster_size=floor)
        again = done.refined(devices, min_cluster_size=floor)
        for name, own in done.local.items():
            second = again.local[name].labels
            told = ~own.withheld[own.labels]
            n_moved += np.count_nonzero(second != done.clusters[name][own.labels])
            assert fewest_told(own.labels, second, told, 3) >= floor
    assert n_moved > 50


def test_that_holds_too_where_there_are_too_many_clusters_to_look_for_cuts(monkeypatch):
    monkeypatch.setattr(group_moves, "MOST_NODES", 0)
    devices = cloud(n_rows=40, n_features=2)
    done = first_round(devices, n_local=4, k=3)
    again = done.refined(devices)
    for name, own in done.local.items():
        assert fewest_told(own.labels, again.local[name].labels, ~own.withheld[own.labels], 3) >= 3


def holey(seed, n_rows=60):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 3))
    values[rng.random((n_rows, 3)) < 0.2] = np.nan
    return values


def test_with_missing_cells_that_holds_in_every_column():
    schema = FeatureSchema.of_columns(map(Column, "abc"))
    for seed in range(6):
        tables = {name: holey([seed, i]) for i, name in enumerate(NAMES)}
        local = {
            name: cluster_columns(own, schema, 3, random_state=0, min_cluster_size=5) for name, own in tables.items()
        }
        first = kfed.aggregate([own.to_message(name) for name, own in local.items()], 3, rule="robust")
        for name, own in local.items():
            second = kfed.refine_device(own, first.identity(name), tables[name], min_cluster_size=5)
            message, before = second.to_message(name), own.to_message(name)
            np.testing.assert_allclose(message.details.observed.sum(axis=0), before.details.observed.sum(axis=0))
            counted = np.isfinite(tables[name]).mean(axis=1) >= 0.5
            for column in range(3):
                told = counted & ~own.withheld[own.labels] & ~own.columns.withheld[own.labels, column]
                told &= np.isfinite(tables[name][:, column])
                assert fewest_told(own.labels, second.labels, told, 3) >= 5


def test_no_level_of_a_category_and_no_value_of_a_flag_is_told_of_fewer_rows():
    stage, ill = Column("stage", "category", ("I", "II", "III")), Column("ill", "flag")
    schema = FeatureSchema.of_columns([Column("x"), stage, ill])
    for seed in range(6):
        rng = np.random.default_rng(seed)
        levels = [rng.choice(3, 90, p=[0.5, 0.3, 0.2]) for _ in NAMES]
        tables = {
            name: np.column_stack([rng.normal(size=90), np.eye(3)[own], rng.random(90) < 0.4])
            for name, own in zip(NAMES, levels, strict=True)
        }
        local = {n: cluster_columns(own, schema, 3, random_state=0, min_cluster_size=5) for n, own in tables.items()}
        first = kfed.aggregate([own.to_message(name) for name, own in local.items()], 3, rule="robust")
        for name, own in local.items():
            second = kfed.refine_device(own, first.identity(name), tables[name], min_cluster_size=5)
            message = second.to_message(name)
            n_with = np.rint(message.centers * message.details.observed)[:, 1:]
            assert ((n_with == 0) | (n_with >= 5)).all()
            cells = ToldCells.of(own, tables[name], None, None, 5)  # where a rare level of a group counts as another
            for with_it in cells.levels.T:
                assert fewest_told(cells.labels, second.labels[cells.positions], with_it, 3) >= 5


def test_squares_of_the_second_message_follow_from_the_first_one_and_the_means():
    devices = cloud()
    done = first_round(devices)
    again = done.refined(devices)
    for before, message in zip(done.messages, again.messages, strict=True):
        totals = [m.sums_of_squares.sum() + m.counts @ np.square(m.centers).sum(axis=1) for m in (before, message)]
        np.testing.assert_allclose(*totals)
        variances = message.sums_of_squares / np.maximum(message.counts - 1, 1)
        np.testing.assert_allclose(variances, variances[0])  # shared out: that of no cluster is told


def test_rows_of_one_person_count_once():
    devices = cloud(n_rows=60, n_features=2)
    done = first_round(devices, n_local=4, k=3)
    name = NAMES[0]
    of_two = np.arange(60) // 30
    own = kfed.cluster_device(devices[name], 4, ids=of_two, min_cluster_size=2, random_state=0, device_id=name)
    again = kfed.refine_device(own, done.aggregation.assign(own.to_message(name)), devices[name], ids=of_two)
    np.testing.assert_array_equal(again.labels[~own.withheld[own.labels]], _whole(own, done, name))


def _whole(own, done, name):
    """Every local cluster stays whole."""
    clusters = own.global_clusters(done.aggregation.assign(own.to_message(name)))
    return clusters[own.labels][~own.withheld[own.labels]]


def test_what_would_break_a_promise_or_tell_of_changed_rows_is_refused():
    devices = cloud()
    done = first_round(devices)
    own, identity, rows = done.local["north"], done.identities[0], devices["north"]
    with pytest.raises(kfed.InvalidInputError, match="private device sends only one message"):
        Round.run(devices, 2, 2, privacy=kfed.Privacy(epsilon=5.0, radius=4.0), rounds=2)
    changed = rows.copy()
    changed[0] += 0.1
    with pytest.raises(kfed.InvalidInputError, match="those that were clustered"):
        kfed.refine_device(own, identity, changed)
    with pytest.raises(kfed.InvalidInputError, match="shape"):
        kfed.refine_device(own, identity, rows[1:])
    borrowed = kfed.cluster_device(rows, 40, small_clusters="borrow", random_state=0, device_id="north")
    with pytest.raises(kfed.InvalidInputError, match="not possible after borrowing"):
        kfed.refine_device(borrowed, done.aggregation.assign(borrowed.to_message("north")), rows)
    second = kfed.refine_device(own, identity, rows)
    with pytest.raises(kfed.InvalidInputError, match="at most two messages"):
        kfed.refine_device(second, done.aggregation.assign(second.to_message("north")), rows)


# The server ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_rounds():
    devices = cloud()
    done = first_round(devices)
    return done, done.refined(devices)


def test_who_is_absent_counts_as_before_and_who_sends_twice_counts_once(two_rounds):
    done, again = two_rounds
    north = again.messages[0]
    some = kfed.aggregate_refined(done.aggregation, [north, north])
    assert some == kfed.aggregate_refined(done.aggregation, [north])
    assert some.messages.message("north") == north
    assert some.messages.message("south") == done.messages[1]
    np.testing.assert_array_equal(some.identity("south").cluster_ids, done.identities[1].cluster_ids)
    assert kfed.Aggregation.from_bytes(some.to_bytes()) == some
    assert kfed.aggregate_refined(done.aggregation, reversed(again.messages)) == again.aggregation


def test_messages_of_another_round_or_another_mind_are_refused(two_rounds):
    done, again = two_rounds
    north = again.messages[0]
    with pytest.raises(kfed.InvalidInputError, match="is a first message"):
        kfed.aggregate_refined(done.aggregation, done.messages)
    with pytest.raises(kfed.InvalidInputError, match="about other clusters"):
        kfed.aggregate_refined(again.aggregation, [north])
    other = kfed.DeviceMessage.from_table("north", north.table + 1, north.schema, north.details)
    with pytest.raises(kfed.DuplicateDeviceError):
        kfed.aggregate_refined(done.aggregation, [north, other])
    beyond = replace(north.details, cluster_ids=north.details.cluster_ids + 4)
    with pytest.raises(kfed.InvalidInputError, match="clusters 0 to 3"):
        kfed.aggregate_refined(
            done.aggregation, [kfed.DeviceMessage.from_table("north", north.table, north.schema, beyond)]
        )
    with pytest.raises(kfed.InvalidInputError, match="after the second round; remove it from the first"):
        again.aggregation.without("north")


def test_a_cluster_of_too_few_devices_keeps_its_center_and_nobody_outweighs_the_others(two_rounds):
    done, again = two_rounds
    asked = replace(done.aggregation, settings=AggregationSettings(min_devices=2))
    heavy = again.messages[0].table.copy()
    heavy[:, -3] = 2.0**50
    liar = kfed.DeviceMessage.from_table("north", heavy, again.messages[0].schema, again.messages[0].details)
    honest = kfed.aggregate_refined(asked, again.messages).cluster_centers
    moved = kfed.aggregate_refined(asked, [liar, *again.messages[1:]]).cluster_centers
    assert np.abs(moved - honest).max() < 0.5
    asked = replace(asked, settings=AggregationSettings(min_devices=4))
    np.testing.assert_array_equal(kfed.aggregate_refined(asked, again.messages).cluster_centers, asked.cluster_centers)


def test_the_estimator_takes_two_rounds_and_weights():
    devices = cloud()
    rows, groups = np.concatenate(list(devices.values())), np.repeat(NAMES, 150)
    weights = np.random.default_rng(0).choice([1.0, 2.0], len(rows))
    costs = []
    for rounds in (1, 2):
        model = kfed.KFed(4, 6, rule="robust", random_state=0, rounds=rounds)
        model.fit(rows, groups=groups, sample_weight=weights)
        costs.append(model.inertia_)
        apart = np.square(rows - model.cluster_centers_[model.labels_]).sum(axis=1)
        assert model.inertia_ == pytest.approx(weights @ apart)
    assert costs[1] < costs[0]
    with pytest.raises(kfed.InvalidInputError, match="rounds must be 1 or 2"):
        Round.run(devices, 4, 6, rounds=3)
    with pytest.raises(ValueError, match="rounds"):
        kfed.KFed(4, rounds=3).fit(rows, groups=groups)


def test_one_center_for_each_cluster_raises_no_doubts_after_a_second_round():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0], [30.0, 30.0]])
    own = {"north": [0, 1], "south": [1, 2], "west": [2, 3]}  # clusters 0 and 3 are on one device each
    devices = {name: np.repeat(places[some], 40, axis=0) + rng.normal(size=(80, 2)) for name, some in own.items()}
    done = first_round(devices, n_local=2)
    assert "single center" in [notice.code for notice in done.aggregation.notices]
    again = done.refined(devices)
    assert "single center" not in [notice.code for notice in again.aggregation.notices]


def test_a_diagnosis_of_second_messages_does_not_miss_a_number_that_they_cannot_show():
    rng = np.random.default_rng(0)
    places = 5 * rng.normal(size=(3, 2))
    own = [rng.choice(3, 2, replace=False) for _ in range(6)]
    devices = {f"{i}": np.repeat(places[some], 40, axis=0) + rng.normal(size=(80, 2)) for i, some in enumerate(own)}
    found = diagnose(first_round(devices, n_local=3, k=3).refined(devices).aggregation)
    assert "were asked for" not in " ".join(found.warnings)
    assert found.evidence == ""


# The command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sites(tmp_path, np.array([[0, 0], [2, 0], [0, 2], [2, 2]]), ("patient", "x", "y"), 1.0)
    for site in SITES:
        run("device", f"{site}.csv", "-k", 3, "--id-column", "patient")
    run("aggregate", *(f"{site}.kfed" for site in SITES), "-k", 4, "--rule", "robust")
    return tmp_path


def test_a_consortium_refines_its_clusters_with_two_more_commands(sites):
    for site in ("north", "south", "east"):  # the west is away
        said = run("refine", f"{site}.local", "--data", f"{site}.csv", "--clusters", "clusters.kfed")
        assert "send" in said
    told = json.loads(run("inspect", "north.refined", "--json"))
    assert told["refines"]
    assert min(told["counts"]) >= 5
    assert "the second message of device 'north'" in run("inspect", "north.refined")
    refined = [f"{site}.refined" for site in ("north", "south", "east")]
    facts = json.loads(run("aggregate", *refined, "--clusters", "clusters.kfed", "-o", "better.kfed", "--json"))
    assert (facts["rounds"], facts["n_devices"]) == (2, 4)
    for kept in ("north.refined.local", "west.local"):
        labels = run("label", kept, "--clusters", "better.kfed").splitlines()
        assert len(labels) == 41
    assert "aggregated with a different message" in run("label", "north.local", "--clusters", "better.kfed", code=1)


def test_a_site_makes_one_second_message_and_is_told_why_not_another(sites):
    again = ("refine", "north.local", "--data", "north.csv", "--clusters")
    run(*again, "clusters.kfed")
    run(*again, "clusters.kfed", "--force")  # about the same clusters: the same message
    run("aggregate", *(f"{site}.kfed" for site in SITES), "-k", 3, "--rule", "robust", "-o", "other.kfed")
    assert "already made a second message about other clusters" in run(*again, "other.kfed", "--force", code=1)
    assert "is a second message" in run("aggregate", "north.refined", "-o", "no.kfed", code=1)


# Small messages --------------------------------------------------------------------------------------------------


def images(n_rows=400):
    return np.random.default_rng(0).random((n_rows, 784)).astype(np.float32)


@pytest.mark.parametrize(("bits", "most"), [(4, 8_800), (8, 16_500), (16, 32_500)])
def test_twenty_centers_of_784_pixels_are_small_and_no_value_is_off_by_more_than_said(bits, most):
    local = kfed.cluster_device(images(), 20, random_state=0, device_id="a", measure_deviation=False)
    exact, rounded = local.to_message("a"), local.to_message("a", bits=bits)
    assert len(rounded.to_bytes()) <= most
    off = np.abs(rounded.centers.astype(np.float64) - exact.centers)
    assert (off <= rounded.rounding).all()
    assert rounded.rounding.max() < (2.2 if bits == 4 else 1.1) / 2**bits  # a whole step, or half of one
    assert kfed.DeviceMessage.from_bytes(rounded.to_bytes()) == rounded


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_the_error_bound_counts_what_single_precision_loses(offset):
    centers = offset + np.random.default_rng(0).normal(size=(20, 5))
    exact = kfed.DeviceMessage("a", centers, [10] * 20)
    for bits in (4, 8, 16):
        rounded = exact.quantised(bits)
        assert (np.abs(rounded.centers.astype(np.float64) - centers) <= rounded.rounding).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_the_certificate_allows_for_rounded_centers(bits):
    rng = np.random.default_rng(0)
    places = 20 * rng.normal(size=(3, 40))
    points = [np.repeat(places, 40, axis=0) + rng.normal(size=(120, 40)) for _ in range(4)]
    local = [kfed.cluster_device(own, 3, random_state=0, device_id=f"{i}") for i, own in enumerate(points)]
    exact = kfed.aggregate([own.to_message(f"{i}") for i, own in enumerate(local)], 3)
    rounded = MessageBatch.of([own.to_message(f"{i}", bits=bits) for i, own in enumerate(local)])
    certificate = kfed.Certificate.of(rounded, exact.center_labels, 3)
    for wide, narrow in zip(certificate.separation_ratios, exact.certificate().separation_ratios, strict=True):
        assert np.isfinite(wide[~np.eye(3, dtype=bool)]).all()
        assert not np.array_equal(wide, narrow)
    apart = ~np.eye(3, dtype=bool)
    assert (certificate.separation_ratios.lower <= exact.certificate().separation_ratios.lower)[apart].all()
    assert (certificate.separation_ratios.upper >= exact.certificate().separation_ratios.upper)[apart].all()
    lower, upper = certificate.spectral_deviation
    assert lower <= exact.certificate().spectral_deviation.lower
    assert upper >= exact.certificate().spectral_deviation.upper


@pytest.mark.parametrize("bits", [4, 8])
def test_bits_are_asked_for_on_the_command_line_and_explained(sites, bits):
    run("device", "north.csv", "-k", 3, "--id-column", "patient", "--bits", bits, "--force")
    assert f"rounded to {bits} bits a number: it may be off by" in run("inspect", "north.kfed")
    run("aggregate", *(f"{site}.kfed" for site in SITES), "-k", 4, "--force")
    assert len(run("label", "north.local", "--clusters", "clusters.kfed").splitlines()) == 41
    assert "must be 4, 8 or 16" in run("device", "north.csv", "-k", 3, "--bits", 6, "--force", code=2)


def test_refining_does_not_make_a_diagnosis_worse(few_compared):
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    held = {"north": (0, 1), "south": (1, 2), "west": (2, 3)}
    devices = {
        name: np.concatenate([place + rng.normal(size=(60, 2)) for place in places[list(groups)]])
        for name, groups in held.items()
    }
    done = Round.run(devices, 4, random_state=0)
    before, after = (diagnose(one.aggregation).assessment for one in (done, done.refined(devices)))
    assert len(after.aggregation.messages.centers) == 6
    assert before.conclusion().answer == "clear"
    assert after.conclusion().answer == "clear, but stability is not known"
    assert not any("local clusters" in text for text in after.advice())
