"""`Column`: one column of a table, and the features that it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from kfed._base.array import Array
from kfed._base.checks import MAX_NAME_LENGTH
from kfed._base.finite import is_finite_number
from kfed.errors import InvalidInputError
from kfed.wire.column_names import MOST_NAMED

KINDS = ("number", "category", "flag", "date", "empty")
MAX_LEVELS = 1_000
OTHER = "other"
"""The level of rows whose own level is too rare to be told."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
    kind : {"number", "category", "flag", "date", "empty"}
        A flag is 0 or 1, and a date is a number of days. A category becomes one feature for each of its levels, which
        is 1 in rows of that level and 0 in others. A column without any filled cell has no feature.
    levels : tuple of str
        The levels of a category, in the order of their features.
    unit : str, optional
    shift, scale : float, optional
        What was agreed on: values are shifted by `shift`, then divided by `scale`. All levels of a category share them.

    Examples
    --------
    >>> Column("stage", "category", ("I", "II")).features
    ('stage=I', 'stage=II')
    """

    name: str
    kind: str = "number"
    levels: tuple[str, ...] = ()
    unit: str | None = None
    shift: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))  # the dataclass is frozen
        if self.kind not in KINDS:
            raise InvalidInputError(f"the kind of column {self.name!r} must be one of {', '.join(KINDS)}")
        _check_word(self.name, "the name of a column", self.name)
        for level in self.levels:
            _check_word(level, "a level", self.name)
        if self.unit is not None:
            _check_word(self.unit, "the unit", self.name)
        is_category = self.kind == "category"
        if (
            len(set(self.levels)) != len(self.levels)
            or len(self.levels) > MAX_LEVELS
            or bool(self.levels) > is_category
        ):
            raise InvalidInputError(
                f"column {self.name!r}: only a category may have levels: distinct ones, at most {MAX_LEVELS:,}"
            )
        if (self.shift is None) != (self.scale is None) or not _is_scale(self.shift, self.scale):
            raise InvalidInputError(f"column {self.name!r} must have a finite shift and a scale above zero, or neither")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of this column."""
        if self.kind in ("category", "empty"):
            return tuple(f"{self.name}={level}" for level in self.levels)
        return (self.name,)

    def facts(self) -> dict[str, Any]:
        """What differs from a plain number, for a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            own.name: values[own.name] for own in fields(self) if own.name == "name" or values[own.name] != own.default
        }

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Self:
        """The column that `facts` describes; unknown keys are refused."""
        if not isinstance(facts, Mapping) or not set(facts) <= {field.name for field in fields(cls)}:
            raise InvalidInputError("a column must have a name, and may have kind, levels, unit, shift and scale")
        return cls(**{"name": "", **facts})


def details_difference(agreed: Iterable[Column], own: Iterable[Column]) -> str:
    """In what columns of the same names differ from those agreed on, beside their scale; nothing if they do not.

    Examples
    --------
    >>> details_difference([Column("stage", "category", ("I", "II"))], [Column("stage", "category", ("I",))])
    "'stage' has other levels"
    """
    found = {column.name: column for column in own}
    others = [
        f"{column.name!r} has {'other' if what == 'levels' else 'another'} {what}"
        for column in agreed
        for what in ("kind", "levels", "unit")
        if getattr(column, what) != getattr(found[column.name], what)
    ]
    return ", ".join(others[:MOST_NAMED])


def level_features(column: Column, words: Sequence[str], codes: Array) -> Array:
    """The features of a category, (n_rows, n_levels): 1 for the level of a row, and 0 for the others.

    A word that is not among the levels counts as `OTHER`, if that is one of them, and as missing otherwise: then all
    features of the row are NaN, so that it is compared by its other columns.

    Parameters
    ----------
    column : Column
    words : sequence of str
        The different words.
    codes : array of int, shape (n_rows,)
        Position of each row's word in `words`; -1 where the cell is missing.

    Examples
    --------
    >>> level_features(Column("stage", "category", ("I", "II")), ["II", "IV"], np.array([0, 1, -1]))
    array([[ 0.,  1.],
           [nan, nan],
           [nan, nan]])
    """
    places = {level: place for place, level in enumerate(column.levels)}
    other = places.get(OTHER, -1)
    level = np.array([*(places.get(word, other) for word in words), -1])[codes]
    features = np.where(level[:, None] == np.arange(len(column.levels)), 1.0, 0.0)
    features[level < 0] = np.nan
    return features


def _check_word(word: Any, what: str, name: str) -> None:
    """Raise unless a word is short; only the column that it belongs to is shown, since a level may be a cell."""
    if isinstance(word, str) and 0 < len(word) <= MAX_NAME_LENGTH:
        return
    whose = f" of column {name!r}" if what != "the name of a column" else ""
    got = "something else" if not isinstance(word, str) else f"{len(word):,}"
    begins = f", in one that begins with {name[:30]!r}" if isinstance(word, str) and word and not whose else ""
    raise InvalidInputError(f"{what}{whose} must have 1 to {MAX_NAME_LENGTH} characters; got {got}{begins}")


def _is_scale(shift: Any, scale: Any) -> bool:
    if shift is None:
        return True
    return is_finite_number(shift) and is_finite_number(scale) and scale > 0
