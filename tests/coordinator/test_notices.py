"""What `kfed.aggregate` says to look at, the coordinator says, too: to the administrator, and to whom it concerns."""

import json
from pathlib import Path

import numpy as np
import pytest
from coordinators import ADMIN, SECRET, Caller, is_on_event_loop, message, messages
from coordinators import MEANS as PLACES
from test_table_federations import COLUMNS, MEANS, table

import kfed
from consoles import run, said
from kfed.coordinator.client import DeviceClient, Line
from kfed.coordinator.core import notices as core_notices
from kfed.device import cluster_columns
from kfed.server import aggregate_batch
from kfed.server.notices import of_columns as column_advice
from kfed.wire import Column, FeatureSchema, MessageBatch, Notice


def in_another_unit(device_id, factor=1000.0, n_rows=30):
    """A table whose doses are in another unit; with few rows, most groups are too small to be sent."""
    rng = np.random.default_rng(len(device_id))
    own = np.repeat((0, 1), n_rows)
    rows = MEANS[own] + rng.normal(size=(len(own), 2)) * [1.0, 0.002]
    rows[:, 1] *= factor
    rows = np.column_stack([rows, np.eye(2)[own % 2]])
    schema = FeatureSchema.of_columns(COLUMNS)
    return cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message(device_id)


def plain(device_id, at, names=("age", "income")):
    """Two numbers as they are: years, and a sum of money."""
    return kfed.DeviceMessage(device_id, [[30 + at, 9000.0 * at], [60 - at, 200.0]], [20, 20], feature_names=names)


def tables(**others):
    return [table("a"), table("b", (1, 2)), table("c", (2, 3)), *others.values()]


def without_few_cells():
    """A table of which few rows have enough cells, or company, to be counted."""
    rng = np.random.default_rng(3)
    own = np.repeat((0, 1), 30)
    rows = np.column_stack([MEANS[own] + rng.normal(size=(60, 2)) * [1.0, 0.002], np.eye(2)[own % 2]])
    rows[:20] = np.nan
    schema = FeatureSchema.of_columns(COLUMNS)
    return cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message("sparse")


SILENT = kfed.DeviceMessage("silent", np.empty((0, 2)), [], feature_names=["age", "income"])
TABLE_TERMS = {"n_features": 3, "feature_names": ["dose", "ward", "age"], "by_column": True}
PLAIN_TERMS = {"n_features": 2, "feature_names": ["age", "income"]}

CASES = {
    "dominant column": (PLAIN_TERMS, [plain("a", 1), plain("b", 2), plain("c", 3)], 2),
    "no center": (PLAIN_TERMS, [plain("a", 1), plain("b", 2), SILENT], 2),
    "other unit": (TABLE_TERMS, tables(d=in_another_unit("d")), 4),
    "rows left out": (TABLE_TERMS, tables(d=without_few_cells()), 4),
}


@pytest.mark.parametrize("code", CASES)
def test_the_administrator_is_told_everything_that_aggregate_says(run_app, tmp_path, caplog, code):
    terms, sent, n_clusters = CASES[code]
    expected = [notice._asdict() for notice in kfed.aggregate(sent, n_clusters).notices]
    assert code in [notice["code"] for notice in expected]
    caller = Caller(run_app(str(tmp_path / "kfed.db")))
    shown = caller.create_aggregated(sent, **terms, n_clusters=n_clusters)
    assert shown["notices"] == expected
    for notice in expected:
        assert f"federation clinics: [{notice['code']}] {notice['text']}" in caplog.text
    caller.http = run_app(str(tmp_path / "kfed.db"))
    assert caller.show()["notices"] == expected


def codes_for(caller, device_id):
    return [notice["code"] for notice in caller.identity(device_id)["notices"]]


def test_a_device_is_told_of_all_and_of_itself_and_never_of_another(caller):
    terms, sent, n_clusters = CASES["other unit"]
    caller.create_aggregated(sent, **terms, n_clusters=n_clusters)
    assert "other unit" in codes_for(caller, "d")
    for device_id in "abc":
        said = caller.identity(device_id)["notices"]
        assert not [notice for notice in said if "'d'" in notice["text"]]


def far_and_alone():
    """Devices of four clusters, and one far from all: its center is set aside, and the number in doubt."""
    return [*messages(30), kfed.DeviceMessage("alone", [[90.0, 90.0]], [400], [800.0], 9.0)]


def test_a_doubt_about_the_number_of_clusters_does_not_name_devices_to_others(caller):
    shown = caller.create_aggregated(far_and_alone(), n_clusters=None)
    [doubt] = [notice["text"] for notice in shown["notices"] if notice["code"] == "unsure k"]
    assert "'alone'" in doubt
    [told] = [notice["text"] for notice in caller.identity("device-0000")["notices"] if notice["code"] == "unsure k"]
    assert "alone" not in told


def test_a_notice_that_does_not_say_who_may_be_told_is_for_the_administrator_alone_also_after_a_restart(
    run_app, tmp_path, monkeypatch
):
    monkeypatch.setattr("kfed.server.aggregation.off_scale", lambda batch: [Notice("new", "'c' is not what 'a' is")])
    terms, sent, n_clusters = CASES["other unit"]
    caller = Caller(run_app(str(tmp_path / "kfed.db")))
    caller.create_aggregated(sent, **terms, n_clusters=n_clusters)
    before = {device_id: caller.identity(device_id)["notices"] for device_id in "abcd"}
    assert [notice["code"] for notice in before["d"]].count("other unit") == 1
    assert "new" in [notice["code"] for notice in caller.show()["notices"]]
    assert "is not what" not in json.dumps(before)
    caller.http = run_app(str(tmp_path / "kfed.db"))
    assert {device_id: caller.identity(device_id)["notices"] for device_id in "abcd"} == before


def test_a_device_is_told_how_many_rows_were_left_out_but_not_where(caller):
    terms, sent, n_clusters = CASES["rows left out"]
    caller.create_aggregated(sent, **terms, n_clusters=n_clusters)
    (shown, told) = (
        next(notice["text"] for notice in notices if notice["code"] == "rows left out")
        for notices in (caller.show()["notices"], caller.identity("a")["notices"])
    )
    assert shown == f"{told}. By device: 20 of 60 at 'sparse'"


def test_a_device_is_not_told_the_names_of_others_whose_centers_were_set_aside(caller):
    sent = messages(12)
    liars = [message("x", (0,), means=PLACES + 900), message("y", (0,), means=PLACES - 900)]
    caller.create_aggregated([*sent, *liars], rule="robust", min_devices=3)
    [shown] = [notice for notice in caller.show()["notices"] if notice["code"] == "set aside"]
    assert "'x', 'y'" in shown["text"]
    [told] = [notice for notice in caller.identity("x")["notices"] if notice["code"] == "set aside"]
    assert told["text"].startswith("centers of this device were set aside")
    assert "set aside" not in codes_for(caller, sent[0].device_id)


def test_a_late_device_in_another_unit_is_told_and_shown_until_it_leaves(store_caller, caplog):
    caller = store_caller
    caller.create_aggregated(tables(), **TABLE_TERMS, n_clusters=4)
    late = in_another_unit("late")
    text = "column 'dose' of 'late' lies far from that of the other devices: is it in the same unit?"
    notice = {"code": "other unit", "text": text}
    assert notice in caller.put(late).json()["notices"]
    assert notice in caller.identity("late")["notices"]
    assert notice in caller.show()["notices"]
    assert caplog.text.count(f"federation clinics: [other unit] {text}") == 1
    assert "other unit" not in codes_for(caller, "a")
    assert caller.put(table("fine")).json()["notices"] == caller.identity("a")["notices"]
    caller.remove("a")
    assert notice in caller.show()["notices"]
    caller.remove("late")
    assert notice not in caller.show()["notices"]


def test_a_late_device_without_a_center_is_shown_and_logged(caller, caplog):
    caller.create_aggregated([plain("a", 1), plain("b", 2)], **PLAIN_TERMS, n_clusters=2)
    caller.put(SILENT)
    text = "'silent' sent no center: its rows get labels, but could not be checked"
    assert {"code": "no center", "text": text} in caller.identity("silent")["notices"]
    assert {"code": "no center", "text": text} in caller.show()["notices"]
    assert caplog.text.count(f"federation clinics: [no center] {text}") == 1
    assert "no center" not in codes_for(caller, "a")


def with_ward(device_id, levels):
    """A table whose groups are on these wards."""
    rng = np.random.default_rng(len(device_id))
    own = np.repeat((0, 1), 30)
    rows = np.column_stack([MEANS[own] + rng.normal(size=(60, 2)) * [1.0, 0.002], np.eye(2)[own]])
    columns = [Column("age"), Column("dose"), Column("ward", "category", levels)]
    schema = FeatureSchema.of_columns(columns)
    return cluster_columns(rows, schema, 2, random_state=0, min_cluster_size=5).to_message(device_id)


def test_a_level_of_a_late_device_that_no_other_has_is_shown_and_logged(caller, caplog):
    caller.create_aggregated([with_ward(name, ("A", "B")) for name in "abc"], **TABLE_TERMS, n_clusters=2)
    notices = caller.put(with_ward("late", ("A", "dialysis"))).json()["notices"]
    text = "30 cells of column 'ward' of 'late' hold a level unknown to the other devices"
    assert [notice["code"] for notice in notices if notice["text"].startswith(text)] == ["unknown level"]
    assert text in str(caller.show()["notices"])
    assert caplog.text.count(f"federation clinics: [unknown level] {text}") == 1
    assert "unknown level" not in codes_for(caller, "a")


def test_answers_in_bytes_carry_their_notices_in_a_header(run_server, tmp_path):
    client = run_server(str(tmp_path / "kfed.db"))
    caller = Caller(client)
    caller.create_aggregated(tables(), **TABLE_TERMS, n_clusters=4)
    with Line(str(client.base_url)) as line:
        device = DeviceClient(line, "clinics", "late", SECRET)
        answer = device.send(in_another_unit("late"), caller.join["clinics"]["Authorization"].partition(" ")[2])
        assert isinstance(answer, kfed.Identity)
        assert "other unit" in [notice.code for notice in device.notices]


def test_notices_of_a_hostile_coordinator_do_nothing_to_a_terminal():
    import httpx

    said = json.dumps([{"code": "x", "text": "\x1b[31mred\x07"}, {"text": 3}])
    answers = {"/v1/federations/f/devices/d/identity": httpx.Response(202, json={"n_devices": 1})}
    for header in (said, "no json", "[1]", '{"a": 1}', "[" * 9999):
        answers["/v1/federations/f/devices/d/identity"].headers["Kfed-Notices"] = header
        transport = httpx.MockTransport(lambda request: answers[request.url.path])
        with Line("http://127.0.0.1:1", transport=transport) as line:
            device = DeviceClient(line, "f", "d", SECRET)
            device.identity()
            assert all(notice.text.isprintable() for notice in device.notices)


def renamed(sent, device_id):
    return kfed.DeviceMessage(
        device_id, sent.centers, sent.counts, sent.sums_of_squares, schema=sent.schema, details=sent.details
    )


def test_the_columns_of_many_devices_are_compared_without_looking_at_every_pair(monkeypatch):
    looked, look = [], column_advice._ranges
    monkeypatch.setattr(column_advice, "_ranges", lambda one: looked.append(one) or look(one))
    sent, odd = table("a"), in_another_unit("odd")
    result = aggregate_batch(MessageBatch.of([odd, *(renamed(sent, f"{i:03}") for i in range(150))]), 2, "paper")
    assert [notice.text for notice in result.notices if notice.code == "other unit"] == [
        "column 'dose' of 'odd' lies far from that of the other devices: is it in the same unit?"
    ]
    assert len(looked) == 151


def test_a_late_device_without_columns_is_told_that_it_is_on_another_scale(caller):
    sent = [kfed.DeviceMessage(name, [[-1.0, 0.0], [1.0, 0.5]], [9, 9]) for name in "abc"]
    caller.create_aggregated(sent, n_clusters=2)
    caller.put(kfed.DeviceMessage("late", [[-1.1, 0.0]], [9]))
    assert "other scale" not in codes_for(caller, "late")
    caller.put(kfed.DeviceMessage("raw", [[60.0, 120.0]], [9]))
    assert "other scale" in codes_for(caller, "raw")
    assert "all centers of 'raw' are more than 10 times as far" in str(caller.show()["notices"])


def test_a_late_message_is_compared_once_however_often_its_device_asks(caller, monkeypatch):
    compared, compare = [], core_notices.late_advice
    monkeypatch.setattr(core_notices, "late_advice", lambda *asked: compared.append(asked) or compare(*asked))
    caller.create_aggregated(tables(), **TABLE_TERMS, n_clusters=4)
    late = in_another_unit("late")
    for _ in range(3):
        caller.put(late)
        assert "other unit" in codes_for(caller, "late")
    assert len(compared) == 1
    caller.aggregate()
    caller.put(in_another_unit("later"))
    assert len(compared) == 2


def test_what_late_messages_are_compared_with_is_remembered_on_the_event_loop_alone(caller):
    on_loop = []

    class Watched(core_notices.Latecomers):
        def __setattr__(self, name, value):
            on_loop.append(is_on_event_loop())
            super().__setattr__(name, value)

    caller.create_aggregated(tables(), **TABLE_TERMS, n_clusters=4)
    caller.http.app.state.desk.coordinator.latecomers.__class__ = Watched
    caller.put(in_another_unit("late"))
    assert on_loop == [True]


def write_tables(folder):
    rng = np.random.default_rng(0)
    for site, factor in {"north": 1.0, "south": 1.0, "east": 1000.0}.items():
        own = np.repeat((0, 1), 30)
        rows = MEANS[own] + rng.normal(size=(60, 2)) * [1.0, 0.002]
        rows[:, 1] *= factor
        np.savetxt(folder / f"{site}.csv", rows, delimiter=",", header="age,dose", comments="", fmt="%.6f")


def test_join_and_show_say_it_on_the_terminal_and_in_json(run_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    Path("admin.token").write_text(ADMIN)
    url = str(run_server("kfed.db").base_url)
    run("federation", "create", "sites", "--columns", "age,dose", "-k", 2, "--quorum", 2, "--url", url)

    def join(site, *more):
        own = ["--federation", "sites", "--token-file", "sites.token", "--id", site, "--data", f"{site}.csv", "-k", 2]
        code, out, err = said("join", url, *own, *more)
        assert code == 0, err
        return out, err

    join("north", "--no-wait")
    join("south", "-o", "south-labels.csv")
    warning = "warning: column 'dose' of 'east' lies far"
    for output in (["-o", "labels.csv"], ["--no-wait"]):
        out, err = join("east", *output, "--json")
        assert "other unit" in [notice["code"] for notice in json.loads(out)["warnings"]]
        assert warning in err
    assert warning in said("label", "east.local", "--clusters", "east.ticket", "-o", "again.csv")[2]
    shown = run("federation", "show", "sites", "--url", url)
    assert "column 'dose' of 'east' lies far" in shown
    assert "devices needed for a cluster: set by the rule; for its center to be shown: 3" in shown
    run("federation", "create", "open", "--n-features", 2, "--min-devices-shown", 1, "--min-devices", 2, "--url", url)
    of_two = "devices needed for a cluster: 2; for its center to be shown: 1"
    assert of_two in run("federation", "show", "open", "--url", url)
    in_json = json.loads(run("federation", "show", "sites", "--url", url, "--json"))
    assert "other unit" in [notice["code"] for notice in in_json["notices"]]


def sites_of_four(gap, stray, n_rows, n_sites=40):
    """Devices that hold two of four groups; one of them has a center that nobody else has."""
    rng = np.random.default_rng(0)
    means = gap * np.array([[0, 0], [1, 0], [0, 1], [1, 1]], float)
    for site in range(n_sites):
        own = means[rng.choice(4, 2, replace=False)] + rng.normal(0, 0.12, (2, 2))
        counts, squares = [70, 70], [140.0, 140.0]
        if site == 7:
            own, counts, squares = np.vstack([own, [stray, stray]]), [70, 70, n_rows], [140.0, 140.0, 2.0 * n_rows]
        yield kfed.DeviceMessage(f"hospital-{site:02d}", own, counts, squares)


@pytest.mark.parametrize(("gap", "stray", "n_rows"), [(3.0, 12, 8), (20.0, 60, 2000)], ids=["made", "none stands out"])
def test_no_device_is_told_the_name_of_another_and_the_administrator_is(caller, gap, stray, n_rows):
    sent = list(sites_of_four(gap, stray, n_rows))
    caller.create(n_clusters=None if gap == 3.0 else "auto")
    for one in sent:
        caller.put(one)
    made = caller.aggregate()
    name, other = "hospital-07", "hospital-03"
    assert name in json.dumps(caller.show())
    if gap == 3.0:
        assert made.status_code == 200
    else:
        assert name in made.json()["detail"]
        waiting = caller.http.get(f"{caller.path(other)}/identity", headers={"Kfed-Device-Secret": SECRET})
        assert "40 devices: no number of clusters stands out; the administrator has to" in waiting.json()["remark"]
    for how in ("application/json", "application/octet-stream"):
        headers = {"Kfed-Device-Secret": SECRET, "Accept": how}
        answer = caller.http.get(f"{caller.path(other)}/identity", headers=headers)
        assert name not in answer.text + str(answer.headers)
