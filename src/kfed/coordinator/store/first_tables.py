"""`FirstTables`: the columns of a stored table, for comparison with those of a new one."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import Connection, select

from kfed.coordinator.store.schema import devices
from kfed.errors import MessageError
from kfed.wire import DeviceMessage, FeatureSchema


class FirstTables:
    """The columns of one stored table for each federation, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[int, dict[int, FeatureSchema]] = defaultdict(dict)
        self._gone: set[int] = set()

    def find(self, federation_id: int, replaced: int) -> FeatureSchema | None:
        """The columns of a table, other than that which came at the place `replaced`; None if there is no other."""
        tables = self._tables[federation_id]
        if not tables.keys() - {replaced}:
            tables.update(self._first_stored(federation_id, replaced))
        return next((schema for place, schema in tables.items() if place != replaced), None)

    def keep(self, federation_id: int, sequence: int, schema: FeatureSchema) -> None:
        """Remember a table that has come at this place in the order of arrivals."""
        self._tables[federation_id][sequence] = schema

    def forget(self, sequence: int) -> None:
        """Forget a table that has gone or was replaced."""
        self._gone.add(sequence)
        for tables in self._tables.values():
            tables.pop(sequence, None)

    def _first_stored(self, federation_id: int, replaced: int) -> dict[int, FeatureSchema]:
        is_there = devices.c.sequence.not_in([*self._gone, replaced])
        query = select(devices.c.sequence, devices.c.message).where(devices.c.federation_id == federation_id, is_there)
        row = self._connection.execute(query.order_by(devices.c.sequence).limit(1)).first()
        try:
            return {} if row is None else {row.sequence: DeviceMessage.from_bytes(row.message).schema}
        except MessageError:  # the next aggregation names its device
            return {}
