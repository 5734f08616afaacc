"""Which way of training is the fastest here: devices side by side or one by one, and with how many threads.

One step of a few devices is timed in each way. What is found is kept for as long as Python runs, so that the same
training takes the same way each time.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from kfed.errors import InvalidInputError

N_TIMED, REPEATS = 8, 3
"""Shares whose steps are timed, and how often; the quickest time counts."""

GAIN = 0.9
"""What is more than the plain loop, or more than one thread, must take at most this share of its time."""


HOPELESS = 1.3
"""What takes more than so many times as long as the best so far is timed no further."""


class Speed(NamedTuple):
    """Whether devices train side by side, and the number of threads."""

    batched: bool
    threads: int


_KNOWN: dict[Hashable, Speed] = {}


def fastest(
    key: Hashable, batched: bool | str, threads: int | None, step: Callable[[bool], Any], can_batch: bool
) -> Speed:
    """Time ``step(batched)`` where there is a choice.

    Parameters
    ----------
    key : hashable
        Trainings of one key take the same way.
    batched : bool or "auto"
    threads : int, optional
        By default one, or as many as PyTorch would use.
    step : callable
    can_batch : bool
        Whether "auto" may train side by side.
    """
    most = torch.get_num_threads()
    ways = [False, True] if batched == "auto" and can_batch else [batched is True]
    numbers = [threads] if threads is not None else sorted({1, most})
    if len(ways) == len(numbers) == 1:
        return Speed(ways[0], numbers[0])
    full = (key, batched, threads, most)
    if full not in _KNOWN:
        _KNOWN[full] = _timed(ways, numbers, step)
    return _KNOWN[full]


@contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Let PyTorch use this number of threads inside."""
    before = torch.get_num_threads()
    if number != before:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if number != before:
            torch.set_num_threads(before)


def _timed(ways: list[bool], numbers: list[int], step: Callable[[bool], Any]) -> Speed:
    """Decide the way with one thread, then the number of threads for it: few steps are timed, and none twice."""
    best = Speed(ways[0], numbers[0])
    taken = _seconds(best, step)
    if len(ways) > 1:
        best, taken = _better(best, taken, Speed(True, numbers[0]), step)
    if len(numbers) > 1:
        best, taken = _better(best, taken, Speed(best.batched, numbers[-1]), step)
    return best


def _better(best: Speed, taken: float, other: Speed, step: Callable[[bool], Any]) -> tuple[Speed, float]:
    seconds = _seconds(other, step, HOPELESS * taken)
    return (other, seconds) if seconds < GAIN * taken else (best, taken)


def _seconds(way: Speed, step: Callable[[bool], Any], most: float = float("inf")) -> float:
    """The quickest of a few steps after a first one, or of one that takes more than `most`.

    Infinite if the model cannot be trained this way.
    """
    taken: list[float] = []
    with using_threads(way.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vmap warns of what it is slow at, which is measured here
        try:
            while len(taken) <= REPEATS and not (len(taken) == 2 and taken[1] > most):
                began = time.perf_counter()
                step(way.batched)
                taken.append(time.perf_counter() - began)
        except InvalidInputError:
            if not way.batched:
                raise
            return float("inf")
    return min(taken[1:])
