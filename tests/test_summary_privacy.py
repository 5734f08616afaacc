"""A summary obeys decision 0001 as a message does: nobody's cells can be found from its counts, means and spreads."""

import numpy as np
import pandas as pd
import pytest

from consoles import invoked
from kfed.site import TableSummary, read_columns

N = 60
RNG = np.random.default_rng(0)
BASE = pd.DataFrame({"age": RNG.normal(50, 10, N), "weight": RNG.normal(80, 9, N)})
IDS = [f"P{i}" for i in range(N)]


def summary_of(frame, name, **options):
    (found,) = (one for one in TableSummary.of(read_columns(frame, **options), 5).columns if one.column.name == name)
    return found


def test_a_column_that_one_person_fills_is_not_told():
    frame = BASE.assign(patient=["P0"] * 40 + IDS[40:], viral=np.nan)
    frame.loc[:39, "viral"] = RNG.normal(100, 1, 40)
    assert summary_of(frame, "viral", id_column="patient").count == 0


def test_a_column_that_is_mostly_one_persons_is_not_told():
    frame = BASE.assign(patient=["P0"] * 40 + IDS[40:])
    assert summary_of(frame, "age", id_column="patient").count == 0
    assert summary_of(BASE.assign(patient=IDS), "age", id_column="patient").count == N


@pytest.mark.parametrize(
    ("usual", "odd"), [(0.0, 123456.0), (1, 2), (pd.Timestamp("2025-01-01"), pd.Timestamp("1950-05-05"))]
)
def test_a_value_that_one_row_has_leaves_no_trace(usual, odd):
    same = BASE.assign(x=usual)
    frame = same.copy()
    frame.loc[3, "x"] = odd
    assert summary_of(frame, "x") == summary_of(same, "x")


@pytest.mark.parametrize(("usual", "odd"), [(0.0, 7.0), ("no", "yes")])
def test_a_value_that_copies_of_one_row_have_leaves_no_trace(usual, odd):
    same = pd.concat([BASE, BASE.iloc[[3] * 10]], ignore_index=True).assign(x=usual)
    same.loc[:1, "x"] = odd
    frame = same.copy()
    frame.loc[N:, "x"] = odd
    assert summary_of(frame, "x") == summary_of(same, "x")


def test_a_sum_that_one_cell_makes_up_is_not_told():
    frame = BASE.assign(x=RNG.normal(0, 1, N).round(2))
    frame.loc[3, "x"] = 123456.0
    assert summary_of(frame, "x").count == 0


def test_copies_of_one_row_are_not_told():
    assert summary_of(pd.DataFrame({"age": [41.5] * N, "weight": [80.25] * N}), "age").count == 0


@pytest.mark.parametrize("word", ["yes", "no"])
def test_a_flag_of_one_person_with_many_rows_leaves_no_trace(word):
    other = {"yes": "no", "no": "yes"}[word]
    frame = BASE.assign(patient=["P0"] * 20 + IDS[20:], on=[word] * 20 + [other] * 40)
    same = frame.assign(on=other)
    assert summary_of(frame, "on", id_column="patient").means == summary_of(same, "on", id_column="patient").means


def test_other_is_not_told_of_one_person_with_several_rare_levels():
    frame = BASE.assign(patient=["P0"] * 5 + IDS[5:], dx=["v", "w", "x", "y", "z", *("AB"[i % 2] for i in range(55))])
    assert summary_of(frame, "dx", id_column="patient").column.levels == ("A", "B")


def test_who_knows_all_rows_but_one_does_not_find_it_from_the_summary():
    """As they do who have the message too, with exact sums over all rows that were sent."""
    off = []
    for seed in range(40):
        ages = np.random.default_rng(seed).normal(50, 10, N)
        told = summary_of(BASE.assign(age=ages), "age")
        off.append(told.count * told.means[0] - ages[1:].sum() - ages[0])
    assert told.count == N
    assert np.median(np.abs(off)) > 10


@pytest.mark.parametrize("weight", [None, 1000.0])
def test_two_rows_far_from_all_others_are_not_found_by_subtraction_either(weight):
    off = []
    for seed in range(40):
        incomes = np.append(np.random.default_rng(seed).normal(50, 1, 2000), [9000.0, 11_000.0])
        frame = pd.DataFrame({"income": incomes, "age": np.random.default_rng(seed).normal(50, 10, 2002)})
        frame, options = (frame, {}) if weight is None else (frame.assign(w=weight), {"weight_column": "w"})
        told = summary_of(frame, "income", **options)
        off.append(told.count * told.means[0] / (weight or 1) - incomes[:-2].sum() - 20_000)
    assert np.median(np.abs(off)) > 0.1 * 20_000


def test_what_is_withheld_is_said(write, monkeypatch):
    frame = BASE.round(1).assign(viral=np.nan)
    frame.loc[:3, "viral"] = 7.5
    path = write(frame.to_csv(index=False))
    monkeypatch.chdir(path.parent)
    said = " ".join(invoked("summarize", path.name).stdout.split())
    assert "1 other: name and kind only (fewer than 15 filled rows or ids, " in said
