"""Profiles and `kfed report`: what clusters are, in the units of the tables, on one page without a network."""

import csv
import json
import re

import numpy as np
import pytest

import kfed
from consoles import invoked as run
from kfed._base.figures import new_figure
from kfed.insight import cluster_report, plot_centers, to_html, to_markdown
from kfed.wire import Column, Details

SCHEMA = kfed.FeatureSchema.of_columns(
    [Column("income"), Column("age"), Column("sex", "category", ("f", "m")), Column("constant")]
)


def rows_of(device, group, n_rows=80):
    """Rows of one of two groups: young women and old men."""
    rng = np.random.default_rng([device, group])
    is_man = rng.random(n_rows) < (0.1, 0.9)[group]
    income, age = rng.normal((30_000, 50_000)[group], 4_000, n_rows), rng.normal((30, 60)[group], 5, n_rows)
    return np.column_stack([income, age, ~is_man, is_man, np.full(n_rows, 7.0)])


def message_of(name, tables):
    centers = np.array([rows.mean(axis=0) for rows in tables])
    squares = np.array([np.square(rows - rows.mean(axis=0)).sum(axis=0) for rows in tables])
    counts = np.array([len(rows) for rows in tables])
    details = Details(observed=np.repeat(counts[:, None], 5, axis=1).astype(float), squares=squares)
    return kfed.DeviceMessage(name, centers, counts, squares.sum(axis=1), schema=SCHEMA, details=details)


@pytest.fixture(scope="module")
def tables():
    return {f"site{z}": [rows_of(z, 0), rows_of(z, 1)] for z in range(4)} | {"site<b>": [rows_of(9, 0)]}


@pytest.fixture(scope="module")
def result(tables):
    return kfed.aggregate([message_of(name, own) for name, own in tables.items()], 2)


@pytest.fixture(scope="module")
def plain():
    """Centers of arrays, with one sum of squares for each."""
    rng, places = np.random.default_rng(0), np.array([[0.0], [9.0]])
    sent = [kfed.DeviceMessage(f"{z}", rng.normal(size=(2, 16)) + places, [20, 30], [40.0, 40.0]) for z in range(3)]
    return kfed.aggregate(sent, 2)


def old_of(result):
    return int(result.cluster_centers[:, 1].argmax())


def test_means_and_spreads_are_those_of_the_rows(result, tables):
    profile, old = result.profile(), old_of(result)
    rows = np.concatenate([own[1] for own in tables.values() if len(own) == 2])
    everyone = np.concatenate([part for own in tables.values() for part in own])
    np.testing.assert_allclose(profile.means[old], rows.mean(axis=0))
    np.testing.assert_allclose(profile.spreads[old], rows.std(axis=0), atol=1e-9)
    np.testing.assert_allclose(profile.overall_spreads, everyone.std(axis=0), atol=1e-9)
    np.testing.assert_allclose(profile.shares.sum(), 1)
    assert profile.rows_on_devices.sum() == len(everyone)


def test_what_sets_a_cluster_apart_comes_first_and_a_constant_column_last(result):
    profile, old = result.profile(), old_of(result)
    telling = [profile.names[j] for j in profile.telling(old)]
    assert set(telling[:2]) == {"age", "income"}
    assert telling[-1] == "constant"
    assert profile.in_words(old, 1).startswith(("much higher age (6", "much higher income (5"))
    assert "more often sex=m (8" in profile.in_words(old, 4) or "more often sex=m (9" in profile.in_words(old, 4)


def test_an_agreed_scale_is_undone():
    columns = [Column("age", shift=50.0, scale=10.0)]
    schema = kfed.FeatureSchema.of_columns(columns, scaling="agreed")
    sent = [kfed.DeviceMessage("a", [[-1.0], [1.0]], [10, 10], [1.0, 1.0], schema=schema)]
    assert sorted(kfed.aggregate(sent, 2).profile().means.ravel()) == pytest.approx([40.0, 60.0])


def test_dates_are_shown_as_dates():
    schema = kfed.FeatureSchema.of_columns([Column("admitted", "date")])
    details = Details(observed=np.full((2, 1), 20.0), squares=np.full((2, 1), 2_000.0))
    sent = [kfed.DeviceMessage("a", [[0.0], [19_723.0]], [20, 20], [2_000.0] * 2, schema=schema, details=details)]
    profile = kfed.aggregate(sent, 2).profile()
    late = int(profile.means[:, 0].argmax())
    assert profile.in_words(late) == "later admitted (2024-01-01; overall 1997-01-01)"
    assert profile.shown_spread(late, 0) == "10 days"


def test_dates_are_written_as_dates_in_csv_and_json(tmp_path):
    schema = kfed.FeatureSchema.of_columns([Column("admitted", "date"), Column("age")])
    details = Details(observed=np.full((2, 2), 10.0), squares=np.full((2, 2), 40.0))
    message = kfed.DeviceMessage("a", [[0.0, 30.0], [30.0, 60.0]], [10, 10], [80.0] * 2, schema=schema, details=details)
    kfed.aggregate([message], 2).save(tmp_path / "clusters.kfed")
    run("report", tmp_path / "clusters.kfed", "--csv", tmp_path / "profiles.csv")
    with open(tmp_path / "profiles.csv", encoding="utf-8") as file:
        written = [line for line in csv.DictReader(file) if line["column"] == "admitted"]
    assert {line["mean"] for line in written} == {"1970-01-01", "1970-01-31"}
    assert {line["mean_of_all"] for line in written} == {"1970-01-16"}
    told = json.loads(run("report", tmp_path / "clusters.kfed", "--json").stdout)["profiles"]
    assert {one["mean"] for one in told if one["column"] == "admitted"} == {"1970-01-01", "1970-01-31"}
    assert {one["mean"] for one in told if one["column"] == "age"} == {30.0, 60.0}


def test_arrays_have_profiles_without_spreads(plain):
    profile = plain.profile()
    assert profile.spreads is None
    assert profile.names[:2] == ("feature 0", "feature 1")
    assert np.abs(profile.differences).max() > 0.5


def test_profiles_are_data_frames_too(result):
    frame = result.profile().to_frame()
    assert frame.loc[(old_of(result), "age"), "mean"] == pytest.approx(60, abs=2)
    assert frame.shape == (10, 5)


def test_the_page_is_one_file_with_a_summary_on_top(result, tmp_path):
    result.save(tmp_path / "clusters.kfed")
    (tmp_path / "names.json").write_text(json.dumps({str(old_of(result)): "old <men>"}))
    page, table = tmp_path / "report.html", tmp_path / "profiles.csv"
    out = run("report", tmp_path / "clusters.kfed", "--html", page, "--csv", table, "--names", tmp_path / "names.json")
    assert out.exit_code == 0
    text = page.read_text()
    assert "720 rows of 5 devices are in 2 clusters." in text
    assert "old &lt;men&gt;" in text
    assert "site&lt;b&gt;" in text
    assert "<men>" not in text
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|url\(|@import|<script", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    records = list(csv.DictReader(table.read_text().splitlines()))
    assert len(records) == 10
    assert {record["name"] for record in records} == {"old <men>", f"cluster {1 - old_of(result)}"}


def test_names_stay_as_they_were_given_and_the_rule_and_the_shares_are_explained(result):
    report = cluster_report(result, "Clusters", {0: "pH low", 1: "eGFR"})
    page = to_html(report).decode()
    assert "pH low" in page
    assert "PH low" not in page + to_markdown(report)
    assert "EGFR" not in page + to_markdown(report)
    assert "<h2>Cluster 0, pH low</h2>" in page
    assert f"The clusters were found by the {result.rule} rule." in page
    assert "kfed label looks at each row, so its counts can differ" in page


def test_a_name_that_begins_like_a_number_stays_whole(result):
    page = to_html(cluster_report(result, "Clusters", {0: "cluster of the elderly"})).decode()
    assert "<th class=number>cluster of the elderly</th><th class=number>1</th>" in page


def test_images_are_shown_where_features_are_pixels(plain, tmp_path):
    page = to_html(cluster_report(plain, "Digits", image_shape=(4, 4))).decode()
    assert page.count("data:image/png;base64,") == 2
    named = [
        kfed.DeviceMessage(one.device_id, one.centers, one.counts, feature_names=[f"pixel{i}" for i in range(16)])
        for one in map(plain.messages.message, plain.messages.device_ids)
    ]
    assert to_html(cluster_report(kfed.aggregate(named, 2), "Digits")).decode().count("data:image/png") == 2
    plain.save(tmp_path / "plain.kfed")
    refused = run("report", tmp_path / "plain.kfed", "--image", "3x4")
    assert refused.exit_code == 1
    assert "an image of 3x4 has 12 pixels; got 16 features" in refused.stderr


def named(plain, names):
    """The same centers with names of features, as many as there are names."""
    known = map(plain.messages.message, plain.messages.device_ids)
    sent = [kfed.DeviceMessage(o.device_id, o.centers[:, : len(names)], o.counts, feature_names=names) for o in known]
    return kfed.aggregate(sent, 2)


@pytest.mark.parametrize(
    ("names", "is_image", "has_columns"),
    [
        ([f"pixel_{i}_{j}" for i in range(4) for j in range(4)], True, False),
        ([f"Pixel{i + 1}" for i in range(16)], True, False),
        ([f"px_{i}" for i in range(16)], True, True),
        ([f"{i}x{j}" for i in range(1, 5) for j in range(1, 5)], True, True),
        ([f"p{i + 1}" for i in range(16)], False, True),
        ([f"pixel{i}" for i in (*range(15), 99)], False, True),
        ([f"pixel_{i}_{j}" for i in range(4) for j in range(4)][:15], False, True),
        ([f"pixel{i}" for i in range(9)], False, True),
        ([str(i) for i in range(16)], False, True),
    ],
)
def test_only_names_of_all_pixels_are_an_image_and_columns_go_only_if_that_is_sure(plain, names, is_image, has_columns):
    titles = [section.title for section in cluster_report(named(plain, names), "Digits").sections]
    assert ("Mean images" in titles) == is_image
    assert ("What sets clusters apart" in titles) == ("Cluster 0" in titles) == has_columns


@pytest.mark.parametrize("name", ["pixel{}", "pixel_{}_{}"])
def test_pixels_are_ordered_by_their_numbers(plain, name):
    numbers = np.random.default_rng(0).permutation(16)
    names = [name.format(*((i // 4, i % 4) if "_" in name else (i,))) for i in numbers]
    shuffled = named(plain, names)
    (drawn,) = (
        block
        for section in cluster_report(shuffled, "x").sections
        for block in section.blocks[:1]
        if section.title == "Mean images"
    )
    means = shuffled.profile().means
    scaled = (means - means.min()) / np.ptp(means)
    for (_, picture), own in zip(drawn.pictures, scaled, strict=True):
        np.testing.assert_allclose(picture.ravel()[numbers], own)


def test_shares_of_levels_are_said_to_be_approximate_wherever_they_are_shown(result, plain, tmp_path):
    result.save(tmp_path / "clusters.kfed")
    said = "a level that only few rows of a group have is counted as the most common level there"
    assert said in run("report", tmp_path / "clusters.kfed").stdout
    assert said in run("report", tmp_path / "clusters.kfed", "--html", tmp_path / "page.html").stdout
    assert said in (tmp_path / "page.html").read_text()
    assert said in result.profile()._repr_html_()
    assert said in json.loads(run("report", tmp_path / "clusters.kfed", "--json").stdout)["about_shares"]
    assert plain.profile().about_shares == ""


def test_a_share_that_a_floor_may_have_rounded_is_not_told_as_all_or_none(result):
    profile = result.profile()
    man = profile.names.index("sex=m")
    shown = [profile.shown(share, man) for share in (0.0, 0.004, 0.1, 0.996, 1.0)]
    assert shown == ["hardly any", "hardly any", "10%", "nearly all", "nearly all"]
    assert profile.shown(1.0, profile.names.index("age")) == "1"


def test_clusters_of_the_same_size_are_not_called_largest_and_smallest():
    sent = [kfed.DeviceMessage("a", [[0.0], [9.0]], [50, 50])]
    summary = cluster_report(kfed.aggregate(sent, 2), "x").sections[0].blocks[0].text
    assert "Each has about 50% of the rows." in summary
    assert "smallest" not in summary


def test_a_table_of_the_first_columns_says_how_many_are_left_out(plain, tmp_path):
    plain.save(tmp_path / "plain.kfed")
    assert run("report", tmp_path / "plain.kfed").stdout.count("and 4 more columns that differ less") == 2
    assert b"and 4 more columns that differ less" in to_html(cluster_report(plain, "x"))


def test_the_same_report_in_a_terminal_as_json_and_as_markdown(result, tmp_path):
    result.save(tmp_path / "clusters.kfed")
    shown = run("report", tmp_path / "clusters.kfed").stdout
    assert shown.startswith("720 rows of 5 devices are in 2 clusters.")
    assert "mean of all" in shown
    found = json.loads(run("report", tmp_path / "clusters.kfed", "--json").stdout)
    assert len(found["profiles"]) == 10
    assert "| column |" in to_markdown(cluster_report(result, "Clusters"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"7": "x"}', "names must be of clusters 0 to 1"),
        ("[1]", "names must look like"),
        ('{"0": "a", "1": "a"}', "'a' of cluster 0 is the same as 'a' of cluster 1"),
        ('{"0": "cluster 1"}', "'cluster 1' of cluster 0 means cluster 1"),
        ('{"0": "1"}', "'1' of cluster 0 means cluster 1"),
        ('{"0": " "}', "the name of a cluster must not be empty; got '' for cluster 0"),
    ],
)
def test_names_of_no_cluster_and_of_two_are_refused(result, tmp_path, content, problem):
    result.save(tmp_path / "clusters.kfed")
    (tmp_path / "names.json").write_text(content)
    refused = run("report", tmp_path / "clusters.kfed", "--names", tmp_path / "names.json")
    assert refused.exit_code == 1
    assert problem in refused.stderr


def test_a_cluster_without_centers_has_a_profile_too():
    sent = [kfed.DeviceMessage("a", [[1.0], [1.0], [1.0]], [5, 5, 5])]
    report = cluster_report(kfed.aggregate(sent, 2), "Same")
    assert b"not observed" in to_html(report) or b"near the average" in to_html(report)


def test_the_picture_of_tables_is_on_their_common_scale(result):
    """Income in thousands would be the only direction otherwise."""
    ax = plot_centers(result, ax=new_figure(6, 5).add_subplot())
    assert "%" in ax.get_xlabel()
    dots = np.concatenate([drawn.get_offsets() for drawn in ax.collections])
    assert np.ptp(dots[:, 0]) < 10


def test_clusters_on_an_agreed_scale_are_reported_in_the_units_of_the_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.concatenate([rows_of(0, 0)[:, :2], rows_of(0, 1)[:, :2]])
    np.savetxt("a.csv", rows, delimiter=",", header="income,age", comments="")
    (tmp_path / "scale.json").write_text(
        json.dumps({"income": {"shift": 40_000, "scale": 10_000}, "age": {"shift": 50, "scale": 10}})
    )
    run("device", "a.csv", "-k", "2", "--scale", "scale.json")
    run("aggregate", "a.kfed", "-k", "2")
    found = json.loads(run("report", "clusters.kfed", "--scale", "scale.json", "--json").stdout)["profiles"]
    ages = sorted(one["mean"] for one in found if one["column"] == "age")
    assert ages == pytest.approx([rows[:80, 1].mean(), rows[80:, 1].mean()], rel=1e-6)


def test_tables_of_a_page_fit_a_phone_or_show_that_they_go_on():
    page = to_html(cluster_report(kfed.aggregate([kfed.DeviceMessage("a", [[0.0], [9.0]], [5, 5])], 2), "x")).decode()
    narrow = page.partition("@media (max-width: 40rem)")[2].partition("@media")[0]
    assert "white-space: normal" in narrow  # numbers with words, such as 87 days, take two lines
    assert "font-size: .75rem" in narrow
    assert "100% / 1rem 100% scroll" in page  # a shade at the edge, which `local` covers at the end of the table
    assert "td:first-child { position: sticky; left: 0" in page
    assert "name=viewport" in page.replace('"', "")


def test_tables_of_many_clusters_are_cut_into_parts_that_fit_on_paper(tmp_path):
    places = 30.0 * np.arange(25)[:, None]
    sent = [kfed.DeviceMessage(f"s{z}", places, [9] * 25, [4.0] * 25, feature_names=["age"]) for z in range(2)]
    called = {3: "The quite long <name> of a group of people"}
    page = to_html(cluster_report(kfed.aggregate(sent, 25), "x", called)).decode()
    tables = re.findall(r"<table>.*?</table>", page, flags=re.DOTALL)
    assert [table.count("<th class=number>") for table in tables[:6]] == [9, 8, 8, 9, 9, 8]
    assert all("<td>age</td>" in table for table in tables[:3])
    heads = re.findall(r"<th class=number>(.*?)</th>", "".join(tables[:3]))
    assert heads[4:25] == [str(cluster) for cluster in range(4, 25)]
    assert heads[3] == "The quite long &lt;name&gt; o…"
    on_paper = page.partition("@media print")[2].partition("</style>")[0]
    assert "table { font-size: 8pt; max-width: 100%; }" in on_paper
    assert "overflow-wrap: anywhere" in on_paper


def test_a_mean_that_is_zero_but_for_rounding_has_no_minus():
    sent = [kfed.DeviceMessage("a", [[-4.0], [4.0 - 1e-9]], [10, 10], [5.0, 5.0], feature_names=["z"])]
    profile = kfed.aggregate(sent, 2).profile()
    assert profile.overall_means[0] < 0
    assert profile.shown(profile.overall_means[0], 0) == "0.0"
    assert "all 0.0)" in profile.in_words(0)
