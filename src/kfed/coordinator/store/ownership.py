"""One process at a time owns a store; a second one is refused."""

from __future__ import annotations

import os
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from kfed.errors import InvalidInputError

_LOCK = 0x6B666564  # "kfed", the number of the advisory lock in PostgreSQL


class Owner(Protocol):
    """Holds a store."""

    def check(self) -> None:
        """Raise unless the store is still held."""

    def release(self) -> None:
        """Release the store."""


def claim(engine: Engine) -> Owner:
    """Take ownership of a store. Raises `InvalidInputError` if another process has it."""
    return _Session(engine) if engine.dialect.name == "postgresql" else _File(engine)


class _File:
    """Holds an SQLite file by a lock on a file beside it; the lock ends with the process, however that ends."""

    def __init__(self, engine: Engine) -> None:
        import fcntl

        path = os.path.abspath(engine.url.database or "kfed.db")
        self._file = open(f"{path}.lock", "ab")  # noqa: SIM115 - held as long as the store is
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise InvalidInputError(
                f"{path} is in use by another coordinator; stop that one, or use another store"
            ) from error

    def check(self) -> None:
        """Do nothing: a file lock lasts as long as the process."""

    def release(self) -> None:
        self._file.close()


class _Session:
    """Holds a PostgreSQL database by an advisory lock of a session, and takes it again after losing the session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self.check()

    def check(self) -> None:
        if self._connection is not None and not _is_alive(self._connection):
            self.release()
        if self._connection is None:
            self._connection = self._locked()

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()  # the session must end, and its lock with it
            connection.close()

    def _locked(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar():
            return connection
        connection.close()
        raise InvalidInputError("this database is in use by another coordinator; stop that one, or use another")


def _is_alive(connection: Connection) -> bool:
    try:
        connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return False
    return True
