"""A comparison of k as it lies in a file, beside the number that was found by it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from kfed._base.array import Array, frozen
from kfed.errors import InvalidInputError
from kfed.server.k.comparison import KComparison

_FACTS: dict[str, type | tuple[type, ...]] = {
    "n_devices": int,
    "n_device_centers": int,
    "rule": str,
    "share_known": (int, float),
    "largest_share": (int, float),
    "inexact": str,
    "doubt": str,
}
_LATER_FACTS = {"doubt": ""}
"""Facts that files from before lack."""

_COLUMNS = tuple(one.name for one in fields(KComparison) if one.name not in _FACTS)


def comparison_tensors(found: KComparison) -> dict[str, Array]:
    """The arrays, by the names they have in a file."""
    return {f"k_comparison_{name}": getattr(found, name) for name in _COLUMNS}


def comparison_facts(found: KComparison) -> dict[str, Any]:
    """All but the arrays."""
    return {name: getattr(found, name) for name in _FACTS}


def restored_comparison(facts: Any, tensors: dict[str, Array]) -> KComparison | None:
    """Rebuild from both; raise unless they fit together. None if a file holds no comparison."""
    if facts is None:
        return None
    facts = {**_LATER_FACTS, **facts}
    columns: dict[str, Any] = {name: frozen(tensors[f"k_comparison_{name}"]) for name in _COLUMNS}
    values, agreements = columns["n_clusters"], columns["agreements"]
    is_sound = (
        facts.keys() == _FACTS.keys()
        and all(isinstance(facts[name], kinds) for name, kinds in _FACTS.items())
        and values.dtype.kind == "i"
        and values.ndim == 1
        and len(values) > 0
        and values[0] > 0
        and bool((np.diff(values) > 0).all())
        and agreements.ndim == 2
        and all(len(column) == len(values) for column in columns.values())
        and all(column.ndim == 1 for name, column in columns.items() if name != "agreements")
        and all(column.dtype == np.float64 for name, column in columns.items() if name != "n_clusters")
    )
    if not is_sound:
        raise InvalidInputError("its comparison of numbers of clusters does not fit together")
    return KComparison(**columns, **facts)
