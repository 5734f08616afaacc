import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import kfed
from consoles import invoked as run
from kfed._base import figures
from kfed.insight import assessment, cluster_report, diagnose, diagnose_data, diagnosis, plot_traversal
from kfed.server import Without
from test_k_words import clusters_of
from worlds import mixture_world

pytestmark = pytest.mark.usefixtures("few_compared_in_module")


@pytest.fixture(scope="module")
def world():
    return mixture_world(9, 20, devices_per_group=4, gap=12.0, points_per_cluster=30)


@pytest.fixture(scope="module")
def clusters(world, tmp_path_factory):
    path = tmp_path_factory.mktemp("diagnosis") / "clusters.kfed"
    kfed.aggregate(world.messages(), 9).save(path)
    return path


def test_what_people_ask_comes_first_and_the_theorem_last(clusters):
    lines = run("diagnose", clusters).stdout.splitlines()
    assert re.match(r"clear: even the nearest clusters \d and \d are \d+\.\d standard deviations apart", lines[0])
    assert re.match(r"The clustering explains \d+% of the variance of the rows.", lines[2])
    assert any(line.startswith("the centers show 9 clusters: ") for line in lines)
    verdict = next(at for at, line in enumerate(lines) if line.startswith("not guaranteed: "))
    assert verdict > lines.index("How good the clusters are")
    assert lines[verdict - 2] == "The paper's guarantee"
    assert lines[verdict + 2].startswith("The paper's main theorem does not vouch for these clusters.")


def test_gaps_are_those_of_the_rows_along_the_line_between_means(world, clusters):
    result = kfed.Aggregation.load(clusters)
    points, labels = np.concatenate(world.points), result.predict(np.concatenate(world.points))
    means = np.array([points[labels == r].mean(axis=0) for r in range(9)])
    gaps = diagnose(result).assessment.gaps
    for r, s in ((0, 1), (3, 7)):
        line = (means[r] - means[s]) / np.linalg.norm(means[r] - means[s])
        spread = np.concatenate([(points[labels == t] - means[t]) @ line for t in (r, s)])
        assert gaps[r, s] == pytest.approx(np.linalg.norm(means[r] - means[s]) / np.sqrt(np.mean(spread**2)), rel=0.15)


def test_overlapping_clusters_are_said_to_be_so_and_what_to_do():
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(200, 2)) for _ in range(10)]
    sent = [one.to_message(f"{i}") for i, one in enumerate(kfed.cluster_fleet(points, 6, random_state=0))]
    found = diagnose(kfed.aggregate(sent, 5, rule="robust"))
    assert found.assessment.conclusion().answer in ("unstable", "overlapping")
    assert found.assessment.conclusion().is_good is False
    assert any("kfed aggregate -k 2-12" in text for text in found.assessment.advice())


@pytest.mark.parametrize("n_clusters", [9, "auto"])
def test_unstable_clusters_are_advised_only_what_was_not_done(world, monkeypatch, n_clusters):
    kept = [Without("0", 0.8), Without("1", 0.85), Without("2", 1.0)]
    monkeypatch.setattr(assessment, "without_each", lambda _: kept)
    found = diagnose(kfed.aggregate(world.messages(), n_clusters))
    (advice,) = found.assessment.advice()
    assert ("kfed aggregate -k 2-12" in advice) == (n_clusters == 9)
    assert ("depend on '0', '1': look at the rows there" in advice) == (n_clusters == "auto")
    assert "at least 80% of the rows of the others keep their cluster, 88% on average." in str(
        found.assessment.conclusion().meaning
    )
    assert found.evidence.startswith("when devices are resampled, the centers show 9 clusters")
    assert any("along the line between two clusters" in note for note in found.notes)


def test_without_sums_of_squares_the_same_number_is_shown_as_aggregating_finds():
    rng = np.random.default_rng(0)
    sent = [kfed.DeviceMessage(f"{z}", rng.normal(size=(6, 2)), [10] * 6) for z in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        found, given = kfed.aggregate(sent).k_choice, kfed.aggregate(sent, 5)
    assert found.comparison is not None
    shown = diagnose(given).details["k_choice"]
    assert (shown["n_clusters"], shown["reason"]) == (found.n_clusters, found.reason)


def test_a_device_that_fits_badly_is_named(world):
    sent = world.messages()
    odd = sent[0]
    wide = kfed.DeviceMessage(odd.device_id, odd.centers, odd.counts, np.asarray(odd.sums_of_squares) * 9)
    found = diagnose(kfed.aggregate([wide, *sent[1:]], 9)).assessment
    assert any(repr(odd.device_id) in text and "fits badly" in text for text in found.advice())
    (devices,) = [table for table in found.tables() if "Devices" in table.title]
    assert [row[0] for row in devices.rows] == [odd.device_id], "and none that fits as well as most"


def test_devices_that_clusters_depend_on_are_listed_and_no_others(world, monkeypatch):
    first, second, third = [one.device_id for one in world.messages()[:3]]
    kept = [Without(first, 1.0), Without(second, 0.8), Without(third, 0.7)]
    monkeypatch.setattr(assessment, "without_each", lambda _: kept)
    tables = list(diagnose(kfed.aggregate(world.messages(), 9)).assessment.tables())
    assert [table.title for table in tables[1:]] == ["Devices that the clusters depend on"]
    assert [(row[0], row[-1]) for row in tables[1].rows] == [(third, "70.0%"), (second, "80.0%")]


def refined(messages, local, points, n_clusters):
    """The clusters of first messages, and those after a second message of every device."""
    first = kfed.aggregate(messages, n_clusters)
    second = [
        kfed.refine_device(one, first.identity(message.device_id), rows).to_message(message.device_id)
        for rows, one, message in zip(points, local, messages, strict=True)
    ]
    return first, kfed.aggregate_refined(first, second)


@pytest.mark.parametrize("n_clusters", [2, 4])
def test_second_messages_do_not_make_clusters_stable(n_clusters):
    rng = np.random.default_rng(0)
    points = [rng.normal(20.0 * (z == 0), size=(60, 2)) for z in range(4)]
    local = kfed.cluster_fleet(points, random_state=0)
    sent = [one.to_message(f"{i}") for i, one in enumerate(local)]
    _, again = refined(sent, local, points, n_clusters)
    found = diagnose(again).assessment
    assert found.without == ()
    assert found.conclusion().is_good is not True
    assert "is not known from second messages" in str(found.conclusion().meaning)
    assert "keep their cluster" not in str(found.conclusion())
    assert not any("depend on" in table.title or "kept" in str(table.headings) for table in found.tables())
    assert "refined by second messages, which do not tell" in str(cluster_report(again, "Clusters").sections[0])


def test_clear_clusters_stay_open_after_a_second_message():
    rng = np.random.default_rng(0)
    points = [np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 20]) for _ in range(4)]
    local = kfed.cluster_fleet(points, random_state=0)
    first, again = refined([one.to_message(f"{i}") for i, one in enumerate(local)], local, points, 2)
    assert diagnose(first).assessment.conclusion().is_good is True
    said = diagnose(again).assessment.conclusion()
    assert said.text.startswith("clear, but stability is not known: even the nearest clusters 0 and 1 are")
    assert said.is_good is None


@pytest.mark.parametrize("n_clusters", ["auto", pytest.param(2, marks=pytest.mark.slow)])
def test_slices_of_one_cloud_are_not_called_distinguishable(n_clusters):
    rng = np.random.default_rng(0)
    local = kfed.cluster_fleet([rng.normal(size=(300, 3)) * [6, 1, 1] for _ in range(6)], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        result = kfed.aggregate([one.to_message(f"{i}") for i, one in enumerate(local)], n_clusters)
    said = diagnose(result).assessment.conclusion()
    assert said.text.startswith("no number of clusters stands out: clusters 0 and 1 are 2.")
    assert said.is_good is False
    warned = cluster_report(result, "Slices").sections[1]
    assert warned.title == "Look at this first"
    assert "cutting a single group in two gives about 2.65" in str(warned.blocks)


def test_clear_clusters_of_one_device_are_not_called_a_cut_of_the_rows():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        result = kfed.aggregate([kfed.cluster_device(rows, random_state=0).to_message("alone")])
    found = diagnose(result)
    assert found.assessment.conclusion().text.startswith("clear, but stability is not known: even the nearest clusters")
    page = str(found.report("One").sections[:2])
    assert "no distinct groups" not in page
    assert page.count("all centers are from one device, so stability across devices is unknown") == 1


def test_separated_clusters_survive_without_any_one_device():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    sent = [message(f"{i}", *(places + rng.normal(size=(3, 2)) / 3)) for i in range(6)]
    kept = {one.device_id: one.share_kept for one in diagnose(kfed.aggregate(sent, 3)).assessment.without}
    assert set(kept) == set("012345")
    assert min(kept.values()) == 1


def test_few_centers_are_too_few_to_tell():
    sent = [message(f"{i}", [100 * i, 0], [100 * i + 100, 0]) for i in range(3)]
    found = diagnose(kfed.aggregate(sent, 4))
    assert found.assessment.conclusion().text == "too few centers to tell: 6 centers for 4 clusters"
    assert not any("drop clearly" in text for text in (*found.warnings, found.evidence))
    assert "keep their cluster" not in str(found.assessment.conclusion().meaning), "too few to tell that, too"


def test_what_few_centers_show_is_not_said_beside_that_they_are_too_few_to_tell():
    sent = [message(f"{i}", [0, 0], [100, 0]) for i in range(2)]
    result = kfed.aggregate(sent, 2)
    found = diagnose(result)
    assert kfed.choose_n_clusters(sent).is_reliable, "otherwise this tests nothing"
    assert found.assessment.conclusion().text == "too few centers to tell: 4 centers for 2 clusters"
    assert found.evidence == ""


def test_the_table_agrees_with_the_certificate(clusters):
    certificate = kfed.Aggregation.load(clusters).certificate()
    text = run("diagnose", clusters).stdout
    assert all(value in text for _, value in certificate.facts())
    assert all(note in text for note in certificate.notes)


def test_json_is_json_alone_and_holds_certificate_and_traversal(clusters):
    found = json.loads(run("diagnose", clusters, "--json").stdout)
    result = kfed.Aggregation.load(clusters)
    assert found["is_guaranteed"] is False
    assert found["certificate"] == json.loads(json.dumps(result.certificate().to_dict()))
    assert found["k_choice"]["n_clusters"] == 9
    assert found["k_choice"]["distances"] == sorted(found["k_choice"]["distances"], reverse=True)


def test_clusters_far_enough_apart_are_guaranteed():
    world = mixture_world(9, 20, devices_per_group=2, gap=20_000.0)
    found = diagnose(kfed.aggregate(world.messages(), 9))
    assert (found.verdict, found.is_guaranteed) == ("guaranteed", True)


def test_a_number_of_clusters_that_centers_do_not_show_is_warned_of(world):
    found = diagnose(kfed.aggregate(world.messages(), 6))
    assert any(text.startswith("6 clusters were asked for, but the centers clearly show 9") for text in found.warnings)
    assert not any("were asked for" in text for text in diagnose(kfed.aggregate(world.messages(), 9)).warnings)


def test_another_number_than_the_one_that_stands_out_is_warned_of_without_contradiction(world):
    sent = world.messages()
    choice = kfed.choose_n_clusters(sent)
    compared = kfed.compare_k(sent, range(7, 11), n_resamplings=4)
    six = kfed.aggregate(sent, 6)
    outstanding = replace(choice, is_reliable=False, comparison=compared, reason="because")
    assert list(diagnosis._doubts_about_k(six, outstanding)) == [
        "6 clusters were asked for; 9 clusters stand out, but not reliably: because"
    ]
    none = replace(choice, n_clusters=2, is_reliable=False, comparison=None, reason="because")
    assert list(diagnosis._doubts_about_k(six, none)) == [
        "6 clusters were asked for, and no number of clusters stands out (2 at best): because"
    ]
    one = kfed.aggregate(sent, 1)
    assert list(diagnosis._doubts_about_k(one, none)) == [], "that none stands out is no doubt about one"
    assert next(diagnosis._doubts_about_k(one, choice)).startswith("1 cluster was asked for, but the centers")


@pytest.mark.parametrize("is_unstable", [False, True])
def test_a_number_that_is_not_reliable_is_said_once_and_beside_instability_as_an_average(monkeypatch, is_unstable):
    found = clusters_of("stands out")
    first, second = found.messages.device_ids[:2]
    kept = [Without(first, 0.7 if is_unstable else 1.0), Without(second, 1.0)]
    monkeypatch.setattr(assessment, "without_each", lambda _: kept)
    judged = diagnose(found)
    page = str(judged.report("clusters").sections[:2])
    assert page.count("4 clusters stand out, but not reliably") == 1
    said = "when devices are resampled, 4 clusters stand out, but not reliably: weakest cluster 0.87"
    assert (f"{said}, reliable from 0.9'" in page) == is_unstable
    assert ("k = 4 stands out" in page) != is_unstable, "said once is enough there"
    report = str(cluster_report(found, "clusters").sections[1])
    assert (f"unstable: without {first!r}, 30% of the rows of others change their cluster" in report) == is_unstable
    assert report.count("when devices are resampled, 4 clusters stand out") == is_unstable


@pytest.fixture(scope="module")
def page(clusters, tmp_path_factory):
    """The page that `kfed diagnose` writes."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    assert run("diagnose", clusters, "--html", path).exit_code == 0
    return path.read_text()


@pytest.mark.slow
def test_pictures_fit_on_phones_and_have_a_margin_on_dark_pages(page):
    assert "min-width: 30rem" not in page
    assert "figure img { padding: .6rem; }" in page


def test_more_clusters_than_centers_could_show_are_said_to_be_too_many_to_judge():
    sent = [message(f"{i}", [100 * i, 0], [100 * i + 100, 0]) for i in range(3)]
    warnings = diagnose(kfed.aggregate(sent, 5)).warnings
    assert "5 clusters were asked for, but the centers are too few to tell: they can show at most 4" in warnings


def test_the_page_holds_its_pictures_and_asks_nothing_of_a_network(page):
    assert page.count('<img src="data:image/png;base64,') == 3
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|url\(|@import|<script", page)
    order = [
        "<strong>Clear.</strong>",
        "How good the clusters are",
        "How many clusters the centers show",
        "Not guaranteed.",
    ]
    assert sorted(order, key=page.index) == order


def test_names_from_messages_do_not_become_html():
    sent = [kfed.DeviceMessage(f"<script>{i}", [[0.0], [9e9]], [5, 5]) for i in range(3)]
    page = diagnose(kfed.aggregate(sent, 2)).to_html("<b>").decode()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<h1>&lt;b&gt;</h1>" in page


def test_the_picture_marks_the_drop(world):
    choice = kfed.choose_n_clusters(world.messages())
    ax = plot_traversal(choice, 6, ax=figures.new_figure(6, 4).add_subplot())
    marked = [line for line in ax.lines if list(line.get_xdata()) == [9, 10]]
    assert len(marked) == 1
    np.testing.assert_array_equal(marked[0].get_ydata(), choice.distances[7:9])
    assert any("6 were asked for" in text.get_text() for text in ax.texts)


def test_messages_without_spread_leave_it_unknown_or_say_what_they_lack():
    sent = [kfed.DeviceMessage(f"{i}", [[0.0], [9e9]], [5, 5]) for i in range(3)]
    found = diagnose(kfed.aggregate(sent, 2))
    assert found.is_guaranteed is None
    assert "sent no spectral deviation" in found.verdict
    assert found.to_html("page")


def test_one_cluster_and_one_center_have_a_page_too():
    found = diagnose(kfed.aggregate([kfed.DeviceMessage("a", [[1.0, 2.0]], [9], [3.0], 1.0)], 1))
    assert found.is_guaranteed is True
    assert found.to_html("page")


# Of rows and labels ---------------------------------------------------------------------------------------------


@pytest.fixture
def tables(world, tmp_path):
    """The rows of three devices and their target clusters, as files; the same in one file."""
    every = ["site,patient,a,b"]
    truth = ["patient,group"]
    paths = []
    for z in range(3):
        points, target = world.points[z][:, :2], world.targets[z]
        ids = [f"p{z}-{i}" for i in range(len(points))]
        rows = [f"{name},{x:.9g},{y:.9g}" for name, (x, y) in zip(ids, points, strict=True)]
        labels = [f"{name},{label}" for name, label in zip(ids, target, strict=True)]
        data, own = tmp_path / f"site{z}.csv", tmp_path / f"labels{z}.csv"
        data.write_text("\n".join(["patient,a,b", *rows]))
        own.write_text("\n".join(["patient,group", *labels]))
        every += [f"site{z},{row}" for row in rows]
        truth += labels
        paths += ["--data", data, "--labels", own]
    (tmp_path / "all.csv").write_text("\n".join(every))
    (tmp_path / "truth.csv").write_text("\n".join(truth))
    return paths


def test_rows_with_labels_are_judged_as_the_report_judges_them(world, tables, tmp_path):
    found = json.loads(run("diagnose", *tables, "--id-column", "patient", "--json").stdout)
    points = [np.round(own[:, :2], 9) for own in world.points[:3]]
    report = kfed.separation_report(points, list(world.targets[:3]))
    assert found["spectral_deviation"] == pytest.approx(report.spectral_deviation, rel=1e-6)
    assert found["cluster_sizes"] == report.cluster_sizes.tolist()
    assert found["device_ids"] == ["site0", "site1", "site2"]


def test_one_file_with_a_device_column_says_the_same(tables, tmp_path):
    apart = json.loads(run("diagnose", *tables, "--id-column", "patient", "--json").stdout)
    data, truth = tmp_path / "all.csv", tmp_path / "truth.csv"
    options = ["--device-column", "site", "--id-column", "patient", "--json"]
    assert json.loads(run("diagnose", "--data", data, "--labels", truth, *options).stdout) == apart


def test_devices_whose_points_fail_are_named(world):
    points = [own.copy() for own in world.points]
    points[2][:40] = points[2][60]
    found = diagnose_data(kfed.separation_report(points, list(world.targets)))
    table = next(table for table in found.tables if table.title.startswith("Devices"))
    assert table.rows[0][0] == "2"
    assert len(table.rows) <= diagnosis.N_DEVICES_NAMED


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either one file"),
        (["--data", "site0.csv"], "give either one file"),
        (
            ["--data", "site0.csv", "--data", "site1.csv", "--labels", "labels0.csv"],
            "for each --data; got 1 for 2",
        ),
        (
            ["--data", "site0.csv", "--labels", "truth.csv", "--id-column", "patient"],
            "must be one label for each row",
        ),
        (["--data", "site1.csv", "--labels", "labels0.csv", "--id-column", "patient"], "must name the rows of"),
        (["--data", "all.csv", "--labels", "truth.csv", "--device-column", "ward"], "there is no column 'ward'"),
        (["clusters.kfed", "--html", "page.html", "--plot", "page.txt"], "must end in .png, .svg or .pdf"),
        (["all.csv"], "all.csv"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(arguments, said, tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = run("diagnose", *arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert sorted(tmp_path.iterdir()) == before


# What an aggregation warns of -----------------------------------------------------------------------------------


def message(name, *centers):
    return kfed.DeviceMessage(name, np.array(centers, float), [10] * len(centers), [1.0] * len(centers), 1.0)


def test_a_cluster_on_a_single_center_is_warned_of_once():
    sent = [message("a", [0, 0], [9, 0]), message("b", [0, 0], [0, 9])]
    with pytest.warns(
        kfed.AggregationWarning, match="2 of 3 clusters each rest on a single device center.* robust"
    ) as caught:
        result = kfed.aggregate(sent, 3)
    assert len(caught) == 1
    assert len(result.notices) == 2
    assert "; ".join(notice.text for notice in result.notices) == str(caught[0].message)


def test_too_many_clusters_on_a_device_are_warned_of():
    sent = [message(name, [0, 0], [9, 0], [0, 9]) for name in "ab"]
    assert "more than sqrt(k) = 1.73" in kfed.aggregate(sent, 3).notices[0].text


def test_a_found_number_without_a_second_opinion_is_warned_of():
    places = np.array([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]])
    sent = [kfed.DeviceMessage(f"{i}", places + i / 10, [5] * 3) for i in range(4)]
    found = kfed.aggregate(sent, "auto")
    assert any("could not be cross-checked" in notice.text for notice in found.notices)


def test_what_is_heterogeneous_and_shared_warns_of_nothing(world):
    assert kfed.aggregate(world.messages(), 9).notices == ()


def test_one_device_alone_warns_of_nothing():
    assert kfed.aggregate([message("a", [0, 0], [9, 0])], 2).notices == ()


def test_the_command_line_says_warnings_and_the_found_number(world, tmp_path):
    paths = [tmp_path / f"{one.device_id}.kfed" for one in world.messages()]
    for path, one in zip(paths, world.messages(), strict=True):
        one.save(path)
    result = run("aggregate", *paths, "-k", "auto", "--rule", "robust", "-o", tmp_path / "clusters.kfed", "--json")
    facts = json.loads(result.stdout)
    assert facts["n_clusters"] == 9
    assert facts["k_choice"].startswith("9 clusters: ")
    fewer = run("aggregate", *paths, "-k", "3", "-o", tmp_path / "three.kfed")
    assert "kfed: warning: a device has 3 of the 3 clusters" in fewer.stderr


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", ""])
def test_a_number_of_clusters_must_be_one_or_auto(given, tmp_path):
    result = run("aggregate", tmp_path / "a.kfed", "-k", given)
    assert result.exit_code == 2
    assert "auto" in result.stderr


def test_no_reliable_number_ends_in_a_table_of_candidates(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(12):
        kfed.DeviceMessage(f"{i}", rng.normal(size=(4, 3)), [20] * 4, [60.0] * 4, 9.0).save(tmp_path / f"{i}.kfed")
    result = run("aggregate", *sorted(tmp_path.iterdir()), "-k", "auto", "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stdout.startswith("no number of clusters stands out (")
    assert "choose a number from the table" in result.stderr
    assert not (tmp_path / "out").exists()


def test_of_summaries_the_diagnosis_finds_the_number_of_clusters_that_aggregate_finds():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    devices = [places[rng.integers(3, size=60)] + rng.normal(size=(60, 2)) for _ in range(6)]
    sent = [kfed.cluster_device(rows, random_state=0).to_message(f"{i}") for i, rows in enumerate(devices)]
    found = kfed.aggregate(sent).k_choice
    of_four = diagnose(kfed.aggregate(sent, 4))
    assert of_four.details["k_choice"]["n_clusters"] == found.n_clusters == 3
