"""Nodes that come and go while a strategy trains: waiting for them, a part of a grid, and clusters for late ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from logging import INFO, WARNING
from typing import Any

from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from kfed._base import text
from kfed.adapters.flower_round import Outcome, served
from kfed.adapters.flower_server import GridNodes

POLL_SECONDS = 1.0


class Part:
    """A view of a grid that shows only some of its nodes."""

    def __init__(self, grid: Grid, nodes: Iterable[int]) -> None:
        self._grid, self._nodes = grid, list(nodes)

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are seen."""
        return list(self._nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


@contextmanager
def taking_all(strategy: FedAvg, n_nodes: int) -> Iterator[FedAvg]:
    """Let a strategy take all of the nodes that it sees: they were sampled before."""
    all_of_them = dict.fromkeys(["fraction_train", "fraction_evaluate"], 1.0)
    all_of_them |= dict.fromkeys(["min_train_nodes", "min_evaluate_nodes", "min_available_nodes"], n_nodes)
    before = {name: getattr(strategy, name) for name in all_of_them}
    vars(strategy).update(all_of_them)
    try:
        yield strategy
    finally:
        vars(strategy).update(before)


class Patience:
    """Waits for nodes, for a limited time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._missed: set[int] = set()

    def wait_for(self, grid: Grid, nodes: Iterable[int], at_least: int) -> list[int]:
        """Wait until `at_least` of these nodes are connected, or all of them; return those that are, sorted.

        When patience ends, those that are missing are not waited for again; they take part as soon as they are back.
        """
        wanted, ends = set(nodes), time.monotonic() + self.seconds
        while True:
            there = wanted & set(grid.get_node_ids())
            self._missed -= there
            if len(there) >= min(at_least, len(wanted - self._missed)) and there:
                return sorted(there)
            if time.monotonic() >= ends:
                self._missed |= wanted - there
                gone = text.listed([str(node) for node in sorted(wanted - there)])
                log(WARNING, "k-FED: training goes on without nodes that are not connected: %s", gone)
                return sorted(there)
            log(INFO, "Waiting for nodes to connect: %d of %d", len(there), len(wanted))
            time.sleep(POLL_SECONDS)


class LateNodes:
    """Asks nodes that came after the round what they hold, and gives them the nearest cluster."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._nodes: GridNodes | None = None

    def served(self, grid: Grid) -> dict[int, int]:
        """Ask nodes that are new, and return the clusters of all late nodes that have replied so far."""
        if self._nodes is None:
            known = set(self._outcome.clusters) | set(self._outcome.failed)
            self._nodes = GridNodes(grid, asked=known, question=self._outcome.question)
        nodes = self._nodes
        nodes.grid = grid
        nodes.ask_new()
        list(served(nodes, self._outcome.aggregation, nodes.replies()))
        return dict(nodes.clusters)
