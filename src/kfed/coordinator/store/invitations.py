"""`Invitations`: named devices that may join once each, by a token of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from kfed.coordinator.federation import Invitation
from kfed.coordinator.store.devices import Arrival
from kfed.coordinator.store.schema import invitations

_COLUMNS = [invitations.c[field.name] for field in fields(Invitation)]


class Invitations:
    """The invitations of all federations in a store."""

    def __init__(self, writing: Callable[[], AbstractContextManager[Connection]], read: Callable[[Any], Any]) -> None:
        self._writing, self._read = writing, read
        self._federations: set[int] = set()

    def read_back(self, connection: Connection) -> None:
        """Find out which federations have any; the others need not look for one at each arrival."""
        self._federations = set(connection.execute(select(invitations.c.federation_id).distinct()).scalars())

    def of(self, federation_id: int) -> list[Invitation]:
        """All invitations to a federation, by the ids of devices."""
        query = select(*_COLUMNS).where(invitations.c.federation_id == federation_id)
        return [Invitation(*row) for row in self._read(query.order_by(invitations.c.device_id))]

    def find(self, federation_id: int, device_id: str) -> Invitation | None:
        """The invitation of a device, or None; it takes the same time whether or not the federation exists."""
        row = self._read(select(*_COLUMNS).where(_is(federation_id, device_id))).first()
        return None if row is None else Invitation(*row)

    def add(self, federation_id: int, invitation: Invitation) -> None:
        """Save an invitation, in place of any other of this device; the same one again changes nothing."""
        with self._writing() as connection:
            where = _is(federation_id, invitation.device_id)
            known = connection.execute(select(invitations.c.token_hash).where(where)).scalar()
            if known != invitation.token_hash:
                connection.execute(delete(invitations).where(where))
                connection.execute(insert(invitations).values(federation_id=federation_id, **vars(invitation)))
        self._federations.add(federation_id)

    def revoke(self, federation_id: int, device_id: str) -> bool:
        """Delete an invitation; returns whether there was one."""
        with self._writing() as connection:
            return connection.execute(delete(invitations).where(_is(federation_id, device_id))).rowcount > 0

    def for_arrivals(self, connection: Connection, arrivals: Sequence[Arrival]) -> Guests:
        """The invitations of devices that arrive."""
        known = {}
        for arrival in arrivals:
            key = arrival.federation.id, arrival.device_id
            if key[0] in self._federations:
                row = connection.execute(select(*_COLUMNS).where(_is(*key))).first()
                if row is not None:
                    known[key] = Invitation(*row)
        return Guests(known)


class Guests:
    """The invitations of devices that arrive in one transaction, and which of them are used in it."""

    def __init__(self, known: dict[tuple[int, str], Invitation]) -> None:
        self._known = known
        self._used: dict[tuple[int, str], float] = {}

    def invitation_of(self, arrival: Arrival) -> Invitation | None:
        """The invitation of a device, or None; one that is used in this transaction says so."""
        key = arrival.federation.id, arrival.device_id
        invitation = self._known.get(key)
        return replace(invitation, used_at=self._used[key]) if invitation and key in self._used else invitation

    def joined(self, arrival: Arrival) -> None:
        """Use up the invitation of a device, if it has one."""
        key = arrival.federation.id, arrival.device_id
        if key in self._known:
            self._used[key] = arrival.received_at

    def write(self, connection: Connection) -> None:
        """Save which invitations were used."""
        for key, used_at in self._used.items():
            connection.execute(update(invitations).where(_is(*key)).values(used_at=used_at))


def _is(federation_id: int, device_id: str) -> Any:
    return (invitations.c.federation_id == federation_id) & (invitations.c.device_id == device_id)
