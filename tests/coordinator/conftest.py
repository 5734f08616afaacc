"""Coordinators to test: in this process, on a socket, or as a program; in SQLite or PostgreSQL."""

import shutil
import tempfile
import uuid

import pytest
from coordinators import ADMIN, Caller, InProcess, OnSocket, Postgres, Server, why_no_postgres
from sqlalchemy import create_engine, text

from kfed.coordinator.http import ServiceSettings
from kfed.coordinator.security import hashed


@pytest.fixture(scope="session")
def postgres():
    if why_no_postgres():
        pytest.skip(why_no_postgres())
    # not under pytest's folder, which the database's user cannot enter
    folder = tempfile.mkdtemp(prefix="kfed-postgres-")
    running = Postgres(folder)
    yield running
    running.stop()
    shutil.rmtree(folder)


@pytest.fixture
def postgres_address(postgres):
    """A database of its own."""
    name = f"test_{uuid.uuid4().hex}"
    engine = create_engine(postgres.address.replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return postgres.address.rsplit("/", 1)[0] + f"/{name}"


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
        made = ServiceSettings(address, hashed(ADMIN), **{"open_to_loopback": True, **settings})
        running.append(kind(made, **limits))
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
