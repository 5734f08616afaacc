"""The scatter of devices bounds the cost of every clustering from below; the bound is never above the best cost."""

from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

import kfed
from kfed._base import text
from kfed.cli import app
from kfed.device import cluster_columns, coarse_enough, with_moments
from kfed.device.deviation import moments
from kfed.insight import cluster_report, diagnose, to_markdown
from kfed.server import Aggregation
from kfed.site import LocalFile
from kfed.wire import Column, FeatureSchema, load
from worlds import mixture_world


def sent_with_moments(world, **options):
    clusterings = zip(world.clusterings(), world.points, world.ids, strict=True)
    return [with_moments(local, points, **options).to_message(name) for local, points, name in clusterings]


def least_cost(points, k):
    """The best clustering of a few points, among all."""
    best = np.inf
    for labels in product(range(k), repeat=len(points) - 1):
        labels = np.array([0, *labels])
        parts = [points[labels == r] for r in range(k)]
        best = min(best, sum(np.square(part - part.mean(axis=0)).sum() for part in parts if len(part)))
    return best


@pytest.fixture(scope="module")
def world():
    return mixture_world(4, 12, devices_per_group=3, gap=12.0)


def test_the_bound_is_what_the_eigenvalues_of_all_rows_leave(world):
    points = np.concatenate(world.points)
    found = kfed.aggregate(sent_with_moments(world), 4).optimality()
    values = np.linalg.eigvalsh(np.cov(points.T, bias=True) * len(points))[::-1]
    assert found.lower_bound == pytest.approx(values[3:].sum(), rel=1e-9)
    assert 1 <= found.ratio < 1.5
    assert found.n_silent == 0
    assert found.conclusion().text.startswith("the cost is at most 1.")


def test_the_diagnosis_says_how_far_from_the_best_the_cost_can_be(world):
    found = diagnose(kfed.aggregate(sent_with_moments(world), 4)).assessment
    assert any("at most 1." in text and "times the best possible" in text for text in found.conclusion().meaning)
    assert diagnose(kfed.aggregate(world.messages(), 4)).assessment.optimality is None


def test_the_report_says_so_too_where_it_is_known(world):
    result = kfed.aggregate(sent_with_moments(world), 4)
    said = text.sentence(result.optimality().conclusion().text)
    assert "times the best possible" in said
    assert said in to_markdown(cluster_report(result, "clusters"))
    assert "best possible" not in to_markdown(cluster_report(kfed.aggregate(world.messages(), 4), "clusters"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_the_scatter_of_all_devices_the_spectral_norm_is_exact(world, dtype):
    points = [own.astype(dtype) for own in world.points]
    local = kfed.cluster_fleet(points, 2, device_ids=world.ids, random_state=0)
    fuller = [with_moments(*pair).to_message(name) for *pair, name in zip(local, points, world.ids, strict=True)]
    result = kfed.aggregate(fuller, 4)
    labels = [one.induced_labels(result.identity(name)) for one, name in zip(local, world.ids, strict=True)]
    rows, labels = np.concatenate(points).astype(float), np.concatenate(labels)
    means = np.array([rows[labels == r].mean(axis=0) for r in range(4)])
    lower, upper = result.certificate().spectral_deviation
    true = np.linalg.norm(rows - means[labels], 2)
    assert lower <= true <= upper
    assert upper / lower < (1.01 if dtype == np.float32 else 1.000_001)
    plain = kfed.aggregate([one.to_message(name) for one, name in zip(local, world.ids, strict=True)], 4)
    assert plain.certificate().spectral_deviation.upper > 1.05 * upper


def test_tables_with_scatter_have_an_exact_norm_on_their_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(60, 3)) * [1, 10, 100] + rng.choice([0, 900], size=(60, 1)) for name in "ab"}
    for name, rows in tables.items():
        np.savetxt(f"{name}.csv", rows, delimiter=",", header="x,y,z", comments="", fmt="%.17g")
        CliRunner().invoke(app, ["device", f"{name}.csv", "-k", "3", "--moments"])
    result = kfed.aggregate([kfed.DeviceMessage.load(f"{name}.kfed") for name in tables], 2)
    assert result.messages.counts.sum() == 120, "every row is spoken for"
    lower, upper = result.certificate().spectral_deviation
    assert upper / lower < 1.000_001
    labels = np.concatenate([load(f"{name}.local", LocalFile).labels(result) for name in tables])
    rows = result.scale.apply(np.concatenate(list(tables.values())))
    means = np.array([rows[labels == r].mean(axis=0) for r in range(2)])
    assert lower <= np.linalg.norm(rows - means[labels], 2) * (1 + 1e-9)
    assert np.linalg.norm(rows - means[labels], 2) <= upper * (1 + 1e-9)


def test_devices_without_scatter_only_weaken_the_bound(world):
    every = sent_with_moments(world)
    some = [*every[:2], *world.messages()[2:]]
    full, partial = (kfed.aggregate(sent, 4).optimality() for sent in (every, some))
    assert partial.n_silent == 4
    assert partial.cost == pytest.approx(full.cost)
    assert 0 < partial.lower_bound < full.lower_bound


def test_without_any_scatter_there_is_an_error_that_says_what_to_do(world):
    with pytest.raises(kfed.InvalidInputError, match="no device sent its scatter; make messages with `kfed device"):
        kfed.aggregate(world.messages(), 4).optimality()


def test_too_few_features_leave_it_unknown():
    points = np.random.default_rng(0).normal(size=(60, 2))
    local = with_moments(kfed.cluster_device(points, 5, random_state=0), points)
    found = kfed.aggregate([local.to_message("a")], 3).optimality()
    assert found.ratio == np.inf
    assert "not known" in found.conclusion().text


def test_withheld_rows_have_no_part_in_the_scatter():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(40, 3)), [[500.0, 0.0, 0.0]]])
    local = with_moments(kfed.cluster_device(points, 2, random_state=0), points)
    assert local.withheld.any()
    factor = local.to_message("a").details.scatter
    np.testing.assert_allclose(factor.T @ factor, np.cov(points[:40].T, bias=True) * 40, rtol=1e-6, atol=1e-9)


def test_the_scatter_is_kept_in_files_and_survives_aggregation(world):
    message = sent_with_moments(world)[0]
    assert kfed.DeviceMessage.from_bytes(message.to_bytes()) == message
    local = with_moments(world.clusterings()[0], world.points[0])
    assert kfed.LocalClustering.from_bytes(local.to_bytes()).to_message(message.device_id) == message
    result = kfed.aggregate(sent_with_moments(world), 4)
    assert Aggregation.from_bytes(result.to_bytes()).optimality() == result.optimality()


def test_no_row_is_in_the_scatter_even_of_few_rows():
    points = np.random.default_rng(0).normal(size=(6, 20))
    factor = with_moments(kfed.cluster_device(points, 1, random_state=0, min_cluster_size=2), points).scatter
    for row in np.concatenate([points, points - points.mean(axis=0)]):
        assert np.linalg.norm(factor - row, axis=1).min() > 0.1
        assert np.linalg.norm(factor + row, axis=1).min() > 0.1


def test_a_table_sends_its_scatter_with_moments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        rows = rng.normal(size=(60, 3)) * [1, 10, 100] + rng.choice([0, 900], size=(60, 1))
        np.savetxt(f"{name}.csv", rows, delimiter=",", header="a,b,c", comments="")
        assert CliRunner().invoke(app, ["device", f"{name}.csv", "-k", "3", "--moments"]).exit_code == 0
    sent = [kfed.DeviceMessage.load(f"{name}.kfed") for name in ("north", "south")]
    assert 1 <= kfed.aggregate(sent, 2).optimality().ratio < 5
    assert "spread in every direction" in CliRunner().invoke(app, ["inspect", "north.kfed"]).stdout
    np.savetxt("east.csv", rng.normal(size=(400, 4)), delimiter=",", header="a,b,c,d", comments="")
    assert CliRunner().invoke(app, ["device", "east.csv", "--moments"]).exit_code == 0
    assert kfed.DeviceMessage.load("east.kfed").details.scatter is not None
    (tmp_path / "holes.csv").write_text("a,b\n" + "1,2\n3,\n5,6\n7,8\n" * 5)
    refused = CliRunner().invoke(app, ["device", "holes.csv", "-k", "1", "--moments"])
    assert refused.exit_code == 1
    assert "--moments needs a table without missing cells" in refused.stderr
    dropped = CliRunner().invoke(app, ["device", "holes.csv", "-k", "1", "--moments", "--missing", "drop"])
    assert "remove those rows" in dropped.stderr


def gaussian(seed, n_rows=200):
    schema = FeatureSchema.of_columns([Column("a"), Column("b")])
    return np.random.default_rng(seed).normal(size=(n_rows, 2)), schema


def test_a_table_is_summarised_coarser_until_its_scatter_reveals_nothing():
    for seed in range(3):
        rows, schema = gaussian(seed)

        def once(most, rows=rows, schema=schema):
            return with_moments(cluster_columns(rows, schema, max_local_clusters=most, random_state=0), rows)

        with pytest.raises(kfed.InvalidInputError, match=r"--moments.* dominated by one cell"):
            once(200)
        found = coarse_enough(once, 200)
        assert 5 <= found.n_local_clusters < 40
        assert not found.columns.withheld[~found.withheld].any()
        sent = rows[~found.withheld[found.labels]]
        centered = sent - sent.mean(axis=0)
        np.testing.assert_allclose(found.scatter.T @ found.scatter, centered.T @ centered, atol=1e-9)


def test_a_number_of_local_clusters_that_was_asked_for_is_not_made_coarser():
    rows, schema = gaussian(0)
    asked = []

    def once(most):
        asked.append(most)
        return with_moments(cluster_columns(rows, schema, 40, random_state=0), rows)

    with pytest.raises(kfed.InvalidInputError, match="ask for fewer local clusters"):
        coarse_enough(once, 200)
    assert asked == [200]


def test_the_scatter_does_not_tell_the_cells_of_the_one_row_with_a_flag():
    rows, schema = gaussian(0)
    rows[:, 1] = 0
    rows[7, 1] = 1  # the scatter of both columns would be the first cell of this row
    with pytest.raises(kfed.InvalidInputError, match="flag that too few rows"):
        with_moments(cluster_columns(rows, schema, 1, random_state=0), rows)
    rows[:40, 1] = 1
    assert with_moments(cluster_columns(rows, schema, 1, random_state=0), rows).scatter is not None


def test_the_scatter_does_not_tell_sums_of_rows_that_are_withheld():
    rows, schema = gaussian(0, 16)
    rows[12:] += 40  # four rows, which are withheld, and twelve are too few for a sum of their own
    local = cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5)
    assert local.withheld.sum() == 1
    with pytest.raises(kfed.InvalidInputError, match="drop moments"):
        with_moments(local, rows)
    rows, schema = gaussian(0, 40)
    rows[36:] += 40
    local = cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5)
    assert local.withheld.sum() == 1
    assert with_moments(local, rows).scatter is not None


def test_moments_are_refused_with_privacy():
    points = np.random.default_rng(0).normal(size=(400, 2))
    promise = kfed.Privacy(epsilon=2.0, delta=1e-5, radius=4.0)
    local = kfed.cluster_device(points, 2, random_state=0, privacy=promise)
    with pytest.raises(kfed.InvalidInputError, match="moments cannot be sent with privacy"):
        with_moments(local, points)


def test_of_many_features_a_sketch_is_sent_and_the_bound_is_a_little_weaker(monkeypatch):
    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.normal(size=(300, 300)))[0]
    points = [(rng.normal(size=(400, 300)) * 0.97 ** np.arange(300)) @ turns for _ in range(3)]
    local = kfed.cluster_fleet(points, 4, random_state=0, measure_deviation=False)

    def found():
        sent = [
            with_moments(own, rows).to_message(f"{i}") for i, (own, rows) in enumerate(zip(local, points, strict=True))
        ]
        return sent, kfed.aggregate(sent, 3).optimality()

    sent, sketched = found()
    monkeypatch.setattr(moments, "MOST_WHOLE", 300)
    whole, exact = found()
    assert (sent[0].details.sketch.shape, sent[0].details.scatter) == ((192, 300), None)
    assert whole[0].details.scatter.shape == (300, 300)
    assert kfed.DeviceMessage.from_bytes(sent[0].to_bytes()) == sent[0]
    assert exact.ratio <= sketched.ratio < 1.02 * exact.ratio
    assert sketched.n_silent == 0


def test_beside_the_scatter_centers_of_a_summary_are_not_rounded():
    points = np.random.default_rng(0).normal(size=(200, 400))
    local = kfed.cluster_device(points, random_state=0, measure_deviation=False)
    assert local.to_message("a").details.bits in (4, 8)
    assert with_moments(local, points).to_message("a").details.bits is None


@pytest.mark.parametrize("how", ["whole", "sketch", "rounded"])
@pytest.mark.parametrize("seed", range(10))
def test_the_ratio_is_never_below_the_true_one(seed, how, monkeypatch):
    check_one_trial(seed, how, monkeypatch)


@pytest.mark.slow
def test_the_ratio_is_never_below_the_true_one_in_a_thousand_trials(monkeypatch):
    for seed in range(1_000):
        check_one_trial(seed, ("whole", "sketch", "rounded")[seed // 3 % 3], monkeypatch)


def check_one_trial(seed, how, monkeypatch):
    monkeypatch.setattr(moments, "MOST_WHOLE", 1 if how == "sketch" else 256)
    monkeypatch.setattr(moments, "N_DIRECTIONS", 1 + seed % 2)
    rng = np.random.default_rng(seed)
    n_features, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    dtype = np.float32 if seed % 3 == 0 else np.float64
    spread = rng.choice([0.1, 1.0, 10.0], size=n_features)
    points = (rng.normal(size=(8, n_features)) * spread + rng.choice([0, 5, 1e3], size=(8, 1))).astype(dtype)
    parts = np.split(points, [4])
    local = [kfed.cluster_device(part, min(3, len(part)), random_state=seed, min_cluster_size=1) for part in parts]
    bits = 8 if how == "rounded" else None
    sent = [
        with_moments(own, part).to_message(name, bits=bits) for own, part, name in zip(local, parts, "ab", strict=True)
    ]
    if sum(len(one.centers) for one in sent) < k:
        return
    result = kfed.aggregate(sent, k, rule="robust")
    found = result.optimality()
    best = least_cost(points.astype(np.float64), k)
    assert found.lower_bound <= best * (1 + 1e-9) + 1e-9
    if best > 1e-9:
        assert found.ratio >= found.cost / best * (1 - 1e-5)
    if how == "rounded":
        labels = np.concatenate(
            [own.induced_labels(result.identity(name)) for own, name in zip(local, "ab", strict=True)]
        )
        groups = [points[labels == r].astype(np.float64) for r in np.unique(labels)]
        true = sum(np.square(own - own.mean(axis=0)).sum() for own in groups)
        assert found.cost >= true * (1 - 1e-5)
