"""Coordinators to test, in SQLite and in PostgreSQL."""

import shutil
import tempfile
import threading
import time
import uuid

import httpx
import pytest
import uvicorn
from coordinators import ADMIN, Caller, Postgres, Server, why_no_postgres
from sqlalchemy import create_engine, text

from kfed.coordinator.http import Address, Settings, create_app
from kfed.coordinator.security import hashed


@pytest.fixture(scope="session")
def postgres():
    if why_no_postgres():
        pytest.skip(why_no_postgres())
    folder = tempfile.mkdtemp(
        prefix="kfed-postgres-"
    )  # not under pytest's folder, which the database's user cannot enter
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


class InThread:
    """A coordinator in this process, on a socket of its own, and a client of it."""

    def __init__(self, settings):
        self.app = create_app(settings)
        listening = Address(port=0).listen()
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="warning", proxy_headers=False))
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[listening]))
        self._thread.start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=30)
        while not self._server.started:
            time.sleep(0.01)

    def stop(self):
        self.client.close()
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def run_app():
    """Run coordinators in this process; each call gives a new one, and ends those before it."""
    running = []

    def run(address, **settings):
        while running:
            running.pop().stop()
        running.append(InThread(Settings(address, hashed(ADMIN), **{"open_to_loopback": True, **settings})))
        return running[0].client

    yield run
    for one in running:
        one.stop()


@pytest.fixture
def caller(run_app, store_address):
    """Speaks to a coordinator in this process, once for each kind of store."""
    return Caller(run_app(store_address))


@pytest.fixture
def sqlite_caller(run_app, tmp_path):
    """Speaks to a coordinator in this process that keeps what it holds in SQLite."""
    return Caller(run_app(str(tmp_path / "kfed.db")))


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
