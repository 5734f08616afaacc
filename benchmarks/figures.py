"""A measured figure, and how contestants are timed against each other."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LEAST_SECONDS = 0.1


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
    """Median seconds of each contestant; they take turns, so that a busy moment hits all of them.

    A turn is so many runs as take a tenth of a second.
    """
    runs = {name: max(1, round(LEAST_SECONDS / seconds_of(contestant))) for name, contestant in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            seconds[name].append(seconds_of(contestant, runs[name]))
    return {name: statistics.median(values) for name, values in seconds.items()}


def seconds_of(function: Callable[[], object], runs: int = 1) -> float:
    """Seconds that one of so many runs took."""
    return timeit.timeit(function, number=runs) / runs


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """How many seconds work takes, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result
