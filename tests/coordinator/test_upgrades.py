"""Stores of other versions, damaged stores, and backups."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from coordinators import Caller, InProcess, made_settings, message, messages
from sqlalchemy import create_engine, inspect, text
from test_parts import arrival
from test_table_federations import table
from typer.testing import CliRunner

from kfed.cli import app
from kfed.coordinator.store import Store, backup, migrations, restore
from kfed.errors import InvalidInputError

DATA = Path(__file__).parent / "data"
ADDED_LATER = (
    *("invited_only", "max_count", "max_value", "min_devices", "max_epsilon", "by_column"),
    *("min_devices_shown", "rounds", "agreed_schema"),
)
OLD_STORES = sorted(DATA.glob("store-version-*.sqlite"))


def engine_of(address):
    is_file = "://" not in address
    return create_engine(f"sqlite:///{address}" if is_file else address.replace("://", "+psycopg://"))


def tables_of(address):
    engine = engine_of(address)
    look = inspect(engine)
    found = {
        table: {(one["name"], str(one["type"]), one["nullable"]) for one in look.get_columns(table)}
        for table in look.get_table_names()
    }
    engine.dispose()
    return found


def execute(address, *statements):
    engine = engine_of(address)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


# Versions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", OLD_STORES, ids=lambda path: path.stem)
def test_every_store_that_was_ever_written_opens_and_is_then_like_a_new_one(run_app, tmp_path, old):
    path = str(shutil.copy(old, tmp_path / "old.db"))
    caller = Caller(run_app(path))
    shown = caller.show()
    assert (shown["state"], shown["n_devices"]) == ("aggregated", 4)
    assert caller.identity("a")["state"] == "aggregated"
    Store(str(tmp_path / "new.db")).close()
    assert tables_of(path) == tables_of(str(tmp_path / "new.db"))


def fill(caller):
    """What the fixture of a version holds: devices that were aggregated, tables, a late one, and an invitation."""
    caller.create_aggregated([message(device_id) for device_id in "abcd"], n_clusters=2, min_devices=2)
    tables = [table(device_id, groups) for device_id, groups in {"t": (0, 1), "u": (1, 2), "v": (2, 3)}.items()]
    names = ["age", "dose", "ward"]
    caller.create_aggregated(tables, "tables", n_features=3, feature_names=names, by_column=True)
    assert caller.put(table("late", (0, 3)), "tables").status_code == 201
    invited = {"device_id": "e"}
    caller.http.post("/v1/federations/clinics/invitations", json=invited, headers=caller.admin).raise_for_status()
    named = {"names": {"0": "the first"}}
    caller.http.put("/v1/federations/tables/cluster-names", json=named, headers=caller.admin).raise_for_status()


def test_there_is_a_fixture_of_the_present_version_that_later_ones_must_open(run_app, tmp_path):
    """If this fails, a step was added: set KFED_WRITE_FIXTURE and run it once, before the next release."""
    path = DATA / f"store-version-{migrations.LATEST}.sqlite"
    if "KFED_WRITE_FIXTURE" in os.environ and not path.exists():
        fill(Caller(run_app(str(tmp_path / "new.db"))))
        run_app(str(tmp_path / "other.db"))  # which closes the first
        with closing(sqlite3.connect(tmp_path / "new.db")) as made:
            made.execute("VACUUM INTO ?", [str(path)])
    caller = Caller(run_app(str(shutil.copy(path, tmp_path / "old.db"))))
    assert caller.identity("late", "tables")["state"] == "aggregated"
    assert caller.show("tables")["n_aggregated"] == 3
    assert caller.show()["min_devices"] == 2
    picture = caller.http.get("/v1/federations/tables/picture", headers=caller.admin).json()
    assert picture["names"][0] == "the first"
    invited = caller.http.get("/v1/federations/clinics/invitations", headers=caller.admin).json()
    assert [one["device_id"] for one in invited] == ["e"]
    assert caller.remove("u", "tables").status_code == 200
    assert caller.show("tables")["n_aggregated"] == 2


def test_a_store_without_a_version_gets_one_in_either_database(store_address):
    Store(store_address).close()
    fresh = tables_of(store_address)
    execute(
        store_address,
        *(f"DROP TABLE kfed_{name}" for name in ("invitations", "second_messages", "cluster_names")),
        *(f"ALTER TABLE kfed_federations DROP COLUMN {name}" for name in ADDED_LATER),
        "DELETE FROM kfed_counters WHERE name = 'schema'",
    )
    Store(store_address).close()
    assert tables_of(store_address) == fresh


def test_a_store_of_a_newer_version_is_refused_in_plain_words_and_left_alone(store_address):
    Store(store_address).close()
    execute(store_address, "UPDATE kfed_counters SET value = 99 WHERE name = 'schema'")
    with pytest.raises(InvalidInputError, match=r"written by a newer kfed: .* version 99"):
        Store(store_address)


def test_a_number_that_is_to_be_found_keeps_its_meaning_in_the_store_where_null_has_always_been_auto(
    run_app, store_address
):
    caller = Caller(run_app(store_address))
    caller.create("sure", n_clusters="auto")
    caller.create("any", n_clusters=None)
    caller.create("old", n_clusters=7)
    execute(store_address, "UPDATE kfed_federations SET n_clusters = NULL WHERE name = 'old'")
    caller.http = run_app(store_address)
    assert {name: caller.show(name)["n_clusters"] for name in ("sure", "any", "old")} == {
        "sure": "auto",
        "any": None,
        "old": "auto",
    }


def test_a_column_that_another_version_added_does_no_harm(run_app, store_address):
    caller = Caller(run_app(store_address))
    caller.create()
    execute(store_address, "ALTER TABLE kfed_federations ADD COLUMN something INTEGER")
    caller.http = run_app(store_address)
    assert caller.put(message("a")).status_code == 201


# Damage ---------------------------------------------------------------------------------------------------------------


def two_federations(run_app, address):
    caller = Caller(run_app(address))
    for name in ("good", "bad"):
        caller.create_aggregated(messages(4), name)
    return caller


def assert_only_bad_is_damaged(caller, reason):
    states = {one["name"]: one for one in caller.http.get("/v1/federations", headers=caller.admin).json()}
    assert {name: one["state"] for name, one in states.items()} == {"good": "aggregated", "bad": "damaged"}
    assert reason in states["bad"]["remark"]
    assert caller.put(message("late"), "good").status_code == 201
    assert caller.identity("device-0000", "good")["state"] == "aggregated"
    assert caller.http.get("/healthz").status_code == 200


def test_damaged_clusters_disable_their_federation_alone_until_it_is_aggregated_anew(run_app, store_address, caplog):
    caller = two_federations(run_app, store_address)
    broken = "'junk'" if "://" not in store_address else "'junk'::bytea"
    execute(store_address, f"UPDATE kfed_clusterings SET payload = {broken} WHERE federation_id = 2")
    caller.http = run_app(store_address)
    assert_only_bad_is_damaged(caller, "clusters cannot be read")
    assert "federation bad is damaged" in caplog.text
    refused = caller.put(message("late"), "bad")
    assert (refused.status_code, "is damaged" in refused.json()["detail"]) == (503, True)
    assert caller.aggregate("bad").json()["state"] == "aggregated"
    assert caller.put(message("late"), "bad").status_code == 201
    caller.http = run_app(store_address)
    assert caller.show("bad")["state"] == "aggregated"


@pytest.fixture(scope="module")
def store_of_two(tmp_path_factory):
    """A store with two federations that nobody has open; to be copied."""
    path = tmp_path_factory.mktemp("two") / "kfed.db"
    running = InProcess(made_settings(str(path)))
    two_federations(lambda _: running.client, path)
    running.stop()
    return path


@pytest.mark.parametrize(
    "damage",
    [
        "rule = 'unheard of'",
        "n_features = -3",
        "feature_names = 'no json'",
        "n_clusters = -1",
        "deadline = -1",
        "agreed_schema = '5'",
    ],
)
def test_terms_that_cannot_be_read_disable_their_federation_alone(run_app, store_of_two, tmp_path, damage):
    path = str(shutil.copy(store_of_two, tmp_path / "kfed.db"))
    execute(path, f"UPDATE kfed_federations SET {damage} WHERE name = 'bad'")
    caller = Caller(run_app(path))
    states = {one["name"]: one["state"] for one in caller.http.get("/v1/federations", headers=caller.admin).json()}
    assert (states["good"], states["bad"]) == ("aggregated", "damaged")
    assert "cannot be read" in caller.show("bad")["remark"]
    assert caller.aggregate("bad").status_code == 503


def test_a_message_that_cannot_be_read_disables_its_federation_until_its_device_is_removed(run_app, store_address):
    caller = two_federations(run_app, store_address)
    broken = "'junk'" if "://" not in store_address else "'junk'::bytea"
    damage = f"message = {broken} WHERE federation_id = 2 AND device_id = 'device-0001'"
    execute(store_address, f"UPDATE kfed_devices SET {damage}")
    refused = caller.remove("device-0002", "bad")
    assert refused.status_code == 503
    assert refused.json()["detail"].startswith("stored messages cannot be read; the administrator sees whose")
    assert_only_bad_is_damaged(caller, "device-0001")
    assert caller.show("bad")["n_devices"] == 3
    assert caller.aggregate("bad").status_code == 503
    assert caller.remove("device-0001", "bad").status_code == 200
    assert caller.aggregate("bad", n_clusters=2).json()["n_aggregated"] == 2
    assert caller.put(message("late"), "bad").status_code == 201


# Backups --------------------------------------------------------------------------------------------------------------


def test_a_backup_taken_while_the_coordinator_runs_holds_everything_until_then(run_app, store_address, tmp_path):
    caller = Caller(run_app(store_address))
    caller.create_aggregated(messages(4))
    backup(store_address, tmp_path / "one.backup")
    caller.put(message("later"))
    assert list(tmp_path.glob("one.backup*")) == [tmp_path / "one.backup"]
    assert (tmp_path / "one.backup").stat().st_mode & 0o077 == 0
    assert restore(tmp_path / "one.backup", str(tmp_path / "other.db")) == "1 federation and 4 devices"
    before = caller.identity("device-0000")
    caller.http = run_app(str(tmp_path / "other.db"))
    assert caller.identity("device-0000") == before
    assert caller.put(message("later")).status_code == 201


def test_a_coordinator_that_is_running_follows_a_backup_that_is_restored(run_app, store_address, tmp_path):
    caller = Caller(run_app(store_address))
    caller.create_aggregated(messages(4))
    backup(store_address, tmp_path / "one.backup")
    before = caller.show()
    caller.create("another")
    assert caller.put(message("later")).status_code == 201
    assert caller.remove("device-0001").status_code == 200
    with pytest.raises(InvalidInputError, match="pass --force"):
        restore(tmp_path / "one.backup", store_address)
    restore(tmp_path / "one.backup", store_address, overwrite=True)
    shown = caller.wait_for(lambda shown: shown["n_devices"] == 4 and shown["n_aggregated"] == 4)
    assert (shown["version"], shown["cluster_sizes"]) == (before["version"], before["cluster_sizes"])
    assert caller.http.get("/v1/federations/another", headers=caller.admin).status_code == 404
    assert caller.put(message("later")).status_code == 201
    assert caller.remove("device-0001").status_code == 200
    assert caller.show()["n_aggregated"] == 3


def test_places_in_the_order_of_arrivals_are_not_used_again_after_a_restore(store_address, tmp_path):
    store = Store(store_address)
    store.change_devices([arrival("a")])
    backup(store_address, tmp_path / "one.backup")
    assert store.change_devices([arrival("b")])[0].sequence == 2
    restore(tmp_path / "one.backup", store_address, overwrite=True)
    store.read_back()
    assert store.change_devices([arrival("c")])[0].sequence == 3
    store.close()


def test_backups_of_every_version_can_be_restored(run_app, tmp_path):
    for number, old in enumerate(OLD_STORES):
        caller = Caller(run_app(str(tmp_path / "unrelated.db")))
        restore(old, str(tmp_path / f"{number}.db"))
        caller.http = run_app(str(tmp_path / f"{number}.db"))
        assert caller.identity("a")["state"] == "aggregated"


def test_the_commands_say_what_they_did_and_refuse_what_is_no_backup(tmp_path):
    store, file = tmp_path / "kfed.db", tmp_path / "one.backup"
    Store(str(store)).close()
    assert "0 federations and 0 devices" in run("backup", store, file).output
    assert "exists" in run("backup", store, file).output
    assert "restored" in run("restore", file, store).output
    (tmp_path / "junk").write_text("junk")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE other (x)")
    for name in ("junk", "other.db"):
        assert "is not a backup" in run("restore", tmp_path / name, store).output
        assert "is not the store" in run("backup", tmp_path / name, tmp_path / "two.backup").output
    assert "no such store" in run("backup", tmp_path / "none", tmp_path / "two.backup").output


def run(*arguments):
    return CliRunner().invoke(app, ["coordinator", *map(str, arguments)])
