"""Text for people: counts with their nouns, lists cut short, tables with aligned columns; and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_NAMED = 5
"""How many names of a longer list are shown."""


def listed(names: Sequence[str], limit: int = MOST_NAMED) -> str:
    """List the first few names, and count the rest.

    Examples
    --------
    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def quoted(names: Sequence[str], limit: int = 8) -> str:
    """Quote the first few for a sentence.

    Examples
    --------
    >>> quoted(["visit_date", "sex"]), quoted("abcd", limit=2)
    ("'visit_date' and 'sex'", "'a', 'b' and 2 more")
    """
    if 1 < len(names) <= limit:
        return f"{listed(list(map(repr, names[:-1])), limit)} and {names[-1]!r}"
    return listed(list(map(repr, names)), limit)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(2000, "row"), plural(2, "identity", "identities")
    ('1 row', '2,000 rows', '2 identities')
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
