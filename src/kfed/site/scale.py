"""The scale that all sites agreed on: what is subtracted from each column, and what it is divided by."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kfed._base.array import Array
from kfed._base.finite import is_finite_number
from kfed._base.text import quoted
from kfed.errors import InvalidInputError


def read_scale(path: str | os.PathLike[str]) -> dict[str, tuple[float, float]]:
    """Read the shift and the scale of each column.

    The file is JSON, such as ``{"age": {"shift": 50, "scale": 12}, "height": {"shift": 170, "scale": 9}}``;
    columns without a name are "0", "1" and so on.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: a scale file must be JSON; this file is not") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: a scale file must be a JSON object with an entry for each column")
    if isinstance(content.get("columns"), list):
        raise InvalidInputError(f"{path}: this is a schema, as `kfed agree` writes it; pass it with --schema instead")
    for name, entry in content.items():
        if not _is_entry(entry):
            raise InvalidInputError(f'{path}: the entry for {name!r} must look like {{"shift": 50, "scale": 12}}')
        if entry["scale"] <= 0:
            raise InvalidInputError(f"{path}: the scale for {name!r} must be greater than 0")
    return {name: (entry["shift"], entry["scale"]) for name, entry in content.items()}


def shifts_and_scales(scale: Mapping[str, tuple[float, float]], names: Sequence[str]) -> Array:
    """The shift and the scale of each of these columns, (2, n_columns)."""
    missing = [name for name in names if name not in scale]
    unknown = [name for name in scale if name not in names]
    if missing or unknown:
        faults = [f"it has no entry for {quoted(missing)}"] * bool(missing)
        faults += [f"the table has no column for {quoted(unknown)}"] * bool(unknown)
        raise InvalidInputError(f"a scale must have one entry for each column; {', and '.join(faults)}")
    return np.array([scale[name] for name in names], dtype=np.float64).T


def unscaled(values: Array, names: Sequence[str], scale: Mapping[str, tuple[float, float]]) -> Array:
    """Scaled values, such as centers, in the original units of the columns of these names.

    Examples
    --------
    >>> unscaled(np.array([[0.5, -1.0]]), ["age", "height"], {"age": (50, 12), "height": (170, 9)})
    array([[ 56., 161.]])
    """
    shifts, scales = shifts_and_scales(scale, names)
    return np.asarray(values * scales + shifts)


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and entry.keys() == {"shift", "scale"} and all(map(is_finite_number, entry.values()))
