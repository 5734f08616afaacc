"""Tables as they are: missing cells, categories, flags and dates, columns in any order, and no scale agreed on."""

import gzip
import json
import sys
import unicodedata
import warnings

import numpy as np
import pandas
import polars
import pyarrow as arrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.metrics import adjusted_rand_score

import kfed
from clinics import SCHEMA, SECRET, UNITS, clinics
from consoles import run
from kfed.device import cluster_columns
from kfed.site import (
    Table,
    TableSummary,
    agree,
    cluster_file,
    cluster_table,
    read_columns,
    read_schema,
    write_schema,
)
from kfed.site.formats import csv as csv_reading
from kfed.wire import Column, Details, FeatureSchema
from workbooks import workbook

MESSY = """patient;age;ward;smoker;visit;dose
P1;30;A;yes;2026-01-31;1,5
P2;NA;B;no;2026-02-01;n/a
P3;41;A;;2026-02-02;<5
P4;-;A;yes;;2,5
P5;52;B;no;2026-01-31;3,5
"""


def read(path, **options):
    return read_columns(path, **{"id_column": "patient", "min_cluster_size": 1, **options})


def assert_messy(table):
    assert table.schema.columns == (
        Column("age"),
        Column("ward", "category", ("A", "B")),
        Column("smoker", "flag"),
        Column("visit", "date"),
        Column("dose"),
    )
    nan, days = np.nan, 20484.0  # 2026-01-31 is that many days after 1970-01-01
    expected = [
        [30, 1, 0, 1, days, 1.5],
        [nan, 0, 1, 0, days + 1, nan],
        [41, 1, 0, nan, days + 2, nan],
        [nan, 1, 0, 1, nan, 2.5],
        [52, 0, 1, 0, days, 3.5],
    ]
    np.testing.assert_array_equal(table.values, expected)
    assert table.row_ids == ("P1", "P2", "P3", "P4", "P5")


def test_a_messy_table_is_read_as_what_it_says(write):
    assert_messy(read(write(MESSY)))


@pytest.mark.parametrize("large", [csv_reading.LARGE, 0], ids=["whole", "in blocks"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "utf-16"])
def test_a_messy_table_is_the_same_in_every_encoding(write, encoding, large, monkeypatch):
    monkeypatch.setattr(csv_reading, "LARGE", large)
    assert_messy(read(write(MESSY, encoding=encoding)))


@pytest.mark.parametrize("reading", ["pyarrow", "line by line"])
@pytest.mark.parametrize(("encoding", "word"), [("latin-1", "S\xfcd\x81"), ("cp1252", "S\xfcd \u2013 \u20ac")])
def test_letters_of_windows_far_down_in_a_large_file_are_read(write, encoding, word, reading, monkeypatch):
    if reading == "line by line":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    rows = "".join(f"{'AB'[i % 2]},{i % 7}.{'5' * 30}\n" for i in range(40_000))
    table = read_columns(write(f"ward,x\n{rows}" + f"{word},2.5\n" * 9, encoding=encoding))
    assert table.schema.columns[0].levels == ("A", "B", word)


@pytest.mark.parametrize("source", ["csv", "frame", "xlsx"])
def test_letters_with_accents_are_the_same_however_a_system_writes_them(write, monkeypatch, source):
    """What macOS writes as two characters is one."""
    rows = [["Gr\xf6\xdfe", "caf\xe9"], *([i % 7, "S\xfcd" if i % 2 else "Ost"] for i in range(40))]
    written = [[unicodedata.normalize("NFD", cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    if source == "csv":
        table = write("".join(f"{a},{b}\n" for a, b in written))
    elif source == "frame":
        table = pandas.DataFrame(written[1:], columns=written[0])
    else:
        table = workbook(write, monkeypatch, {"rows": written})
    expected = (Column("Gr\xf6\xdfe"), Column("caf\xe9", "category", ("Ost", "S\xfcd")))
    assert read_columns(table).schema.columns == expected
    assert read_columns(table, columns=written[0], kinds={written[0][1]: "category"}).schema.columns == expected


def test_a_damaged_archive_is_refused_by_its_name_and_no_byte_is_shown(tmp_path):
    whole = gzip.compress(MESSY.encode() * 50)
    with arrow.output_stream(tmp_path / "whole.zst", compression="zstd") as file:
        file.write(MESSY.encode() * 50)
    zst = (tmp_path / "whole.zst").read_bytes()
    damaged = whole[:40] + bytes(20) + whole[60:]
    plain = b"xx,yy\n1,2\n"
    for name, content in (("gz", plain), ("gz", whole[:-20]), ("gz", damaged), ("zst", plain), ("zst", zst[:40])):
        path = tmp_path / f"site.csv.{name}"
        path.write_bytes(content)
        with pytest.raises(kfed.InvalidInputError, match=f"site.csv.{name}: a CSV file must be text") as caught:
            read_columns(path)
        assert "xx" not in str(caught.value)


def test_without_pyarrow_csv_is_read_all_the_same(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert_messy(read(write(MESSY)))


def test_compressed_tables_are_the_same(tmp_path):
    (tmp_path / "site.csv.gz").write_bytes(gzip.compress(MESSY.encode()))
    assert_messy(read(tmp_path / "site.csv.gz"))
    with arrow.output_stream(tmp_path / "site.csv.zst", compression="zstd") as file:
        file.write(MESSY.encode())
    assert_messy(read(tmp_path / "site.csv.zst"))


@pytest.fixture
def frame(write):
    return pandas.read_csv(write(MESSY), sep=";", decimal=",", na_values=["-", "<5"], parse_dates=["visit"]).assign(
        smoker=lambda own: own["smoker"].map({"yes": True, "no": False}).astype("boolean")
    )


def test_data_frames_and_columnar_files_are_the_same_table(frame, tmp_path):
    assert_messy(read(frame))
    assert_messy(read(polars.from_pandas(frame)))
    table = arrow.table(frame)
    assert_messy(read(table))
    arrow.feather.write_feather(table, tmp_path / "site.feather")
    assert_messy(read(tmp_path / "site.feather"))
    arrow.parquet.write_table(table, tmp_path / "site.parquet")
    assert_messy(read(tmp_path / "site.parquet"))


def test_labels_have_the_index_of_the_data_frame_that_they_came_from():
    rows, groups = clinics()[0]
    frame = pandas.DataFrame(rows, columns=list("abcd"), index=[f"p{i}" for i in range(len(rows))]).sample(
        frac=1, random_state=0
    )
    kept = cluster_file(frame, 2, "a")
    clusters = kfed.aggregate([kept.to_message()], 2)
    labels = kept.labels(clusters)
    assert labels.index.equals(frame.index)
    in_order = labels.loc[[f"p{i}" for i in range(len(rows))]]
    assert adjusted_rand_score(in_order, groups) == 1
    np.testing.assert_array_equal(kept.labels(clusters.identity("a")), labels)
    assert kept.labels_csv(labels) == kept.labels_csv(labels.to_numpy())


def test_a_cell_that_is_no_number_is_named_by_line_and_not_shown(write):
    with pytest.raises(kfed.InvalidInputError, match=r"column 'a' holds text in line 4") as caught:
        read_columns(write(f"a,b\n1,2\n2,3\nabout {SECRET},4\n5,6\n"))
    assert SECRET not in str(caught.value)


def test_a_number_that_no_message_may_hold_is_named_by_line(write):
    with pytest.raises(kfed.InvalidInputError, match="column 'a' is too large in line 3"):
        read_columns(write("a,b\n1,2\n1e300,3\n5,6\n"))
    with pytest.raises(kfed.InvalidInputError, match=r"values must be finite and at most 1e\+100 in size"):
        cluster_columns(np.full((9, 4), 1e300), SCHEMA, 1)


@pytest.mark.parametrize("late", [10, pytest.param(200_000, marks=pytest.mark.slow)])
def test_text_far_down_in_a_column_of_numbers_is_found(write, late):
    rows = [f"{i % 9},{i / 7}" for i in range(late)] + [f"oops{SECRET},1"] + ["3,4"] * 10
    with pytest.raises(kfed.InvalidInputError, match=rf"column 'a' holds text in line {late + 2}"):
        read_columns(write("\n".join(["a,b", *rows])))


def test_an_identifier_is_left_out_with_a_notice_unless_it_is_asked_for(write):
    path = write("mrn,row,x\n" + "".join(f"{7919 * i % 100_003},{i},{i % 7}\n" for i in range(50)))
    table = read_columns(path)
    assert table.names == ("x",)
    assert [notice.code for notice in table.notices] == ["identifier", "identifier"]
    assert read_columns(path, columns=["mrn", "x"]).names == ("mrn", "x")


def test_whole_numbers_that_differ_are_no_identifier_by_themselves(write):
    path = write("income\n" + "".join(f"{7919 * i % 100_003}\n" for i in range(50)))
    assert read_columns(path).names == ("income",)


def test_text_with_many_values_is_refused_with_what_to_do(write):
    rows = "".join(f"{i % 3},note{i % 60}\n" for i in range(200))
    with pytest.raises(kfed.InvalidInputError, match=r"'note' is text with 60 distinct values.*--exclude note"):
        read_columns(write("x,note\n" + rows))


def test_constant_and_empty_columns_are_said_and_have_no_say(write):
    rng = np.random.default_rng(0)
    rows = "".join(f"{x},5,\n" for x in [*rng.normal(0, 1, 20), *rng.normal(9, 1, 20)])
    table = read_columns(write("x,same,nothing\n" + rows))
    assert [notice.code for notice in table.notices] == ["constant", "empty"]
    found = cluster_table(table, 2, "a").clustering
    assert sorted(found.counts.tolist()) == [20, 20]


def test_repeated_ids_are_said(write):
    table = read(write("patient,x\na,1\na,2\nb,3\n"))
    assert [notice.code for notice in table.notices] == ["repeated id"]


def test_every_row_whose_id_another_row_has_is_counted(write):
    table = read(write("patient,x\n" + "".join(f"p{i // 3},{i}\n" for i in range(12)) + "q,12\n"))
    assert [notice.text for notice in table.notices] == ["12 rows have an id that another row has, too"]


def test_the_name_of_a_rare_level_does_not_leave_the_site(write):
    rows = "".join(f"{i % 9},{'common' if i < 30 else 'rareA' if i < 32 else 'rareB'}\n" for i in range(34))
    kept = cluster_file(write("x,c\n" + rows), 2, "a", min_cluster_size=3)
    assert kept.clustering.columns.schema.columns[1].levels == ("common", "other")
    assert b"rare" not in kept.to_message().to_bytes()
    said = [notice.text for notice in kept.notices if notice.code == "rare level"]
    assert said[0].startswith("2 levels of 'c' will not be named, since each has fewer than 3 rows that surely differ")


def test_levels_of_many_rows_that_are_copies_and_of_few_ids_are_said_to_be_that(write):
    numbers = [*range(100, 140), *[1] * 12, *[2] * 11]
    sexes = ["X"] * 40 + ["F"] * 12 + ["M"] * 11
    rows = "".join(
        f"{number}.5,{sex},{'p' if sex == 'F' else i}\n"
        for i, (number, sex) in enumerate(zip(numbers, sexes, strict=True))
    )
    table = read_columns(write("x,sex,who\n" + rows), columns=["x", "sex"])
    (said,) = [notice.text for notice in table.notices if notice.code == "rare level"]
    assert "2 levels of 'sex' will not be named, since each has fewer than 5 rows that surely differ" in said
    table = read_columns(write("x,sex,who\n" + rows), columns=["x", "sex"], id_column="who")
    (said,) = [notice.text for notice in table.notices if notice.code == "rare level"]
    assert "1 level of 'sex' will not be named, since it has fewer than 5 different ids" in said


def test_the_name_of_a_level_of_one_person_does_not_leave_the_site(write):
    rows = "".join(f"{'p0' if i < 8 else f'p{i}'},{i % 9},{'rare' if i < 8 else 'common'}\n" for i in range(40))
    kept = cluster_file(write("who,x,c\n" + rows), 2, "a", id_column="who")
    assert b"rare" not in kept.to_message().to_bytes()


# Columns that differ --------------------------------------------------------------------------------------------


def sites_of(write, *texts, **options):
    return [
        cluster_file(write(text, f"{i}.csv"), 1, f"{i}", min_cluster_size=1, **options) for i, text in enumerate(texts)
    ]


def test_a_column_that_is_empty_at_one_site_is_no_obstacle(write):
    own = sites_of(write, "x,c\n1,\n2,\n3,\n", "x,c\n1,p\n2,q\n3,p\n", "c,x\nq,1\nq,2\np,3\n")
    for order in (own, own[::-1]):
        result = kfed.aggregate([one.to_message() for one in order], 1)
        assert set(result.schema.names) == {"x", "c=p", "c=q"}
        assert result.messages.details.observed[0, result.schema.names.index("c=p")] == 0
        assert [len(one.labels(result)) for one in own] == [3, 3, 3]


def test_columns_that_are_empty_at_a_site_do_not_make_its_rows_incomplete(write):
    rows = "".join(f"{i % 7},{i % 5},,,\n" for i in range(40))
    kept = cluster_file(write("x,y,a,b,c\n" + rows), 1, "a")
    assert kept.to_message().counts.tolist() == [40]


def test_a_column_may_be_called_like_a_kind(write):
    message = sites_of(write, "number,category\n1,2\n3,4\n")[0].to_message()
    assert kfed.DeviceMessage.from_bytes(message.to_bytes()).schema.names == ("number", "category")


def test_the_first_of_january_1970_is_a_date(write):
    table = read_columns(write("day\n1970-01-01\n1970-01-02\n"), min_cluster_size=1)
    np.testing.assert_array_equal(table.values, [[0], [1]])


@pytest.mark.parametrize(
    "levels", [("<18", "18-64", ">=65"), ("none", "diabetes"), ("+", "-"), ("<18", ">=65"), ("F",)]
)
def test_words_that_would_be_missing_among_numbers_are_levels_among_words(write, levels):
    rows = "".join(f"{i % 3},{levels[i % len(levels)]}\n" for i in range(30))
    assert read_columns(write("x,c\n" + rows)).schema.columns[1] == Column("c", "category", tuple(sorted(levels)))


def test_ages_that_all_differ_are_no_identifier(write):
    ages = np.random.default_rng(0).permutation(np.arange(30, 55))
    assert read_columns(write("age,x\n" + "".join(f"{age},1\n" for age in ages))).names == ("age", "x")


def test_thousands_with_dots_are_read_where_commas_are_decimal(write):
    table = read_columns(write("a;b\n1.234,5;0,5\n2.000;1,5\n"), min_cluster_size=1)
    np.testing.assert_array_equal(table.values, [[1234.5, 0.5], [2000, 1.5]])


def test_a_remark_that_few_rows_have_is_no_obstacle(write):
    rows = "".join(f"{i % 5},{'note' if i < 2 else ''}\n" for i in range(20))
    assert len(cluster_file(write("x,remark\n" + rows), 2, "a").clustering.labels) == 20


def test_with_a_schema_cells_are_read_as_what_it_says(write, tmp_path):
    schema = FeatureSchema.of_columns(
        [Column("c", "category", ("f", "m"), shift=0.0, scale=1.0), Column("on", "flag", shift=0.0, scale=1.0)],
        "agreed",
    )
    table = read_columns(write("c,on\nf,1\nf,0\n"), schema=schema)
    np.testing.assert_array_equal(table.values, [[1, 0, 1], [1, 0, 0]])
    dated = FeatureSchema.of_columns([Column("day", "date", shift=0.0, scale=1.0)], "agreed")
    with pytest.raises(
        kfed.InvalidInputError,
        match="'day' must hold a date such as 2026-01-31 in every row; line 2 holds something else",
    ):
        read_columns(write("day\n20260231\n"), schema=dated)
    assert read_columns(write("day\n19700131\n"), schema=dated).values.tolist() == [[30.0]]


def test_rows_that_are_not_counted_and_too_many_clusters_are_said(write):
    rows = "".join(f"{i % 7},{i % 5},{i % 3}\n" for i in range(40)) + "1,,\n"
    path = write("x,y,z\n" + rows)
    kept = cluster_file(path, 2, "a")
    assert [notice.code for notice in kept.notices] == ["missing cells", "few cells"]
    assert kept.notices[0].text == "2 of 123 cells count as missing"
    assert kept.to_message().details.n_left_out is None  # that it is one row is not told to others
    assert "many clusters" in [notice.code for notice in cluster_file(path, 30, "a").notices]


def test_what_cannot_be_done_with_tables_is_said(write):
    path = write("x,y\n1,\n,2\n3,\n")
    with pytest.raises(kfed.InvalidInputError, match="every row has a missing cell"):
        cluster_file(path, 1, "a", missing="drop")
    with pytest.raises(kfed.InvalidInputError, match="add --as-is or --scale"):
        cluster_file(path, 1, "a", small_clusters="borrow")


def test_times_with_fractions_of_a_second_are_read():
    frame = pandas.DataFrame({"at": pandas.to_datetime(["2026-01-31 12:00:00.123456", "2026-02-01"], format="mixed")})
    np.testing.assert_allclose(read_columns(frame, min_cluster_size=1).values, [[20484.5], [20485]], atol=1e-5)


def test_values_that_are_not_there_do_not_stretch_the_grid():
    rows = np.column_stack([np.full(40, 20_000.0) + np.arange(40) % 5, np.arange(40) % 2])
    rows[:20, 0] = np.nan
    schema = FeatureSchema.of_columns([Column("day"), Column("x")])
    rounded = cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message("a").quantised(8)
    assert (rounded.rounding[:, 0] < 1).all()


# What is said ---------------------------------------------------------------------------------------------------


def messages_of(sites):
    return [cluster_columns(rows, SCHEMA, 2, random_state=0).to_message(f"{i}") for i, (rows, _) in enumerate(sites)]


def test_a_column_in_another_unit_at_one_site_is_named():
    sites = [(rows + 20 * UNITS, groups) for rows, groups in clinics()]
    assert not any("unit" in notice.text for notice in kfed.aggregate(messages_of(sites), 4).notices)
    sites[3] = (sites[3][0] * [1, 1 / 18, 1, 1], sites[3][1])
    found = [text for _, text in kfed.aggregate(messages_of(sites), 4).notices if "unit" in text]
    assert found == ["column 'b' of '3' lies far from that of the other devices: is it in the same unit?"]


def test_a_column_in_another_unit_is_named_also_with_two_sites_and_for_a_late_one():
    sites = [(rows + 20 * UNITS, groups) for rows, groups in clinics()]
    off = cluster_columns(sites[3][0] * [1, 1 / 18, 1, 1], SCHEMA, 2, random_state=0).to_message("off")
    sound = messages_of(sites)
    assert any("column 'b'" in notice.text for notice in kfed.aggregate([sound[0], off], 2).notices)
    assert not any("unit" in notice.text for notice in kfed.aggregate(sound[:2], 2).notices)
    with pytest.warns(kfed.AggregationWarning, match="column 'b' of 'off' lies far"):
        kfed.aggregate(sound, 4).assign(off)


def test_a_column_that_outweighs_all_others_is_named_where_numbers_are_taken_as_they_are():
    frames = [pandas.DataFrame(rows * [1, 9, 1, 1], columns=list("abcd")) for rows, _ in clinics()]
    messages = [kfed.cluster_device(own, 2, random_state=0).to_message(f"{i}") for i, own in enumerate(frames)]
    with pytest.warns(kfed.AggregationWarning, match=r"column 'b' makes up [0-9.]+ % of all squared distances"):
        kfed.aggregate(messages, 4)


def test_a_site_without_a_center_is_named():
    tiny = cluster_columns(clinics()[0][0][:2], SCHEMA, 2).to_message("tiny")
    found = [notice.text for notice in kfed.aggregate([*messages_of(clinics()), tiny], 4).notices]
    assert "'tiny' sent no center: its rows were not used for the clusters" in found


def scattered(device_id, n_alike):
    """A site with as many rows alike as given, and 35 that are far from all others."""
    rows = np.concatenate([clinics()[0][0][:n_alike], np.random.default_rng(0).normal(0, 500, (35, 4))])
    return cluster_columns(rows, SCHEMA, 36, random_state=0).to_message(device_id)


def test_rows_that_no_center_stands_for_are_counted_by_site(tmp_path):
    sound, lost = messages_of(clinics()), scattered("lost", 15)
    assert lost.details.n_left_out == 35
    (text,) = [notice.text for notice in kfed.aggregate([*sound, lost], 4).notices if notice.code == "rows left out"]
    assert text.startswith("35 rows were not used for the clusters")
    assert text.endswith(". By device: 35 of 50 at 'lost'")
    silent = scattered("silent", 0)
    assert "'silent' sent no center: its 35 rows were not used" in str(kfed.aggregate([*sound, silent], 4).notices)
    for late, said in ((lost, "^35 of 50 rows of 'lost' did not count"), (silent, "its 35 rows get labels")):
        with pytest.warns(kfed.AggregationWarning, match=said):
            kfed.aggregate(sound, 4).assign(late)
    paths = [tmp_path / f"{one.device_id}.kfed" for one in (*sound, lost)]
    for path, one in zip(paths, (*sound, lost), strict=True):
        one.save(path)
    facts = json.loads(run("aggregate", *paths, "-k", "4", "-o", tmp_path / "clusters.kfed", "--json"))
    assert facts["n_rows_left_out"] == 35
    assert facts["rows_left_out_by_device"] == {"lost": 35}


def test_values_at_the_limit_warn_of_nothing_but_themselves():
    schema = FeatureSchema.of_columns([Column("a"), Column("b")])
    sent = []
    for position, far in enumerate([1e100, 0.0, 0.0, 0.0]):
        cells, squares = np.full((2, 2), 20.0), np.zeros((2, 2))
        centers = np.array([[0.0, 0.0], [5.0, far]])
        details = Details(observed=cells, squares=squares)
        sent.append(kfed.DeviceMessage(f"{position}", centers, [20, 20], [0.0, 0.0], schema=schema, details=details))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", kfed.AggregationWarning)
        codes = [notice.code for notice in kfed.aggregate(sent, 2, rule="robust").notices]
        kfed.choose_n_clusters(sent)
    assert "other unit" not in codes  # its range holds that of the others


# Agreed on before -----------------------------------------------------------------------------------------------


def test_sites_can_agree_on_a_schema_from_summaries(tmp_path):
    sites, kinds = clinics(), np.array(["p", "q", "r", "s"])
    paths = [tmp_path / f"{i}.csv" for i in range(len(sites))]
    for path, (rows, groups) in zip(paths, sites, strict=True):
        pandas.DataFrame(rows, columns=list("abcd")).assign(kind=kinds[groups]).to_csv(path, index=False)
        TableSummary.of(read_columns(path), 3).save(path.with_suffix(".summary"))
    schema = agree({path.stem: TableSummary.load(path.with_suffix(".summary")) for path in paths})
    every = np.concatenate([rows for rows, _ in sites])
    off = [column.shift for column in schema.columns[:4]] - every.mean(axis=0)
    assert (np.abs(off) < 0.05 * every.std(axis=0)).all()  # summaries are rounded
    np.testing.assert_allclose([column.scale for column in schema.columns[:4]], every.std(axis=0), rtol=0.05)
    assert schema.columns[4].levels == ("p", "q", "r", "s")
    write_schema(tmp_path / "schema.json", schema)
    assert read_schema(tmp_path / "schema.json") == schema
    kept = [cluster_file(path, 2, path.stem, schema=tmp_path / "schema.json") for path in paths]
    result = kfed.aggregate([own.to_message() for own in kept], 4)
    assert result.scale is None
    groups = np.concatenate([groups for _, groups in sites])
    labels = np.concatenate([own.labels(result) for own in kept])
    assert adjusted_rand_score(labels, groups) > 0.99
    rows = zip(kept, paths, strict=True)
    refined = np.concatenate([own.labels(result, own.read_rows(path).values) for own, path in rows])
    assert adjusted_rand_score(refined, groups) > 0.99


def test_a_scale_file_is_a_schema_of_numbers(tmp_path):
    path = tmp_path / "scale.json"
    path.write_text(json.dumps({"age": {"shift": 50, "scale": 12}}))
    schema = read_schema(path)
    assert schema.columns == (Column("age", shift=50.0, scale=12.0),)
    assert schema.scaling == "agreed"


def test_a_summary_says_nothing_of_few_cells():
    values = np.full((20, 2), np.nan)
    values[:, 0], values[0, 1] = np.arange(20), float(SECRET)
    schema = FeatureSchema.of_columns([Column("x"), Column("rare")])
    rare = TableSummary.of(Table(values, ("x", "rare"), schema=schema), 3).columns[1]
    assert (rare.count, rare.means, rare.variances) == (0.0, (0.0,), (0.0,))


@pytest.mark.parametrize("kind", ["flag", "number"])
@pytest.mark.parametrize("n_ones", [1, 4, 36, 39])
def test_a_summary_does_not_tell_of_a_flag_that_few_rows_have(kind, n_ones):
    values = np.column_stack([np.arange(40) < n_ones, np.arange(40)]).astype(float)
    table = Table(values, ("on", "x"), schema=FeatureSchema.of_columns([Column("on", kind), Column("x")]))
    found = TableSummary.of(table, 5).columns[0]
    assert found.count == 40
    assert (found.means, found.variances) == ((float(n_ones > 20),), (0.0,))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "kfed table summary", "columns": [{"name": "x"}]}'])
def test_a_summary_that_is_not_sound_is_refused_by_name(write, text):
    with pytest.raises(kfed.InvalidInputError, match=r"x\.summary: this is not a summary"):
        TableSummary.load(write(text, "x.summary"))


def test_the_numbers_of_the_rows_of_a_pandas_frame_are_no_column(tmp_path):
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    some = frame[frame["a"] > 0]
    some.to_parquet(tmp_path / "some.parquet")
    assert read_columns(some).names == read_columns(tmp_path / "some.parquet").names == ("a", "b")
