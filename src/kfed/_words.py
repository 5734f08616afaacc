"""How a report reads: lists that name the first few, tables whose columns line up, values that JSON knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed._conditions import Presence, is_met_in_text_only

Array = npt.NDArray[Any]

MOST_NAMED = 5
"""Of a longer list, a text names the first few."""


def listed(names: Sequence[str]) -> str:
    """Name the first few.

    Examples
    --------
    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def pairs_too_near(attained: Array, names: Sequence[object], about: str = "") -> str:
    """Say which pairs have less than 1 of the distance that is asked of them, the worst first; nothing if none has.

    Examples
    --------
    >>> pairs_too_near(np.array([[np.nan, 0.25], [0.25, np.nan]]), ["cats", "dogs"])
    '1 of 1 pairs of clusters is nearer than the main theorem asks: cats and dogs (0.25 of it)'
    """
    firsts, seconds = np.nonzero(np.triu(attained < 1, 1))
    shares = attained[firsts, seconds]
    if len(shares) == 0:
        return ""
    n_pairs = np.count_nonzero(np.triu(~np.isnan(attained), 1))
    worst = [
        f"{names[firsts[i]]} and {names[seconds[i]]} ({about}{shares[i]:.2g} of it)"
        for i in np.argsort(shares, kind="stable")
    ]
    are = "is" if len(shares) == 1 else "are"
    return f"{len(shares):,} of {n_pairs:,} pairs of clusters {are} nearer than the main theorem asks: {listed(worst)}"


def caveats(presence: Presence, attained: Array) -> Iterator[str]:
    """Say what to know of the conditions before relying on a verdict."""
    if not presence.is_heterogeneous:
        yield "k' is more than sqrt(k): the network is not heterogeneous, and the corollary does not apply"
    n_doubtful = np.count_nonzero(np.triu(is_met_in_text_only(attained, presence), 1))
    if n_doubtful:
        yield (
            f"{n_doubtful:,} inactive pairs are far enough apart by the words of the theorem, but not by its proof, "
            "which takes no cluster to be smaller than the smallest device"
        )


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns line up: the first to the left, numbers to the right.

    Examples
    --------
    >>> table([("pairs", "number"), ("active", "3")])
    ['pairs   number', 'active       3']
    """
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])
        for name, *cells in rows
    ]


def facts(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Lines of a name and a value each, all to the left."""
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {value}" for name, value in rows]


def plain(value: Any) -> Any:
    """Give a value in types that JSON knows; a number that is not finite becomes None.

    Examples
    --------
    >>> plain({"sizes": np.array([2, 3]), "norm": np.float64(np.inf), "names": ("a", 1)})
    {'sizes': [2, 3], 'norm': None, 'names': ['a', 1]}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
