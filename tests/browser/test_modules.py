"""What runs in a browser does what Python does: the same random numbers, the same groups, the same bytes."""

import base64
import hashlib
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import kfed
from kfed._base import random as by_key
from kfed._base.identifier_names import may_count, names_a_person, names_people, names_rows
from kfed.device import own_scale
from kfed.site import cluster_file, read_columns
from kfed.wire import Details

SOURCES = Path(kfed.__file__).parent / "coordinator" / "browser"


@pytest.fixture(scope="session")
def node():
    """The program Node, version 20 or newer."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed (Debian package nodejs)")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version[1:].split(".")[0]) < 20:
        pytest.skip(f"node must be version 20 or newer; got {version.strip()}")
    return found


@pytest.fixture(scope="session")
def in_node(node):
    """Run jobs of `drive.mjs` in one process; gives their results, or the words of an error."""

    def run(jobs):
        for job in jobs:
            for name in ("table", "answer"):
                if isinstance(job.get(name), bytes):
                    job[name] = base64.b64encode(job[name]).decode()
        driver = Path(__file__).with_name("drive.mjs")
        done = subprocess.run(
            [node, driver, SOURCES], input=json.dumps(jobs), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def as_csv(frame):
    text = io.StringIO()
    for line in frame:
        text.write(",".join(str(cell) for cell in line) + "\n")
    return text.getvalue().encode()


def numbers(rng, n_clusters, n_rows, n_columns, spread=6.0, digits=None):
    """Rows around some means, all of them away from zero."""
    means = rng.normal(scale=spread, size=(n_clusters, n_columns)) + rng.normal(scale=4, size=n_columns)
    rows = means[rng.integers(n_clusters, size=n_rows)] + rng.normal(size=(n_rows, n_columns))
    return rows if digits is None else np.round(rows, digits)


def terms_of(names, by_column=False):
    return {"by_column": by_column, "n_features": len(names), "feature_names": list(names)}


def message_of(answer):
    return kfed.DeviceMessage.from_bytes(base64.b64decode(answer["result"]["bytes"]))


def test_nodes_own_tests_pass(node):
    done = subprocess.run(
        [node, "--test", Path(__file__).with_name("units.test.mjs")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_types_of_the_modules_are_right():
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip(
            "TypeScript is not installed (`npm install --global typescript`, or Debian package node-typescript)"
        )
    version = subprocess.run([tsc, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    if int(version.split(".")[0]) < 5:
        pytest.skip(f"TypeScript must be version 5 or newer; got {version}")
    done = subprocess.run([tsc, "--project", Path(__file__).with_name("tsconfig.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_is_built_is_built_of_these_sources_and_has_less_than_60_kilobytes():
    built = SOURCES / "built"
    assert sum(path.stat().st_size for path in built.iterdir()) < 60_000
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.js")))).hexdigest()[:16]
    for name in ("page.js", "worker.js"):
        first = (built / name).read_text(encoding="utf-8").splitlines()[0]
        assert digest in first, "the sources have changed: run `make browser`"
    html = "".join(line.lstrip(" ") for line in (SOURCES / "join.html").read_text().splitlines())
    html = re.sub('="([A-Za-z0-9.,/#-]+)"', r"=\1", re.sub("</(li|th|tr|thead|body|html)>", "", html))
    html = re.sub(r"</p>(?=</?(p|div|ol|ul|form|section|h3)\b)", "", html)
    assert (built / "join.html").read_text() == html, "the sources have changed: run `make browser`"


NAMES = """Name,patient_name,surname,E-Mail,Pat.-Nr.,KIS-Nr.,id_patient,Fall,case #,Nr.,ID#,IPP,USUBJID,phone,No.,
Lfd. Nr.,mrn2,id_1,uid,eid,Fall-ID,Vorname,Tel.,PatientName,Patient,hospital_id,drug_name,paid,humid,rapid,fallout,
case_count,
no2,NO,idh1,no_of_children,visit_no,covid,falls,index,Row.names,study_key,EpisodeNr,
patientMRN,Unnamed: 0,Straße,prénom,
cell_number,Kürzel"""


def test_names_of_identifiers_are_those_of_python(in_node):
    names = NAMES.replace("\n", "").split(",")
    (answer,) = in_node([{"job": "named", "names": names}])
    expected = [[names_a_person(one), names_people(one), names_rows(one), may_count(one)] for one in names]
    assert dict(zip(names, answer["result"], strict=True)) == dict(zip(names, expected, strict=True))


def visits_of(name, cell):
    rng = np.random.default_rng(0)
    people = rng.permutation(np.arange(360) // 12)
    return [(name, "age", "dose"), *((cell(who), *rng.normal(50 + who, 1, 2).round(2)) for who in people)]


@pytest.mark.parametrize("name", ["Name", "Pat.-Nr.", "Kürzel"])
@pytest.mark.parametrize("cell", ["P{:02d}".format, lambda who: 100_000 + 7919 * who % 99_991])
def test_no_name_or_number_of_a_person_leaves_the_browser_unless_its_column_is_ticked(in_node, name, cell):
    lines = visits_of(name, cell)
    shared = {"job": "group", "name": "north.csv", "table": as_csv(lines), "wish": {"k": 3}}
    named = {"by_column": True, "n_features": 3, "feature_names": list(lines[0])}
    free = {"by_column": True, "n_features": 2, "feature_names": None}
    refused, left_out = in_node([{**shared, "terms": named}, {**shared, "terms": free}])
    assert f"the federation has “{name}”, which may name people" in refused["error"]
    assert left_out["result"]["names"] is None
    assert message_of(left_out).schema.names == ("age", "dose")


def test_random_numbers_and_digests_are_pythons(in_node):
    texts = ["", "abc", "é" * 100, "x" * 127, "x" * 128, "x" * 129, "x" * 1000]
    jobs = [
        {"job": "random", "seed": i, "id": f"site {text[:20]}", "n": 9, "text": text} for i, text in enumerate(texts)
    ]
    for job, answer in zip(jobs, in_node(jobs), strict=True):
        (key,) = by_key.device_keys(job["seed"], [job["id"]])
        assert int(answer["result"]["key"]) == int(key)
        assert answer["result"]["uniforms"] == by_key.uniforms(np.array([key]), 9)[0].tolist()
        assert answer["result"]["digest"] == hashlib.blake2b(job["text"].encode(), digest_size=16).hexdigest()


def test_messages_are_byte_for_byte_what_python_writes_for_the_same_centers(in_node):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 2)) * 10.0 ** rng.integers(-9, 9, size=(3, 2))
    counts, squares = [5, 70, 2**40], rng.gamma(1, size=3)
    plain = [
        kfed.DeviceMessage("north", centers, counts, squares, 0.25, ["age", 'Größe "cm" \\ \x7f']),
        kfed.DeviceMessage("Ärzte \N{GRINNING FACE}", centers, counts, squares),
        kfed.DeviceMessage("empty", np.zeros((0, 2)), [], [], None, ["a", "b"]),
        kfed.DeviceMessage("no squares", centers, counts),
    ]
    columns = [
        {"name": "age"},
        {"name": "Station", "kind": "category", "levels": ["A", "Ö", "\N{GRINNING FACE}"]},
        {"name": "smoker", "kind": "flag"},
        {"name": "nothing", "kind": "empty"},
    ]
    schema = kfed.FeatureSchema.restored({"columns": columns, "scaling": "by message", "missing": "observed"})
    rich = []
    for left_out in (17, None, 0):
        details = Details(observed=np.full((2, 5), 4.0), squares=rng.gamma(1, size=(2, 5)), n_left_out=left_out)
        about = {"schema": schema, "details": details}
        rich.append(kfed.DeviceMessage("north", rng.normal(size=(2, 5)), [6, 8], [1.5, 2.5], **about))
    sent = [*plain, *rich]
    for one, answer in zip(sent, in_node([{"job": "encode", "message": parts_of(one)} for one in sent]), strict=True):
        assert base64.b64decode(answer["result"]) == one.to_bytes()


def parts_of(message):
    """A message as the browser holds it before it is encoded."""
    details, schema = message.details, message.schema.facts()
    squares = message.sums_of_squares
    for column in schema["columns"] if schema else []:
        column.setdefault("kind", "number")
        column.setdefault("levels", [])
    return {
        "deviceId": message.device_id,
        "centers": [message.centers.tolist(), message.n_features],
        "counts": message.counts.tolist(),
        "squares": None if squares is None else squares.tolist(),
        "deviation": message.spectral_deviation,
        "names": None if schema or message.feature_names is None else list(message.feature_names),
        "schema": schema,
        "details": details
        and {
            "observed": [details.observed.tolist(), message.n_features],
            "squares": [details.squares.tolist(), message.n_features],
            "leftOut": details.n_left_out,
        },
    }


def mixed_table(rng, n_rows):
    """Lines of a table of numbers, a category, a flag and a date, with cells that are missing."""
    groups = rng.integers(3, size=n_rows)
    ages, doses = 30 + 20 * groups + rng.normal(size=n_rows) * 3, np.exp(groups + rng.normal(size=n_rows) / 4)
    wards = np.array(["A", "B", "Öst"])[np.where(rng.random(n_rows) < 0.1, rng.integers(3, size=n_rows), groups)]
    days = np.datetime64("2026-01-01") + 40 * groups + rng.integers(20, size=n_rows)
    smokers = np.where(rng.random(n_rows) < 0.3, "yes", "no")
    rows = zip(ages.round(1), doses.round(3), wards, smokers, days, strict=True)
    cells = [["NA" if rng.random() < 0.04 else cell for cell in row] for row in rows]
    return [["age", "dose", "ward", "smoker", "visit"], *cells]


def fifty_tables(rng):
    """Tables of numbers as they are and tables of columns: terms, a wish, and the lines."""
    for number in range(50):
        k = "auto" if number % 4 == 1 else int(rng.integers(1, 7))
        wish = {"k": k, "deviceId": f"site {number}"}
        if number % 2:
            lines = mixed_table(rng, int(rng.integers(30, 110)))
            yield terms_of(lines[0], by_column=True), wish, lines
        else:
            rows = numbers(
                rng, int(rng.integers(1, 6)), int(rng.integers(15, 120)), int(rng.integers(1, 24)), digits=number % 3
            )
            names = [f"x{column}" for column in range(rows.shape[1])]
            yield terms_of(names), wish, [names, *rows.tolist()]


@pytest.mark.slow
def test_of_50_tables_at_least_48_are_grouped_as_in_python_and_none_at_a_higher_cost(in_node, tmp_path):
    assert n_grouped_as_in_python(fifty_tables(np.random.default_rng(1)), in_node, tmp_path) >= 48


def test_of_8_tables_at_least_7_are_grouped_as_in_python_and_none_at_a_higher_cost(in_node, tmp_path):
    eight = islice(fifty_tables(np.random.default_rng(1)), 8)
    assert n_grouped_as_in_python(eight, in_node, tmp_path) >= 7


def n_grouped_as_in_python(tables, in_node, tmp_path):
    """How many tables have the groups of Python; no cost may be higher, and equal groups must be sent alike."""
    tables = list(tables)
    jobs = [
        {"job": "group", "name": "north.csv", "table": as_csv(lines), "terms": terms, "wish": wish}
        for terms, wish, lines in tables
    ]
    same, path = 0, tmp_path / "north.csv"
    for (terms, wish, lines), answer in zip(tables, in_node(jobs), strict=True):
        path.write_bytes(as_csv(lines))
        kept = cluster_file(path, wish["k"], wish["deviceId"], as_is=not terms["by_column"])
        ours, theirs = kept.clustering.labels, np.array(answer["result"]["labels"])
        is_same = np.array_equal(ours, theirs)
        same += is_same
        assert cost_of(path, theirs, terms) <= 1.01 * cost_of(path, ours, terms)
        if is_same:
            assert_equal_up_to_rounding(message_of(answer), kept.to_message())
    return same


def cost_of(path, labels, terms):
    """Sum of squared distances to the means of observed cells, on the scale of the device."""
    table = read_columns(path, columns=terms["feature_names"])
    cells = own_scale(table.values, table.schema).apply(table.values) if terms["by_column"] else table.values
    return sum(
        np.nansum((own - np.nanmean(own, axis=0)) ** 2) for own in (cells[labels == r] for r in np.unique(labels))
    )


def assert_equal_up_to_rounding(one, other):
    assert one.schema == other.schema
    np.testing.assert_allclose(one.table, other.table, rtol=1e-9, atol=1e-9)
    for name in ("observed", "squares"):
        if other.details is not None:
            np.testing.assert_allclose(getattr(one.details, name), getattr(other.details, name), rtol=1e-9, atol=1e-9)
    assert (one.details and one.details.n_left_out) == (other.details and other.details.n_left_out)


DIALECTS = {
    "semicolons": lambda text: text.replace(",", ";").encode(),
    "decimal commas": lambda text: text.replace(",", ";").replace(".", ",").encode(),
    "tabs in UTF-16": lambda text: text.replace(",", "\t").encode("utf-16"),
    "bars in Latin-1": lambda text: text.replace(",", "|").encode("latin-1"),
    "a title with a comma": lambda text: ("Export, north\n\n" + text.replace(",", ";")).encode(),
    "Excel's separator": lambda text: ("sep=;\r\n" + text.replace(",", ";")).encode("utf-8-sig"),
    "a mark and Windows lines": lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
    "quotes": lambda text: "\n".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) for line in text.splitlines()
    ).encode(),
}


def test_tables_of_every_dialect_give_pythons_message(in_node, tmp_path):
    plain = as_csv(mixed_table(np.random.default_rng(2), 60)).decode()
    terms, path = terms_of(plain.splitlines()[0].split(","), by_column=True), tmp_path / "north.csv"
    jobs = [
        {"job": "group", "name": "north.csv", "table": write(plain), "terms": terms, "wish": {"k": 3}}
        for write in DIALECTS.values()
    ]
    for (dialect, write), answer in zip(DIALECTS.items(), in_node(jobs), strict=True):
        path.write_bytes(write(plain))
        assert "result" in answer, (dialect, answer)
        assert_equal_up_to_rounding(message_of(answer), cluster_file(path, 3, "north").to_message())


def test_ids_and_agreed_scales_give_pythons_message(in_node, tmp_path):
    rng = np.random.default_rng(3)
    lines = mixed_table(rng, 90)
    people = [f"p{rng.integers(30)}" for _ in lines]
    with_ids = [[*line, "person" if at == 0 else people[at]] for at, line in enumerate(lines)]
    scale = json.dumps({"x0": {"shift": 1, "scale": 2.5}, "x1": {"shift": -3.25, "scale": 4}})
    two = [["x0", "x1"], *numbers(rng, 3, 60, 2).tolist()]
    cases = {
        "ids": (with_ids, terms_of(lines[0], True), None, {"idColumn": "person"}, {"id_column": "person"}),
        "scale": (two, terms_of(two[0]), scale, {}, {"scale": "agreed.json"}),
    }
    jobs = [
        {
            "job": "group",
            "name": "north.csv",
            "table": as_csv(own),
            "terms": terms,
            "agreed": text,
            "wish": {"k": 3, **wish},
        }
        for own, terms, text, wish, _ in cases.values()
    ]
    for (own, _, text, _, options), answer in zip(cases.values(), in_node(jobs), strict=True):
        (tmp_path / "north.csv").write_bytes(as_csv(own))
        (tmp_path / "agreed.json").write_text(text or "")
        here = {name: tmp_path / option if name == "scale" else option for name, option in options.items()}
        kept = cluster_file(tmp_path / "north.csv", 3, "north", **here)
        assert "result" in answer, answer
        assert_equal_up_to_rounding(message_of(answer), kept.to_message())


def test_copies_of_one_patient_are_withheld_as_in_python_whichever_cells_are_missing(in_node, tmp_path):
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.normal(size=(60, 5)), np.tile([30.0, 40.0, 50.0, 60.0, 70.0], (12, 1))])
    blanks = rows.astype(str)
    blanks[range(60, 65), range(5)] = ""
    jittered = np.vstack([rows[:60], rows[60:66] * (1 + 1e-6 * rng.uniform(-1, 1, size=(6, 5)))]).astype(str)
    jittered[0, 0] = ""
    names = [f"x{column}" for column in range(5)]
    tables = [[names, *own.tolist()] for own in (blanks, jittered)]
    about = {"job": "group", "name": "north.csv", "terms": terms_of(names, by_column=True), "wish": {"k": 2}}
    answers = in_node([{**about, "table": as_csv(own)} for own in tables])
    for own, answer in zip(tables, answers, strict=True):
        (tmp_path / "north.csv").write_bytes(as_csv(own))
        assert message_of(answer).counts.tolist() == [60]
        kept = cluster_file(tmp_path / "north.csv", 2, "north")
        assert_equal_up_to_rounding(message_of(answer), kept.to_message())


def test_rows_without_numbers_withhold_no_group_as_in_python(in_node, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[*rng.normal(9 * (i % 2), 1, 2).round(3).tolist(), "AB"[i % 2], "cd"[i % 2]] for i in range(80)]
    for row in (0, 7, 30):
        rows[row][:2] = ["", ""]
    table = as_csv([["x", "y", "ward", "bed"], *rows])
    about = {"job": "group", "name": "north.csv", "terms": terms_of(["x", "y", "ward", "bed"], by_column=True)}
    [answer] = in_node([{**about, "wish": {"k": 2}, "table": table}])
    (tmp_path / "north.csv").write_bytes(table)
    kept = cluster_file(tmp_path / "north.csv", 2, "north")
    assert kept.to_message().counts.tolist() == [40, 40]
    assert_equal_up_to_rounding(message_of(answer), kept.to_message())


def test_levels_and_flags_of_copies_and_of_few_people_leave_as_in_python(in_node, tmp_path):
    rng = np.random.default_rng(5)
    rows = [[*cells, "AB"[i % 2], "no", f"p{i}"] for i, cells in enumerate(rng.normal(size=(60, 3)).round(3).tolist())]
    copies = [[*rows[3][:3], "Z", "yes", "p3"]] * 8
    rare = [[*cells, f"R{i}", "no", "q"] for i, cells in enumerate(rng.normal(size=(6, 3)).round(3).tolist())]
    names = ["x", "y", "z", "ward", "ill"]
    tables = {
        "copies": ([[*names, "who"], *rows, *copies], {}, {"exclude": ["who"]}),
        "one person's levels": ([[*names, "who"], *rows, *rare], {"idColumn": "who"}, {"id_column": "who"}),
    }
    about = {"job": "group", "name": "north.csv", "terms": terms_of(names, by_column=True)}
    answers = in_node([{**about, "table": as_csv(own), "wish": {"k": 2, **wish}} for own, wish, _ in tables.values()])
    for (own, _, options), answer in zip(tables.values(), answers, strict=True):
        (tmp_path / "north.csv").write_bytes(as_csv(own))
        found, kept = message_of(answer), cluster_file(tmp_path / "north.csv", 2, "north", **options)
        assert found.schema.columns[3].levels == kept.to_message().schema.columns[3].levels
        assert not {"Z", "R1"} & set(found.schema.columns[3].levels)
        assert not found.centers[:, found.schema.names.index("ill")].any()
        assert_equal_up_to_rounding(found, kept.to_message())


def test_the_answer_labels_rows_as_in_python_and_the_table_comes_back_with_a_column(in_node, tmp_path):
    lines = mixed_table(np.random.default_rng(4), 80)
    lines.append(["99", "0.001", "B", "no", "1999-01-01"])  # a group of one row, which is not sent
    path = tmp_path / "north.csv"
    path.write_bytes(as_csv(lines))
    kept = cluster_file(path, 5, "north")
    path.with_name("south.csv").write_bytes(as_csv(mixed_table(np.random.default_rng(5), 80)))
    others = cluster_file(path.with_name("south.csv"), 3, "south").to_message()
    identity = kfed.aggregate([kept.to_message(), others], n_clusters=3).identity("north")
    job = {
        "job": "group",
        "name": "north.csv",
        "table": as_csv(lines),
        "terms": terms_of(lines[0], True),
        "wish": {"k": 5},
    }
    (answer,) = in_node([{**job, "answer": identity.to_bytes()}])
    labels = kept.labels(identity)
    table = [line.split(",") for line in answer["result"]["labelled"].split()]
    assert table[0] == [*lines[0], "cluster"]
    assert [row[:-1] for row in table[1:]] == [list(map(str, line)) for line in lines[1:]]
    assert [int(row[-1]) for row in table[1:]] == labels.tolist()
    assert answer["result"]["rows"] == np.bincount(labels, minlength=3).tolist()


@pytest.mark.parametrize("hidden", [[0], [1, 2], [0, 1, 2]])
def test_groups_that_were_not_sent_are_labelled_where_the_answer_shows_not_every_center(in_node, tmp_path, hidden):
    lines = mixed_table(np.random.default_rng(4), 80)
    lines += [["99", "0.001", "B", "no", "1999-01-01"], ["-80", "40", "A", "yes", "2050-01-01"]]
    (tmp_path / "north.csv").write_bytes(as_csv(lines))
    kept = cluster_file(tmp_path / "north.csv", 6, "north")
    identity = kfed.aggregate([kept.to_message()], n_clusters=3).identity("north")
    centers = identity.cluster_centers.copy()
    centers[hidden] = np.nan
    identity = replace(identity, cluster_centers=centers)
    job = {"job": "group", "name": "north.csv", "table": as_csv(lines), "terms": terms_of(lines[0], True)}
    (answer,) = in_node([{**job, "wish": {"k": 6}, "answer": identity.to_bytes()}])
    assert kept.n_withheld > 0
    assert answer["result"]["rows"] == np.bincount(kept.labels(identity), minlength=3).tolist()


CANARY = "SECRET-CELL"
FAULTS = {
    "holds text in line 4": (f"age,dose\n1,2\n3,4\n{CANARY},6\n7,8\n", False),
    "is empty in line 3": ("age,dose\n1,2\n,4\n", False),
    "line 3 has 3. Put quotes": (f"age,dose\n1,2\n{CANARY},4,5\n", False),
    "“dose” is text": (f"age,dose\n1,{CANARY}\n2,b\n", False),
    "which this table does not have; its columns are “age”": (f"age\n{CANARY}\n", False),
    "“age” occurs twice": ("age,dose,age\n1,2,3\n", False),
    "names of the columns; it holds numbers": ("1,2\n3,4\n", False),
    "names of the columns; it holds dates": ("M,2026-01-31\nF,2026-02-01\n", False),
    "or nothing; column “age” holds text in line 3": (f"age,dose\n1,2\n{CANARY},4\n5,6\n", True),
    "is text with 20 distinct values; a category has at most 15 here": (
        "age,dose\n" + "".join(f"{CANARY}{i % 20},{i % 7}\n" for i in range(30)),
        True,
    ),
}


THOUSANDS = {  # cells of a column: whether Python's reader takes or could take its signs as those of thousands
    "669 5.250 7.729": True,
    "669 5.259": True,
    "669,5,259": True,
    "669 5.25": False,
    "669 0.259": False,
    "12 5.259": False,
    "1669 5.259": False,
    "669 5250": False,
}


def test_thousands_that_could_be_decimals_are_refused_where_python_names_the_doubt(in_node, tmp_path):
    jobs, doubts = [], []
    for cells in THOUSANDS:
        own = cells.split() if " " in cells else cells.split(",", 1)
        text = "age;dose\n" + "".join(f"{i % 7};{own[i % len(own)]}\n" for i in range(30))
        (tmp_path / "north.csv").write_text(text)
        doubts.append("thousands" in [notice.code for notice in cluster_file(tmp_path / "north.csv", 2, "n").notices])
        job = {"job": "group", "name": "north.csv", "table": text.encode(), "wish": {"k": 2}}
        jobs.append(job | {"terms": terms_of(["age", "dose"], by_column=True)})
    for (cells, is_refused), doubt, answer in zip(THOUSANDS.items(), doubts, in_node(jobs), strict=True):
        said = "column “dose” could hold thousands or decimals" in answer.get("error", "")
        assert (said, said and not doubt) == (is_refused, False), (cells, answer.get("error"))


def test_errors_name_line_and_column_and_show_no_cell(in_node):
    jobs = [
        {
            "job": "group",
            "name": "north.csv",
            "table": text.encode(),
            "terms": terms_of(["age", "dose"], tables),
            "wish": {},
        }
        for text, tables in FAULTS.values()
    ]
    for words, answer in zip(FAULTS, in_node(jobs), strict=True):
        assert words in answer["error"], (words, answer)
        assert CANARY not in answer["error"]
        assert answer["kind"] == "Error"


def test_a_file_that_is_no_csv_is_refused_with_what_to_do(in_node):
    job = {"job": "group", "terms": terms_of(["age"]), "wish": {}, "table": b"PK\x03\x04\x00\xff"}
    excel, disguised = in_node([{**job, "name": "north.xlsx"}, {**job, "name": "north.csv"}])
    assert "Save the table as CSV first, or use `kfed join`" in excel["error"]
    assert "must be text" in disguised["error"]
