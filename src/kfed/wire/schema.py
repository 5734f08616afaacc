"""`FeatureSchema`: which features a party's numbers describe, and the one place that compares two parties."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed._base.text import quoted
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.wire.columns import Column, details_difference
from kfed.wire.same_columns import check_columns, compare_kinds, compare_names

SCALINGS = ("agreed", "by message")
MISSING = ("observed", "drop", "mean")


@dataclass(frozen=True)
class FeatureSchema:
    """The features behind a center: how many there are, their names, and the columns of a table that they come from.

    Messages, batches of messages, aggregations and federations each hold one. Arrays have no columns; tables have, see
    `of_columns`.

    Parameters
    ----------
    n_features : int
        Length of a center, d.
    names : sequence of str, optional
        One distinct name for each feature, in their order.

    Attributes
    ----------
    columns : tuple of Column or None
    scaling : {"agreed", "by message"} or None
        Whether centers are on the scale that `columns` give, or in the units of the table, with the spread of every
        column in the message so that the server finds the common scale. None: centers are taken as they are.
    missing : {"observed", "drop", "mean"} or None
        How missing cells were treated: clustering used the observed cells alone, their rows were dropped, or they were
        filled with the mean of their column.

    Examples
    --------
    >>> FeatureSchema(2, ["age", "height"]).check_same(FeatureSchema(2), "north", "south")  # without names, any match
    >>> FeatureSchema(2, ["age", "height"]).check_same(FeatureSchema(2, ["height", "age"]), "north", "south")
    Traceback (most recent call last):
    kfed.errors.FeatureMismatchError: all devices must have the same features in the same order; feature 0 is 'age' ...
    """

    n_features: int
    names: tuple[str, ...] | None = None
    columns: tuple[Column, ...] | None = None
    scaling: str | None = None
    missing: str | None = None

    def __init__(self, n_features: int, names: Iterable[str] | None = None) -> None:
        object.__setattr__(self, "n_features", n_features)  # the dataclass is frozen
        object.__setattr__(self, "names", checks.feature_names(names, n_features))

    @classmethod
    def of_columns(
        cls, columns: Iterable[Column], scaling: str = "by message", missing: str = "observed"
    ) -> FeatureSchema:
        """The features of a table.

        Examples
        --------
        >>> columns = [Column("age"), Column("stage", "category", ("I", "II"))]
        >>> FeatureSchema.of_columns(columns).names
        ('age', 'stage=I', 'stage=II')
        """
        columns = tuple(columns)
        if scaling == "agreed" and any(column.scale is None for column in columns):
            raise InvalidInputError("with an agreed scale, every column must have a shift and a scale")
        names = list(chain.from_iterable(column.features for column in columns))
        schema = cls(len(names), names)
        set_field = object.__setattr__
        set_field(schema, "columns", columns)
        set_field(schema, "scaling", checks.one_of(scaling, SCALINGS, "scaling"))
        set_field(schema, "missing", checks.one_of(missing, MISSING, "missing"))
        return schema

    def facts(self) -> dict[str, Any] | None:
        """JSON facts of the columns, the inverse of `restored`; None if there are no columns."""
        if self.columns is None:
            return None
        return {"columns": [c.facts() for c in self.columns], "scaling": self.scaling, "missing": self.missing}

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> FeatureSchema:
        """A schema with columns, from what `facts` gave. Raises `InvalidInputError` if it is not valid."""
        if not isinstance(facts, Mapping) or not isinstance(facts.get("columns"), list):
            raise InvalidInputError("a schema must have a list of columns")
        columns = list(map(Column.restored, facts["columns"]))
        scaling = SCALINGS[0] if columns and all(column.scale is not None for column in columns) else SCALINGS[1]
        return cls.of_columns(columns, str(facts.get("scaling", scaling)), str(facts.get("missing", MISSING[0])))

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits: the same for equal schemas; collisions are unlikely."""
        facts = json.dumps(self.facts() or {"n_features": self.n_features, "names": self.names}, sort_keys=True)
        return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()

    def check_same(self, other: FeatureSchema, ours: str, theirs: str) -> None:
        """Raise `FeatureMismatchError` unless both describe the same features; features without names match any names.

        Tables are compared by the names of their columns, in any order; a category may have other levels in each.

        Parameters
        ----------
        other : FeatureSchema
        ours, theirs : str
            What an error calls the two parties.
        """
        if self is other or self == other:
            return
        if self.columns is not None and other.columns is not None:
            check_columns(self, other, ours, theirs)
        elif "by message" in (self.scaling, other.scaling):
            bare, rich = (ours, theirs) if self.columns is None else (theirs, ours)
            raise FeatureMismatchError(
                f"all devices must send numbers in the same way; {rich} sent columns in their units with their spread, "
                f"and {bare} sent plain centers: prepare all tables in the same way, with the same --scale or --schema "
                "file at every site, or with none"
            )
        else:
            self._check_in_order(other, ours, theirs)

    def check_agreed(self, own: FeatureSchema, ours: str, theirs: str) -> None:
        """Raise `FeatureMismatchError` unless a table uses this very schema, with its levels and their order.

        Parameters
        ----------
        own : FeatureSchema
        ours, theirs : str
            What an error calls the party that has this schema, and the one that has `own`.
        """
        if own == self:
            return
        if own.columns is None:
            raise FeatureMismatchError(
                f"{theirs} must use the schema of {ours}; got plain numbers: pass the schema, without as_is and scale"
            )
        self.check_same(own, ours, theirs)
        said = details_difference(self.columns or (), own.columns)
        said = said or "its columns are in another order, or missing cells are treated in another way"
        raise FeatureMismatchError(f"{theirs} must use the schema of {ours} unchanged; {said}")

    @staticmethod
    def check_all(schemas: Mapping[str, FeatureSchema]) -> FeatureSchema:
        """Raise `FeatureMismatchError` unless all devices describe the same features; return those, with their names.

        An error names the devices that differ from most.

        Parameters
        ----------
        schemas : mapping from the id of a device to its features
        """
        first = next((name for name, own in schemas.items() if own.names is not None), next(iter(schemas)))
        try:
            for name, own in schemas.items():
                schemas[first].check_same(own, repr(first), repr(name))
            if any(column.kind == "empty" for column in schemas[first].columns or ()):  # which is like any kind
                compare_kinds(schemas)
        except FeatureMismatchError:
            compare_names(schemas)
            compare_kinds(schemas)
            raise
        return schemas[first]

    def merged(self, others: Sequence[FeatureSchema]) -> FeatureSchema:
        """The schema that holds the levels of all of these, sorted; the schemas must otherwise be equal."""
        if self.columns is None or all(other == self for other in others):
            return self
        levels = {column.name: set(column.levels) for column in self.columns}
        known = {column.name: column for column in self.columns}
        for other in others:
            for column in other.columns or ():
                levels[column.name] |= set(column.levels)
                if known[column.name].kind == "empty" or (known[column.name].kind, column.kind) == ("flag", "number"):
                    known[column.name] = column
        columns = (replace(column, levels=tuple(sorted(levels[name]))) for name, column in known.items())
        return FeatureSchema.of_columns(columns, self.scaling or "by message", self.missing or "observed")

    def align(self, values: Array, own: FeatureSchema) -> Array:
        """Bring values, (n_centers, own.n_features), into the order of these features.

        Levels missing in `own` become 0; levels missing here are dropped.
        """
        if self.columns is None or own.columns is None or self.names == own.names:
            return values
        positions = {name: position for position, name in enumerate(own.names or ())}
        aligned = np.zeros((len(values), self.n_features), values.dtype)
        for feature, name in enumerate(self.names or ()):
            if name in positions:
                aligned[:, feature] = values[:, positions[name]]
        return aligned

    def _check_in_order(self, other: FeatureSchema, ours: str, theirs: str) -> None:
        if self.n_features != other.n_features:
            raise FeatureMismatchError(
                f"all devices must have the same features; {ours} has {self.n_features} and {theirs} has "
                f"{other.n_features}: {self._difference(other, ours, theirs)}"
            )
        if self.names is not None and other.names is not None and self.names != other.names:
            raise FeatureMismatchError(
                f"all devices must have the same features in the same order; {self._difference(other, ours, theirs)}"
            )

    def _difference(self, other: FeatureSchema, ours: str, theirs: str) -> str:
        """Name the first feature that differs."""
        if self.names is None or other.names is None:
            return "check the columns that each of them used"
        for position, (own, their) in enumerate(zip(self.names, other.names, strict=False)):
            if own != their:
                return f"feature {position} is {own!r} for {ours} and {their!r} for {theirs}"
        n_common = min(self.n_features, other.n_features)
        extra = (self.names if self.n_features > n_common else other.names)[n_common:]
        return f"{quoted(extra, 5)} {'is' if len(extra) == 1 else 'are'} missing at " + (
            theirs if self.n_features > n_common else ours
        )
