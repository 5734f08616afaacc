"""What differential privacy promises and costs, in the words of the command line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kfed._base import geometry
from kfed.cli._terminal import plural
from kfed.site import Ledger
from kfed.wire import DeviceMessage, Promise

NOT_PROMISED = [
    "that this site took part",
    "several rows of one person, here or at other sites (m rows: about m times epsilon)",
    "the labels, which are computed from the rows and stay at this site",
]


def in_a_sentence(promise: Promise) -> str:
    """The promise, to be quoted."""
    return (
        f"for every row of the table, whatever anyone may conclude from this message has at most "
        f"{math.exp(promise.epsilon):.3g} times the probability that it would have without that row, plus "
        f"{promise.delta:g}, and the other way round (differential privacy with epsilon = {promise.epsilon:g} and "
        f"delta = {promise.delta:g}, where one row is added or removed)"
    )


def cost_of(message: DeviceMessage) -> dict[str, Any]:
    """How far the noise puts centers off, and how far apart they are."""
    noise = message.details.noise if message.details is not None else None
    if noise is None or not len(noise):
        return {"expected_errors": [], "nearest_centers": None}
    distances = np.sqrt(geometry.squared_distances(message.centers, message.centers))
    np.fill_diagonal(distances, np.inf)
    nearest = float(distances.min()) if len(distances) > 1 else None
    return {
        "expected_errors": (noise[:, 0] * math.sqrt(message.n_features)).tolist(),
        "nearest_centers": nearest,
    }


def cost_text(cost: dict[str, Any]) -> Iterator[str]:
    """The same in words, with what would help if the noise is too much."""
    errors, nearest = cost["expected_errors"], cost["nearest_centers"]
    if not errors:
        yield "the noise hides every cluster: more rows, a larger epsilon, or fewer clusters or columns help"
        return
    apart = "" if nearest is None else f"; the nearest two centers are {nearest:.3g} apart"
    yield f"noise puts a center off by about {min(errors):.3g} to {max(errors):.3g}{apart}"
    if nearest is not None and max(errors) > nearest / 2:
        yield "that is too much to tell these clusters apart: more rows, a larger epsilon, or fewer clusters help"


def private_facts(message: DeviceMessage, promise: Promise, ledger: Ledger) -> dict[str, Any]:
    """What a release promises, what the noise does to it, and what was released of the table so far."""
    return {
        **promise.facts(),
        **cost_of(message),
        "ledger": str(ledger.path),
        "n_releases": len(ledger.entries()),
        "total_epsilon": ledger.epsilon(promise.delta),
    }


def private_text(facts: dict[str, Any]) -> Iterator[str]:
    """The same in words."""
    yield f"differentially private: epsilon {facts['epsilon']:g}, delta {facts['delta']:g}, for each row"
    yield from cost_text(facts)
    yield (
        f"{plural(facts['n_releases'], 'release')} of these rows, together epsilon {facts['total_epsilon']:.3g}: "
        f"{facts['ledger']}"
    )
