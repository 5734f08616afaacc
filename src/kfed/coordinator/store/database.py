"""What a coordinator keeps, and the only place that knows SQL: SQLite in one file, or PostgreSQL.

One process at a time owns a store, and one thread of it makes all changes to devices, so that a decision and the write
that follows from it cannot be separated. Whatever the database refuses becomes a `StoreUnavailableError`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from kfed.coordinator.federation import Federation, Outcome, Tally, judge
from kfed.coordinator.problems import StoreUnavailableError
from kfed.coordinator.security import matches
from kfed.coordinator.store import ownership, schema
from kfed.coordinator.store.schema import clusterings, devices, federations, keys
from kfed.errors import InvalidInputError, KFedError

ROWS_AT_A_TIME = 1_000


@dataclass(frozen=True)
class Arrival:
    """A sound message on its way into the store."""

    federation: Federation
    device_id: str
    message: bytes
    secret: str | None
    secret_hash: bytes | None
    replace: bool
    n_centers: int
    n_points: float
    is_double: bool
    received_at: float

    @property
    def tally(self) -> Tally:
        """What it adds."""
        return Tally(1, self.n_centers, self.n_points, len(self.message))


@dataclass(frozen=True)
class Device:
    """A device in the store."""

    sequence: int
    device_id: str
    received_at: float
    message: bytes
    secret_hash: bytes | None
    n_centers: int
    n_points: float
    is_double: bool

    @property
    def tally(self) -> Tally:
        """What it adds."""
        return Tally(1, self.n_centers, self.n_points, len(self.message))


@dataclass(frozen=True)
class Receipt:
    """What came of an arrival; `sequence` is the place of the device in the order of arrivals, if it is kept."""

    outcome: Outcome
    sequence: int = 0


_DEVICE_COLUMNS = [devices.c[field.name] for field in fields(Device)]


class Store:
    """A database that is opened by one process at a time."""

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
        """Leave the database to others."""
        self.engine.dispose()
        self._owner.release()

    # What there is -----------------------------------------------------------------------------------------------

    def tally(self, federation_id: int) -> Tally:
        """What has arrived."""
        return self._tallies[federation_id]

    def key(self, name: str) -> bytes | None:
        """What is kept of a token."""
        kept: bytes | None = self._read(select(keys.c.value).where(keys.c.name == name)).scalar()
        return kept

    def federations(self) -> list[Federation]:
        """All federations, in the order they were created."""
        return [_federation(row) for row in self._read(select(federations).order_by(federations.c.id)).mappings()]

    def clusterings(self) -> list[tuple[int, int, bytes | None, str | None]]:
        """The federation, version, payload and remark of each clustering."""
        return [tuple(row) for row in self._read(select(clusterings))]

    def device(self, federation_id: int, device_id: str) -> Device | None:
        """One device, if it has joined."""
        where = (devices.c.federation_id == federation_id) & (devices.c.device_id == device_id)
        row = self._read(select(*_DEVICE_COLUMNS).where(where)).first()
        return None if row is None else Device(*row)

    def newest(self, federation_id: int, limit: int) -> list[Device]:
        """The devices that came last, the last first."""
        of_federation = select(*_DEVICE_COLUMNS).where(devices.c.federation_id == federation_id)
        return [Device(*row) for row in self._read(of_federation.order_by(devices.c.sequence.desc()).limit(limit))]

    def count(self, federation_id: int, last_sequence: int) -> int:
        """How many devices there are that came no later than this."""
        where = (devices.c.federation_id == federation_id) & (devices.c.sequence <= last_sequence)
        return int(self._read(select(func.count()).select_from(devices).where(where)).scalar() or 0)

    @contextmanager
    def reading(self, federation_id: int, last_sequence: int) -> Iterator[Reading]:
        """Read many devices as they are at one moment, however long it takes."""
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

    # Changes: devices by one thread alone --------------------------------------------------------------------------

    def set_key(self, name: str, value: bytes) -> None:
        """Keep the hash of a token in place of any other of this name."""
        with self._writing() as connection:
            connection.execute(delete(keys).where(keys.c.name == name))
            connection.execute(insert(keys).values(name=name, value=value))

    def add_federation(self, federation: Federation) -> Federation | None:
        """Keep a federation, with an id of its own; None if there is one of this name."""
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
        """Judge messages in their order, and keep those that are to be kept, all in one transaction."""
        with self._writing() as connection:
            batch = _Batch(self._known(connection, arrivals), dict(self._tallies), self.last_sequence)
            receipts = [batch.take(arrival) for arrival in arrivals]
            batch.write(connection)
        self._tallies.update(batch.tallies)
        self.last_sequence = batch.last_sequence
        return receipts

    def remove(self, federation_id: int, device_id: str) -> Device | None:
        """Forget a device."""
        device = self.device(federation_id, device_id)
        if device is None:
            return None
        with self._writing() as connection:
            connection.execute(delete(devices).where(devices.c.sequence == device.sequence))
        self._tallies[federation_id] = self._tallies[federation_id].plus(device.tally, -1)
        return device

    def save_clustering(self, federation_id: int, version: int, payload: bytes | None, remark: str | None) -> None:
        """Keep a clustering in place of the one before."""
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

    def _known(self, connection: Connection, arrivals: Sequence[Arrival]) -> dict[tuple[int, str], Device]:
        """The devices in the store that the arrivals may be from."""
        ids: dict[int, set[str]] = defaultdict(set)
        for arrival in arrivals:
            ids[arrival.federation.id].add(arrival.device_id)
        known = {}
        for federation_id, wanted in ids.items():
            where = (devices.c.federation_id == federation_id) & devices.c.device_id.in_(sorted(wanted))
            for row in connection.execute(select(*_DEVICE_COLUMNS).where(where)):
                known[federation_id, row.device_id] = Device(*row)
        return known


class Reading:
    """Devices of one federation, up to a place in the order of arrivals, as they are at one moment."""

    def __init__(self, connection: Connection, federation_id: int, last_sequence: int) -> None:
        self._connection = connection
        self._where = (devices.c.federation_id == federation_id) & (devices.c.sequence <= last_sequence)

    def sizes(self) -> list[tuple[str, int, bool]]:
        """Id, number of centers and whether in double precision, of each device."""
        columns = (devices.c.device_id, devices.c.n_centers, devices.c.is_double)
        return [tuple(row) for row in self._connection.execute(select(*columns).where(self._where))]

    def messages(self) -> Iterator[bytes]:
        """The messages, in any order, a few at a time."""
        query = select(devices.c.message).where(self._where).execution_options(yield_per=ROWS_AT_A_TIME)
        for row in self._connection.execute(query):
            yield row[0]


class _Batch:
    """Arrivals of one transaction: each is judged with those before it in mind."""

    def __init__(self, known: dict[tuple[int, str], Device], tallies: dict[int, Tally], last_sequence: int) -> None:
        self._known = known
        self.tallies = tallies
        self.last_sequence = last_sequence
        self._gone: list[int] = []
        self._new: dict[int, dict[str, Any]] = {}

    def take(self, arrival: Arrival) -> Receipt:
        """Judge one arrival."""
        federation = arrival.federation
        known = self._known.get((federation.id, arrival.device_id))
        has_secret = known is not None and matches(arrival.secret, known.secret_hash)
        outcome = judge(
            None if known is None else known.message, arrival.message, replace=arrival.replace, has_secret=has_secret
        )
        tally = self.tallies.get(federation.id, Tally())
        if outcome is Outcome.REPEATED and known is not None:
            return Receipt(outcome, known.sequence)
        if outcome is Outcome.JOINED and (federation.closed or tally.n_devices >= federation.max_devices):
            return Receipt(Outcome.CLOSED if federation.closed else Outcome.FULL)
        if not outcome.is_kept:
            return Receipt(outcome)
        if known is not None:
            tally = tally.plus(known.tally, -1)
            self._forget(known.sequence)
        self.tallies[federation.id] = tally.plus(arrival.tally)
        return Receipt(outcome, self._keep(arrival))

    def write(self, connection: Connection) -> None:
        """Make the changes."""
        if self._gone:
            connection.execute(delete(devices).where(devices.c.sequence.in_(self._gone)))
        if self._new:
            connection.execute(insert(devices), list(self._new.values()))

    def _forget(self, sequence: int) -> None:
        if self._new.pop(sequence, None) is None:
            self._gone.append(sequence)

    def _keep(self, arrival: Arrival) -> int:
        self.last_sequence += 1
        device = Device(
            self.last_sequence,
            arrival.device_id,
            arrival.received_at,
            arrival.message,
            arrival.secret_hash,
            arrival.n_centers,
            arrival.n_points,
            arrival.is_double,
        )
        self._known[arrival.federation.id, arrival.device_id] = device
        self._new[self.last_sequence] = {**vars(device), "federation_id": arrival.federation.id}
        return self.last_sequence


@contextmanager
def unavailable() -> Iterator[None]:
    """Let whatever goes wrong with the database be one kind of error, without its values."""
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
    values["n_clusters"] = None if federation.n_clusters == "auto" else federation.n_clusters
    values["feature_names"] = None if federation.feature_names is None else list(federation.feature_names)
    return values


def _federation(row: Any) -> Federation:
    values = dict(row)
    values["n_clusters"] = "auto" if row["n_clusters"] is None else row["n_clusters"]
    values["feature_names"] = None if row["feature_names"] is None else tuple(row["feature_names"])
    return Federation(**values)
