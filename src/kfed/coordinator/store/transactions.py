"""`Transactions`: every write of a store, fenced by its owner's generation, and what to do about one in doubt.

Each owner of a store raises the number ``generation`` in it. A write checks this number in its own transaction, so a
process that has lost the store without noticing writes nothing. A COMMIT that fails may have been carried out: from
then on every write is refused until `reading_back` has read what the store holds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.store import ownership
from kfed.coordinator.store.counters import GENERATION, RESTORED, SEQUENCE, read_counters, set_counter
from kfed.coordinator.store.migrations import migrate
from kfed.coordinator.store.schema import devices, writing_connection
from kfed.errors import InvalidInputError

log = logging.getLogger("kfed.coordinator")


class Transactions:
    """The writes of the process that owns a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._generation = 0
        self.is_closed = False
        self._loss = ""
        self.is_in_doubt = False
        """Whether the store may hold something else than this process believes."""
        self.counters: dict[str, int] = {}
        """Numbers that only grow, as the transaction under way found them."""
        self.epoch = 0
        """How often the store was read back. What was computed before the last time must not be written."""
        self._owner = ownership.take_ownership(engine)
        self._restored = 0
        try:
            with unavailable():
                migrate(engine)
                self._take_over()
        except BaseException:
            self._owner.release()
            raise

    def close(self) -> None:
        """Wait for the write under way, write nothing from now on, and release the store."""
        with self._lock:
            self.is_closed = True
            self._engine.dispose()
            self._owner.release()

    def check(self) -> None:
        """Raise if the store is known to be lost; waits for no write."""
        try:
            self._owner.confirm()
        except InvalidInputError as error:
            raise self._lost(str(error)) from error

    @contextmanager
    def writing(self, epoch: int | None = None) -> Iterator[Connection]:
        """A transaction. With `epoch`, it is refused if the store was read back since then."""
        with self._lock, unavailable():
            self._hold()
            if self.is_in_doubt:
                raise StoreUnavailableError("the store must be reloaded after a fault")
            if epoch is not None and epoch != self.epoch:
                raise StoreUnavailableError("the store was reloaded meanwhile")
            with writing_connection(self._engine) as connection:
                self._fence(connection)
                if self.notice(self.counters):
                    raise StoreUnavailableError("a backup was restored into the store")
                yield connection
                self._commit(connection)

    @contextmanager
    def reading_back(self) -> Iterator[Connection]:
        """Read back what the store holds; afterwards writes are accepted again."""
        with self._lock, unavailable():
            self._hold()
            with writing_connection(self._engine) as connection:
                # A write in doubt locks the row of the generation until it ends, so after this it has ended.
                self._fence(connection)
                self._restored = self.counters.get(RESTORED, 0)
                yield connection
            self.is_in_doubt = False
            self.epoch += 1

    def notice(self, found: dict[str, int]) -> bool:
        """Whether a backup was restored since the store was read; if so, it must be read back."""
        is_restored = found.get(RESTORED, 0) != self._restored
        if is_restored:  # and else nothing is written: another thread may come to doubt meanwhile
            self.is_in_doubt = True
        return is_restored

    def _hold(self) -> None:
        """Make sure that the store is ours, and take it again if it was lost."""
        if self.is_closed:
            raise StoreUnavailableError("this coordinator has closed the store")
        try:
            if self._owner.check():
                self.is_in_doubt = True
                self._take_over()
        except InvalidInputError as error:
            self.is_in_doubt = True
            raise self._lost(str(error)) from error
        self._loss = ""

    def _take_over(self) -> None:
        """Raise the generation, which ends the rights of every owner before."""
        with writing_connection(self._engine) as connection:
            known = read_counters(connection)
            if known.get(GENERATION, 0) < self._generation:
                raise InvalidInputError("the store was replaced by another one; restart the coordinator to use it")
            last = connection.execute(select(func.max(devices.c.sequence))).scalar() or 0
            now = {
                GENERATION: known.get(GENERATION, 0) + 1,
                SEQUENCE: max(known.get(SEQUENCE, 0), last),
            }
            for name, value in now.items():
                set_counter(connection, name, value, is_new=name not in known)
            connection.commit()
        self._generation = now[GENERATION]

    def _fence(self, connection: Connection) -> None:
        """Raise unless the generation is ours; nobody can raise it before this transaction ends."""
        self.counters = read_counters(connection)
        if self.counters.get(GENERATION) != self._generation:
            self.is_in_doubt = True
            raise self._lost("another coordinator has taken it over; this one has stopped writing")

    def _commit(self, connection: Connection) -> None:
        try:
            connection.commit()
            self._owner.confirm()
        except Exception as error:  # whatever it was, the commit may have been carried out
            self.is_in_doubt = True
            raise StoreUnavailableError(_reason(error), may_be_kept=True) from error

    def _lost(self, reason: str) -> StoreUnavailableError:
        if reason != self._loss:
            log.error("the store cannot be used: %s", reason)
        self._loss = reason
        return StoreUnavailableError(reason)


@contextmanager
def unavailable() -> Iterator[None]:
    """Turn every error of the database into a `StoreUnavailableError`, without the values of the statement."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreUnavailableError(_reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, DBAPIError):
        return str(error.orig).splitlines()[0] if str(error.orig) else "no reason given"
    return type(error).__name__ if isinstance(error, SQLAlchemyError) else str(error)
