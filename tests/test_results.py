"""Results: a tidy table in every form, and comparisons that go by pairs."""

import csv

import numpy as np
import pytest
from scipy import stats

import kfed
from kfed.results import Paired, Results

pd = pytest.importorskip("pandas")

GAINS = [0.02, 0.03, 0.01, 0.05]


@pytest.fixture
def results():
    ours = [{"method": "k-FED", "data": "a_b", "seed": s, "ari": 0.8 + s / 50, "bytes": 100} for s in range(4)]
    theirs = [{"method": "mine", "data": "a_b", "seed": s, "ari": 0.8 + s / 50 + g} for s, g in enumerate(GAINS)]
    return Results([*ours, *reversed(theirs)])


def test_every_form_holds_the_same_rows(results, tmp_path):
    frame = results.to_frame()
    assert frame.columns.tolist() == ["method", "data", "seed", "ari", "bytes"]
    results.to_csv(tmp_path / "r.csv")
    results.to_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "r.csv"), frame, check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "r.parquet"), frame)
    with (tmp_path / "r.csv").open() as file:
        assert next(csv.DictReader(file))["ari"] == "0.8"


def test_a_summary_has_mean_sample_deviation_and_number_of_each_group(results):
    first, second = results.summary("method", ["ari", "bytes"]).rows
    own = 0.8 + np.arange(4) / 50
    assert first["ari_mean"] == pytest.approx(own.mean())
    assert first["ari_std"] == pytest.approx(own.std(ddof=1))
    assert (first["ari_n"], first["bytes_n"], second["bytes_n"]) == (4, 4, 0)


def test_a_latex_table_escapes_names_and_shows_what_is_missing(results):
    lines = results.to_latex(["data", "method"], ["ari", "bytes"], digits=2).splitlines()
    assert lines[0] == r"\begin{tabular}{llrr}"
    assert lines[4] == r"a\_b & k-FED & $0.83 \pm 0.03$ (4) & $100.00 \pm 0.00$ (4) \\"
    assert lines[5].endswith(r"(4) & -- \\")


def test_methods_are_compared_over_the_runs_that_they_share_in_any_order(results):
    found = results.paired("mine", "k-FED", "ari")
    expected = stats.ttest_1samp(GAINS, 0)
    assert found.mean_difference == pytest.approx(np.mean(GAINS))
    assert found.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.n_pairs, found.n_better, found.n_worse) == (4, 4, 0)


def test_methods_that_always_agree_do_not_differ():
    found = Paired.of(np.zeros(3))
    assert (found.mean_difference, found.p_value, found.n_better) == (0, 1, 0)


def test_a_constant_difference_is_certain():
    assert Paired.of(np.full(3, 0.5)).p_value == 0


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda r: r.paired("mine", "yours", "ari"), "must share at least 2 runs to be compared; they share 0"),
        (lambda r: r.summary("metod", ["ari"]), "column not found: 'metod'; the columns are method, data, seed"),
        (lambda r: r.to_latex("method", ["nmi"]), "column not found: 'nmi'"),
    ],
)
def test_what_cannot_be_compared_is_refused(results, ask, match):
    with pytest.raises(kfed.InvalidInputError, match=match):
        ask(results)
