"""Three sites with tables as people have them, from `kfed device` to `kfed label`, and what is said on the way."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from consoles import run, said
from kfed.site import cluster_file
from three_sites import copied

MEANS = {"age": [30, 60, 75], "dose": [1.5, 4.0, 9.0]}
WARDS, EPOCH = np.array(["Nord", "Süd", "Ost"]), np.datetime64("2026-01-01")


def people(seed, groups):
    rng = np.random.default_rng(seed)
    own = np.repeat(groups, 30)
    age = rng.normal(np.array(MEANS["age"])[own], 3).round(1)
    dose = rng.normal(np.array(MEANS["dose"])[own], 0.4).round(2)
    visit = (EPOCH + (60 * own + rng.integers(0, 20, len(own)))).astype(str)
    ward = np.where(rng.random(len(own)) < 0.8, WARDS[own], WARDS[rng.integers(3, size=len(own))])
    smoker = rng.random(len(own)) < np.array([0.1, 0.5, 0.9])[own]
    return own, age, dose, visit, ward, smoker


def texts():
    """Semicolons and decimal commas in Latin-1 with a title; tabs in UTF-16; and a compressed file with commas."""
    own, age, dose, visit, ward, smoker = people(0, [0, 1])
    lines = ["Ausleitung Süd;;;;;;;", "Patient;age;dose;visit;ward;smoker;note;"]
    for i in range(len(own)):
        cells = [f"P{i}", f"{age[i]}", f"{dose[i]}", visit[i], ward[i], "ja" if smoker[i] else "nein", "", ""]
        cells[1], cells[2] = cells[1].replace(".", ","), "n/a" if i % 9 == 0 else cells[2].replace(".", ",")
        lines.append(";".join(cells))
    yield "south.csv", "\r\n".join(lines).encode("latin-1"), own
    own, age, dose, visit, ward, smoker = people(1, [1, 2])
    lines = ["smoker\tward\tmrn\tvisit\tdose\tage\tnote"]
    for i in range(len(own)):
        cells = [f"{int(smoker[i])}", ward[i], f"{7919 * i % 100_003}", visit[i], f"{dose[i]}", f"{age[i]}", ""]
        cells[4] = "<0.5" if i % 10 == 0 else cells[4]
        lines.append("\t".join(cells))
    yield "east.tsv", "\n".join(lines).encode("utf-16"), own
    own, age, dose, visit, ward, smoker = people(2, [0, 2])
    lines = ["age,visit,ward,note,dose,smoker"]
    for i in range(len(own)):
        cells = [f"{age[i]}", visit[i] if i % 7 else "", ward[i], "", f"{dose[i]}", str(bool(smoker[i]))]
        lines.append(",".join(cells))
    yield "west.csv.gz", gzip.compress("\n".join(lines).encode()), own


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder after the whole round: what each command said as JSON, and the group of each row."""
    folder, facts, groups = tmp_path_factory.mktemp("messy"), {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, content, own in texts():
            Path(name).write_bytes(content)
            site = name.split(".")[0]
            options = ["--id-column", "Patient"] if site == "south" else []
            told = run("device", name, "-k", 2, "--id", site, "-o", f"{site}.kfed", "--json", *options)
            facts[site], groups[site] = json.loads(told), own
        sites = [f"{site}.kfed" for site in groups]
        facts["all"] = json.loads(run("aggregate", *sites, "-k", 3, "-o", "clusters.kfed", "--json"))
    return folder, facts, groups


@pytest.fixture
def folder(done, tmp_path, monkeypatch):
    return copied(done[0], tmp_path, monkeypatch)


def test_the_groups_of_messy_tables_are_found(folder, done):
    found, groups = [], []
    for site, own in done[2].items():
        lines = run("label", f"{site}.local", "--clusters", "clusters.kfed").splitlines()[1:]
        found += [line.rsplit(",", 1)[1] for line in lines]
        groups += own.tolist()
    assert adjusted_rand_score(groups, found) > 0.97


def test_what_is_odd_about_each_table_is_said_with_a_code(done):
    codes = {site: [warning["code"] for warning in facts["warnings"]] for site, facts in done[1].items()}
    assert codes["south"] == ["title", "missing cells", "empty"]
    assert codes["east"] == ["missing cells", "rare level", "identifier", "empty"]
    assert codes["west"] == ["missing cells", "rare level", "empty"]
    assert all(set(warning) == {"code", "text"} for warning in done[1]["all"]["warnings"])
    assert "mrn" not in done[1]["east"]["feature_names"]


def test_centers_are_shown_with_dates_and_without_what_is_not_told(folder):
    shown = run("inspect", "west.kfed", "--centers")
    line = next(line for line in shown.splitlines() if "visit" in line and "2026" in line)
    assert line.count("2026-0") == 2
    facts = json.loads(run("inspect", "clusters.kfed", "--centers", "--json"))
    assert len(facts["centers"]) == 3


def test_a_value_that_is_not_told_is_not_shown_as_zero(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 7},{i % 5},{3 if i < 3 else ''}\n" for i in range(40))
    Path("a.csv").write_text("x,y,rare\n" + rows)
    cluster_file("a.csv", 1, "a").save_with_message(Path("a.local"), Path("a.kfed"))
    assert json.loads(run("inspect", "a.kfed", "--centers", "--json"))["centers"][0][2] is None
    line = next(line for line in run("inspect", "a.kfed", "--centers").splitlines() if "│ rare" in line)
    assert line.split("│")[2].strip() == "-"


def test_a_row_without_any_cell_has_no_distance(folder):
    Path("new.csv").write_text("age,dose,visit,ward,smoker,note\n31,1.5,2026-01-05,Nord,no,\n,n/a,,,,\n")
    code, out, err = said("label", "new.csv", "--clusters", "clusters.kfed", "--distances")
    assert code == 0
    first, second = (line.split(",") for line in out.splitlines()[1:])
    assert float(first[2]) < float(first[3])
    assert second[2:] == ["", ""]
    assert "1 row has no filled cell: its cluster is arbitrary, and the distance is empty" in err
    _, _, err = said("label", "new.csv", "--clusters", "clusters.kfed")
    assert "1 row has no filled cell: its cluster is arbitrary\n" in err
    facts = json.loads(run("label", "new.csv", "--clusters", "clusters.kfed", "--json"))
    assert (facts["n_empty_rows"], facts["distances"][1]) == (1, None)


def test_the_kind_of_a_column_can_be_named_on_the_command_line(folder):
    kinds = "smoker=category,ward=category"
    facts = json.loads(run("device", "east.tsv", "-k", 2, "--kinds", kinds, "-o", "k.kfed", "--json"))
    assert {"smoker=0", "smoker=1"} <= set(facts["feature_names"])
    assert "--kinds" in run("device", "east.tsv", "-k", 2, "--kinds", "smoker", "-o", "l.kfed", code=2)
