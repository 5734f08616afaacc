"""Columns in another unit are noticed where they are skewed, too; other groups of patients are not taken for one."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

import kfed
from kfed.server import ClusterModel
from kfed.site import TableSummary, cluster_file, label_rows, read_columns, units_that_differ

N_ROWS = 150


def frame(seed, **factors):
    """Three groups of patients; the columns of blood are skewed."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, N_ROWS)
    rows = pd.DataFrame(
        {
            "crp": rng.lognormal(np.log(8) + 1.2 * (group == 2), 1.0),
            "urea": rng.lognormal(np.log(5.5) + 0.5 * (group == 2), 0.35),
            "weight": rng.normal(80, 15, N_ROWS),
            "age": rng.normal(40 + 15 * group, 9),
        }
    )
    return rows.assign(**{name: rows[name] * factor for name, factor in factors.items()})


def message(name, rows):
    return cluster_file(rows, None, name).to_message()


@pytest.fixture(scope="module")
def others():
    return [message(f"{seed}", frame(seed)) for seed in range(4)]


@pytest.fixture(scope="module")
def clusters(others):
    return kfed.aggregate(others, 3)


UNITS = [("crp", 10.0), ("crp", 0.1), ("crp", 0.01), ("crp", 1000.0), ("urea", 6.006), ("weight", 2.2046)]


@pytest.mark.parametrize(("column", "factor"), UNITS)
@pytest.mark.parametrize("seed", [90, pytest.param(91, marks=pytest.mark.slow)])
def test_another_unit_of_a_column_whose_ranges_overlap_is_noticed(others, clusters, column, factor, seed):
    odd = message("odd", frame(seed, **{column: factor}))
    text = f"column {column!r} of 'odd' lies far from that of the other devices: is it in the same unit?"
    with pytest.warns(kfed.AggregationWarning):
        found = kfed.aggregate([*others, odd], 3).notices
    assert [notice.text for notice in found if notice.code == "other unit"] == [text]
    with pytest.warns(kfed.AggregationWarning, match="is it in the same unit") as late:
        clusters.assign(odd)
    assert [str(one.message) for one in late] == [text]


@pytest.mark.parametrize(("column", "factor"), [("crp", 1000.0), ("urea", 6.006)])
def test_it_is_noticed_in_summaries_and_in_new_rows_too(clusters, tmp_path, column, factor):
    odd = frame(90, **{column: factor})
    sites = {f"{seed}": frame(seed) for seed in range(4)} | {"odd": odd}
    said = units_that_differ({name: TableSummary.of(read_columns(own), 5) for name, own in sites.items()})
    assert [notice.text.partition(" lies")[0] for notice in said] == [f"column {column!r} of 'odd'"]
    odd.to_csv(tmp_path / "new.csv", index=False)
    for model in (clusters, ClusterModel.of(clusters)):
        found = label_rows(tmp_path / "new.csv", model).notices
        assert [notice.text.partition(" lies")[0] for notice in found] == [f"column {column!r} of the new rows"]


def test_it_is_noticed_on_a_scale_that_was_agreed_on():
    sites = {f"{seed}": frame(seed) for seed in range(4)}
    schema = kfed.site.agree({name: TableSummary.of(read_columns(own), 5) for name, own in sites.items()})
    sent = [
        cluster_file(own, None, name, schema=schema).to_message()
        for name, own in (sites | {"odd": frame(90, urea=6.006)}).items()
    ]
    codes = [notice.text for notice in kfed.aggregate(sent, 3).notices if notice.code == "other unit"]
    assert [text.partition(" lies")[0] for text in codes] == ["column 'urea' of 'odd'"]


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
@pytest.mark.parametrize("seed", range(3))
def test_sites_of_few_rows_are_in_the_same_unit(seed):
    sent = [message(f"{i}", frame(100 * seed + i)[:30]) for i in range(8)]
    assert "other unit" not in {notice.code for notice in kfed.aggregate(sent, 3).notices}


@pytest.mark.filterwarnings("ignore::kfed.AggregationWarning")
@pytest.mark.parametrize("n_malignant", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_site_with_another_group_in_many_columns_is_in_the_same_unit(n_malignant):
    points, is_benign = load_breast_cancer(return_X_y=True)
    tables = [*np.array_split(points[is_benign == 1], 5), *np.array_split(points[is_benign == 0], 4)[:n_malignant]]
    names = [f"x{i}" for i in range(points.shape[1])]
    sent = [message(f"{i}", pd.DataFrame(own, columns=names)) for i, own in enumerate(tables)]
    assert "other unit" not in {notice.code for notice in kfed.aggregate(sent, 2).notices}
