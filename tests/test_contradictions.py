"""Options that contradict each other are refused, with what to leave out."""

import numpy as np
import pytest

from consoles import run
from kfed.errors import InvalidInputError
from kfed.site import cluster_file, read_columns, read_schema

SCALE = '{"age": {"shift": 50, "scale": 10}, "crea": {"shift": 1, "scale": 0.2}, "hiv": {"shift": 0, "scale": 1}}'


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of three columns, a schema of all of them, and the scale of two."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(60, 3)).round(6).tolist()
    lines = ["age,crea,hiv", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "site.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "schema.json").write_text(SCALE)
    (tmp_path / "other.json").write_text(SCALE.replace("50", "40"))
    return tmp_path / "site.csv"


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (["--columns", "age,crea"], "--columns"),
        (["--as-is"], "--as-is"),
        (["--scale", "other.json"], "--scale"),
        (["--missing", "drop"], "--missing"),
        (["--kinds", "age=category"], "--kinds"),
    ],
)
def test_an_option_that_contradicts_the_schema_is_refused(table, option, name):
    said = run("device", table, "--schema", "schema.json", *option, code=1)
    assert f"--schema fixes columns, kinds, scale and missing cells; leave out {name}" in " ".join(said.split())
    assert not (table.parent / "site.kfed").exists()


def test_an_option_that_says_the_same_as_the_schema_is_not_refused(table):
    same = ["--columns", "hiv,age,crea", "--scale", "schema.json", "--missing", "observed"]
    run("device", table, "--schema", "schema.json", *same)
    assert cluster_file(table, None, "site", schema="schema.json").to_message().n_features == 3


def test_columns_beside_a_schema_are_refused_in_python_too(table):
    with pytest.raises(InvalidInputError, match="leave out --columns, or agree on a schema of these columns alone"):
        read_columns(table, schema=read_schema("schema.json"), columns=["age"])


@pytest.mark.parametrize("cell", ["", "red"])
def test_a_wide_table_with_text_or_missing_cells_is_told_of_the_limit_and_what_takes_it(tmp_path, monkeypatch, cell):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(40, 299)).round(3).astype(str).tolist()
    cells = [cell, *(["1.5"] if not cell else ["red"]) * 39]
    lines = [",".join(["first", *(f"c{i}" for i in range(299))])]
    lines += [",".join([own, *row]) for own, row in zip(cells, rows, strict=True)]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    said = " ".join(run("device", "wide.csv", code=1).split())
    assert "use --by-column" in said
    assert "more than 256 columns must hold numbers alone" in said
    run("device", "wide.csv", "--by-column")
    assert "--by-column" not in run("device", "wide.csv", "--as-is", "-o", "again.kfed", code=1)


def test_columns_that_are_not_used_do_not_make_a_table_wide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(40, 258)).round(3).astype(str).tolist()
    lines = [",".join(f"c{i}" for i in range(258)), *map(",".join, rows)]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    for more in (["--columns", "c0,c1,c2"], ["--exclude", "c0,c1"], ["--id-column", "c0", "--exclude", "c1"]):
        assert "as they are" not in run("device", "wide.csv", "--force", *more)
    assert "257 columns to cluster by, more than 256" in " ".join(
        run("device", "wide.csv", "--force", "--id-column", "c0").split()
    )


def test_a_scale_that_would_not_be_used_is_refused(table):
    said = " ".join(run("device", "site.csv", "--scale", "schema.json", "--by-column", code=1).split())
    assert "--scale is for numbers that are taken as they are; leave out --by-column" in said
    with pytest.raises(InvalidInputError, match="pass the file with --schema"):
        cluster_file(table, 2, "a", scale="schema.json", as_is=False)
