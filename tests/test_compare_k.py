"""`compare_k`: exact costs from messages, stability without some devices, and a number only where one stands out."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

import kfed
from consoles import invoked as run
from k_worlds import changed, sent_by, square_of_places
from kfed.server import ComparisonWords, agreement
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
    assert str(found).startswith("9 clusters: stable when devices are resampled (agreement ")
    assert [line[:4] for line in str(found).splitlines() if "*" in line] == ["9 * "]


def test_no_k_stands_out_in_one_stretched_cloud(cloud):
    found = kfed.compare_k(cloud, range(2, 7), n_resamplings=8)
    assert found.recommended is None
    assert found.stability[0, 0] > 0.9, "halves of a stretched cloud are stable, and yet no clusters"
    assert str(found).startswith("no number of clusters stands out (2 at best): no k is clearly better")


def test_the_order_of_messages_and_the_number_of_threads_change_nothing(world, found):
    again = kfed.compare_k(world.messages()[::-1], range(2, 12), n_resamplings=8, n_jobs=1)
    assert again.to_dict() == found.to_dict()


def test_one_device_says_nothing_of_stability(world):
    found = kfed.compare_k(world.messages()[:1], [2])
    assert found.recommended is None
    assert np.isnan(found.stability).all()
    assert "all centers are from one device" in found.reason


def test_single_centers_as_clusters_are_not_recommended_and_few_centers_are_said_to_be_few(world):
    far = [kfed.DeviceMessage(f"{i}", [[1000.0 * i]], [20], [1.0]) for i in range(5)]
    found = kfed.compare_k(far, range(2, 6), n_resamplings=4)
    assert found.recommended != 5
    assert "5 centers say little from k = 3 on" in str(found)
    assert "compare larger ones" not in str(found), "each of the larger numbers would have clusters of one center"
    assert "say little" not in str(kfed.compare_k(world.messages(), [2, 9], n_resamplings=2))


def test_all_that_decides_between_numbers_is_named_and_only_those_that_could_be_taken(found):
    unstable = replace(found, weakest=np.full_like(found.weakest, 0.5), n_device_centers=12)
    assert ComparisonWords(unstable).taken_by == (
        f"k = {unstable.best} is the best of 2 to 6 with two centers for each cluster by how far the silhouette is "
        "above that of one cloud and by stability, also of the weakest cluster"
    )


def test_centers_of_one_device_are_not_each_a_cluster():
    rows = np.random.default_rng(0).normal(size=(200, 4))
    alone = [kfed.cluster_device(rows, random_state=0).to_message("a")]
    found = kfed.compare_k(alone, [2, 3, 4, 8, 16, 30], n_resamplings=2)
    assert found.n_clusters[-1] == 30
    assert (found.recommended, found.best) == (None, 2)
    assert "k = 2 is the smallest of 2 to 4, 8, 16 and 30" in ComparisonWords(found).taken_by
    places = 30 * np.random.default_rng(0).normal(size=(4, 4))
    groups = (places[np.arange(400) % 4] + np.random.default_rng(1).normal(size=(400, 4))).round(3)
    found = kfed.compare_k([kfed.cluster_device(groups, random_state=0).to_message("a")], range(2, 7), n_resamplings=2)
    assert found.best == 4
    assert ComparisonWords(found).taken_by == (
        "k = 4 is the best of 2 to 6 by how far the silhouette is above that of one cloud"
    )


def test_values_above_the_number_of_centers_are_left_out(world):
    sent = world.messages()[:2]
    assert kfed.compare_k(sent, [2, 6, 7, 50], n_resamplings=2).n_clusters.tolist() == [2, 6]
    at_most = "^k must be at most 6, the number of device centers; got 9$"
    with pytest.raises(kfed.TooFewCentersError, match=at_most):
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
    assert "those of the device centers" in str(found)


def test_a_few_devices_that_say_no_spread_are_taken_as_the_others(world):
    sent = world.messages()
    plain = kfed.DeviceMessage(sent[0].device_id, sent[0].centers, sent[0].counts)
    every, most = (kfed.compare_k(own, [9], n_resamplings=2) for own in (sent, [plain, *sent[1:]]))
    assert most.costs[0] == pytest.approx(every.costs[0], rel=0.05)
    assert 0.8 < most.share_known < 1
    assert "taken to spread as the others" in str(most)


def test_agreement_is_the_adjusted_rand_index_of_the_rows():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, size=40)
    first, second = rng.integers(4, size=(2, 40))
    assert agreement(first, second, counts.astype(float)) == pytest.approx(
        adjusted_rand_score(np.repeat(first, counts), np.repeat(second, counts))
    )


def test_a_range_prints_the_table_and_writes_only_the_picture(folder, full_dpi):
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
    assert found["warnings"] == []


def test_a_range_as_json_has_the_warnings_about_the_data(folder):
    sent = [kfed.DeviceMessage.load(path) for path in sorted(folder.glob("*.kfed"))]
    kfed.DeviceMessage("far", sent[0].centers + 1e4, sent[0].counts, sent[0].sums_of_squares).save("far.kfed")
    ran = run("aggregate", *sorted(folder.glob("*.kfed")), "-k", "8-10", "--json")
    [notice] = json.loads(ran.stdout)["warnings"]
    assert notice["code"] == "other scale"
    assert notice["text"] in ran.stderr


def test_why_a_number_was_taken_is_said_once(tmp_path, monkeypatch, cloud, few_compared):
    monkeypatch.chdir(tmp_path)
    for message in sites_of_four_groups(3, 30, 30):
        message.save(f"clear-{message.device_id}.kfed")
    for message in cloud:
        message.save(f"cloud-{message.device_id}.kfed")
    clear = run("aggregate", *sorted(tmp_path.glob("clear-*.kfed")), "-o", "clear.out")
    doubtful = run("aggregate", *sorted(tmp_path.glob("cloud-*.kfed")), "-o", "cloud.out")
    assert clear.output.count("stable when devices are resampled") == 1
    assert doubtful.output.count("no k is clearly better than one group") == 1
    assert "no k is clearly better than one group" in doubtful.stderr


def test_auto_without_a_clear_number_ends_in_the_table(tmp_path, monkeypatch, cloud, few_compared):
    monkeypatch.chdir(tmp_path)
    for message in cloud:
        message.save(f"{message.device_id}.kfed")
    result = run("aggregate", *sorted(tmp_path.glob("*.kfed")), "-k", "auto")
    assert result.exit_code == 1
    assert result.stdout.startswith("no number of clusters stands out (")
    assert "choose a number from the table" in result.stderr
    assert not Path("clusters.kfed").exists()


def test_one_number_is_nothing_to_compare(world):
    with pytest.raises(kfed.InvalidInputError, match="n_clusters must be a range or several numbers; got 3"):
        kfed.compare_k(world.messages(), 3)


@pytest.mark.parametrize("text", ["0-3", "5-0", "2-", "-3", "2-x", "many"])
def test_a_bad_range_is_refused(folder, text):
    result = run("aggregate", "device-000.kfed", f"--n-clusters={text}")
    assert result.exit_code == 2
    assert "must be a number such as 7, numbers such as 2-12, or auto" in " ".join(result.stderr.split()).replace(
        "│ ", ""
    ).replace(" │", "")


def test_of_a_range_the_smaller_number_comes_first(folder):
    said = " ".join(run("aggregate", "device-000.kfed", "-k", "5-2").stderr.replace("│", " ").split())
    assert "the smaller number comes first, as in 2-5; got 5-2" in said


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


def sites_of_four_groups(seed, n_rows_of_last, n_rows_of_others=60):
    """Five sites with two of four groups each, so many rows of each; the last may have many."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(4, 3)) * 10
    held = {"a": (0, 1), "b": (1, 2), "c": (2, 3), "d": (3, 0), "e": (3, 0)}
    sent = []
    for name, groups in held.items():
        n_rows = n_rows_of_last if name == "e" else n_rows_of_others
        rows = np.concatenate([rng.normal(places[group], size=(n_rows, 3)) for group in groups])
        sent.append(kfed.cluster_device(rows, random_state=0, device_id=name).to_message(name))
    return sent


@pytest.fixture(scope="module")
def four_groups():
    """Messages of sites of four groups, and what comparing numbers of clusters says of them."""
    sent = sites_of_four_groups(3, 30, 30)
    return sent, kfed.compare_k(sent, range(2, 8), n_resamplings=8)


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 5))])
def test_groups_of_few_rows_are_not_merged_for_the_sake_of_a_large_site(seed):
    assert kfed.compare_k(sites_of_four_groups(seed, 600), range(2, 8), n_resamplings=8).recommended == 4


def test_no_number_is_called_clear_where_one_site_has_nearly_all_rows():
    compared = kfed.compare_k(sites_of_four_groups(5, 6000), range(3, 6), n_resamplings=8)
    assert compared.recommended is None
    assert compared.reason == "one device has 96% of the rows, so resampling the others says little"


@pytest.mark.parametrize("seed", [1, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (4, 5))])
def test_of_one_large_site_the_best_number_is_the_clearest_of_the_stable_ones(seed):
    """Not the smallest of those that are as stable as can be."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(5, 6)) * 4 / np.sqrt(2)
    rows = [means[rng.integers(5, size=n_rows)] + rng.normal(size=(n_rows, 6)) for n_rows in (4000, 300)]
    sent = [own.to_message(f"{i}") for i, own in enumerate(kfed.cluster_fleet(rows, random_state=0))]
    compared = kfed.compare_k(sent, range(2, 9), n_resamplings=8)
    assert (compared.recommended, compared.best) == (None, 5)


def test_a_number_whose_clusters_do_not_nearly_always_come_back_stands_out_but_is_not_reliable(
    four_groups, monkeypatch
):
    sent, compared = four_groups
    assert compared.is_sure
    shaky = replace(compared, weakest=np.minimum(compared.weakest, 0.85))
    assert (shaky.recommended, shaky.is_sure) == (4, False)
    monkeypatch.setattr("kfed.server.k.finding.compare_k", lambda *args, **options: shaky)
    with pytest.warns(
        kfed.AggregationWarning,
        match=r"4 clusters stand out, but not reliably: weakest cluster 0\.85, reliable from 0\.9; stable when",
    ):
        found = kfed.aggregate(sent)
    assert (found.n_clusters, found.k_choice.is_reliable) == (4, False)


def devices_of_groups_of_clusters():
    """Ten devices that are alike: four groups of four clusters, 8 standard deviations apart, and groups 40."""
    rng = np.random.default_rng(0)
    places = (square_of_places(2, 40.0)[:, None] + square_of_places(2, 8.0)).reshape(-1, 2)
    classes = rng.permutation(np.repeat(np.arange(16), 40))
    return np.split(places[classes] + rng.normal(size=(len(classes), 2)), 10)


@pytest.mark.slow
def test_a_few_groups_of_many_clusters_are_not_taken_for_the_clusters(few_compared):
    found = kfed.aggregate(sent_by(devices_of_groups_of_clusters(), None))
    assert (found.n_clusters, found.k_choice.is_reliable) == (16, True)
    assert "k = 16 stands out among 2 to 6 and 11 to 19" in found.k_choice.reason


def test_a_number_that_stands_out_is_not_reliable_if_distances_and_cost_name_another(
    four_groups, few_compared, monkeypatch
):
    sent, _ = four_groups
    named = replace(kfed.choose_n_clusters(sent), n_clusters=7, is_reliable=False)
    monkeypatch.setattr("kfed.server.k.finding.choose_k", lambda *args: named)
    with pytest.warns(kfed.AggregationWarning, match="4 clusters stand out, but not reliably"):
        found = kfed.aggregate(sent)
    assert (found.n_clusters, found.k_choice.is_reliable, found.k_choice.agreement) == (4, False, False)
    assert found.k_choice.reason.startswith("the gaps between centers suggest 7; stable when")
    compared = found.k_choice.comparison
    assert (compared.recommended, compared.is_sure) == (4, False)
    assert ComparisonWords(compared).conclusion().text == str(found.k_choice), "one statement, wherever it is made"
    monkeypatch.setattr("kfed.server.k.comparing.choose_k", lambda *args: named)
    alone = kfed.compare_k(sent, range(2, 7), n_resamplings=6)
    assert (alone.is_sure, alone.doubt) == (False, "the gaps between centers suggest 7")
    assert ComparisonWords(alone).finding == found.k_choice.finding
    assert kfed.Aggregation.from_bytes(found.to_bytes()).k_choice.comparison.doubt == compared.doubt
    assert found.k_choice.reason.endswith("k = 4 stands out among 2 to 10")


def test_where_the_silhouette_still_rises_more_numbers_are_compared_as_if_all_were_at_once(four_groups, monkeypatch):
    sent, _ = four_groups
    at_once = kfed.compare_k(sent, range(2, 8), rule="robust", n_resamplings=4)
    asked = []

    def compared(batch, values, **options):
        asked.append(sorted(values))
        return kfed.compare_k(batch, values, n_resamplings=4, **options)

    monkeypatch.setattr("kfed.server.k.finding.choose_k", lambda *args: unsure)
    unsure = replace(kfed.choose_n_clusters(sent), n_clusters=100, is_reliable=False)
    monkeypatch.setattr("kfed.server.k.finding.compare_k", compared)
    monkeypatch.setattr("kfed.server.k.finding.COMPARED", range(2, 5))
    monkeypatch.setattr("kfed.server.k.finding.MORE", range(5, 8))
    found = kfed.aggregate(sent, rule="robust").k_choice.comparison
    assert asked == [[2, 3, 4], [5, 6, 7]], "no number is compared twice"
    counted = "the gaps between centers suggest 100"
    assert found.to_dict() == replace(at_once, doubt=counted).to_dict()


def test_where_there_are_no_more_centers_the_numbers_that_were_compared_are_all(monkeypatch):
    sent = [kfed.DeviceMessage(f"{i}", [[float(i % 4)], [i % 4 + 40.0]], [20] * 2, [1.0] * 2) for i in range(3)]
    unsure = replace(kfed.choose_n_clusters(sent), n_clusters=100, is_reliable=False)
    monkeypatch.setattr("kfed.server.k.finding.choose_k", lambda *args: unsure)
    monkeypatch.setattr("kfed.server.k.finding.rises_at_the_end", lambda found: True)
    assert kfed.aggregate(sent).k_choice.comparison.n_clusters.tolist() == [2, 3, 4, 5, 6]


def test_a_number_that_needs_a_cluster_of_one_center_is_not_reliable(four_groups, few_compared):
    sent = [*four_groups[0]]
    assert kfed.aggregate(sent).k_choice.is_reliable
    far = np.array(sent[0].centers.max(axis=0) + 40.0)
    centers, counts = np.vstack([sent[0].centers, far]), [*sent[0].counts, 5]
    squares = [*sent[0].sums_of_squares, 5.0]
    sent[0] = changed(sent[0], centers=centers, counts=counts, sums_of_squares=squares, spectral_deviation=None)
    with pytest.warns(kfed.AggregationWarning, match="a cluster is a single center"):
        found = kfed.aggregate(sent, rule="pooled")
    assert (found.n_clusters, found.k_choice.is_reliable) == (5, False)
