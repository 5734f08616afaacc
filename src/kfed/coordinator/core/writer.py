"""`Writer`: changes to the store, for the event loop; what is in doubt is read back first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kfed.coordinator.core.committer import Committer
from kfed.coordinator.core.registry import Registry
from kfed.coordinator.core.turns import Turns
from kfed.coordinator.store import Arrival, Departure, Device, Receipt, Store

Result = TypeVar("Result")


class Writer:
    """Writes to a store of which `registry` shows what it holds.

    After a write that may or may not have been kept, or after losing the store, it shows what the store really holds
    before anything else is written.
    """

    def __init__(self, store: Store, registry: Registry, observe: Callable[[int], None]) -> None:
        self._store, self._registry, self._observe = store, registry, observe
        self._turns = Turns()  # its own: an aggregation under way must not keep devices waiting
        self.epoch = 0
        """That of the store as it is shown."""

    def start(self) -> None:
        """Show what the store holds, and begin to write."""
        self._committer = Committer(self._store, self._observe)
        self._registry.show(self._store.read_back())
        self.epoch = self._store.epoch

    async def close(self) -> None:
        """Finish what is being written."""
        self._turns.close()
        await self._committer.close()

    async def put(self, arrival: Arrival) -> Receipt:
        """Write a message; returns when it is on disk."""
        await self.catch_up()
        return await self._committer.put(arrival)

    async def remove(self, departure: Departure) -> Device | None:
        """Remove a device; returns when that is on disk."""
        await self.catch_up()
        return await self._committer.remove(departure)

    async def change(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Make another change to the store; returns when it is on disk."""
        await self.catch_up()
        return await self._committer.change(function, *arguments)

    async def catch_up(self) -> None:
        """Read the store back if what is shown may not be what it holds."""
        if self.is_behind():
            await self._turns.take("read back", self._read_back)

    async def _read_back(self) -> None:
        if self.is_behind():
            self._registry.show(await self._committer.change(self._store.read_back))
            self.epoch = self._store.epoch

    def is_behind(self) -> bool:
        """Whether what is shown may not be what the store holds."""
        return self._store.is_in_doubt or self.epoch != self._store.epoch
