"""Devices that arrive in the store, are in it or leave it, and the changes of one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, Protocol

from sqlalchemy import Connection, delete, insert, select, update

from kfed.coordinator.federation import Admission, Application, Federation, Invitation, Tally, admit
from kfed.coordinator.security import matches
from kfed.coordinator.store.first_tables import FirstTables
from kfed.coordinator.store.schema import devices, federations
from kfed.wire import FeatureSchema

ROWS_AT_A_TIME = 1_000


@dataclass(frozen=True, kw_only=True)
class _WithMessage:
    """What an arrival and a stored device have in common."""

    device_id: str
    received_at: float
    message: bytes
    secret_hash: bytes | None
    n_centers: int
    n_points: float
    is_double: bool

    @property
    def tally(self) -> Tally:
        """What this device adds to the totals of its federation."""
        return Tally(1, self.n_centers, self.n_points, len(self.message))


@dataclass(frozen=True, kw_only=True)
class Arrival(_WithMessage):
    """A valid message on its way into the store; `invitation` is the token of one, if it came by that.

    `table` has the columns of a table, where they have to be like those of others.
    """

    federation: Federation
    secret: str | None = None
    replace: bool = False
    invitation: str | None = None
    feature_names: tuple[str, ...] | None = None
    table: FeatureSchema | None = None

    @property
    def federation_id(self) -> int:
        """The id of its federation."""
        return self.federation.id


@dataclass(frozen=True)
class Departure:
    """A device on its way out of the store."""

    federation_id: int
    device_id: str


@dataclass(frozen=True, kw_only=True)
class Device(_WithMessage):
    """A device in the store; `sequence` is its place in the order of arrivals."""

    sequence: int


@dataclass(frozen=True)
class Secret:
    """What is kept of a device's secret: its hash, if it has chosen one."""

    hash: bytes | None


@dataclass(frozen=True)
class Receipt:
    """What happened to an arrival; `sequence` is the device's place in the order of arrivals, if it was kept.

    `reason` says which columns differ from those of other tables.
    """

    admission: Admission
    sequence: int = 0
    reason: str = ""


_KEPT = [field.name for field in fields(_WithMessage)]
DEVICE_COLUMNS = [devices.c[field.name] for field in fields(Device)]


def known_devices(connection: Connection, changes: Sequence[Arrival | Departure]) -> dict[tuple[int, str], Device]:
    """The stored devices that have the ids of arrivals and departures."""
    ids: dict[int, set[str]] = defaultdict(set)
    for change in changes:
        ids[change.federation_id].add(change.device_id)
    known = {}
    for federation_id, wanted in ids.items():
        where = (devices.c.federation_id == federation_id) & devices.c.device_id.in_(sorted(wanted))
        for row in connection.execute(select(*DEVICE_COLUMNS).where(where)).mappings():
            known[federation_id, row["device_id"]] = Device(**row)
    return known


class GuestList(Protocol):
    """The invitations of devices that arrive."""

    def invitation_of(self, arrival: Arrival) -> Invitation | None:
        """The invitation of a device, or None."""
        ...

    def joined(self, arrival: Arrival) -> None:
        """Note that it joined."""

    def write(self, connection: Connection) -> None:
        """Save who did."""


class ArrivalBatch:
    """The arrivals and departures of one transaction; `federation.admit` judges each after those before it.

    `names` are the feature names of federations that have got them from a message.
    """

    def __init__(
        self,
        known: dict[tuple[int, str], Device],
        tallies: dict[int, Tally],
        names: Mapping[int, tuple[str, ...]],
        last_sequence: int,
        guests: GuestList,
        tables: FirstTables,
    ) -> None:
        self._known = known
        self._guests, self._tables = guests, tables
        self.tallies = tallies
        self._names = names
        self.new_names: dict[int, tuple[str, ...]] = {}
        self.last_sequence = last_sequence
        self._gone: list[int] = []
        self._new: dict[int, dict[str, Any]] = {}

    def take(self, arrival: Arrival, *, is_deleted: bool) -> Receipt:
        """Keep one arrival if it is admitted; its federation may be deleted by now."""
        federation_id, tally = arrival.federation.id, self.tallies.get(arrival.federation.id, Tally())
        known = self._known.get((federation_id, arrival.device_id))
        admission, reason = admit(self._application(arrival, known, tally, is_deleted))
        if not admission.is_kept:
            return Receipt(admission, reason=reason)
        if known is not None and admission is Admission.REPEATED:
            return Receipt(admission, known.sequence)
        self._name_features(arrival)
        if known is not None:
            tally = tally.plus(known.tally, -1)
            self._forget(known.sequence)
        else:
            self._guests.joined(arrival)
        self.tallies[federation_id] = tally.plus(arrival.tally)
        return Receipt(admission, self._keep(arrival))

    def _application(self, arrival: Arrival, known: Device | None, tally: Tally, is_deleted: bool) -> Application:
        """An arrival beside what is there when its turn comes."""
        federation_id, replaced = arrival.federation.id, 0 if known is None else known.sequence
        return Application(
            device_id=arrival.device_id,
            federation=arrival.federation,
            is_deleted=is_deleted,
            n_devices=tally.n_devices,
            known_message=None if known is None else known.message,
            message=arrival.message,
            replace=arrival.replace,
            has_secret=known is not None and matches(arrival.secret, known.secret_hash),
            invitation=self._guests.invitation_of(arrival),
            token=arrival.invitation,
            known_names=self._names_of(arrival.federation),
            own_names=arrival.feature_names,
            table=arrival.table,
            other_table=lambda: self._tables.find(federation_id, replaced),
        )

    def leave(self, departure: Departure) -> Device | None:
        """Remove a device; None if it is not there."""
        device = self._known.pop((departure.federation_id, departure.device_id), None)
        if device is not None:
            self.tallies[departure.federation_id] = self.tallies[departure.federation_id].plus(device.tally, -1)
            self._forget(device.sequence)
        return device

    def write(self, connection: Connection) -> None:
        """Make the changes."""
        self._guests.write(connection)
        if self._gone:
            connection.execute(delete(devices).where(devices.c.sequence.in_(self._gone)))
        if self._new:
            connection.execute(insert(devices), list(self._new.values()))
        for federation_id, names in self.new_names.items():
            of_federation = federations.c.id == federation_id
            connection.execute(update(federations).where(of_federation).values(feature_names=list(names)))

    def _names_of(self, federation: Federation) -> tuple[str, ...] | None:
        return federation.schema.names or self._names.get(federation.id) or self.new_names.get(federation.id)

    def _name_features(self, arrival: Arrival) -> None:
        """Take over the feature names of a message for a federation without any."""
        if self._names_of(arrival.federation) is None and arrival.feature_names is not None:
            self.new_names[arrival.federation.id] = arrival.feature_names

    def _forget(self, sequence: int) -> None:
        self._tables.forget(sequence)
        if self._new.pop(sequence, None) is None:
            self._gone.append(sequence)

    def _keep(self, arrival: Arrival) -> int:
        self.last_sequence += 1
        values = {"sequence": self.last_sequence, **{name: getattr(arrival, name) for name in _KEPT}}
        self._known[arrival.federation.id, arrival.device_id] = Device(**values)
        self._new[self.last_sequence] = {**values, "federation_id": arrival.federation.id}
        if arrival.table is not None:
            self._tables.keep(arrival.federation.id, self.last_sequence, arrival.table)
        return self.last_sequence


class Reading:
    """Devices of one federation, as they are at one moment."""

    def __init__(self, connection: Connection, federation_id: int, closing: ExitStack) -> None:
        self._connection = connection
        self._closing = closing
        self._where = devices.c.federation_id == federation_id

    def sequences(self) -> dict[str, int]:
        """The place of each device in the order of arrivals; a message that replaces another has a place of its own."""
        query = select(devices.c.device_id, devices.c.sequence).where(self._where)
        return {row.device_id: row.sequence for row in self._connection.execute(query)}

    def messages(self, last_sequence: int) -> Iterator[tuple[int, bytes]]:
        """Place and bytes of each message up to a place, in any order, read a thousand at a time."""
        where = self._where & (devices.c.sequence <= last_sequence)
        query = select(devices.c.sequence, devices.c.message).where(where)
        rows = self._connection.execute(query.execution_options(yield_per=ROWS_AT_A_TIME))
        self._closing.callback(rows.close)  # also if whoever reads them gives up half-way
        for row in rows:
            yield row[0], row[1]
