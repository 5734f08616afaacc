"""Tables of several sites that mean the same in other words, units or names: said where the tables meet."""

import json

import numpy as np
import pandas as pd
import pytest

import kfed
from consoles import invoked as run
from kfed.coordinator.core import for_device
from kfed.server import ClusterModel, late_advice
from kfed.site import cluster_file, label_rows
from kfed.wire import Column, Details, MessageBatch, column_difference

N_ROWS = 60


def frame(seed, wards=("Innere", "Kardio"), smokers=(False, True), dates="%Y-%m-%d"):
    """A table of two groups of patients."""
    rng = np.random.default_rng(seed)
    group = np.repeat((0, 1), N_ROWS // 2)
    days = pd.Timestamp(2025, 1, 1) + pd.to_timedelta(rng.integers(0, 300, N_ROWS), "D")
    return pd.DataFrame(
        {
            "age": rng.normal([30.0, 70.0], 4, (N_ROWS, 2))[np.arange(N_ROWS), group].round(1),
            "glucose": rng.normal([90.0, 190.0], 8, (N_ROWS, 2))[np.arange(N_ROWS), group].round(1),
            "smoker": np.array(smokers)[group],
            "ward": np.array(wards)[group],
            "admitted": days.strftime(dates),
        }
    )


def message(name, rows, **how):
    return cluster_file(rows, 2, name, **how).to_message()


def sites(**others):
    return [message(name, frame(seed)) for seed, name in enumerate("abc")] + [
        message(name, rows) for name, rows in others.items()
    ]


@pytest.fixture(scope="module")
def clusters():
    return kfed.aggregate(sites(), 2, rule="pooled")


def notices(sent):
    with pytest.warns(kfed.AggregationWarning):
        return {notice.code: notice.text for notice in kfed.aggregate(sent, 2, rule="pooled").notices}


# Levels ---------------------------------------------------------------------------------------------------------


def with_levels(name, levels):
    """A message about one category."""
    schema = kfed.FeatureSchema.of_columns([Column("age"), Column("smoker", "category", levels)])
    cells = np.full((2, schema.n_features), 9.0)
    centers = np.vstack([np.zeros(schema.n_features), np.ones(schema.n_features)])
    return kfed.DeviceMessage(name, centers, [9, 9], [9.0, 9.0], schema=schema, details=Details(cells, cells))


def test_levels_that_differ_in_capitals_between_sites_are_named_with_the_sites(clusters):
    assert not {"spelling", "no shared level"} & {notice.code for notice in clusters.notices}
    words = {"a": ("Ja", "x"), "b": ("Ja", "x"), "c": ("ja", "x"), "d": ("ja", "x", "y")}
    assert notices([with_levels(name, levels) for name, levels in words.items()])["spelling"] == (
        "levels of column 'smoker' differ only in case or spaces between devices, and count as different; "
        "write them in one way: 'Ja' at 'a' and 'b' and 'ja' at 'c' and 'd'"
    )


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ("ab ab cd", "'2' has none in common with the other devices"),
        ("cd cd ab ab ab", "'0' and '1' have none in common with the other devices"),
        ("ab CD", "'1' has none in common with '0'"),
        ("ab cd ef", "no two have one in common"),
        ("ab bc cd", None),
        ("ab AB", None),
    ],
)
def test_sites_that_share_no_level_are_named(levels, said):
    found = notices([with_levels(f"{i}", tuple(own)) for i, own in enumerate(levels.split())])
    assert ("no shared level" in found) == (said is not None)
    if said:
        assert found["no shared level"] == (
            "not all devices share levels of column 'smoker'; if it is the same column, write its levels in one way: "
            + said
        )


def test_sites_that_are_linked_by_others_share_levels():
    sent = [with_levels(f"{i}", (f"level {i}", f"level {i + 1}")) for i in range(40)]
    assert kfed.aggregate(sent, 2, rule="pooled").notices == ()


def test_the_level_of_rare_ones_is_not_shared():
    assert "no shared level" in notices([with_levels("a", ("oui", "other")), with_levels("b", ("other", "yes"))])


def test_a_device_is_not_told_the_names_of_others():
    with pytest.warns(kfed.AggregationWarning):
        result = kfed.aggregate([with_levels("south", ("ja", "x")), with_levels("west", ("Ja", "y"))], 2)
    [told] = [notice.text for notice in for_device(result.notices, "south") if notice.code == "spelling"]
    assert "'smoker'" in told
    assert "west" not in told


def test_levels_of_a_late_site_are_compared(clusters):
    with pytest.warns(
        kfed.AggregationWarning, match="of 'late' differ only in case or spaces from 'Innere' on the other devices"
    ) as found:
        clusters.assign(message("late", frame(7, wards=("innere", "Kardio"))))
    assert [one.message.code for one in found] == ["spelling"]
    with pytest.warns(kfed.AggregationWarning, match="no level of column 'ward' in common"):
        clusters.assign(message("late", frame(7, wards=("A", "B"))))


def agreed(name, centers):
    """A message about a category whose levels were agreed on."""
    schema = kfed.FeatureSchema.of_columns(
        [Column("age", shift=0.0, scale=1.0), Column("ward", "category", ("A", "B", "other"), shift=0.0, scale=1.0)],
        scaling="agreed",
    )
    centers = np.reshape(centers, (-1, 4))
    cells = np.full(centers.shape, 9.0)
    about = {"schema": schema, "details": Details(cells, cells)}
    return kfed.DeviceMessage(name, centers, [9] * len(centers), [9.0] * len(centers), **about)


@pytest.mark.parametrize(("centers", "codes"), [([], ["no center"]), ([[0.5, 0.0, 0.0, 1.0]], [])])
def test_a_late_site_without_a_level_that_it_could_share_is_not_told_of_levels(centers, codes):
    others = MessageBatch.of([agreed(name, [[0.0, 1, 0, 0], [1.0, 0, 1, 0]]) for name in "abc"])
    found = late_advice(kfed.aggregate(others, 2), others, agreed("late", centers))
    assert [notice.code for notice in found] == codes


def with_dialysis(seed):
    """Twenty of 60 patients are on a ward that no other site has."""
    rows = frame(seed)
    rows.loc[:19, "ward"] = "Dialyse"
    return rows


def test_levels_of_a_late_site_that_no_other_has_are_said_everywhere(clusters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    late = cluster_file(with_dialysis(7), 2, "late")
    text = "20 cells of column 'ward' of 'late' hold a level unknown to the other devices, and count as no known level"
    with pytest.warns(kfed.AggregationWarning) as found:
        clusters.assign(late.to_message())
    assert [(one.message.code, str(one.message)) for one in found] == [("unknown level", text)]
    clusters.save("clusters.kfed")
    late.save_with_message("late.local", "late.kfed")
    for command in (["assign", "late.kfed"], ["label", "late.local"]):
        said = json.loads(run(*command, "--clusters", "clusters.kfed", "--json").stdout)
        assert said["warnings"] == [{"code": "unknown level", "text": text}]


def test_a_late_site_without_a_center_is_said_where_it_is_answered(clusters):
    silent = message("late", frame(7)[:4])
    assert not len(silent.centers)
    with pytest.warns(kfed.AggregationWarning, match="^'late' sent no center") as found:
        clusters.assign(silent)
    assert [one.message.code for one in found] == ["no center"]


@pytest.fixture
def label(tmp_path):
    """What is said of new rows."""

    def labelled(rows, model):
        rows.to_csv(tmp_path / "new.csv", index=False)
        return {notice.code: notice.text for notice in label_rows(tmp_path / "new.csv", model).notices}

    return labelled


def test_a_column_that_is_constant_on_each_site_is_said_once_and_not_to_be_in_another_unit():
    values = {"a": 1.0, "b": 7.0, "c": 7.0, "d": 30.0, "e": 90.0, "f": 400.0}
    sent = [message(name, frame(seed).assign(site=value)) for seed, (name, value) in enumerate(values.items())]
    found = [notice for notice in kfed.aggregate(sent, 2, rule="pooled").notices if "'site'" in notice.text]
    assert [notice.code for notice in found] == ["constant"]
    assert "is constant within each device but differs between devices" in found[0].text
    same = [message(name, frame(seed).assign(site=0.1)) for seed, name in enumerate(values)]
    assert "'site'" not in str(kfed.aggregate(same, 2, rule="pooled").notices)


# Another scale --------------------------------------------------------------------------------------------------


MEANS = np.array([[-1.5, 0.0, 0.5], [1.0, 1.0, -1.0], [0.0, -1.5, 1.0]])


def plain_rows(seed, n_rows=60):
    rng = np.random.default_rng(seed)
    return MEANS[np.arange(n_rows) % 3] + rng.normal(0, 0.2, (n_rows, 3))


def plain_message(name, rows):
    return kfed.cluster_device(rows, 3, random_state=0).to_message(name)


@pytest.fixture(scope="module")
def plain():
    """Clusters of devices that sent arrays."""
    return kfed.aggregate([plain_message(name, plain_rows(seed)) for seed, name in enumerate("abc")], 3, rule="pooled")


def off_scale_of_two(one, other):
    found = kfed.aggregate([plain_message("one", one), plain_message("other", other)], 3).notices
    return [notice.text for notice in found if notice.code == "other scale"]


@pytest.mark.parametrize("off", [lambda rows: rows * 20, lambda rows: rows * [15, 25, 40] + [60, 120, 90]])
def test_of_two_devices_the_one_on_another_scale_is_said(off):
    (text,) = off_scale_of_two(plain_rows(1), off(plain_rows(2)))
    assert text.startswith("the rows of 'other' are more than 10 times as spread out and as far from")
    (text,) = off_scale_of_two(off(plain_rows(1)), plain_rows(2))
    assert text.startswith("the rows of 'one' are")


@pytest.mark.parametrize("seed", range(30))
def test_of_two_devices_with_groups_elsewhere_and_of_other_widths_none_is_said(seed):
    rng = np.random.default_rng(seed)
    n_features, gap = rng.integers(1, 9), (3, 30, 3_000)[seed % 3]
    means, widths = gap * rng.normal(size=(6, n_features)), np.exp(rng.uniform(-1, 1, 6))
    sites = [
        means[own] + widths[own][:, None] * rng.normal(size=(len(own), n_features))
        for own in (np.arange(90) % 3, 3 + np.arange(240) % 3)
    ]
    assert off_scale_of_two(*sites) == []


def test_an_estimator_says_that_new_rows_are_on_another_scale():
    fitted = kfed.KFed(3, random_state=0).fit(plain_rows(0))
    fitted.predict(plain_rows(1))
    with pytest.warns(kfed.AggregationWarning, match="^the new rows are more than 10 times as far") as found:
        fitted.predict(plain_rows(1) * 20)
    assert [one.message.code for one in found] == ["other scale"]


@pytest.mark.parametrize("off", [lambda rows: rows * 20, lambda rows: rows * [15, 25, 40] + [60, 120, 90]])
def test_a_late_device_and_new_rows_on_another_scale_are_said(plain, off):
    rows = plain_rows(9)
    plain.assign(plain_message("late", rows))
    with pytest.warns(kfed.AggregationWarning, match="^all centers of 'late' are more than 10 times as far") as found:
        plain.assign(plain_message("late", off(rows)))
    assert [one.message.code for one in found] == ["other scale"]
    for model in (plain, ClusterModel.of(plain)):
        model.predict(rows)
        with pytest.warns(kfed.AggregationWarning, match="^the new rows are more than 10 times as far") as found:
            model.predict(off(rows))
        assert [one.message.code for one in found] == ["other scale"]


def test_commands_say_that_a_late_site_is_on_another_scale(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain.save("clusters.kfed")
    np.save("late.npy", plain_rows(9) * 20)
    run("device", "late.npy", "-k", "3")
    for command in (["assign", "late.kfed"], ["label", "late.npy"], ["label", "late.local"]):
        said = json.loads(run(*command, "--clusters", "clusters.kfed", "--json").stdout)
        assert "other scale" in [notice["code"] for notice in said["warnings"]]


@pytest.mark.parametrize("n_features", [2, 200])
def test_few_wide_rows_are_not_said_to_be_on_another_scale(n_features):
    rng = np.random.default_rng(0)
    sent = [plain_message(name, rng.normal(size=(300, n_features))) for name in "abc"]
    found = kfed.aggregate(sent, 3, rule="pooled")
    for n_rows in (1, 5, 20, 300):
        found.predict(rng.normal(size=(n_rows, n_features)))


# New rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [lambda found: found, ClusterModel.of, lambda found: found.identity("a")])
@pytest.mark.parametrize("n_rows", [N_ROWS, 2])
def test_new_rows_in_another_unit_are_said(clusters, label, model, n_rows):
    rows = frame(8).sample(n_rows, random_state=0)
    assert label(rows, model(clusters)) == {}
    in_mmol = rows.assign(glucose=rows.glucose / 18)
    [(code, text)] = label(in_mmol, model(clusters)).items()
    assert code == "other unit"
    assert text.startswith("column 'glucose' of the new rows lies far from that of the rows behind the clusters")


def test_new_rows_in_the_next_year_are_no_cause_for_a_notice(clusters, label):
    assert label(frame(8, dates="2026-01-%d"), clusters) == {}


@pytest.mark.parametrize("model", [lambda found: found, ClusterModel.of])
def test_predicting_rows_in_another_unit_warns(clusters, model):
    rows = np.repeat(clusters.cluster_centers, 10, axis=0)
    model(clusters).predict(rows)
    rows[:, clusters.schema.names.index("glucose")] /= 18
    for ask in (model(clusters).predict, model(clusters).transform):
        with pytest.warns(kfed.AggregationWarning, match="column 'glucose' of the new rows") as found:
            ask(rows)
        assert found[0].message.code == "other unit"
        assert found[0].filename == __file__


def test_levels_of_new_rows_that_are_not_known_are_said_without_showing_them(clusters, label):
    said = label(frame(8, wards=("innere", "Kardio")), clusters)
    assert "'Innere' of the others; write them as the others do" in said["spelling"]
    assert "innere" not in said["spelling"]
    said = label(frame(8, wards=("secret", "hidden")), clusters)
    assert (
        "no level of column 'ward' is one that the others have, such as 'Innere' and 'Kardio'"
        in (said["no shared level"])
    )
    assert "secret" not in str(said)


def test_predicting_levels_that_are_not_known_warns(clusters):
    rows = frame(8).assign(admitted=20_200.0)
    clusters.predict(rows)
    with pytest.warns(kfed.AggregationWarning, match="from 'Innere' of the others") as found:
        ClusterModel.of(clusters).predict(
            rows.assign(ward=rows.ward.str.lower().where(rows.ward == "Innere", "Kardio"))
        )
    assert [one.message.code for one in found] == ["unknown level", "spelling"]
    assert {one.filename for one in found} == {__file__}


def test_the_command_says_what_to_look_at_in_new_rows(clusters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clusters.save("clusters.kfed")
    rows = frame(8)
    rows.assign(glucose=rows.glucose / 18).to_csv("new.csv", index=False)
    assert "is it in the same unit?" in run("label", "new.csv", "--clusters", "clusters.kfed").stderr
    facts = json.loads(run("label", "new.csv", "--clusters", "clusters.kfed", "--json").stdout)
    assert [warning["code"] for warning in facts["warnings"]] == ["other unit"]


def test_the_command_says_what_to_look_at_in_a_late_site(clusters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clusters.save("clusters.kfed")
    rows = frame(8)
    cluster_file(rows.assign(glucose=rows.glucose / 18), 2, "late").save("late.local")
    asked = ("label", "late.local", "--clusters", "clusters.kfed")
    assert "column 'glucose' of 'late' lies far" in run(*asked).stderr
    assert [warning["code"] for warning in json.loads(run(*asked, "--json").stdout)["warnings"]] == ["other unit"]


def test_rows_on_a_scale_that_was_agreed_on_are_compared_in_the_units_of_the_table(label):
    agreed = kfed.FeatureSchema.of_columns([Column("glucose", shift=140.0, scale=50.0)], "agreed")
    model = ClusterModel([[-1.0], [1.0]], [9, 9], agreed)
    rows = frame(8)[["glucose"]]
    assert label(rows, model) == {}
    assert set(label(rows / 18, model)) == {"other unit"}


def test_a_further_column_of_the_same_name_but_for_capitals_is_not_to_be_renamed():
    assert column_difference(["age"], ["AGE", "age"], "the others", "'e'") == (
        "'AGE' of 'e' is unknown to the others: leave it out there, for example with `kfed device ... --exclude AGE`"
    )


@pytest.mark.parametrize("name", ["index", "patient_id", "Row.names", "caseID", "Unnamed: 0"])
def test_an_identifier_that_one_site_left_out_is_not_to_be_added(name):
    words = column_difference(["age", name], ["age"], "the others", "'e'")
    assert "and looks like an identifier: leave it out everywhere, for example with `kfed device ... --exclude" in words
    assert "add it there" not in words


def test_advice_for_new_rows_fits_the_command(clusters, label):
    with pytest.raises(kfed.InvalidInputError, match=r"Write them as the other sites do, or clear these cells$"):
        label(frame(8, smokers=("oui", "non")), clusters)
    with pytest.raises(kfed.InvalidInputError, match=r"this one has none, so there is nothing to send or to label$"):
        label(frame(8)[:0], clusters)
    with pytest.raises(kfed.InvalidInputError, match="'AGE' of this table differs from 'age' of the other sites"):
        label(frame(8).rename(columns={"age": "AGE "}), clusters)


# Dates ----------------------------------------------------------------------------------------------------------


def test_days_without_hyphens_are_dates_where_that_is_said(clusters, label, tmp_path):
    path = tmp_path / "d.csv"
    frame(5, dates="%Y%m%d").to_csv(path, index=False)
    with pytest.raises(kfed.FeatureMismatchError, match=r"at 'd', write its dates as 2026-01-31, or .*=date"):
        kfed.aggregate([*sites(), message("d", path)], 2)
    told = message("d", path, kinds={"admitted": "date"})
    assert told == message("d", frame(5))
    assert label(frame(5, dates="%Y%m%d"), clusters) == {}
    frame(5, dates="%Y%m99").to_csv(path, index=False)
    with pytest.raises(kfed.InvalidInputError, match=r"must hold a date such as 2026-01-31 .* these cells$"):
        message("d", path, kinds={"admitted": "date"})


# Units that differ by little ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "as_there"),
    [("age", lambda years: 1.8 * years + 400), ("glucose", lambda grams: 2.2 * grams + 0.0 * grams)],
)
def test_a_unit_that_is_less_than_four_times_as_large_is_noticed_if_ranges_lie_apart(column, as_there):
    narrow = [frame(seed).assign(**{column: 100 + (frame(seed)[column] - 90) / 9}) for seed in range(4)]
    sent = [message(f"{seed}", rows) for seed, rows in enumerate(narrow[:3])]
    assert "other unit" not in {notice.code for notice in kfed.aggregate([*sent, message("d", narrow[3])], 2).notices}
    odd = message("odd", narrow[3].assign(**{column: as_there(narrow[3][column])}))
    assert notices([*sent, odd])["other unit"] == (
        f"column {column!r} of 'odd' lies far from that of the other devices: is it in the same unit?"
    )


def test_under_an_agreed_schema_a_site_is_said_to_have_only_the_levels_of_its_rows():
    columns = [
        Column("age", shift=50.0, scale=10.0),
        Column("ward", "category", ("Kardio", "kardio", "Innere"), shift=0.0, scale=0.7),
    ]
    schema = kfed.FeatureSchema.of_columns(columns, scaling="agreed")
    wards = {"a": "Kardio", "b": "kardio", "c": "Innere"}
    sent = []
    for name, ward in wards.items():
        rows = frame(0).assign(ward=[ward, "Innere"] * (N_ROWS // 2))[["age", "ward"]]
        sent.append(cluster_file(rows, 2, name, schema=schema).to_message())
    assert notices(sent)["spelling"].endswith("'Kardio' at 'a' and 'kardio' at 'b'")


def units_of(own, *others):
    """Whether a column with this mean and standard deviation is named, beside three sites with other ones."""
    rng = np.random.default_rng(0)

    def sent(name, mean, spread):
        rows = pd.DataFrame({"x": mean + spread * rng.normal(size=N_ROWS), "age": rng.normal(50, 9, N_ROWS)})
        return message(name, rows, kinds={"x": "number"})

    found = kfed.aggregate([sent("own", *own), *(sent(f"{i}", *one) for i, one in enumerate(others))], 2).notices
    return "other unit" in {notice.code for notice in found}


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
@pytest.mark.parametrize(
    ("own", "is_named"),
    [
        ((220, 22), True),
        ((40, 22), False),
        ((160, 10), False),
        ((1000, 10), True),
        ((170, 0), True),
    ],
)
def test_a_unit_is_a_factor_of_mean_and_spread_alike_or_a_place_far_away(own, is_named):
    assert units_of(own, (100, 10), (101, 10), (99, 10)) is is_named


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
def test_a_mean_that_is_larger_where_the_spread_is_smaller_is_no_other_unit():
    assert not units_of((57, 2.6), (30, 5), (30, 5), (30, 5))
    assert units_of((57, 9.5), (30, 2), (30, 2), (30, 2))  # wider by more than four times


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
def test_columns_that_are_constant_at_every_site_but_not_the_same_are_named():
    assert units_of((2, 0), (1, 0), (1, 0), (1, 0))
    assert not units_of((1, 0), (1, 0), (1, 0), (1, 0))
