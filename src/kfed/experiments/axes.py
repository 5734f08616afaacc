"""The axes of an experiment: names and values that say which run is meant, and that decide its seed."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

Axes = Mapping[str, Any]


def grid(**axes: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """All combinations of the values of some axes.

    Examples
    --------
    >>> grid(k=[4, 9], run=range(2))
    ({'k': 4, 'run': 0}, {'k': 4, 'run': 1}, {'k': 9, 'run': 0}, {'k': 9, 'run': 1})
    """
    return tuple(dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


def seed_of(seed: int, **axes: Any) -> int:
    """A seed for the random choices that belong to some named axes: the same names and values give the same seed.

    Examples
    --------
    >>> seed_of(0, k=4, run=1) == seed_of(0, run=1, k=4) != seed_of(0, k=4, run=2)
    True
    """
    named = json.dumps([seed, axes], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=7).digest(), "big")
