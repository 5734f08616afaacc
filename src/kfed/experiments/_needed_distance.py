"""The least distance between clusters from which on points are right, and the distances that theory asks for."""

from __future__ import annotations

import numpy as np

from kfed.experiments.drawing import plus_minus, select, values_of
from kfed.experiments.experiment import Result

RIGHT = 99.0
"""Per cent of the points in the right cluster that count as all."""


def needed(results: list[Result], method: str) -> list[float]:
    """For each run the least distance from which on points are right, between those that were drawn.

    It is the least of these if points are right everywhere, and the largest if they are wrong there.
    """
    found = []
    for run in values_of(results, "run"):
        own = sorted(((r["distance"], r[method]) for r in select(results, run=run)), key=lambda pair: pair[0])
        wrong = [at for at, (_, right) in enumerate(own) if right < RIGHT]
        if not wrong or wrong[-1] + 1 == len(own):
            found.append(own[0 if not wrong else -1][0])
            continue
        (low, below), (high, above) = own[wrong[-1]], own[wrong[-1] + 1]
        found.append(float(np.exp(np.interp(RIGHT, [below, above], np.log([low, high])))))
    return found


def needed_in_words(results: list[Result], method: str) -> str:
    """Give the mean over the runs that get there, and say how many do not.

    Examples
    --------
    >>> def run(run, *right):
    ...     return [Result({"run": run, "distance": d}, {"a": r}, 1.0) for d, r in zip((1.0, 4.0), right)]
    >>> needed_in_words(run(0, 98, 100) + run(1, 98, 100), "a"), needed_in_words(run(0, 50, 98), "a")
    ('from 2.00 ± 0.00 sd on', 'at no distance up to 4 sd')
    >>> needed_in_words(run(0, 98, 100) + run(1, 50, 98), "a")
    'from 2.00 (one run) sd on in 1 of 2 runs, at no distance up to 4 sd in the others'
    """
    farthest, runs = max(result["distance"] for result in results), values_of(results, "run")
    short = {result["run"] for result in results if result["distance"] == farthest and result[method] < RIGHT}
    if len(short) == len(runs):
        return f"at no distance up to {farthest:g} sd"
    there = [need for run, need in zip(runs, needed(results, method), strict=True) if run not in short]
    some = f" in {len(there)} of {len(runs)} runs, at no distance up to {farthest:g} sd in the others" if short else ""
    return f"from {plus_minus(there)} sd on{some}"


def asked_in_words(results: list[Result]) -> str:
    """Say which distances theory asks for, means over the runs."""
    names = ("inactive_bound", "active_bound", "centralized_bound")
    inactive, active, every = (f"{np.mean([result[name] for result in results]):,.0f}" for name in names)
    return (
        f"{inactive} sd of these pairs and {active} of pairs that share a device for k-FED, {every} of every pair in "
        "one place; sufficient, not necessary"
    )
