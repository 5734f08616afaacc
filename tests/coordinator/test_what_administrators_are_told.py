"""What the commands of an administrator say where a name is taken or bad, and what they leave behind then."""

import socket
from pathlib import Path

import pytest
from coordinators import ADMIN, MEANS, messages

from consoles import run


@pytest.fixture
def url(run_server, tmp_path, monkeypatch):
    """Where a coordinator is; the working directory is empty but for its admin token."""
    monkeypatch.chdir(tmp_path)
    Path("admin.token").write_text(ADMIN)
    return str(run_server("kfed.db").base_url)


def test_a_federation_that_exists_is_told_as_such_and_its_token_stays(url):
    create = ["federation", "create", "clinics", "--features", "x,y", "--url", url]
    run(*create)
    token = Path("clinics.token").read_bytes()
    refused = run(*create, code=1)
    assert "there is a federation 'clinics' already" in refused
    assert "--force" not in refused
    run("federation", "delete", "clinics", "--yes", "--url", url)
    assert "clinics.token exists already" in run(*create, code=1)
    assert Path("clinics.token").read_bytes() == token
    run(*create, "--force")
    assert Path("clinics.token").read_bytes() != token


@pytest.mark.parametrize("name", ["h 4/ü", "-clinics", "a" * 64])
def test_a_bad_name_is_told_before_the_file_for_its_token(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    refused = run("federation", "create", "--features", "x,y", "--", name, code=1)
    assert "name must be 1 to 63 letters, digits" in refused
    assert "folder" not in refused


def test_a_busy_port_is_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        refused = run("serve", "--port", busy.getsockname()[1], code=1)
    assert "cannot listen on" in refused
    assert list(tmp_path.iterdir()) == []


def test_a_download_is_chosen_by_the_ending_of_its_output(socket_caller, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("admin.token").write_text(ADMIN)
    socket_caller.create_aggregated(messages(4, means=MEANS))
    download = ["federation", "download", "clinics", "--url", str(socket_caller.http.base_url)]
    for output, same in {"all.kfed": "--aggregation", "all.html": "--report", "all.csv": "--centers"}.items():
        assert "use only one of them" in run(*download, "-o", output, same, "other", code=1)
        run(*download, "-o", output)
        run(*download, same, "other", "--force")
        assert Path(output).read_bytes() == Path("other").read_bytes()
    assert "must end with .kfed, .html or .csv" in run(*download, "-o", "all.txt", code=1)
