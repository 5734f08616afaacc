"""`Administration`: what an administrator changes: federations, their terms, and who is invited."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from kfed._base.text import plural
from kfed.coordinator.core.clock import Clock
from kfed.coordinator.core.events import Events
from kfed.coordinator.core.live import Live
from kfed.coordinator.core.registry import Registry
from kfed.coordinator.core.writer import Writer
from kfed.coordinator.federation import Federation, Invitation, have_same_terms
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import hashed
from kfed.coordinator.store import NamesCheck, Store
from kfed.errors import InvalidInputError

MAX_FEDERATIONS = 1_000


class Administration:
    """Changes federations."""

    def __init__(self, store: Store, registry: Registry, writer: Writer, clock: Clock, events: Events) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._clock, self._events = clock, events

    async def create(self, terms: dict[str, Any], join_token: str) -> Live:
        """Create a federation, or find one that was created with the same terms and join token."""
        await self._writer.catch_up()
        asked = Federation(id=0, join_token_hash=hashed(join_token), created_at=self._clock.now(), **terms)
        live = self._registry.find(asked.name) or await self._create(asked)
        if not have_same_terms(live.federation, asked):
            raise ProblemError(409, f"a federation named {asked.name!r} exists already; choose another name")
        return live

    async def _create(self, asked: Federation) -> Live:
        if len(self._registry.all()) >= MAX_FEDERATIONS:
            raise ProblemError(409, f"this coordinator is full: it holds {MAX_FEDERATIONS:,} federations")
        if asked.deadline is not None and asked.deadline <= asked.created_at:
            raise InvalidInputError("deadline must be in the future")
        federation: Federation = await self._writer.change(self._store.add_federation, asked)
        live = self._registry.find(federation.name)
        if live is None:
            live = self._registry.add(federation)
            self._events.changed(live, "created")
        return live

    async def close(self, live: Live) -> None:
        """Turn new devices away; those that have joined are still served."""
        await self._change(live, "closed to new devices", closed=True)

    async def rotate(self, live: Live, join_token: str) -> None:
        """Give a federation another join token; the one before stops working at once."""
        await self._change(live, "has a new join token", join_token_hash=hashed(join_token))

    async def _change(self, live: Live, what: str, **terms: Any) -> None:
        live.check()
        await self._writer.change(partial(self._store.change_federation, live.federation.id, **terms))
        live.federation = dataclasses.replace(live.federation, **terms)
        self._events.changed(live, what)

    async def delete(self, live: Live) -> None:
        """Delete a federation with its devices and clusters; this cannot be undone."""
        await self._writer.change(self._store.delete_federation, live.federation.id)
        self._registry.discard(live)
        self._events.changed(live, "deleted")

    async def invite(self, live: Live, device_id: str, token: str) -> Invitation:
        """Let a device join once, by a token of its own; the same token again changes nothing."""
        live.check()
        invitation = Invitation(device_id, hashed(token), self._clock.now())
        await self._writer.change(self._store.invitations.add, live.federation.id, invitation)
        return invitation

    async def name_clusters(self, live: Live, names: Mapping[int, str], check: NamesCheck) -> None:
        """Name clusters by their numbers; an empty name takes the name away."""
        live.check()
        await self._writer.change(self._store.cluster_names.set, live.federation.id, names, check)
        self._events.changed(live, f"{plural(len(names), 'cluster')} renamed")

    async def revoke(self, live: Live, device_id: str) -> bool:
        """Take an invitation back; returns whether there was one. A device that has joined stays."""
        return bool(await self._writer.change(self._store.invitations.revoke, live.federation.id, device_id))
