"""`TableSummary`: counts, means and spreads that a site sends before the round, where all agree on one schema."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from kfed._base import files
from kfed._base.array import Array
from kfed._base.finite import is_finite_number
from kfed.device import told_columns
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.server import unit_advice
from kfed.site.kinds.kind_option import kind_option
from kfed.site.owners import owners_of
from kfed.site.table import Table
from kfed.wire import KINDS, Column, FeatureSchema, Notice, column_difference, features_by_column

KIND = "kfed table summary"


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a site: how many cells are filled, and their mean and variance in each feature."""

    column: Column
    count: float
    means: tuple[float, ...]
    variances: tuple[float, ...]


@dataclass(frozen=True)
class TableSummary:
    """The columns of one site. It holds no row; of columns with few filled cells, it holds only the name."""

    columns: tuple[ColumnSummary, ...]

    @classmethod
    def of(cls, table: Table, min_cluster_size: int) -> Self:
        """Summarise a table that `read_columns` read.

        Only the name is told of columns with fewer filled cells than three times the floor, and of those that the
        message of a device would say nothing of: cells of too few different rows or ids, or mostly of one (decision
        0001). Means and variances are rounded, see `_Farthest`.

        Examples
        --------
        >>> table = Table(np.array([[1.0], [2.0], [3.0]]), ("age",), schema=FeatureSchema.of_columns([Column("age")]))
        >>> TableSummary.of(table, 1).columns[0].means
        (2.0,)
        """
        if table.schema is None or table.schema.columns is None:
            raise InvalidInputError("a summary needs a table with a schema; read it with `read_columns`")
        weights = np.ones(len(table)) if table.weights is None else table.weights
        owners = owners_of(table)
        told, hidden = told_columns(table.values, table.schema, weights, owners, min_cluster_size)
        parts = zip(table.schema.columns, features_by_column(table.schema), strict=True)
        farthest = _Farthest(np.arange(len(table)) if owners is None else np.asarray(owners), min_cluster_size)
        summaries = (
            _summary(column, told[:, own], weights, None if hidden[own].any() else farthest) for column, own in parts
        )
        return cls(tuple(summaries))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write as JSON, so that people can read what they send."""
        columns = [
            {**one.column.facts(), "count": one.count, "means": one.means, "variances": one.variances}
            for one in self.columns
        ]
        text = json.dumps({"kind": KIND, "columns": columns}, indent=2, ensure_ascii=False)
        files.write(path, f"{text}\n".encode(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote, trusting nothing in it."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
            if content["kind"] != KIND:
                raise ValueError
            return cls(tuple(map(_restored, content["columns"])))
        except (UnicodeDecodeError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise InvalidInputError(f"{path}: this is not a summary; expected what `kfed summarize` wrote") from error


def agree(summaries: Mapping[str, TableSummary], missing: str = "observed") -> FeatureSchema:
    """One schema for all sites: their columns by name, all levels, and the pooled mean and standard deviation.

    Parameters
    ----------
    summaries : mapping from the name of a site to its summary
    missing : {"observed", "drop", "mean"}
        What all sites do with missing cells.

    Examples
    --------
    >>> one, two = ColumnSummary(Column("age"), 4, (30.0,), (4.0,)), ColumnSummary(Column("age"), 4, (50.0,), (4.0,))
    >>> column = agree({"a": TableSummary((one,)), "b": TableSummary((two,))}).columns[0]
    >>> column.shift, round(column.scale**2, 6)
    (40.0, 104.0)
    """
    if not summaries:
        raise InvalidInputError("there must be at least one summary to agree on; got none")
    (first, own), *others = summaries.items()
    names = [one.column.name for one in own.columns]
    for site, summary in others:
        differing = column_difference(names, [one.column.name for one in summary.columns], first, site)
        if differing:
            raise FeatureMismatchError(f"{first} and {site} must have the same columns; {differing}")
    by_name = [{one.column.name: one for one in summary.columns} for summary in summaries.values()]
    return FeatureSchema.of_columns([_agreed([site[name] for site in by_name]) for name in names], "agreed", missing)


def units_that_differ(summaries: Mapping[str, TableSummary]) -> list[Notice]:
    """Name the columns of sites that lie far from the same columns of others: they may be in another unit."""
    return list(unit_advice({site: _ranges(summary) for site, summary in summaries.items()}))


def _ranges(summary: TableSummary) -> dict[str, Array]:
    """Mean plus and minus two standard deviations, mean, spread and cells of each column of numbers that is told."""
    found = {}
    for one in summary.columns:
        if one.column.kind in ("number", "date") and one.count > 0:
            mean, spread = one.means[0], math.sqrt(one.variances[0])
            found[one.column.name] = np.array([mean - 2 * spread, mean + 2 * spread, mean, spread, one.count])
    return found


def _agreed(parts: Sequence[ColumnSummary]) -> Column:
    parts = [part for part in parts if part.column.kind != "empty"] or parts
    parts = sorted(parts, key=lambda part: part.column.kind == "flag")  # beside numbers, yes and no are 1 and 0
    column = parts[0].column
    found = {part.column.kind for part in parts}
    if len(found) > 1 and found != {"flag", "number"}:
        raise FeatureMismatchError(
            f"column {column.name!r} must be of the same kind at all sites; got {' and '.join(sorted(found))}. Say "
            f"what it is at every site, such as {kind_option(column.name, 'category')}"
        )
    levels = tuple(sorted({level for part in parts for level in part.column.levels}))
    features = levels or ("",)
    counts = np.array([part.count for part in parts])
    means, variances = (np.array([_at(part, what, features) for part in parts]) for what in ("means", "variances"))
    total = max(1.0, float(counts.sum()))
    pooled = counts @ means / total
    spread = float(np.sqrt((counts @ (variances + (means - pooled) ** 2)).sum() / total))
    shift = 0.0 if column.kind == "category" else float(pooled[0])
    return Column(column.name, column.kind, levels, column.unit, shift, spread if spread > 0 else 1.0)


def _at(part: ColumnSummary, what: str, features: Sequence[str]) -> list[float]:
    """Numbers of a summary by feature; levels that a site does not have are 0."""
    values = getattr(part, what)
    known = dict(zip(part.column.levels or ("",) * len(values), values, strict=True))
    return [known.get(feature, 0.0) for feature in features]


class _Farthest(NamedTuple):
    """What the farthest cells of a column add to a sum, as many as the floor has, or those of as many people.

    A message has exact sums over the rows behind its centers. If the sum of all cells were known as exactly, the
    difference would be that of the rows that were not sent. So a mean is told as a multiple of what these cells add to
    it: then nobody learns the sum of fewer cells but to within half of what the farthest ones amount to.
    """

    owners: Array  # of each row
    floor: int

    def of(self, parts: Array, is_there: Array) -> Array:
        """The sum of the largest parts of all owners, (n_features,), where each filled cell has its part."""
        _, names = np.unique(self.owners[is_there], return_inverse=True)
        return np.array([np.sort(np.bincount(names, part))[-self.floor :].sum() for part in parts.T])


def _summary(column: Column, values: Array, weights: Array, farthest: _Farthest | None) -> ColumnSummary:
    """What is told of a column; nothing but its name if `farthest` is None."""
    is_there = ~np.isnan(values).any(axis=1) & (weights > 0)
    if farthest is None or not is_there.any():
        nothing = (0.0,) * values.shape[1]
        return ColumnSummary(column, 0.0, nothing, nothing)
    known, own = values[is_there], weights[is_there]
    total = own.sum()
    means = own @ known / total
    parts = own[:, None] * np.abs(known - means)
    squares = parts * np.abs(known - means)
    means = _to_multiples(means, farthest.of(parts, is_there) / total)
    variances = _to_multiples(squares.sum(axis=0) / total, farthest.of(squares, is_there) / total, least=1)
    return ColumnSummary(column, float(total), means, variances)


def _to_multiples(values: Array, steps: Array, least: float = -np.inf) -> tuple[float, ...]:
    """Round to multiples of the powers of two that are no smaller than the steps; with a step of zero, not at all.

    Examples
    --------
    >>> _to_multiples(np.array([41.37, 7.0]), np.array([0.4, 0.0]))
    (41.5, 7.0)
    """
    is_coarse = steps > 0
    steps = 2.0 ** np.ceil(np.log2(np.where(is_coarse, steps, 1.0)))
    return tuple(np.where(is_coarse, np.maximum(np.rint(values / steps), least) * steps, values).tolist())


def _restored(facts: Any) -> ColumnSummary:
    count, means, variances = facts.pop("count"), tuple(facts.pop("means")), tuple(facts.pop("variances"))
    column = Column.restored(facts)
    are_numbers = all(map(is_finite_number, (count, *means, *variances)))
    if (
        not are_numbers
        or any(number < 0 for number in (count, *variances))
        or len(means) != len(variances)
        or column.kind not in KINDS
    ):
        raise ValueError
    if len(means) != len(column.features):
        raise ValueError
    return ColumnSummary(column, count, means, variances)
