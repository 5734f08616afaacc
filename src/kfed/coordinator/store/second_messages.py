"""`SecondMessages`: what devices sent about clusters that they were told, at most once each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from kfed.coordinator.store.schema import second_messages


@dataclass(frozen=True)
class SecondMessage:
    """The second message of a device; `version` is the number of the clustering that it is about."""

    device_id: str
    version: int
    message: bytes


_COLUMNS = [second_messages.c[field.name] for field in fields(SecondMessage)]


class SecondMessages:
    """The second messages of all federations in a store."""

    def __init__(self, writing: Callable[[], AbstractContextManager[Connection]], read: Callable[[Any], Any]) -> None:
        self._writing, self._read = writing, read
        self._counts: dict[tuple[int, int], int] = {}

    def read_back(self, connection: Connection) -> None:
        """Count them anew."""
        of = (second_messages.c.federation_id, second_messages.c.version)
        rows = connection.execute(select(*of, func.count()).group_by(*of))
        self._counts = {(row[0], row[1]): row[2] for row in rows}

    def count(self, federation_id: int, version: int) -> int:
        """How many devices have sent one about this clustering."""
        return self._counts.get((federation_id, version), 0)

    def of(self, federation_id: int, version: int) -> list[SecondMessage]:
        """All about one clustering."""
        is_own = (second_messages.c.federation_id == federation_id) & (second_messages.c.version == version)
        return [SecondMessage(*row) for row in self._read(select(*_COLUMNS).where(is_own))]

    def put(self, federation_id: int, sent: SecondMessage) -> SecondMessage:
        """Save one, unless its device has sent one before; returns the one that is stored."""
        with self._writing() as connection:
            known = connection.execute(select(*_COLUMNS).where(_is(federation_id, sent.device_id))).first()
            if known is not None:
                return SecondMessage(*known)
            connection.execute(insert(second_messages).values(federation_id=federation_id, **vars(sent)))
        key = federation_id, sent.version
        self._counts = {**self._counts, key: self._counts.get(key, 0) + 1}
        return sent

    def remove(self, connection: Connection, federation_id: int, device_id: str) -> None:
        """Delete that of a device, in the transaction in which the device goes."""
        if not self._counts:
            return
        known = connection.execute(select(*_COLUMNS).where(_is(federation_id, device_id))).first()
        if known is not None:
            connection.execute(delete(second_messages).where(_is(federation_id, device_id)))
            key = federation_id, known.version
            self._counts = {**self._counts, key: self._counts.get(key, 1) - 1}


def _is(federation_id: int, device_id: str) -> Any:
    return (second_messages.c.federation_id == federation_id) & (second_messages.c.device_id == device_id)
