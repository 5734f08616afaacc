"""`Holders`: whether rows are of enough people to tell what they have in common (decision 0001)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.device.floor.distinct_rows import ALIKE, are_many
from kfed.device.observed import ROWS_AT_ONCE

SOME = 200
"""So many rows show whether the rows of a table mostly differ."""


@dataclass(frozen=True, eq=False)
class Holders:
    """Counts ids; where there are none, rows, of which copies of one row count once.

    Where most rows have others like them, say in a table of flags, copies cannot be told, and all rows count.
    """

    values: Array  # (n_rows, n_features), NaN where a cell is missing
    least: int
    whose: Array | None  # (n_rows,)
    tolerances: Array | None  # (n_features,), how far copies of one row may differ; None if they cannot be told
    n_missing: Array  # (n_rows,)

    @classmethod
    def of(cls, values: Array, least: int, whose: Array | None) -> Self:
        """Find out whether copies of a row can be told in this table."""
        tolerances = None
        if whose is None and mostly_differ(values[sampled_rows(len(values))]):
            tolerances = ALIKE * (np.fmax.reduce(values) - np.fmin.reduce(values))
        return cls(values, least, whose, tolerances, np.count_nonzero(np.isnan(values), axis=1))

    def count(self, rows: Array) -> int:
        """How many rows, or ids."""
        return len(rows) if self.whose is None else len(np.unique(self.whose[rows]))

    def are_enough(self, rows: Array) -> bool:
        """Whether the rows at these positions are of at least `least` people."""
        if self.count(rows) < self.least:
            return False
        ordered = rows[np.argsort(self.n_missing[rows], kind="stable")]  # those of few cells, like many others, last
        return self.tolerances is None or are_many(self._blocks(ordered), self.tolerances, self.least)

    def _blocks(self, rows: Array) -> Iterator[Array]:
        """A few rows first, since in most tables they differ."""
        n_few = 8 * self.least
        yield self.values[rows[:n_few]]
        for block in pool.blocks(len(rows[n_few:]), ROWS_AT_ONCE):
            yield self.values[rows[n_few:][block]]


def sampled_rows(n_rows: int) -> Array:
    """Positions of some rows, from the whole table."""
    return np.unique(np.linspace(0, n_rows - 1, SOME).astype(np.intp))


def mostly_differ(rows: Array) -> bool:
    """Whether at least half of some rows differ from all others of these."""
    return 2 * len(np.unique(np.nan_to_num(rows), axis=0)) >= len(rows)
