"""What a scikit-learn user gives, as devices: one table whose rows have groups, or a list of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _checks
from kfed.errors import InvalidInputError

Array = npt.NDArray[Any]

_MISSING = {"None", "nan", "NaN", "NaT", "<NA>"}


@dataclass(frozen=True)
class Devices:
    """Checked tables, one a device, and where their rows stand among all rows."""

    ids: list[str]
    tables: list[Any]  # (n_points, n_features) each, dense or CSR
    rows: list[Any]  # what picks the device's rows from anything that has one entry for every row

    @classmethod
    def one(cls, table: Any) -> Devices:
        """The centralized special case."""
        return cls(["0"], [table], [slice(None)])

    @classmethod
    def by_position(cls, tables: Sequence[Any]) -> Devices:
        """A device a table, named by its position; all rows are those of the first table, then of the second..."""
        ends = np.cumsum([0, *(table.shape[0] for table in tables)])
        rows = [slice(start, end) for start, end in zip(ends[:-1], ends[1:], strict=True)]
        return cls([str(position) for position in range(len(tables))], list(tables), rows)

    @classmethod
    def by_group(cls, table: Any, groups: Any) -> Devices:
        """A device a group, named ``str(group)``, in the sorted order of the groups."""
        labels = np.asarray(groups)
        if labels.shape != (table.shape[0],):
            raise InvalidInputError(
                f"groups must have one label for each of {table.shape[0]} rows, and has shape {labels.shape}"
            )
        if labels.dtype == object:
            labels = np.array([_name(label) for label in labels])
        distinct, positions = np.unique(labels, return_inverse=True)
        rows = np.split(np.argsort(positions, kind="stable"), np.cumsum(np.bincount(positions))[:-1])
        return cls([_name(label) for label in distinct], [table[own] for own in rows], rows)

    @property
    def n_rows(self) -> int:
        """Rows of all devices."""
        return sum(table.shape[0] for table in self.tables)

    def split_weights(self, weights: Array) -> list[Array]:
        """The weights of each device's rows, from those of all rows."""
        parts = [weights[own] for own in self.rows]
        for device_id, part in zip(self.ids, parts, strict=True):
            if not part.any():
                raise InvalidInputError(
                    f"sample_weight must not be zero everywhere on a device, and is on {device_id!r}; leave it out"
                )
        return parts

    def one_each(self, values: int | Mapping[Any, int] | Iterable[int], name: str) -> list[int]:
        """A number for each device, from one for all, one each in the order of `ids`, or a mapping from device."""
        if isinstance(values, Mapping):
            by_id = {str(device): value for device, value in values.items()}
            absent = next((device_id for device_id in self.ids if device_id not in by_id), None)
            if absent is not None:
                raise InvalidInputError(
                    f"{name} must have an entry for each device, and has none for {absent!r}"
                )
            return [by_id[device_id] for device_id in self.ids]
        if np.ndim(values) == 0:  # type: ignore[arg-type]
            return [values] * len(self.ids)  # type: ignore[list-item]
        each = list(values)  # type: ignore[arg-type]
        if len(each) != len(self.ids):
            raise InvalidInputError(
                f"{name} must have one entry for each of {len(self.ids)} devices, not {len(each)}"
            )
        return each


def are_tables(X: Any) -> bool:
    """Whether `X` is a list of tables and not itself a table (which may be a list of rows)."""
    return isinstance(X, (list, tuple)) and (not X or any(_n_axes(entry) == 2 for entry in X))


def _n_axes(entry: Any) -> int:
    try:
        return len(entry.shape) if hasattr(entry, "shape") else np.ndim(entry)
    except ValueError:  # a list of rows of unequal lengths
        return 2


def _name(group: Any) -> str:
    if not isinstance(group, str) and str(group) in _MISSING:
        raise InvalidInputError(
            "groups must name a device for every row, and some are missing; drop or fill those rows"
        )
    return _checks.device_id(str(group))
