"""One owner at a time: whoever has lost a store, knowingly or not, writes nothing into it and acknowledges nothing."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
from coordinators import Caller, message, messages
from sqlalchemy import create_engine, text
from test_parts import arrival

from kfed.coordinator.core import aggregator
from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.store import Departure, SavedClustering, Store, ownership
from kfed.coordinator.store.transactions import Transactions


@pytest.fixture(scope="module")
def open_elsewhere():
    """What another process is told that opens a store: nothing if it may."""
    program = """
import sys
from kfed.coordinator.store import Store
for path in sys.stdin:
    try:
        Store(path.rstrip()).close()
    except Exception as error:
        print(error, end="", flush=True)
    print(flush=True)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as elsewhere:

        def ask(path):
            elsewhere.stdin.write(f"{path}\n")
            elsewhere.stdin.flush()
            answer = elsewhere.stdout.readline()
            assert answer, "the other process has ended"
            return answer.rstrip()

        yield ask
        elsewhere.stdin.close()


# Locks ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path):
    path = tmp_path / "kfed.db"
    store = Store(str(path))
    yield path
    store.close()


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_link_to_a_store_in_use_is_the_store_in_use(open_elsewhere, held, tmp_path, link):
    if link is os.link and sys.platform != "linux":
        pytest.skip("only Linux locks the file itself")
    other = tmp_path / "other.db"
    link(held, other)
    assert "in use by another coordinator" in open_elsewhere(other)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux locks the file itself")
def test_a_deleted_lock_file_lets_nobody_in(open_elsewhere, held):
    os.unlink(f"{held}.lock")
    assert "in use by another coordinator" in open_elsewhere(held)


def test_a_store_is_free_as_soon_as_its_owner_has_closed_it(open_elsewhere, tmp_path):
    store = Store(str(tmp_path / "kfed.db"))
    store.close()
    assert not open_elsewhere(tmp_path / "kfed.db")
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.change_devices([arrival("a")])


def test_a_database_is_free_as_soon_as_its_owner_has_closed_it(postgres_address):
    engine = create_engine(postgres_address.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    query = text(
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database "
        "WHERE locktype = 'advisory' AND datname = current_database()"
    )
    with engine.connect() as watching:
        for _ in range(20):
            store = Store(postgres_address)
            assert watching.execute(query).scalar() == 1
            store.close()
            assert watching.execute(query).scalar() == 0
    engine.dispose()


# Fences ---------------------------------------------------------------------------------------------------------------


class NoLock:
    """An owner whose lock failed to keep another one out."""

    def check(self):
        return False

    def confirm(self):
        pass

    def release(self):
        pass


def test_an_owner_that_another_one_succeeded_writes_nothing(store_address, monkeypatch, caplog):
    monkeypatch.setattr(ownership, "take_ownership", lambda _: NoLock())
    first = Store(store_address)
    first.change_devices([arrival("a")])
    second = Store(store_address)
    second.change_devices([arrival("b")])
    writes = [
        lambda: first.change_devices([arrival("c")]),
        lambda: first.change_devices([Departure(1, "a")]),
        lambda: first.set_key("admin", b"another"),
        lambda: first.save_clustering(SavedClustering(1, 1, b"", None), first.epoch),
        first.read_back,
    ]
    for write in writes:
        with pytest.raises(StoreUnavailableError, match=r"another coordinator has taken it over|must be reloaded"):
            write()
    assert "another coordinator has taken it over" in caplog.text
    assert second.change_devices([arrival("c")])[0].sequence == 3
    assert second.key("admin") is None
    first.close()
    second.close()


def test_an_aggregation_that_outlives_its_coordinator_leaves_the_clusters_of_the_next_one_alone(
    run_app, store_address, monkeypatch
):
    sent = messages(6)
    begun, may_end, made = threading.Event(), threading.Event(), aggregator.Clusters.of

    def held_up(*arguments, **options):
        begun.set()
        assert may_end.wait(60)
        return made(*arguments, **options)

    caller = Caller(run_app(store_address))
    caller.create(quorum=4)
    monkeypatch.setattr(aggregator.Clusters, "of", held_up)
    for one in sent[:4]:
        caller.put(one)
    assert begun.wait(60)
    outliving = [thread for thread in threading.enumerate() if thread.name.startswith("kfed-aggregator")]
    monkeypatch.setattr(aggregator.Clusters, "of", made)
    caller.http = run_app(store_address)  # stops the first, as Ctrl+C does
    caller.wait_until("aggregated")
    for one in sent[4:]:
        caller.put(one)
    assert caller.aggregate().json()["n_aggregated"] == 6
    may_end.set()
    for thread in outliving:
        thread.join(60)
    before = caller.show()
    caller.http = run_app(store_address)
    assert (caller.show()["version"], caller.show()["n_aggregated"]) == (before["version"], 6) == (2, 6)


# Stores that go away --------------------------------------------------------------------------------------------------


def assert_stopped(caller, one, reason, caplog):
    answer = caller.put(one)
    assert answer.status_code == 503
    assert reason in answer.json()["detail"]
    assert reason in caplog.text
    assert caller.http.get("/readyz").status_code == 503


def test_nothing_is_acknowledged_into_a_deleted_file(caller, tmp_path, caplog):
    path = tmp_path / "kfed.db"
    caller.create()
    caller.put(message("a"))
    os.rename(path, tmp_path / "moved.db")
    assert_stopped(caller, message("b"), "was deleted or moved", caplog)
    assert not path.exists()
    os.rename(tmp_path / "moved.db", path)
    assert caller.put(message("b")).status_code == 201
    os.unlink(path)
    assert_stopped(caller, message("c"), "was deleted or moved", caplog)


def test_nothing_is_acknowledged_into_a_file_that_was_replaced(caller, tmp_path, caplog):
    path = tmp_path / "kfed.db"
    caller.create()
    caller.put(message("a"))
    shutil.copy(path, tmp_path / "backup.db")
    os.replace(tmp_path / "backup.db", path)
    assert_stopped(caller, message("b"), "was replaced by another file", caplog)


def test_a_message_that_was_committed_while_the_file_was_deleted_is_not_acknowledged(tmp_path, monkeypatch):
    path = tmp_path / "kfed.db"
    store = Store(str(path))
    commit = store.engine.dialect.do_commit

    def deleted_meanwhile(connection):
        path.unlink()
        commit(connection)

    monkeypatch.setattr(store.engine.dialect, "do_commit", deleted_meanwhile)
    with pytest.raises(StoreUnavailableError, match=r"deleted or moved.*may or may not have been stored"):
        store.change_devices([arrival("a")])
    store.close()


def test_nothing_is_acknowledged_into_a_database_that_was_made_anew(run_app, postgres, postgres_address):
    caller = Caller(run_app(postgres_address))
    caller.create()
    caller.put(message("a"))
    engine = create_engine(postgres.address.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    name = postgres_address.rsplit("/", 1)[1]
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    for _ in range(3):
        assert caller.put(message("b")).status_code == 503
    Store(postgres_address.replace(name, "postgres")).close()  # another store is not concerned


def sessions_ended(postgres, address):
    engine = create_engine(postgres.address.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = :name"
    with engine.connect() as connection:
        connection.execute(text(query), {"name": address.rsplit("/", 1)[1]})
    engine.dispose()


def test_a_coordinator_that_lost_its_database_for_a_while_shows_what_the_one_in_between_did(
    run_app, postgres, postgres_address
):
    caller = Caller(run_app(postgres_address))
    caller.create()
    caller.put(message("a"))
    sessions_ended(postgres, postgres_address)
    between = Store(postgres_address)
    federation = between.read_back().federations[0]
    between.change_devices([arrival("b")])
    between.change_federation(federation.id, closed=True)
    assert "in use by another coordinator" in caller.put(message("c")).json()["detail"]
    between.close()
    refused = caller.put(message("c"))
    assert (refused.status_code, "closed" in refused.json()["detail"]) == (409, True)
    assert (caller.show()["n_devices"], caller.show()["closed"]) == (2, True)
    assert caller.put(message("a")).status_code == 200


def test_a_look_that_finds_no_backup_leaves_alone_what_another_thread_may_come_to_doubt(tmp_path, monkeypatch):
    store, written = Store(str(tmp_path / "kfed.db")), []
    doubt = property(lambda _: False, lambda _, is_in_doubt: written.append(is_in_doubt))
    monkeypatch.setattr(Transactions, "is_in_doubt", doubt, raising=False)
    store.look()
    assert written == []
    store.close()
