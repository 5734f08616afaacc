"""How a report reads: lists that name the first few, tables whose columns line up, values that JSON knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_NAMED = 5
"""Of a longer list, a text names the first few."""


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(2000, "row"), plural(2, "identity", "identities")
    ('1 row', '2,000 rows', '2 identities')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """Name the first few.

    Examples
    --------
    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


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
