"""`kfed join` takes the columns of the federation from a table, by name, and sends no other."""

import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from coordinators import ADMIN, Caller

from consoles import run, said
from kfed.coordinator.client import Terms
from kfed.site import LocalFile

COLUMNS = ("age", "dose", "ward")


def write(site, columns, seed=0, n_rows=60):
    """A table of two groups of rows with these columns, in this order."""
    rng = np.random.default_rng(seed)
    group = np.repeat((0, 1), n_rows // 2)
    cells = {
        "age": np.round(40 + 20 * group + rng.normal(size=n_rows), 2),
        "dose": np.round(0.01 + 0.04 * group + rng.normal(scale=0.002, size=n_rows), 4),
        "ward": np.where(group == 0, "A", "B"),
        "hb": np.round(rng.normal(13, 1, n_rows), 2),
        "hb2": np.round(rng.normal(13, 1, n_rows), 2),
        "code": rng.permutation(n_rows) + 5000,
    }
    lines = [",".join(str(cells[name.strip().lower()][i]) for name in columns) for i in range(n_rows)]
    Path(f"{site}.csv").write_text("\n".join([",".join(columns), *lines, ""]))


@pytest.fixture
def url(run_server, tmp_path, monkeypatch):
    """Where a coordinator is, from a folder with its admin token."""
    monkeypatch.chdir(tmp_path)
    Path("admin.token").write_text(ADMIN)
    return str(run_server("kfed.db").base_url)


def create(url, *terms):
    run("federation", "create", "sites", *terms, "-k", 2, "--quorum", 9, "--url", url)


def join(url, site, *more):
    own = ["--federation", "sites", "--token-file", "sites.token", "--id", site, "--data", f"{site}.csv", "-k", 2]
    return said("join", url, *own, "--no-wait", *more)


def sent_columns(site):
    message = LocalFile.load(f"{site}.local").to_message()
    return sorted(column.name for column in message.schema.columns)


def n_joined(url):
    return json.loads(run("federation", "show", "sites", "--url", url, "--json"))["n_devices"]


def test_columns_that_the_federation_does_not_have_stay_here_and_are_named(url):
    create(url, "--columns", ",".join(COLUMNS))
    write("north", ("hb", "ward", "age", "dose"))
    code, _, err = join(url, "north")
    assert code == 0, err
    assert "left out of north.csv: 'hb'" in err
    assert sent_columns("north") == sorted(COLUMNS)


def test_columns_that_the_first_message_fixed_hold_for_those_that_follow(url):
    with httpx.Client(base_url=url) as http:
        made = Caller(http).create("sites", n_features=3, by_column=True)
    Path("sites.token").write_text(made["join_token"])
    write("north", COLUMNS)
    write("south", (*COLUMNS, "hb"), seed=1)
    assert join(url, "north")[0] == 0
    code, _, err = join(url, "south")
    assert code == 0, err
    assert sent_columns("south") == sorted(COLUMNS)


def test_numbers_that_are_taken_as_they_are_are_found_by_name_in_any_order(url):
    create(url, "--features", "age,dose")
    write("north", ("hb", "dose", "age"))
    code, _, err = join(url, "north")
    assert code == 0, err
    assert LocalFile.load("north.local").to_message().feature_names == ("age", "dose")


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (("age", "dose", "hb"), (), "federation sites clusters by 'ward', which this table does not have"),
        (("Age", "dose", "ward"), (), "'Age' must be spelled as in federation sites: 'age'"),
        (COLUMNS, ("--exclude", "dose"), "clusters by 'dose', so --exclude must not name it"),
        (COLUMNS, ("--id-column", "ward"), "clusters by 'ward', so --id-column must not name it"),
        (COLUMNS, ("--columns", "age,dose"), "--columns differs in 'ward'; leave out --columns"),
    ],
)
def test_a_table_that_cannot_be_taken_is_refused_before_anything_is_sent(url, columns, options, words):
    create(url, "--columns", ",".join(COLUMNS))
    write("north", columns)
    code, _, err = join(url, "north", *options)
    assert code == 1
    assert words in err
    assert n_joined(url) == 0
    assert not Path("north.ticket").exists()


def test_an_identifier_is_not_sent_because_the_federation_names_it(url):
    create(url, "--columns", "age,dose,patient_id")
    write("north", ("age", "dose", "code"))
    Path("north.csv").write_text(Path("north.csv").read_text().replace("code", "patient_id"))
    code, _, err = join(url, "north")
    assert code == 1
    assert "clusters by 'patient_id', which looks like an identifier at this site; nothing was sent" in err
    assert "If it is not, state its kind, for example --kinds patient_id=number" in " ".join(err.split())
    assert n_joined(url) == 0
    code, _, err = join(url, "north", "--kinds", "patient_id=number")
    assert code == 0, err


def test_a_site_hears_what_is_wrong_with_its_table_before_it_sends_and_once(url):
    create(url, "--columns", ",".join(COLUMNS))
    write("north", COLUMNS, n_rows=10)
    own = ["--federation", "sites", "--token-file", "sites.token", "--data", "north.csv", "-o", "labels.csv"]
    code, _, err = said("join", url, *own, "--timeout", 0)
    assert code == 1
    warning = "warning: nothing can be sent"
    assert err.count(warning) == 1
    assert err.index(warning) < err.index("sent; 1 device joined")


def test_a_coordinator_that_names_no_columns_has_terms_without_them():
    assert Terms.restored({"by_column": True}).names is None
    assert Terms.restored({"by_column": True, "feature_names": ["b", "a"]}).names == ("b", "a")


def test_an_identifier_of_a_table_taken_as_it_is_stops_a_site_before_it_sends(url):
    create(url, "--columns", "age,dose,code")
    write("north", ("age", "dose", "code"))
    code, _, err = join(url, "north", "--as-is")
    assert code == 1
    assert "clusters by 'code', which looks like an identifier at this site; nothing was sent" in " ".join(err.split())
    assert "state its kind, for example --by-column --kinds code=number" in " ".join(err.split())
    assert n_joined(url) == 0
    code, _, err = join(url, "north", "--by-column", "--kinds", "code=number")
    assert code == 0, err
