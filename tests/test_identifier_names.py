"""Columns whose name says that they identify rows or people are left out of any table, and measurements are not."""

import numpy as np
import pandas as pd
import pytest

from kfed.errors import TableWarning
from kfed.site import cluster_file, read_columns

MEASURED = [
    *(
        "age",
        "bmi",
        "hb",
        "nr_of_visits",
        "no_of_children",
        "keyword_count",
        "ref_dose",
        "number_of_drugs",
        "no2",
        "kidney",
    ),
    *(
        "thyroid",
        "fluid",
        "steroid",
        "covid",
        "reference_range",
        "idh1",
        "key_risk_score",
        "case_mix",
        "turkey",
        "amount",
    ),
    *(
        "refraction",
        "piano",
        "casino",
        "caseload",
        "patient_age",
        "person_years",
        "visit_day",
        "nummer_der_kinder",
        "NHStrust",
    ),
]


def table(n_rows=60, **columns):
    """A table of two measurements and these columns."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"age": rng.normal(50, 9, n_rows).round(1), "hb": rng.normal(13, 1, n_rows).round(1), **columns}
    )


def left_out(frame):
    read = read_columns(frame)
    assert [notice.code for notice in read.notices if notice.code != "missing cells"] in ([], ["identifier"])
    return sorted(set(frame.columns) - set(read.names))


def shuffled(n_rows, start=7000, seed=3):
    return np.random.default_rng(seed).permutation(n_rows) * 3 + start


@pytest.mark.parametrize("n_rows", [6, 18, 60])
@pytest.mark.parametrize(
    "name", ["id", "study_key", "EpisodeNr", "Fallnummer", "case_ref", "pseudonym", "BSN", "patientMRN"]
)
def test_a_name_tells_an_identifier_in_a_table_of_any_size(name, n_rows):
    assert left_out(table(n_rows, **{name: np.arange(1, n_rows + 1)})) == [name]
    assert left_out(table(n_rows, **{name: shuffled(n_rows)})) == [name]
    assert left_out(table(n_rows, **{name: [f"x{number}" for number in shuffled(n_rows)]})) == [name]


def test_an_identifier_may_be_empty_in_some_rows():
    numbers = shuffled(60).astype(float)
    numbers[::10] = np.nan
    assert left_out(table(EpisodeNr=numbers)) == ["EpisodeNr"]


@pytest.mark.parametrize("as_text", [False, True])
def test_an_identifier_may_occur_twice(as_text):
    numbers = shuffled(60)
    numbers[1] = numbers[0]
    assert left_out(table(study_key=[f"x{number}" for number in numbers] if as_text else numbers)) == ["study_key"]


@pytest.mark.parametrize("name", ["BSN", "pseudonym", "Fallnummer", "case_ref"])
def test_an_identifier_of_people_with_several_rows_is_left_out(name):
    assert left_out(table(**{name: np.repeat(shuffled(20), 3)})) == [name]


def test_whole_numbers_that_are_too_large_to_be_told_apart_are_an_identifier():
    assert left_out(table(BSN=10**17 + np.arange(60))) == ["BSN"]


@pytest.mark.parametrize("name", MEASURED)
def test_a_measurement_is_kept_though_all_of_its_values_differ(name):
    assert left_out(table(**{name: shuffled(60)})) == []


def test_a_count_whose_name_might_number_things_is_kept_where_values_repeat():
    assert left_out(table(lesion_number=shuffled(60) // 6)) == []
    assert left_out(table(lesion_number=[*shuffled(58), 7000, 7000])) == []


# Names, and numbers of people with several rows -----------------------------------------------------------------------


def visits(name, cell, n_people=30):
    """Twelve visits of each person, whose column `name` holds what `cell` makes of their number."""
    rng = np.random.default_rng(0)
    means = rng.normal([60, 140, 1.0], [15, 15, 0.3], (n_people, 3)).repeat(12, axis=0)
    rows = (means + rng.normal(0, [0.5, 3, 0.05], means.shape)).round(2)
    frame = pd.DataFrame(rows, columns=["years", "sys", "crea"])
    frame.insert(0, name, [cell(person) for person in np.arange(n_people).repeat(12)])
    return frame.sample(frac=1, random_state=0)


PEOPLE = np.random.default_rng(1).integers(10**6, 10**7, 30)


@pytest.mark.parametrize("n_people", [15, 30])
@pytest.mark.parametrize("name", ["Name", "surname", "patient_name", "Pat.-Nr.", "e-mail", "Vorname", "last name"])
def test_no_name_of_a_person_is_in_the_message(name, n_people):
    frame = visits(name, lambda person: f"Person{person:02d}, Anna", n_people)
    with pytest.warns(TableWarning, match="name it with --id-column"):
        clustering = cluster_file(frame, "auto", "north")
    assert b"Person" not in clustering.to_message().to_bytes()


@pytest.mark.parametrize(
    "name", ["Pat.-Nr.", "KIS-Nr.", "id_patient", "Fall", "case #", "patient_id", "PatNr", "mrn2", "uid", "code"]
)
def test_no_number_of_a_person_with_several_rows_is_in_a_center(name):
    assert left_out(visits(name, PEOPLE.__getitem__)) == [name]


@pytest.mark.parametrize("name", ["Kürzel", "label"])
def test_many_words_of_several_rows_each_are_left_out_unless_their_kind_or_ids_are_told(name):
    frame = visits(name, "P{:02d}x".format)
    assert left_out(frame) == [name]
    assert name in read_columns(frame, kinds={name: "category"}).names
    assert name in read_columns(frame.assign(whose=np.arange(len(frame)) % 90), id_column="whose").names


def test_a_category_of_few_words_or_of_many_rows_each_is_kept():
    assert left_out(table(600, ward=np.arange(600) % 15 * 1.0, dx=[f"d{i % 15}" for i in range(600)])) == []
    assert left_out(table(6000, dx=[f"d{i % 30}" for i in range(6000)])) == []


@pytest.mark.parametrize("n_rows", [6, 60])
@pytest.mark.parametrize(
    "name", ["Nr.", "ID#", "IPP", "USUBJID", "phone", "No.", "Lfd. Nr.", "mrn2", "id_1", "uid", "eid", "SSN", "case #"]
)
def test_marks_and_digits_after_a_name_do_not_hide_an_identifier(name, n_rows):
    assert left_out(table(n_rows, **{name: shuffled(n_rows)})) == [name]


@pytest.mark.parametrize(
    "name", ["paid", "humid", "rapid", "fallout", "case_count", "named", "falls", "mailing", "no2"]
)
def test_a_name_that_only_looks_like_one_of_an_identifier_is_kept(name):
    assert left_out(visits(name, lambda person: person % 13 + 20)) == []
    assert left_out(table(60, **{name: shuffled(60)})) == []


@pytest.mark.parametrize("name", ["phone", "patient_no", "Fall", "case"])
def test_two_codes_are_no_identifier(name):
    assert left_out(table(60, **{name: np.arange(60) % 2})) == []


def test_a_shuffled_counter_is_left_out_whatever_its_name():
    numbers = np.random.default_rng(5).choice(900, 300, replace=False) + 17
    assert left_out(table(300, x=numbers)) == ["x"]
    assert "x" in read_columns(table(300, x=numbers), kinds={"x": "number"}).names


def test_large_whole_numbers_that_differ_in_all_rows_are_kept_and_said():
    rng = np.random.default_rng(5)
    read = read_columns(table(300, x=rng.integers(10**6, 10**7, 300), bnp=rng.lognormal(6, 1, 300).round()))
    assert read.names == ("age", "hb", "x", "bnp")
    assert [notice.code for notice in read.notices] == ["possible identifier"]
    assert "leave it out with --exclude x" in read.notices[0].text


def test_large_measurements_that_repeat_are_kept():
    rng = np.random.default_rng(5)
    platelets = rng.integers(150, 400, 600) * 1000
    assert left_out(table(600, platelets=platelets, income=rng.integers(20_000, 80_000, 600))) == []


@pytest.mark.parametrize("first", [4_000_000_000_000, 2**53 + 1, 9_223_372_036_854_770_000, 10**21])
@pytest.mark.parametrize("step", [3, 3003])
def test_whole_numbers_that_are_too_long_to_be_told_apart_may_be_identifiers(tmp_path, first, step):
    order = np.random.default_rng(0).permutation(200) * step
    lines = [f"{first + int(number)},{i % 17}.5" for i, number in enumerate(order)]
    (tmp_path / "site.csv").write_text("\n".join(["barcode,x", *lines]) + "\n")
    found = read_columns(tmp_path / "site.csv").notices
    assert {notice.code for notice in found} & {"possible identifier", "identifier"}
    codes = [notice.code for notice in read_columns(tmp_path / "site.csv", columns=["barcode", "x"]).notices]
    assert "possible identifier" not in codes
