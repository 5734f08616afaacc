"""`Store`: federations, devices, clusterings and keys in a database.

One process at a time owns a store, and one thread of it makes all changes to devices, so that nothing comes between a
decision and the write that follows from it. Every error of the database becomes a `StoreUnavailableError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, update

from kfed.coordinator.federation import Federation, Tally
from kfed.coordinator.store import schema
from kfed.coordinator.store.cluster_names import ClusterNames
from kfed.coordinator.store.counters import FEDERATION, RESTORED, SEQUENCE, read_counters, set_counter
from kfed.coordinator.store.devices import (
    DEVICE_COLUMNS,
    Arrival,
    ArrivalBatch,
    Departure,
    Device,
    Reading,
    Secret,
    known_devices,
)
from kfed.coordinator.store.federations import Damaged, federation_of, read_federations, row_of
from kfed.coordinator.store.first_tables import FirstTables
from kfed.coordinator.store.invitations import Invitations
from kfed.coordinator.store.schema import clusterings, devices, federations, for_long_answers, invitations, keys
from kfed.coordinator.store.second_messages import SecondMessages
from kfed.coordinator.store.transactions import Transactions, unavailable
from kfed.errors import KFedError

Total = TypeVar("Total")


@dataclass(frozen=True)
class SavedClustering:
    """The latest clustering of a federation; without a payload there are no clusters, and `remark` says why."""

    federation_id: int
    version: int
    payload: bytes | None
    remark: str | None = None


@dataclass(frozen=True)
class Contents:
    """What a store holds, beside devices.

    Attributes
    ----------
    federations : list of Federation
        In the order they were created.
    damaged : list of Damaged
        Federations that cannot be read.
    clusterings : list of SavedClustering
        The latest one of each federation that has been aggregated.
    n_restored : int
        The backups that were restored into it so far.
    """

    federations: list[Federation]
    damaged: list[Damaged]
    clusterings: list[SavedClustering]
    n_restored: int


class Store:
    """A database that one process at a time has open."""

    def __init__(self, address: str) -> None:
        self.engine = schema.connect(address)
        try:
            with unavailable():
                self._transactions = Transactions(self.engine)
        except KFedError:
            self.engine.dispose()
            raise
        self._writing = self._transactions.writing
        self.invitations = Invitations(self._writing, self._read)
        self.second = SecondMessages(self._writing, self._read)
        self.cluster_names = ClusterNames(self._writing, self._read)
        self._deleted: set[int] = set()
        try:
            self.read_back()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection and release the lock; whatever still runs can write nothing any more."""
        self._transactions.close()

    @property
    def epoch(self) -> int:
        """How often `read_back` was called. What was computed before the last call is not saved."""
        return self._transactions.epoch

    @property
    def is_in_doubt(self) -> bool:
        """Whether a write may or may not have been kept; nothing is written until `read_back` was called."""
        return self._transactions.is_in_doubt

    def doubt(self) -> None:
        """Require `read_back` before the next write, because a write was given up midway."""
        self._transactions.is_in_doubt = True

    def check(self) -> None:
        """Raise if the store was deleted or replaced; waits for no write."""
        self._transactions.check()

    def read_back(self) -> Contents:
        """Read federations, clusterings and totals as they are in the store."""
        with self._transactions.reading_back() as connection, for_long_answers(connection):
            found, damaged = read_federations(connection)
            saved = [SavedClustering(**row) for row in connection.execute(select(clusterings)).mappings()]
            self._tallies = _count(connection)
            self._names = {one.id: one.schema.names for one in found if one.schema.names is not None}
            self.invitations.read_back(connection)
            self.second.read_back(connection)
            self._deleted -= {one.id for one in found}
            n_restored = self._transactions.counters.get(RESTORED, 0)
        return Contents(found, damaged, saved, n_restored)

    def look(self) -> None:
        """Check whether a backup was restored; if so, `read_back` is required before the next write."""
        with self._connected() as connection:
            self._transactions.notice(read_counters(connection, locked=False))

    # Reading ----------------------------------------------------------------------------------------------------

    def tally(self, federation_id: int) -> Tally:
        """Totals of the devices of a federation."""
        return self._tallies.get(federation_id, Tally())

    def feature_names(self, federation_id: int) -> tuple[str, ...] | None:
        """Names of the features of a federation, from its terms or from its first message that had names."""
        return self._names.get(federation_id)

    def key(self, name: str) -> bytes | None:
        """The hash of a token, or None."""
        kept: bytes | None = self._read(select(keys.c.value).where(keys.c.name == name)).scalar()
        return kept

    def device(self, federation_id: int, device_id: str) -> Device | None:
        """One device, if it has joined."""
        return _device(self._read(_select_device(federation_id, device_id)))

    def secret_of(self, federation_id: int, device_id: str) -> Secret | None:
        """The hash of a device's secret, if it has joined; read alike however large its message is."""
        where = (devices.c.federation_id == federation_id) & (devices.c.device_id == device_id)
        row = self._read(select(devices.c.secret_hash).where(where)).first()
        return None if row is None else Secret(row[0])

    def newest(self, federation_id: int, limit: int, max_bytes: int) -> list[Device]:
        """The devices that arrived last, newest first; fewer if their messages exceed `max_bytes`."""
        is_own, newest_first = devices.c.federation_id == federation_id, devices.c.sequence.desc()
        lengths = select(func.length(devices.c.message)).where(is_own).order_by(newest_first).limit(limit)
        n_fitting = sum(total <= max_bytes for total in accumulate(self._read(lengths).scalars()))
        query = select(*DEVICE_COLUMNS).where(is_own).order_by(newest_first).limit(max(1, n_fitting))
        return [Device(**row) for row in self._read(query).mappings()]

    @contextmanager
    def reading(self, federation_id: int) -> Iterator[Reading]:
        """Read many devices in one snapshot, however long it takes."""
        with self._connected() as connection:
            if self.engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with for_long_answers(connection), ExitStack() as closing:
                yield Reading(connection, federation_id, closing)

    def _read(self, query: Any) -> Any:
        with self._connected() as connection:
            return connection.execute(query).freeze()()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with unavailable(), self.engine.connect() as connection:
            try:
                yield connection
            finally:
                if self._transactions.is_closed:  # nobody would close it any more
                    connection.invalidate()

    # Writing; devices on one thread alone --------------------------------------------------------------------------

    def set_key(self, name: str, value: bytes) -> None:
        """Save the hash of a token, replacing any other of this name."""
        with self._writing() as connection:
            connection.execute(delete(keys).where(keys.c.name == name))
            connection.execute(insert(keys).values(name=name, value=value))

    def add_federation(self, federation: Federation) -> Federation:
        """Save a federation under a new id, unless there is one of this name; returns the one that is stored."""
        with self._writing() as connection:
            of_name = select(federations).where(federations.c.name == federation.name)
            known = connection.execute(of_name).mappings().first()
            if known is not None:
                return federation_of(known)
            last = self._transactions.counters.get(FEDERATION)
            number = 1 + max(last or 0, connection.execute(select(func.max(federations.c.id))).scalar() or 0)
            set_counter(connection, FEDERATION, number, is_new=last is None)
            connection.execute(insert(federations).values({**row_of(federation), "id": number}))
        return replace(federation, id=number)

    def change_federation(self, federation_id: int, **values: Any) -> None:
        """Change some of the terms of a federation."""
        with self._writing() as connection:
            connection.execute(update(federations).where(federations.c.id == federation_id).values(values))

    def delete_federation(self, federation_id: int) -> None:
        """Delete a federation with everything in it; messages on their way to it are turned away."""
        with self._writing() as connection:
            for table in (devices, clusterings, invitations, schema.second_messages, schema.cluster_names):
                connection.execute(delete(table).where(table.c.federation_id == federation_id))
            connection.execute(delete(federations).where(federations.c.id == federation_id))
        self._deleted.add(federation_id)
        self._tallies = _without(self._tallies, federation_id)
        self._names = _without(self._names, federation_id)

    def change_devices(self, changes: Sequence[Arrival | Departure]) -> list[Any]:
        """Let devices come and go in this order, in one transaction.

        Returns a `Receipt` for each that comes, and for each that goes the `Device`, or None if it is not there.
        """
        with self._writing() as connection:
            last_sequence = self._transactions.counters[SEQUENCE]
            known = known_devices(connection, changes)
            guests = self.invitations.for_arrivals(connection, [one for one in changes if isinstance(one, Arrival)])
            batch = ArrivalBatch(
                known, dict(self._tallies), self._names, last_sequence, guests, FirstTables(connection)
            )
            done = [
                batch.leave(one)
                if isinstance(one, Departure)
                else batch.take(one, is_deleted=one.federation.id in self._deleted)
                for one in changes
            ]
            batch.write(connection)
            for gone in changes:
                if isinstance(gone, Departure):
                    self.second.remove(connection, gone.federation_id, gone.device_id)
            if batch.last_sequence > last_sequence:
                set_counter(connection, SEQUENCE, batch.last_sequence)
        self._tallies = batch.tallies
        if batch.new_names:
            self._names = {**self._names, **batch.new_names}
        return done

    def save_clustering(self, clustering: SavedClustering, epoch: int) -> None:
        """Save a clustering, replacing the one before, unless the store was read back since `epoch`."""
        if clustering.federation_id in self._deleted:
            return
        with self._writing(epoch) as connection:
            of_federation = clusterings.c.federation_id == clustering.federation_id
            connection.execute(delete(clusterings).where(of_federation))
            connection.execute(insert(clusterings).values(vars(clustering)))


def _without(totals: Mapping[int, Total], federation_id: int) -> dict[int, Total]:
    return {key: total for key, total in totals.items() if key != federation_id}


def _count(connection: Connection) -> dict[int, Tally]:
    of_column = (devices.c.n_centers, devices.c.n_points, func.length(devices.c.message))
    sums = [func.coalesce(func.sum(column), 0) for column in of_column]
    query = select(devices.c.federation_id, func.count(), *sums).group_by(devices.c.federation_id)
    return {row[0]: Tally(row[1], int(row[2]), float(row[3]), int(row[4])) for row in connection.execute(query)}


def _select_device(federation_id: int, device_id: str) -> Any:
    where = (devices.c.federation_id == federation_id) & (devices.c.device_id == device_id)
    return select(*DEVICE_COLUMNS).where(where)


def _device(rows: Any) -> Device | None:
    row = rows.mappings().first()
    return None if row is None else Device(**row)
