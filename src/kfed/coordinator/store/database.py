"""`Store`: federations, devices, clusterings and keys in a database.

One process at a time owns a store, and one thread of it makes all changes to devices, so that nothing comes between a
decision and the write that follows from it. Every error of the database becomes a `StoreUnavailableError`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from kfed.coordinator.federation import Federation, Tally
from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.store import ownership, schema
from kfed.coordinator.store.devices import (
    DEVICE_COLUMNS,
    Arrival,
    ArrivalBatch,
    Device,
    Reading,
    Receipt,
    known_devices,
)
from kfed.coordinator.store.schema import clusterings, devices, federations, keys
from kfed.errors import InvalidInputError, KFedError
from kfed.wire import FeatureSchema


@dataclass(frozen=True)
class SavedClustering:
    """The latest clustering of a federation; without a payload there are no clusters, and `remark` says why."""

    federation_id: int
    version: int
    payload: bytes | None
    remark: str | None


class Store:
    """A database that one process at a time has open."""

    def __init__(self, address: str) -> None:
        self.engine = schema.connect(address)
        self._lock = threading.Lock()
        try:
            with unavailable():
                self._owner = ownership.claim(self.engine)
                schema.metadata.create_all(self.engine)
        except KFedError:
            self.engine.dispose()
            raise
        self._tallies: dict[int, Tally] = defaultdict(Tally, self._count())
        self.last_sequence = int(self._read(select(func.max(devices.c.sequence))).scalar() or 0)

    def close(self) -> None:
        """Close the connection and release the lock."""
        self.engine.dispose()
        self._owner.release()

    # Reading ----------------------------------------------------------------------------------------------------

    def tally(self, federation_id: int) -> Tally:
        """Totals of the devices of a federation."""
        return self._tallies[federation_id]

    def key(self, name: str) -> bytes | None:
        """The hash of a token, or None."""
        kept: bytes | None = self._read(select(keys.c.value).where(keys.c.name == name)).scalar()
        return kept

    def federations(self) -> list[Federation]:
        """All federations, in the order they were created."""
        return [_federation(row) for row in self._read(select(federations).order_by(federations.c.id)).mappings()]

    def clusterings(self) -> list[SavedClustering]:
        """The latest clustering of each federation that has been aggregated."""
        return [SavedClustering(**row) for row in self._read(select(clusterings)).mappings()]

    def device(self, federation_id: int, device_id: str) -> Device | None:
        """One device, if it has joined."""
        where = (devices.c.federation_id == federation_id) & (devices.c.device_id == device_id)
        row = self._read(select(*DEVICE_COLUMNS).where(where)).mappings().first()
        return None if row is None else Device(**row)

    def newest(self, federation_id: int, limit: int) -> list[Device]:
        """The devices that arrived last, newest first."""
        of_federation = select(*DEVICE_COLUMNS).where(devices.c.federation_id == federation_id)
        rows = self._read(of_federation.order_by(devices.c.sequence.desc()).limit(limit)).mappings()
        return [Device(**row) for row in rows]

    def count(self, federation_id: int, last_sequence: int) -> int:
        """Number of devices that arrived no later than `last_sequence`."""
        where = (devices.c.federation_id == federation_id) & (devices.c.sequence <= last_sequence)
        return int(self._read(select(func.count()).select_from(devices).where(where)).scalar() or 0)

    @contextmanager
    def reading(self, federation_id: int, last_sequence: int) -> Iterator[Reading]:
        """Read many devices in one snapshot, however long it takes."""
        with unavailable(), self.engine.connect() as connection:
            if self.engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield Reading(connection, federation_id, last_sequence)

    def _read(self, query: Any) -> Any:
        with unavailable(), self.engine.connect() as connection:
            return connection.execute(query).freeze()()

    def _count(self) -> dict[int, Tally]:
        of_column = (devices.c.n_centers, devices.c.n_points, func.length(devices.c.message))
        sums = [func.coalesce(func.sum(column), 0) for column in of_column]
        query = select(devices.c.federation_id, func.count(), *sums).group_by(devices.c.federation_id)
        return {row[0]: Tally(row[1], int(row[2]), float(row[3]), int(row[4])) for row in self._read(query)}

    # Writing; devices on one thread alone --------------------------------------------------------------------------

    def set_key(self, name: str, value: bytes) -> None:
        """Save the hash of a token, replacing any other of this name."""
        with self._writing() as connection:
            connection.execute(delete(keys).where(keys.c.name == name))
            connection.execute(insert(keys).values(name=name, value=value))

    def add_federation(self, federation: Federation) -> Federation | None:
        """Save a federation under a new id; None if the name is taken."""
        with self._writing() as connection:
            taken = select(federations.c.id).where(federations.c.name == federation.name)
            if connection.execute(taken).first() is not None:
                return None
            values = {
                **_columns(federation),
                "id": 1 + (connection.execute(select(func.max(federations.c.id))).scalar() or 0),
            }
            connection.execute(insert(federations).values(values))
        return replace(federation, id=values["id"])

    def close_federation(self, federation: Federation) -> Federation:
        """Turn new devices away from now on."""
        with self._writing() as connection:
            connection.execute(update(federations).where(federations.c.id == federation.id).values(closed=True))
        return replace(federation, closed=True)

    def put(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Judge messages in their order and save those that are admitted, in one transaction."""
        with self._writing() as connection:
            batch = ArrivalBatch(known_devices(connection, arrivals), dict(self._tallies), self.last_sequence)
            receipts = [batch.take(arrival) for arrival in arrivals]
            batch.write(connection)
        self._tallies.update(batch.tallies)
        self.last_sequence = batch.last_sequence
        return receipts

    def remove(self, federation_id: int, device_id: str) -> Device | None:
        """Delete a device; None if it is not there."""
        device = self.device(federation_id, device_id)
        if device is None:
            return None
        with self._writing() as connection:
            connection.execute(delete(devices).where(devices.c.sequence == device.sequence))
        self._tallies[federation_id] = self._tallies[federation_id].plus(device.tally, -1)
        return device

    def save_clustering(self, federation_id: int, version: int, payload: bytes | None, remark: str | None) -> None:
        """Save a clustering, replacing the one before."""
        with self._writing() as connection:
            connection.execute(delete(clusterings).where(clusterings.c.federation_id == federation_id))
            values = {"federation_id": federation_id, "version": version, "payload": payload, "remark": remark}
            connection.execute(insert(clusterings).values(values))

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lock, unavailable():
            try:
                self._owner.check()
            except InvalidInputError as error:
                raise StoreUnavailableError(str(error)) from error
            with self.engine.begin() as connection:
                yield connection


@contextmanager
def unavailable() -> Iterator[None]:
    """Turn every error of the database into a `StoreUnavailableError`, without the values of the statement."""
    try:
        yield
    except DBAPIError as error:
        raise StoreUnavailableError(
            str(error.orig).splitlines()[0] if str(error.orig) else "no reason given"
        ) from error
    except SQLAlchemyError as error:
        raise StoreUnavailableError(type(error).__name__) from error


def _columns(federation: Federation) -> dict[str, Any]:
    values = vars(federation).copy()
    schema: FeatureSchema = values.pop("schema")
    values["n_features"] = schema.n_features
    values["feature_names"] = None if schema.names is None else list(schema.names)
    values["n_clusters"] = None if federation.n_clusters == "auto" else federation.n_clusters
    return values


def _federation(row: Any) -> Federation:
    values = dict(row)
    schema = FeatureSchema(values.pop("n_features"), values.pop("feature_names"))
    values["n_clusters"] = "auto" if row["n_clusters"] is None else row["n_clusters"]
    return Federation(schema=schema, **values)
