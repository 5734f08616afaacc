"""Counters in the store that never go down, whoever joins or leaves."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from kfed.coordinator.store.schema import counters

GENERATION = "generation"
"""The owners so far; only the last one may write."""
SEQUENCE = "sequence"
"""The last place in the order of arrivals."""
SCHEMA = "schema"
"""The version of the tables."""
FEDERATION = "federation"
"""The last id of a federation, so that one that was deleted leaves nothing to another."""
RESTORED = "restored"
"""The backups that were restored."""


def set_counter(connection: Connection, name: str, value: int, *, is_new: bool = False) -> None:
    """Save a number that only grows."""
    if is_new:
        connection.execute(insert(counters).values(name=name, value=value))
    else:
        connection.execute(update(counters).where(counters.c.name == name).values(value=value))


def read_counters(connection: Connection, *, locked: bool = True) -> dict[str, int]:
    """All counters; locked until the transaction ends, as SQLite has locked the whole file by then."""
    query = select(counters.c.name, counters.c.value)
    rows = connection.execute(query.with_for_update() if locked else query)
    return {row.name: row.value for row in rows}
