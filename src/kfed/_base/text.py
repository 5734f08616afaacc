"""Text for people: counts with their nouns, lists cut short, tables with aligned columns; and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_NAMED = 5
"""How many names of a longer list are shown."""


def listed(names: Sequence[str]) -> str:
    """List the first few names, and count the rest.

    Examples
    --------
    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Count things, in the singular or the plural.

    Examples
    --------
    >>> plural(1, "center"), plural(1200, "device"), plural(0, "row holds", "rows hold")
    ('1 center', '1,200 devices', '0 rows hold')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with aligned columns: the first to the left, the others to the right.

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
    """Lines of a name and a value each, both aligned to the left."""
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {value}" for name, value in rows]


def plain(value: Any) -> Any:
    """Convert a value to types that JSON knows; a number that is not finite becomes None.

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
