"""`Devices`: the input of a scikit-learn user as devices, from one table with groups or from a list of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError

_MISSING = {"None", "nan", "NaN", "NaT", "<NA>"}


@dataclass(frozen=True)
class Devices:
    """A checked table for each device, and the positions of its rows among all rows.

    Examples
    --------
    >>> devices = Devices.by_group(np.array([[0.0], [1.0], [2.0]]), ["west", "east", "west"])
    >>> devices.ids, [table.ravel().tolist() for table in devices.tables]
    (['east', 'west'], [[1.0], [0.0, 2.0]])
    """

    ids: list[str]
    tables: list[Any]  # (n_points, n_features) each, dense or CSR
    rows: list[Any]  # each selects a device's rows from an array of all rows

    @classmethod
    def by_position(cls, tables: Sequence[Any]) -> Devices:
        """Make each table a device, named by its position; rows are numbered through the tables in order."""
        ends = np.cumsum([0, *(table.shape[0] for table in tables)])
        rows = [slice(start, end) for start, end in pairwise(ends)]
        return cls([str(position) for position in range(len(tables))], list(tables), rows)

    @classmethod
    def by_group(cls, table: Any, groups: Any) -> Devices:
        """Make each group of rows a device named ``str(group)``, in the sorted order of the groups."""
        labels = np.asarray(groups)
        if labels.shape != (table.shape[0],):
            raise InvalidInputError(
                f"groups must have shape ({table.shape[0]},), one label for each row; got {labels.shape}"
            )
        if labels.dtype == object:
            labels = np.array([_name(label) for label in labels])
        distinct, positions = np.unique(labels, return_inverse=True)
        rows = np.split(np.argsort(positions, kind="stable"), np.cumsum(np.bincount(positions))[:-1])
        return cls([_name(label) for label in distinct], [table[own] for own in rows], rows)

    @property
    def n_rows(self) -> int:
        """Number of rows of all devices."""
        return sum(table.shape[0] for table in self.tables)

    def weights(self, sample_weight: Any) -> list[Array]:
        """Split weights by device, from one array for all rows or a list with one array for each device."""
        if isinstance(sample_weight, (list, tuple)) and any(map(np.ndim, sample_weight)):
            each = [np.asarray(own) for own in self.one_each(sample_weight, "sample_weight")]
        else:
            weights = np.asarray(sample_weight)
            if weights.shape != (self.n_rows,):
                raise InvalidInputError(
                    f"sample_weight must have shape ({self.n_rows},), one weight for each row; got {weights.shape}"
                )
            each = [weights[own] for own in self.rows]
        for device_id, table, own in zip(self.ids, self.tables, each, strict=True):
            if own.shape != table.shape[:1] or not own.any():
                raise InvalidInputError(
                    f"sample_weight must have one weight for each of {table.shape[0]} rows of {device_id!r}, "
                    "not all zero; drop a device whose weights are all zero"
                )
        return each

    def one_each(self, value: Any, name: str) -> list[Any]:
        """Spread a value over devices: one for all, a sequence in the order of `ids`, or a mapping by device."""
        if isinstance(value, Mapping):
            by_id = {str(device): number for device, number in value.items()}
            absent = [device_id for device_id in self.ids if device_id not in by_id]
            if absent:
                raise InvalidInputError(f"{name} must have an entry for each device; got none for {absent[0]!r}")
            return [by_id[device_id] for device_id in self.ids]
        each = [value] * len(self.ids) if isinstance(value, Integral) else list(value)
        if len(each) != len(self.ids):
            raise InvalidInputError(f"{name} must have one entry for each of {len(self.ids)} devices; got {len(each)}")
        return each


def are_tables(X: Any) -> bool:
    """Whether `X` is a list of tables and not itself a table, which may be a list of rows.

    Examples
    --------
    >>> are_tables([[0.0, 1.0], [2.0, 3.0]]), are_tables([np.zeros((4, 2)), np.zeros((3, 2))])
    (False, True)
    """
    return isinstance(X, (list, tuple)) and (not X or any(_n_axes(entry) == 2 for entry in X))


def _n_axes(entry: Any) -> int:
    try:
        return len(entry.shape) if hasattr(entry, "shape") else np.ndim(entry)
    except ValueError:  # a list of rows of unequal lengths
        return 2


def _name(group: Any) -> str:
    if not isinstance(group, str) and str(group) in _MISSING:
        raise InvalidInputError("groups must not have missing values; fill them, or drop those rows")
    return checks.device_id(str(group))
