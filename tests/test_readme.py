"""The walk-throughs of the README and of the docs work word for word."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import shlex
import shutil
import subprocess
import sysconfig
import warnings
from collections import Counter
from pathlib import Path

import pytest
import typer

from few_numbers import compare_few
from kfed.cli import app

ROOT = Path(__file__).parent.parent
KFED = Path(sysconfig.get_path("scripts")) / "kfed"
ADDRESS = "http://127.0.0.1:8765"


def commands_of_the_walkthrough(section: str, page: str = "README.md") -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return commands_in(text)


def commands_in(text: str) -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(line, comments=True) for line in lines]


def run_in(folder: Path, command: list[str]) -> str:
    """Run a command as in a terminal of its own that stands in a folder, without the time to start a program."""
    assert command[0] == "kfed"
    said = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as left,
    ):
        app(command[1:])
    assert not left.value.code, f"{shlex.join(command)}\n{said.getvalue()}"
    return said.getvalue()


@pytest.fixture(
    scope="module",
    params=[
        ("For a consortium, without a server", "README.md"),
        ("A tree of files", "docs/explanation-scale.md"),
        pytest.param(("In ten minutes", "docs/tutorial.md"), marks=pytest.mark.slow),
    ],
    ids=["consortium", "tree", "tutorial"],
)
def folder_after_the_walkthrough(tmp_path_factory, request):
    root = tmp_path_factory.mktemp("newcomer")
    shutil.copytree(ROOT / "examples", root / "examples", ignore=shutil.ignore_patterns("*.kfed", "*.local"))
    here = root
    with pytest.MonkeyPatch.context() as patched:
        if request.param[0] != "In ten minutes":  # which is slow, and compares as many numbers as users do
            compare_few(patched)
        for command in commands_of_the_walkthrough(*request.param):
            if command[0] == "cd":
                here = here / command[1]
            else:
                run_in(here, command)
    return here


@pytest.mark.slow
def test_what_the_walkthrough_shows_is_what_its_commands_print(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## For a consortium, without a server\n")[2]
    text = text.partition("\n## ")[0]
    shown = "".join(re.findall(r"```text\n(.+?)```", text, flags=re.DOTALL)).splitlines()
    shutil.copytree(ROOT / "examples/hospitals", tmp_path / "hospitals")
    printed = "".join(run_in(tmp_path / "hospitals", own) for own in commands_in(text) if own[0] != "cd").splitlines()
    assert len(shown) == 6
    assert [line for line in shown if not any(one.startswith(line) for one in printed)] == []


def kind_of(patient: dict[str, str]) -> str | None:
    """What is wrong with a patient, by the cells that are filled; None if they do not say."""
    known = {}
    for name in ("glucose", "systolic", "age"):
        with contextlib.suppress(ValueError):
            known[name] = float(patient[name].replace(",", "."))
    if known.get("glucose", 0) > 140:
        return "diabetes"
    if known.get("systolic", 0) > 146 or ("glucose" in known and known.get("systolic", 0) > 136):
        return "hypertension"
    if len(known) < 3:
        return None
    return "frail" if known["age"] > 60 else "young and well"


CLINICS = ("north", "south", "east", "west")


def table(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(lines, delimiter=";" if ";" in lines[0] else ","))


def kinds_in(folder, clinic):
    """The kind of each patient of a clinic, by name and in the order of its table; None if its cells do not say."""
    return {row["patient"]: kind_of(row) for row in table(folder / f"{clinic}.csv")}


def test_every_clinic_labels_every_patient(folder_after_the_walkthrough):
    for clinic in CLINICS:
        labelled = table(folder_after_the_walkthrough / f"{clinic}-labels.csv")
        assert [row["patient"] for row in labelled] == list(kinds_in(folder_after_the_walkthrough, clinic))


def test_one_kind_of_patient_gets_one_cluster_at_all_clinics(folder_after_the_walkthrough):
    found: dict[str, Counter[str]] = {}
    for clinic in CLINICS:
        kinds = kinds_in(folder_after_the_walkthrough, clinic)
        for row in table(folder_after_the_walkthrough / f"{clinic}-labels.csv"):
            if kinds[row["patient"]] is not None:
                found.setdefault(kinds[row["patient"]], Counter())[row["cluster"]] += 1
    clusters = {kind: counts.most_common(1)[0] for kind, counts in found.items()}
    assert len({cluster for cluster, _ in clusters.values()}) == 4
    for kind, (_, n_agreed) in clusters.items():
        assert n_agreed >= 0.99 * sum(found[kind].values()), (kind, found)


def test_no_patient_is_in_the_files_that_are_sent(folder_after_the_walkthrough):
    for clinic in CLINICS:
        sent = (folder_after_the_walkthrough / f"{clinic}.kfed").read_bytes()
        assert re.search(rb"[NSEW]\d{3}", sent) is None


def test_the_three_commands_of_the_first_page_label_the_rows_of_every_site(tmp_path, few_compared):
    device, aggregate, label = commands_in((ROOT / "docs/index.md").read_text(encoding="utf-8"))
    for clinic in CLINICS:
        shutil.copy(ROOT / "examples/hospitals" / f"{clinic}.csv", tmp_path)
        run_in(tmp_path, at(clinic, device))
    run_in(tmp_path, [name for part in aggregate for name in matching(tmp_path, part)])
    for clinic in CLINICS:
        labels = re.findall(r"^\d+,\d+$", run_in(tmp_path, at(clinic, label)), flags=re.MULTILINE)
        assert len(labels) == len(table(tmp_path / f"{clinic}.csv"))


def at(clinic: str, command: list[str]) -> list[str]:
    return [part.replace("north", clinic) for part in command]


def matching(folder: Path, part: str) -> list[str]:
    """The files that a shell puts in the place of a pattern."""
    return sorted(path.name for path in folder.glob(part)) if "*" in part else [part]


@pytest.fixture(scope="module")
def folder_after_the_coordinator(tmp_path_factory):
    """What is there after `kfed serve` in a terminal, three `kfed join` at a time, and a late fourth."""
    pytest.importorskip("fastapi", reason="the coordinator's extra is not installed")
    if not KFED.exists():
        pytest.skip("kfed is not installed as a command")
    root = tmp_path_factory.mktemp("newcomer")
    shutil.copytree(ROOT / "examples", root / "examples", ignore=shutil.ignore_patterns("*.kfed", "*.local"))
    (_, folder), serve, create, *early, late = commands_of_the_walkthrough("With a coordinator")
    here = root / folder
    serving = subprocess.Popen([KFED, *serve[1:], "--port", "0"], cwd=here, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"serving at (http://127\.0\.0\.1:\d+)", serving.stdout.readline()).group(1)
        run_in(here, [*create, "--url", address])
        joins = [[address if part == ADDRESS else part for part in command[1:]] for command in early]
        assert len(joins) == 3
        terminals = [subprocess.Popen([KFED, *command], cwd=here, stdout=subprocess.DEVNULL) for command in joins]
        try:
            assert [terminal.wait(timeout=120) for terminal in terminals] == [0, 0, 0]
        finally:
            for terminal in terminals:
                terminal.kill()
        run_in(here, [address if part == ADDRESS else part for part in late])
    finally:
        serving.terminate()
        serving.communicate(timeout=20)
    return here


def test_the_address_of_the_walkthrough_is_where_a_coordinator_listens_and_an_administrator_asks():
    commands = typer.main.get_command(app).commands
    serve = {option.name: option.default for option in commands["serve"].params}
    create = {option.name: option.default for option in commands["federation"].commands["create"].params}
    assert f"http://{serve['host']}:{serve['port']}" == create["url"] == ADDRESS


@pytest.mark.slow
def test_with_a_coordinator_one_kind_of_patient_gets_one_cluster_at_all_clinics(folder_after_the_coordinator):
    found: dict[str, Counter[str]] = {}
    for clinic in CLINICS:
        kinds = kinds_in(folder_after_the_coordinator, clinic)
        rows = table(folder_after_the_coordinator / f"{clinic}-joined.csv")
        assert [row["patient"] for row in rows] == list(kinds)
        for row in rows:
            if kinds[row["patient"]] is not None:
                found.setdefault(kinds[row["patient"]], Counter())[row["cluster"]] += 1
    clusters = {kind: counts.most_common(1)[0] for kind, counts in found.items()}
    assert len({cluster for cluster, _ in clusters.values()}) == 4
    # The center of five young patients in rare wards is sent without their age, which one of them lacks, and goes to
    # the frail. Clinics see no center of fewer than three clinics, by which they could tell these patients otherwise.
    assert sum(n_agreed for _, n_agreed in clusters.values()) >= 0.99 * sum(
        sum(counts.values()) for counts in found.values()
    )
    assert all(n_agreed >= 0.95 * sum(found[kind].values()) for kind, (_, n_agreed) in clusters.items())


@pytest.mark.slow
def test_what_a_coordinator_keeps_knows_no_patient(folder_after_the_coordinator):
    kept = b"".join(path.read_bytes() for path in folder_after_the_coordinator.glob("kfed.db*"))
    assert b"north" in kept
    assert re.search(rb"[NSEW]\d{3}\b", kept) is None
