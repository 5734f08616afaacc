"""Coordinators to test: in this process, on a socket, or as a program; in SQLite or PostgreSQL."""

import shutil
import tempfile

import pytest
from coordinators import Caller, InProcess, OnSocket, Postgres, Server, made_settings, why_no_postgres
from sqlalchemy import create_engine, text


@pytest.fixture(scope="session")
def postgres():
    if why_no_postgres():
        pytest.skip(why_no_postgres())
    # not under pytest's folder, which the database's user cannot enter
    folder = tempfile.mkdtemp(prefix="kfed-postgres-")
    running = Postgres(folder)
    _execute(running.address, "CREATE DATABASE emptied")
    yield running
    running.stop()
    shutil.rmtree(folder)


@pytest.fixture
def postgres_address(postgres):
    """A database with nothing in it, and nobody else: to empty it takes a tenth of the time to make one."""
    address = postgres.address.rsplit("/", 1)[0] + "/emptied"
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    end = f"SELECT pg_terminate_backend(pid, 20000) {others}"
    _execute(address, end, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return address


def _execute(address, *statements):
    engine = create_engine(address.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


ON_POSTGRESQL = {"test_owners", "test_lost_answers", "test_order_of_events"}
"""What is about the store itself is tested on PostgreSQL, too, each time; the rest, by the slow tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Call tests on PostgreSQL slow, but for those of the store."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("store_address") == "postgresql" and item.path.stem not in ON_POSTGRESQL:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_address(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "kfed.db")
    return request.getfixturevalue("postgres_address")


@pytest.fixture
def run_app():
    """Run coordinators in this process without a socket; each call gives a client of a new one, and ends the last."""
    yield from _one_at_a_time(InProcess)


@pytest.fixture
def run_server():
    """Like `run_app`, on a socket: for browsers, streams, and requests that no client would send."""
    yield from _one_at_a_time(OnSocket)


def _one_at_a_time(kind):
    running = []

    def run(address, **settings):
        while running:
            running.pop().stop()
        limits = {"limits": settings.pop("limits")} if "limits" in settings else {}
        running.append(kind(made_settings(address, **settings), **limits))
        running[0].client.app = running[0].app
        return running[0].client

    yield run
    for one in running:
        one.stop()


@pytest.fixture
def caller(run_app, tmp_path):
    """Calls a coordinator in this process that keeps its data in SQLite."""
    return Caller(run_app(str(tmp_path / "kfed.db")))


@pytest.fixture
def socket_caller(run_server, tmp_path):
    """Calls a coordinator on a socket that keeps its data in SQLite."""
    return Caller(run_server(str(tmp_path / "kfed.db")))


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """Like `caller`, with the federation `clinics`: one for all tests of a module that change nothing."""
    yield from _standing(InProcess, tmp_path_factory)


@pytest.fixture(scope="module")
def socket_standing(tmp_path_factory):
    """Like `standing`, on a socket."""
    yield from _standing(OnSocket, tmp_path_factory)


def _standing(kind, tmp_path_factory):
    running = kind(made_settings(str(tmp_path_factory.mktemp("standing") / "kfed.db")))
    caller = Caller(running.client)
    caller.create()
    yield caller
    running.stop()


@pytest.fixture
def store_caller(run_app, store_address):
    """Calls a coordinator in this process, once for each kind of store."""
    return Caller(run_app(store_address))


@pytest.fixture
def serve(tmp_path):
    """Start `kfed serve` as a program of its own."""
    running = []

    def start(*options, store=None, **more):
        server = Server(store or tmp_path / "kfed.db", tmp_path, *options, **more)
        running.append(server)
        return server

    yield start
    for server in running:
        if server.process.poll() is None:
            server.stop()
