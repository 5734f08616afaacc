"""The walk-throughs of the README and of the docs work word for word."""

from __future__ import annotations

import csv
import fcntl
import re
import shlex
import shutil
import socket
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from consoles import exit_code, run

ROOT = Path(__file__).parent.parent
CLINICS = ("north", "south", "east", "west")
KFED = Path(sysconfig.get_path("scripts")) / "kfed"


def commands_of_the_walkthrough(section: str, page: str = "README.md") -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    return [shlex.split(line[2:]) for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture(
    scope="module",
    params=[("For a consortium, without a server", "README.md"), ("A tree of files", "docs/explanation-scale.md")],
    ids=["consortium", "tree"],
)
def folder_after_the_walkthrough(tmp_path_factory, request):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(examples_in(tmp_path_factory))
        for command in commands_of_the_walkthrough(*request.param):
            if command[0] == "cd":
                patch.chdir(command[1])
                continue
            assert command[0] == "kfed"
            run(*command[1:])
        return Path.cwd()


def examples_in(tmp_path_factory) -> Path:
    """A folder with a fresh copy of the examples."""
    root = tmp_path_factory.mktemp("newcomer")
    shutil.copytree(ROOT / "examples", root / "examples", ignore=shutil.ignore_patterns("*.kfed", "*.local"))
    return root


@pytest.mark.skipif(not KFED.exists(), reason="kfed is not installed as a command")
def test_the_command_that_is_installed_is_the_command_line():
    done = subprocess.run([KFED, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--version")


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def clusters_of_each_kind(folder: Path, ending: str) -> dict[str, set[str]]:
    """The clusters that each kind of patient got, at all clinics."""
    found: dict[str, set[str]] = {}
    for clinic in CLINICS:
        patients, labels = table_of(folder / f"{clinic}.csv"), table_of(folder / f"{clinic}-{ending}.csv")
        assert [row["patient"] for row in labels] == [row["patient"] for row in patients]
        for patient, row in zip(patients, labels, strict=True):
            found.setdefault(kind_of(patient), set()).add(row["cluster"])
    return found


def kind_of(patient: dict[str, str]) -> str:
    if float(patient["glucose"]) > 140:
        return "diabetes"
    if float(patient["systolic"]) > 136:
        return "hypertension"
    return "frail" if float(patient["age"]) > 60 else "young and well"


def is_one_cluster_for_each_kind(clusters: dict[str, set[str]]) -> bool:
    return len(clusters) == len(set.union(*clusters.values())) == 4 and all(len(own) == 1 for own in clusters.values())


def test_every_clinic_labels_every_patient(folder_after_the_walkthrough):
    for clinic in CLINICS:
        patients, labels = (table_of(folder_after_the_walkthrough / f"{clinic}{end}.csv") for end in ("", "-labels"))
        assert [row["patient"] for row in labels] == [row["patient"] for row in patients]


def test_one_kind_of_patient_gets_one_cluster_at_all_clinics(folder_after_the_walkthrough):
    assert is_one_cluster_for_each_kind(clusters_of_each_kind(folder_after_the_walkthrough, "labels"))


def test_no_patient_is_in_the_files_that_are_sent(folder_after_the_walkthrough):
    for clinic in CLINICS:
        sent = (folder_after_the_walkthrough / f"{clinic}.kfed").read_bytes()
        assert re.search(rb"[NSEW]\d{3}", sent) is None


@pytest.fixture(scope="module")
def port_of_the_readme():
    """The port that the README serves at, for one process of the tests at a time."""
    with (Path(tempfile.gettempdir()) / "kfed-tests-8765.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                free.bind(("127.0.0.1", 8765))
            except OSError:
                pytest.skip("port 8765 is in use")
        yield 8765


@pytest.fixture(scope="module")
def folder_after_the_coordinator(tmp_path_factory, port_of_the_readme):
    """What is there after `kfed serve` in one terminal, three `kfed join` in others, and a late fourth."""
    pytest.importorskip("fastapi", reason="the coordinator's extra is not installed")
    (_, folder), serve, create, *early, late = commands_of_the_walkthrough("With a coordinator")
    here = examples_in(tmp_path_factory) / folder
    serving = subprocess.Popen([KFED, *serve[1:]], cwd=here, stdout=subprocess.PIPE, text=True)
    try:
        assert f"serving at http://127.0.0.1:{port_of_the_readme}" in serving.stdout.readline()
        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as terminals:
            patch.chdir(here)
            run(*create[1:])
            joined = [terminals.submit(exit_code, *command[1:]) for command in early]
            assert [terminal.result(timeout=60) for terminal in joined] == [0, 0, 0]
            run(*late[1:])
    finally:
        serving.terminate()
        serving.communicate(timeout=20)
    return here


def test_with_a_coordinator_one_kind_of_patient_gets_one_cluster_at_all_clinics(folder_after_the_coordinator):
    assert is_one_cluster_for_each_kind(clusters_of_each_kind(folder_after_the_coordinator, "joined"))


def test_what_a_coordinator_keeps_knows_no_patient(folder_after_the_coordinator):
    kept = b"".join(path.read_bytes() for path in folder_after_the_coordinator.glob("kfed.db*"))
    assert b"north" in kept
    assert re.search(rb"[NSEW]\d{3}\b", kept) is None
