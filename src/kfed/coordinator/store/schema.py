"""The tables of the store, the same in SQLite and PostgreSQL, and how to connect to either.

Whoever changes a table adds a step to `migrations`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    false,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from kfed.errors import InvalidInputError

BUSY_SECONDS = 2

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # what SQLite numbers rows with

keys = Table("kfed_keys", metadata, Column("name", String(40), primary_key=True), Column("value", LargeBinary))

counters = Table(
    "kfed_counters",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", BigInteger, nullable=False),  # only grows: of devices that left and owners that ended, too
)

federations = Table(
    "kfed_federations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(63), nullable=False, unique=True),
    Column("n_features", Integer, nullable=False),
    Column("feature_names", JSON),
    Column("agreed_schema", JSON),  # null: names and a number of features alone
    Column("n_clusters", Integer),  # null: "auto"; 0: the best
    Column("rule", String(20), nullable=False),
    Column("quorum", Integer),
    Column("deadline", Float(53)),
    Column("max_devices", Integer, nullable=False),
    Column("max_centers", Integer, nullable=False),
    Column("max_count", Float(53)),
    Column("max_value", Float(53)),
    Column("min_devices", Integer),
    Column("min_devices_shown", Integer, nullable=False, server_default="3"),
    Column("max_epsilon", Float(53)),
    Column("join_token_hash", LargeBinary, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("closed", Boolean, nullable=False),
    Column("invited_only", Boolean, nullable=False, server_default=false()),
    Column("by_column", Boolean, nullable=False, server_default=false()),
    Column("rounds", Integer, nullable=False, server_default="1"),
)

second_messages = Table(
    "kfed_second_messages",
    metadata,
    Column("federation_id", Integer, primary_key=True, autoincrement=False),
    Column("device_id", String(200), primary_key=True),
    Column("version", Integer, nullable=False),  # of the clustering that it is about
    Column("message", LargeBinary, nullable=False),
)

cluster_names = Table(
    "kfed_cluster_names",
    metadata,
    Column("federation_id", Integer, primary_key=True, autoincrement=False),
    Column("cluster", Integer, primary_key=True, autoincrement=False),
    Column("name", String(200), nullable=False),
)

invitations = Table(
    "kfed_invitations",
    metadata,
    Column("federation_id", Integer, primary_key=True, autoincrement=False),
    Column("device_id", String(200), primary_key=True),
    Column("token_hash", LargeBinary, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("used_at", Float(53)),  # null: not used yet
)

devices = Table(
    "kfed_devices",
    metadata,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=False),  # order of arrival
    Column("federation_id", Integer, nullable=False),
    Column("device_id", String(200), nullable=False),
    Column("received_at", Float(53), nullable=False),
    Column("message", LargeBinary, nullable=False),
    Column("secret_hash", LargeBinary),
    Column("n_centers", Integer, nullable=False),
    Column("n_points", Float(53), nullable=False),
    Column("is_double", Boolean, nullable=False),
    Index("kfed_device_of_federation", "federation_id", "device_id", unique=True),
    Index("kfed_arrival_in_federation", "federation_id", "sequence"),
)

clusterings = Table(
    "kfed_clusterings",
    metadata,
    Column("federation_id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("payload", LargeBinary),  # null: there are no clusters any more
    Column("remark", Text),
)


def connect(address: str) -> Engine:
    """An engine for a file (SQLite) or a ``postgresql://`` address."""
    url = _url(address)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    return _postgresql(url)


def _url(address: str) -> URL:
    if "://" not in address:
        return URL.create("sqlite", database=os.path.realpath(address))
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise InvalidInputError("the store must be a file or a postgresql:// address") from error
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InvalidInputError(
            f"the store must be a file or a postgresql:// address; got an address of {url.get_backend_name()!r}"
        )
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    return url.set(database=os.path.realpath(url.database or "kfed.db"))


def writing_connection(engine: Engine) -> Connection:
    """A connection to write on; in SQLite, a transaction on it waits for other writers when it begins."""
    return engine.connect().execution_options(kfed_writes=True)


@contextmanager
def for_long_answers(connection: Connection) -> Iterator[None]:
    """Give statements that read a whole federation more time in PostgreSQL; a file keeps nobody waiting."""
    if connection.dialect.name != "postgresql":
        yield
        return
    from kfed.coordinator.store import patience

    patience.set_patience(connection, patience.LONG_ANSWER_SECONDS)
    try:
        yield
    finally:
        if not connection.invalidated:
            patience.set_patience(connection, patience.ANSWER_SECONDS)


def _postgresql(url: URL) -> Engine:
    from kfed.coordinator.store import patience  # needs psycopg, which SQLite does not

    engine = create_engine(
        url,
        pool_pre_ping=True,
        pool_size=8,
        pool_timeout=patience.ANSWER_SECONDS,
        connect_args=patience.CONNECT_ARGUMENTS,
    )

    @event.listens_for(engine, "do_connect")
    def _do_connect(_: Any, __: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        return patience.ImpatientConnection.connect(*arguments, **options)

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        patience.set_up(connection)

    @event.listens_for(engine, "handle_error")
    def _on_error(context: Any) -> None:
        context.invalidate_pool_on_disconnect = False  # other threads use the others, and each is tested when taken

    return engine


def _sqlite(url: URL) -> Engine:
    """One file in WAL mode: readers do not wait for the writer, and a commit is on disk."""
    if url.database and not os.path.exists(url.database):
        os.close(os.open(url.database, os.O_CREAT | os.O_WRONLY, 0o600))  # readable by its owner only
    existing = f"file:{quote(url.database or '')}?mode=rw"  # a file that was deleted must not come back empty

    def open_file() -> sqlite3.Connection:
        return sqlite3.connect(existing, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    engine = create_engine(url, creator=open_file)

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy begins every transaction, those that only read too
        for pragma in ("journal_mode = WAL", "synchronous = FULL", f"busy_timeout = {BUSY_SECONDS * 1000}"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Any) -> None:
        writes = connection.get_execution_options().get("kfed_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
