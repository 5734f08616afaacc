"""Columns whose name says that they identify rows or people are left out of any table, and measurements are not."""

import numpy as np
import pandas as pd
import pytest

from kfed.site import read_columns

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
