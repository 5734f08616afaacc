"""One process at a time owns a store; a second one is refused."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import IO, Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from kfed.errors import InvalidInputError

_LOCK = 0x6B666564  # "kfed", the number of the advisory lock in PostgreSQL


class Owner(Protocol):
    """Holds a store."""

    def check(self) -> bool:
        """Raise unless the store is held; returns whether it was lost since the last check, and taken again."""

    def confirm(self) -> None:
        """Raise if the store at its address was deleted or replaced, so that a commit went elsewhere."""

    def release(self) -> None:
        """Release the store."""


def take_ownership(engine: Engine) -> Owner:
    """Take ownership of a store. Raises `InvalidInputError` if another process has it."""
    return _Session(engine) if engine.dialect.name == "postgresql" else _LockedFile(engine)


class _LockedFile:
    """Holds an SQLite file by locks that end with the process, however that ends.

    One lock is on a file beside it, and one on the file itself, which is the same under every name and which nobody can
    delete away. Only Linux has both: elsewhere the second would shut out SQLite's own locks.
    """

    def __init__(self, engine: Engine) -> None:
        self._path = engine.url.database or "kfed.db"
        self._files: list[IO[bytes]] = []
        for path in (f"{self._path}.lock", *([self._path] if sys.platform == "linux" else [])):
            self._lock(path)
        found = os.stat(self._path)
        self._identity = found.st_dev, found.st_ino

    def check(self) -> bool:
        self.confirm()
        return False

    def confirm(self) -> None:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise InvalidInputError(f"{self._path} was deleted or moved while the coordinator was using it") from error
        if (found.st_dev, found.st_ino) != self._identity:
            raise InvalidInputError(f"{self._path} was replaced by another file while the coordinator was using it")

    def release(self) -> None:
        while self._files:
            self._files.pop().close()

    def _lock(self, path: str) -> None:
        import fcntl

        file = open(path, "ab")  # noqa: SIM115 - held as long as the store is
        self._files.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise InvalidInputError(
                f"{self._path} is in use by another coordinator; stop that one, or use another store"
            ) from error


class _Session:
    """Holds a PostgreSQL database by an advisory lock of a session, and takes it again after losing the session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = self._locked()

    def check(self) -> bool:
        if self._connection is not None and _is_alive(self._connection):
            return False
        self._drop()
        self._connection = self._locked()
        return True

    def confirm(self) -> None:
        """Do nothing: a server says itself when a database is gone."""

    def release(self) -> None:
        if self._connection is not None:
            with suppress(SQLAlchemyError):  # a session ends a while after its connection; the next owner need not wait
                self._connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()  # the session must end, and its lock with it
            connection.close()

    def _locked(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            if connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar():
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise InvalidInputError("this database is in use by another coordinator; stop that one, or use another")


def _is_alive(connection: Connection) -> bool:
    try:
        connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return False
    return True
