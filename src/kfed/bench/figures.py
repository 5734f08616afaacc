"""A measured figure, and how contestants are timed against each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One number of the benchmark, with what it must reach."""

    workload: str
    measure: str
    value: float
    target: float
    higher_is_better: bool = True
    detail: str = ""

    @property
    def reached(self) -> bool:
        """Whether the figure is what it must be."""
        return self.value >= self.target if self.higher_is_better else self.value <= self.target


def race(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each contestant; they take turns, so that a busy moment hits all of them."""
    for contestant in contestants.values():
        contestant()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            started = time.perf_counter()
            contestant()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}
