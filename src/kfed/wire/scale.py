"""`CommonScale`: the scale on which all devices are compared, found from what they say of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base.array import Array, frozen, readonly
from kfed.errors import InvalidInputError
from kfed.wire.schema import FeatureSchema

FAR_DEVICE = 10.0
"""The cells of a device count in full for the scale if they lie no more than this many times as far out as usual."""

FEWEST_DEVICES = 3


@dataclass(frozen=True, eq=False)
class CommonScale:
    """What features are shifted by, and then divided by, both of shape (n_features,)."""

    shift: Array
    scale: Array

    @classmethod
    def pooled(
        cls, schema: FeatureSchema, centers: Array, observed: Array, squares: Array, owners: Array | None = None
    ) -> CommonScale:
        """Mean and standard deviation of every column over all rows of all devices.

        They are exact: a center is the mean of the cells behind it, so the squares around the pooled mean are those
        around the center, plus the center's own, once for each cell. The features of one category share a scale, the
        root of the sum of their variances; so two rows of different levels are as far apart, on average over all pairs
        of rows, as two rows are in a column of numbers. A constant column has nothing to divide by, and keeps its unit.

        With the `owners` of the centers, no device moves the scale of all by much: see `_device_weights`.

        Examples
        --------
        >>> from kfed.wire import Column
        >>> schema = FeatureSchema.of_columns([Column("age")])
        >>> found = CommonScale.pooled(schema, np.array([[30.0], [50.0]]), np.full((2, 1), 4), np.full((2, 1), 16.0))
        >>> found.shift, found.scale**2  # four rows around 30 and four around 50, with a variance of 4 each
        (array([40.]), array([104.]))
        """
        if owners is not None:
            weights = _device_weights(schema, centers, observed, squares, owners)
            observed, squares = observed * weights, squares * weights
        cells = np.maximum(observed.sum(axis=0), 1e-300)
        shift = (observed * centers).sum(axis=0) / cells
        variances = (squares + observed * (centers - shift) ** 2).sum(axis=0) / cells
        scale = np.ones(schema.n_features)
        for own in features_by_column(schema):
            total = float(variances[own].sum())
            scale[own] = np.sqrt(total) if total > 0 else 1.0
        return cls(readonly(shift), readonly(scale))

    @classmethod
    def none(cls, n_features: int) -> CommonScale:
        """The scale of what is on the common scale already."""
        return cls(readonly(np.zeros(n_features)), readonly(np.ones(n_features)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommonScale):
            return NotImplemented
        return np.array_equal(self.shift, other.shift) and np.array_equal(self.scale, other.scale)

    __hash__ = None  # type: ignore[assignment]

    def check(self, n_features: int) -> None:
        """Raise `InvalidInputError` unless this is a scale of as many features."""
        are_finite = bool(np.isfinite(self.shift).all() and np.isfinite(self.scale).all())
        if not self.shift.shape == self.scale.shape == (n_features,) or not are_finite or not (self.scale > 0).all():
            raise InvalidInputError(f"a scale must have finite shifts and scales above zero for {n_features} features")

    def apply(self, values: Array) -> Array:
        """Bring values in the units of the table onto this scale."""
        scaled = np.asarray(values - self.shift)
        scaled /= self.scale  # in place: a large table is not there three times
        return scaled

    def undo(self, values: Array) -> Array:
        """Bring values on this scale back into the units of the table."""
        return np.asarray(values * self.scale + self.shift)


def _device_weights(schema: FeatureSchema, centers: Array, observed: Array, squares: Array, owners: Array) -> Array:
    """How much of what each device says of a column counts for the scale, (n_device_centers, n_features).

    All of it, unless a device has more cells in a column than all others together: then it counts as much as they do;
    or unless its cells lie, or spread, more than `FAR_DEVICE` times as far from the middle as those of most devices:
    then its squares count as if they lay that far. So one device, whatever it sends, makes a scale at most about ten
    times as wide, and not much narrower than the others do. Two devices have nobody to compare with.
    """
    _, position = np.unique(owners, return_inverse=True)
    n_devices = int(position.max(initial=-1)) + 1
    if n_devices < FEWEST_DEVICES:
        return np.ones(observed.shape)
    cells, sums, total = np.zeros((3, n_devices, observed.shape[1]))
    for tally, values in ((cells, observed), (sums, observed * centers)):
        np.add.at(tally, position, values)
    has_cells = cells > 0
    means = np.where(has_cells, sums / np.maximum(cells, 1e-300), np.nan)
    middle = _median(means)
    np.add.at(total, position, squares + observed * (centers - middle) ** 2)
    widths = np.where(has_cells, np.sqrt(total / np.maximum(cells, 1e-300)), np.nan)
    reach = FAR_DEVICE * _median(widths)
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        if column.kind in ("category", "flag"):
            reach[features] = 1.0  # no level lies farther out
    reach[reach == 0] = np.inf
    widest = np.maximum(np.nan_to_num(widths), reach)
    far = np.where(np.isinf(reach), 1, np.divide(reach, widest, out=np.ones(widest.shape), where=widest < np.inf)) ** 2
    others = cells.sum(axis=0) - cells
    heavy = np.where((cells > others) & (others > 0), others / np.maximum(cells, 1e-300), 1)
    return np.asarray((far * heavy)[position])


def _median(values: Array) -> Array:
    """The median of each column over the devices that say something of it; 0 if none does."""
    return np.array([np.median(own[~np.isnan(own)]) if not np.isnan(own).all() else 0.0 for own in values.T])


def agreed_scale(schema: FeatureSchema) -> CommonScale:
    """The scale that the columns of a schema give; 0 and 1 where they give none."""
    shift, scale = np.zeros(schema.n_features), np.ones(schema.n_features)
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        if column.shift is not None and column.scale is not None:
            shift[features], scale[features] = column.shift, column.scale
    return CommonScale(readonly(shift), readonly(scale))


def features_by_column(schema: FeatureSchema) -> Iterator[slice]:
    """The features of each column."""
    first = 0
    for column in schema.columns or ():
        yield slice(first, first := first + len(column.features))


def columns_to_parts(
    schema: FeatureSchema | None, scale: CommonScale | None
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and facts of a file that hold the columns of tables and their scale; none where there are none."""
    tensors = {} if scale is None else {"shift": scale.shift, "scale": scale.scale}
    columns = None if schema is None else schema.facts()
    return tensors, {} if columns is None else {"schema": columns}


def columns_from_parts(
    tensors: Mapping[str, Array], facts: Mapping[str, Any]
) -> tuple[FeatureSchema | None, CommonScale | None]:
    """What `columns_to_parts` was given."""
    schema = FeatureSchema.restored(facts["schema"]) if "schema" in facts else None
    scale = CommonScale(frozen(tensors["shift"]), frozen(tensors["scale"])) if "scale" in tensors else None
    return schema, scale
