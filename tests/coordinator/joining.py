"""Sites that join a coordinator by the command line: their tables, and what they call."""

import csv
from pathlib import Path

import pytest
from coordinators import ADMIN, MEANS

from consoles import run, write_sites


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the tables of four sites and an admin token."""
    monkeypatch.chdir(tmp_path)
    write_sites(".", MEANS, ["row", "x", "y"], 1.0)
    Path("admin.token").write_text(ADMIN)
    return tmp_path


def join_arguments(url, site, *more):
    own = ["--federation", "sites", "--token-file", "sites.token", "--id", site, "--data", f"{site}.csv", "-k", 2]
    return ["join", url, *own, "--id-column", "row", *more]


@pytest.fixture
def url(run_server, folder):
    """Where a coordinator is that has a federation waiting for three sites."""
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--features", "x,y", "-k", 4, "--quorum", 3, "--url", url)
    return url


def labels_of(path):
    with Path(path).open() as file:
        return {row["row"]: row["cluster"] for row in csv.DictReader(file)}
