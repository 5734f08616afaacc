"""`compare_k`: exact costs from messages, stability without some devices, and a number only where one stands out."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

import kfed
from consoles import invoked as run
from kfed.server.stability import agreement
from worlds import mixture_world

SETS = Path(os.environ.get("KFED_DATA", "data")) / "benchmark-sets"


@pytest.fixture(scope="module")
def world():
    return mixture_world(9, 10, devices_per_group=4, gap=9.0, points_per_cluster=30)


@pytest.fixture(scope="module")
def found(world):
    return kfed.compare_k(world.messages(), range(2, 12), n_resamplings=8)


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(60, 3)) * [3, 1, 1] for _ in range(20)]  # stretched, so that halves of it are stable
    local = kfed.cluster_fleet(parts, 6, random_state=0)
    return [own.to_message(f"{i:02}") for i, own in enumerate(local)]


@pytest.fixture
def folder(tmp_path, monkeypatch, world):
    monkeypatch.chdir(tmp_path)
    for message in world.messages():
        message.save(f"{message.device_id}.kfed")
    return tmp_path


def test_cost_and_indices_are_those_of_all_rows(world, found):
    points = np.concatenate(world.points)
    result = kfed.aggregate(world.messages(), 9, rule="robust")
    labels = np.concatenate(
        [
            local.induced_labels(result.identity(name))
            for local, name in zip(world.clusterings(), world.ids, strict=True)
        ]
    )
    means = np.array([points[labels == r].mean(axis=0) for r in range(9)])
    at = found.n_clusters.tolist().index(9)
    cost = np.square(points - means[labels]).sum()
    assert found.costs[at] == pytest.approx(cost, rel=1e-9)
    assert found.explained[at] == pytest.approx(1 - cost / np.square(points - points.mean(axis=0)).sum(), rel=1e-9)
    assert found.calinski_harabasz[at] == pytest.approx(calinski_harabasz_score(points, labels), rel=1e-9)


def test_separated_clusters_are_recommended_with_the_reason(found):
    assert found.recommended == found.best == 9
    assert str(found).startswith("9 clusters: its clusters come back when devices are left out or drawn anew")
    assert found.table().rows[7][0] == "9 *"


def test_no_k_stands_out_in_one_stretched_cloud(cloud):
    found = kfed.compare_k(cloud, range(2, 7), n_resamplings=8)
    assert found.recommended is None
    assert found.stability[0, 0] > 0.9, "halves of a stretched cloud are stable, and yet no clusters"
    assert found.conclusion().text.startswith("no k stands out: at every k, clusters could be slices of one cloud")


def test_the_order_of_messages_and_the_number_of_threads_change_nothing(world, found):
    again = kfed.compare_k(world.messages()[::-1], range(2, 12), n_resamplings=8, n_jobs=1)
    assert again.to_dict() == found.to_dict()


def test_one_device_says_nothing_of_stability(world):
    found = kfed.compare_k(world.messages()[:1], [2])
    assert found.recommended is None
    assert np.isnan(found.stability).all()
    assert "all centers are of one device" in found.reason


def test_single_centers_as_clusters_are_not_recommended_and_few_centers_are_said_to_be_few(world):
    far = [kfed.DeviceMessage(f"{i}", [[1000.0 * i]], [20], [1.0]) for i in range(5)]
    found = kfed.compare_k(far, range(2, 6), n_resamplings=4)
    assert found.recommended != 5
    assert any(note.startswith("5 centers say little from k = 3 on") for note in found.notes())
    assert not any("say little" in note for note in kfed.compare_k(world.messages(), [2, 9], n_resamplings=2).notes())


def test_values_above_the_number_of_centers_are_left_out(world):
    sent = world.messages()[:2]
    assert kfed.compare_k(sent, [2, 6, 7, 50], n_resamplings=2).n_clusters.tolist() == [2, 6]
    with pytest.raises(kfed.TooFewCentersError, match="at most 6, the number of device centers; the least is 9"):
        kfed.compare_k(sent, [9])
    with pytest.raises(kfed.InvalidInputError, match="at least one number to compare"):
        kfed.compare_k(sent, [])


def test_values_that_leave_a_cluster_on_too_few_devices_are_left_out(world):
    found = kfed.compare_k(world.messages(), [2, 9, 30], n_resamplings=2, min_devices=3)
    assert found.n_clusters.tolist() == [2, 9]
    with pytest.raises(kfed.TooFewCentersError):
        kfed.compare_k(world.messages(), [30], n_resamplings=2, min_devices=3)


def test_without_spreads_the_table_says_that_costs_are_of_centers(world):
    plain = [kfed.DeviceMessage(one.device_id, one.centers, one.counts) for one in world.messages()]
    found = kfed.compare_k(plain, [2, 9], n_resamplings=2)
    assert found.share_known == 0
    assert any("those of the device centers" in note for note in found.notes())


def test_a_few_devices_that_say_no_spread_are_taken_as_the_others(world):
    sent = world.messages()
    plain = kfed.DeviceMessage(sent[0].device_id, sent[0].centers, sent[0].counts)
    every, most = (kfed.compare_k(own, [9], n_resamplings=2) for own in (sent, [plain, *sent[1:]]))
    assert most.costs[0] == pytest.approx(every.costs[0], rel=0.05)
    assert 0.8 < most.share_known < 1
    assert any("taken to spread as the others" in note for note in most.notes())


def test_agreement_is_the_adjusted_rand_index_of_the_rows():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, size=40)
    first, second = rng.integers(4, size=(2, 40))
    assert agreement(first, second, counts.astype(float)) == pytest.approx(
        adjusted_rand_score(np.repeat(first, counts), np.repeat(second, counts))
    )


def test_a_range_prints_the_table_and_writes_only_the_picture(folder):
    result = run("aggregate", *sorted(folder.glob("*.kfed")), "-k", "7-10", "--plot", "k.png")
    assert result.exit_code == 0
    assert result.stdout.startswith("9 clusters: ")
    assert "stability" in result.stdout
    table = [line for line in result.stdout.splitlines() if line.startswith(("│", "┃"))]
    assert len(table) == 5, "a line for each k on a terminal of 80 columns"
    assert "run this again with -k 9 --rule robust" in result.stderr
    assert (folder / "k.png").stat().st_size > 10_000
    assert not (folder / "clusters.kfed").exists()


def test_a_range_as_json_is_json_alone(folder):
    found = json.loads(run("aggregate", *sorted(folder.glob("*.kfed")), "-k", "8-10", "--json").stdout)
    assert found["recommended"] == 9
    assert found["n_clusters"] == [8, 9, 10]
    assert len(found["costs"]) == len(found["stability"]) == 3


def test_auto_without_a_clear_number_ends_in_the_table(tmp_path, monkeypatch, cloud):
    monkeypatch.chdir(tmp_path)
    for message in cloud:
        message.save(f"{message.device_id}.kfed")
    result = run("aggregate", *sorted(tmp_path.glob("*.kfed")), "-k", "auto")
    assert result.exit_code == 1
    assert result.stdout.startswith("no k stands out: ")
    assert "choose a number from the table" in result.stderr
    assert not Path("clusters.kfed").exists()


@pytest.mark.parametrize("text", ["0-3", "5-2", "2-", "-3", "2-x", "many"])
def test_a_bad_range_is_refused(folder, text):
    result = run("aggregate", "device-000.kfed", f"-k={text}")
    assert result.exit_code == 2
    assert "must be a number such as 7, numbers such as 2-12, or auto" in " ".join(result.stderr.split()).replace(
        "│ ", ""
    ).replace(" │", "")


def by_classes(points, classes, rng):
    """Devices of about 60 rows that hold about sqrt(k) classes each."""
    n_devices = int(np.clip(len(points) // 60, 4, 40))
    kinds = np.unique(classes)
    holds = [rng.choice(kinds, round(len(kinds) ** 0.5), replace=False) for _ in range(n_devices)]
    owners = np.empty(len(points), int)
    for kind in kinds:
        who = [z for z in range(n_devices) if kind in holds[z]] or [int(rng.integers(n_devices))]
        owners[classes == kind] = rng.choice(who, size=np.count_nonzero(classes == kind))
    return [points[owners == z] for z in range(n_devices) if np.count_nonzero(owners == z) > 3]


@pytest.mark.slow
@pytest.mark.skipif(not SETS.exists(), reason="needs the public benchmark sets")
@pytest.mark.parametrize(
    ("name", "k"), [("s2", 15), ("s3", 15), ("a1", 20), ("r15", 15), ("d31", 31), ("unbalance", 8)]
)
def test_public_sets_show_their_number_of_clusters(name, k):
    points = np.loadtxt(SETS / f"{name}.data.gz")
    classes = np.loadtxt(SETS / f"{name}.labels0.gz").astype(int)
    parts = by_classes(points / points.std(), classes, np.random.default_rng(0))
    local = kfed.cluster_fleet(parts, [min(10, len(part) // 4) for part in parts], random_state=0)
    sent = [own.to_message(f"{i:03}") for i, own in enumerate(local) if not own.withheld.all()]
    assert kfed.compare_k(sent, range(2, k + 5)).recommended == k
