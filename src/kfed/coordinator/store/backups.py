"""Backups: a whole store in one SQLite file, taken and restored while a coordinator may be using the store."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Table, delete, func, insert, inspect, select
from sqlalchemy.exc import DatabaseError, OperationalError

from kfed._base.text import plural
from kfed.coordinator.store.counters import GENERATION, RESTORED, read_counters, set_counter
from kfed.coordinator.store.migrations import migrate
from kfed.coordinator.store.schema import (
    connect,
    counters,
    devices,
    federations,
    for_long_answers,
    metadata,
    writing_connection,
)
from kfed.coordinator.store.transactions import unavailable
from kfed.errors import InvalidInputError

ROWS_AT_A_TIME = 1_000


def backup(store: str, file: Path) -> str:
    """Write everything that is in a store at this moment to a new file; returns what that is, in words."""
    if not store.startswith("postgresql") and not os.path.isfile(store):
        raise InvalidInputError(f"{store}: no such store")
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".kfed-backup-") as folder:
        copy = os.path.join(folder, "kfed.db")
        with _engine(store) as engine, unavailable():
            _check_is_store(engine, "this is not the store of a coordinator")
            if engine.dialect.name == "sqlite":
                _copy_file(str(engine.url.database), copy)
            else:
                _copy_tables(engine, copy)
        with _engine(copy) as engine, engine.connect() as connection:
            said = _said(connection)
        _alone(copy)
        os.replace(copy, file)
    return said


def restore(file: Path, store: str, *, overwrite: bool = False) -> str:
    """Replace everything in a store by what a backup holds; returns what that is, in words.

    A store that holds something is left alone unless `overwrite` is true. A coordinator that is using the store reads
    it back. Places in the order of arrivals are never used again.
    """
    if not file.is_file():
        raise InvalidInputError(f"{file}: no such file")
    with tempfile.TemporaryDirectory(prefix="kfed-restore-") as folder:
        copy = os.path.join(folder, "kfed.db")
        shutil.copyfile(file, copy)
        with _engine(copy) as source, _engine(store) as target, unavailable():
            _check_is_store(source, f"{file} is not a backup of a coordinator's store")
            migrate(source)
            migrate(target)
            with source.connect() as reading, writing_connection(target) as writing, for_long_answers(writing):
                if _count(writing, federations) and not overwrite:
                    raise InvalidInputError(f"the store holds {_said(writing)}; pass --force to replace them")
                _replace(reading, writing)
                said = _said(writing)
                writing.commit()
    return said


@contextmanager
def _engine(address: str) -> Iterator[Engine]:
    engine = connect(address)
    try:
        yield engine
    finally:
        engine.dispose()


def _copy_file(source: str, copy: str) -> None:
    """Copy all pages in one step, which sees the file as it is at one moment, whoever writes to it."""
    with (
        closing(sqlite3.connect(f"file:{quote(source)}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(copy)) as writing,
    ):
        reading.backup(writing, pages=-1)


def _copy_tables(engine: Engine, copy: str) -> None:
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as reading, _engine(copy) as target:
        migrate(target)
        with for_long_answers(reading), writing_connection(target) as writing:
            _copy_rows(reading, writing)
            writing.commit()


def _replace(reading: Connection, writing: Connection) -> None:
    """Make the rows those of the backup. Counters never go down, and whoever owns the store still does."""
    known, saved = read_counters(writing), read_counters(reading, locked=False)
    _copy_rows(reading, writing, without=counters)
    latest = {name: max(known.get(name, 0), saved.get(name, 0)) for name in known | saved}
    latest |= {GENERATION: known.get(GENERATION, 0), RESTORED: known.get(RESTORED, 0) + 1}
    for name, value in latest.items():
        set_counter(writing, name, value, is_new=name not in known)


def _copy_rows(reading: Connection, writing: Connection, without: Table | None = None) -> None:
    """Make the rows of all tables, or all but one, those of another store."""
    for table in metadata.sorted_tables:
        if table is without:
            continue
        writing.execute(delete(table))
        rows = reading.execute(select(table).execution_options(yield_per=ROWS_AT_A_TIME)).mappings()
        for some in rows.partitions():
            writing.execute(insert(table), [dict(row) for row in some])


def _check_is_store(engine: Engine, complaint: str) -> None:
    try:
        is_store = federations.name in inspect(engine).get_table_names()
    except OperationalError:  # a database that cannot be reached says so itself
        raise
    except DatabaseError:  # not a database at all
        is_store = False
    if not is_store:
        raise InvalidInputError(complaint)


def _said(connection: Connection) -> str:
    n_federations, n_devices = _count(connection, federations), _count(connection, devices)
    return f"{plural(n_federations, 'federation')} and {plural(n_devices, 'device')}"


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _alone(path: str) -> None:
    """Fold the log that SQLite keeps beside a file into the file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").close()
    os.chmod(path, 0o600)
