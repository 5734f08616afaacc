"""Notices about columns: one that outweighs all others, one that is in another unit at a device, rows left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Protocol

import numpy as np

from kfed._base.array import Array
from kfed._base.heavy_column import CODE, heavy_column, some_rows
from kfed.server.notices.left_out import late_left_out, left_out_advice
from kfed.server.notices.of_levels import late_level_advice, late_unknown_levels, level_advice
from kfed.server.notices.of_scale import late_off_scale, rows_off_scale
from kfed.server.notices.other_units import are_foreign, foreign_names
from kfed.wire import CommonScale, DeviceMessage, FeatureSchema, MessageBatch, Notice, agreed_scale

FEWEST_DEVICES = 3

FEWEST_UNNAMED = 3
"""Two columns without names are points of a plane, which often lie on a line in small examples."""

FEWEST_SPARE = 4
"""With fewer centers than this beyond one for each cluster, the spread within clusters is chance."""

FEWEST_CELLS = 5
"""The spread of fewer cells says nothing."""

ROUNDING = 1e-9
"""A spread of so small a part of the mean is none."""

MOST_COMPARED = 64
"""Of more devices, each is compared with about as many: with all, time would grow with the square of their number."""


def column_advice(batch: MessageBatch, center_labels: Array) -> Iterator[Notice]:
    """Say which columns to look at, in messages as they were sent, whose centers are in these clusters."""
    yield from _dominant(batch, center_labels)
    yield from left_out_advice(batch)
    yield from level_advice([] if batch.details is None else batch.details.messages)
    messages = [] if batch.details is None else list(filter(_says_columns, batch.details.messages))
    yield from _flags_beside_numbers(messages, messages)
    ranges = {message.device_id: _ranges(message) for message in messages}
    for name in _constant_columns(list(ranges.values())):
        yield Notice.about_all(
            "constant",
            f"column {name!r} is constant within each device but differs between devices, so it identifies them; "
            "exclude it unless intended",
        )
        for own_ranges in ranges.values():
            own_ranges.pop(name, None)
    yield from unit_advice(ranges)


class ComparedCenters(Protocol):
    """What a late device is compared with: the centers of clusters."""

    @property
    def cluster_centers(self) -> Array:
        """Means of the clusters, (n_clusters, n_features), as devices sent them."""


def late_advice(
    clusters: ComparedCenters,
    batch: MessageBatch | None,
    message: DeviceMessage,
    schema: FeatureSchema | None = None,
) -> list[Notice]:
    """Say what to look at in a late device, beside clusters and the devices (or some) that were aggregated.

    If not all of them are in `batch`, `schema` has the levels that all have.
    """
    lost = list(late_left_out(message))
    if not len(message.centers):
        return lost
    if message.schema.columns is None:
        return [*lost, *late_off_scale(message, clusters.cluster_centers)]
    if batch is None or batch.details is None:
        return lost
    others = list(batch.details.messages)
    told = [message] if _says_columns(message) else []
    about_numbers = (*_flags_beside_numbers(told, others), *foreign_columns(message, others))
    known = batch.schema if schema is None else schema
    return [*lost, *about_numbers, *late_level_advice(message, others), *late_unknown_levels(message, known)]


def row_advice(
    rows: Array, schema: FeatureSchema | None, centers: Array, scale: CommonScale | None
) -> Iterator[Notice]:
    """Name the columns of new rows that lie far from those of the rows behind some clusters.

    Rows without columns are compared as a whole. Dates are not compared: new rows are later than others.

    Parameters
    ----------
    rows, centers : arrays of shape (n_rows, n_features) and (n_clusters, n_features)
        New rows and the centers of the clusters, with NaN where nothing is known.
    schema : FeatureSchema or None
    scale : CommonScale or None
        Mean and standard deviation of all rows behind the clusters, where that is not what was agreed on.
    """
    if schema is None or schema.columns is None:
        yield from rows_off_scale(rows, centers)
        return
    if scale is None and schema.scaling != "agreed":
        return
    usual = agreed_scale(schema) if scale is None else scale
    compared = []
    for name, feature in _numbers(schema, ("number",)):
        known, own = (values[:, feature][~np.isnan(values[:, feature])] for values in (centers, rows))
        if scale is None:
            known, own = (values * usual.scale[feature] + usual.shift[feature] for values in (known, own))
        if len(known) and len(own):
            compared.append((name, _range_of(own), _range_about(known, usual, feature)))
    if compared:
        names, of_rows, of_clusters = zip(*compared, strict=True)
        for name in compress(names, are_foreign(np.array(of_rows), np.array([of_clusters]))):
            yield Notice(
                "other unit",
                f"column {name!r} of the new rows lies far from that of the rows behind the clusters: is it in the "
                "same unit?",
            )


def _range_of(cells: Array) -> Array:
    """As in `_ranges`, of cells."""
    mean, spread = float(cells.mean(dtype=np.float64)), float(cells.std(dtype=np.float64))
    known = spread if len(cells) >= FEWEST_CELLS else np.nan
    return np.array([mean - 2 * spread, mean + 2 * spread, mean, known, len(cells)])


def _range_about(centers: Array, scale: CommonScale, feature: int) -> Array:
    """As in `_ranges`, of all rows behind some clusters, whose number is not known; no cluster lies outside."""
    mean, spread = float(scale.shift[feature]), float(scale.scale[feature])
    lowest, highest = min(mean - 2 * spread, centers.min()), max(mean + 2 * spread, centers.max())
    return np.array([lowest, highest, mean, spread, np.nan])


def unit_advice(ranges: Mapping[str, Mapping[str, Array]]) -> Iterator[Notice]:
    """Name the columns of devices that lie far from the same columns of others; of two devices, of the first alone.

    Parameters
    ----------
    ranges : mapping from the name of a device and a column to an array of shape (5,)
        Lowest and highest value, more or less, mean, spread and number of cells.
    """
    names = list(ranges)
    some = names[:: max(1, len(names) // MOST_COMPARED)]
    for own in names if len(names) >= FEWEST_DEVICES else names[:1]:
        yield from _foreign(own, ranges[own], [ranges[other] for other in some if other != own])


def foreign_columns(message: DeviceMessage, others: list[DeviceMessage]) -> Iterator[Notice]:
    """Name the columns of a device that lie far from the same columns of others."""
    if _says_columns(message):
        some = others[:: max(1, len(others) // MOST_COMPARED)]
        theirs = [_ranges(other) for other in some if _says_columns(other)]
        yield from _foreign(message.device_id, _ranges(message), theirs)


def _foreign(
    device_id: str, own_ranges: Mapping[str, Array], ranges: Sequence[Mapping[str, Array]]
) -> Iterator[Notice]:
    whose = "the other devices" if len(ranges) > 1 else "the other device"
    for name in foreign_names(own_ranges, ranges):
        text = f"column {name!r} of {device_id!r} lies far from that of {whose}: is it in the same unit?"
        yield Notice.about([device_id], "other unit", text)


def _flags_beside_numbers(messages: list[DeviceMessage], others: list[DeviceMessage]) -> Iterator[Notice]:
    """Name columns of numbers other than 0 and 1 that are yes or no on other devices."""
    flags = {column.name for other in others for column in other.schema.columns or () if column.kind == "flag"}
    for message in messages if flags else []:
        for name, feature in _numbers(message.schema):
            if name in flags and _has_other_numbers(message, feature):
                yield Notice.about(
                    [message.device_id],
                    "flag beside numbers",
                    f"column {name!r} of {message.device_id!r} holds numbers other than 0 and 1, and yes or no on "
                    "another device: is it the same column?",
                )


def _has_other_numbers(message: DeviceMessage, feature: int) -> bool:
    """Whether a center lies outside of 0 to 1."""
    assert message.details is not None
    assert message.details.observed is not None
    centers = message.centers[message.details.observed[:, feature] > 0, feature]
    return bool(((centers < 0) | (centers > 1)).any())


def _says_columns(message: DeviceMessage) -> bool:
    details = message.details
    if message.schema.columns is None or details is None:
        return False
    return details.squares is not None and details.observed is not None


def _ranges(message: DeviceMessage) -> dict[str, Array]:
    """Range (center plus and minus two standard deviations), mean, spread and cells of each column of numbers."""
    assert message.details is not None
    assert message.details.observed is not None
    assert message.details.squares is not None
    scale = _scale_of(message.schema)
    found = {}
    for name, feature in _numbers(message.schema):
        observed = message.details.observed[:, feature]
        known = observed > 0
        if known.any():
            cells, width = observed[known], scale.scale[feature]
            centers = message.centers[known, feature] * width + scale.shift[feature]
            within = np.sqrt(message.details.squares[known, feature] / cells) * width
            mean = float(cells @ centers / cells.sum())
            spread = float(np.sqrt(cells @ (within**2 + (centers - mean) ** 2) / cells.sum()))
            found[name] = np.array(
                [(centers - 2 * within).min(), (centers + 2 * within).max(), mean, spread, cells.sum()]
            )
    return found


def _scale_of(schema: FeatureSchema) -> CommonScale:
    """What puts centers that were sent in the units of the table."""
    if schema.scaling == "agreed":
        return agreed_scale(schema)
    return CommonScale(np.zeros(schema.n_features), np.ones(schema.n_features))


def _constant_columns(ranges: list[dict[str, Array]]) -> list[str]:
    """Columns that are the same in all rows of each device, and not the same on most devices."""
    names = dict.fromkeys(name for own in ranges for name in own)
    found = {name: np.array([own[name] for own in ranges if name in own]) for name in names}
    return [name for name, own in found.items() if _is_constant_on_each(own[:, 2], own[:, 3])]


def _is_constant_on_each(means: Array, spreads: Array) -> bool:
    rounding = ROUNDING * np.abs(means)
    n_alike = np.count_nonzero(np.abs(means - np.median(means)) <= 2 * rounding)
    return bool((spreads <= rounding).all() and 2 * n_alike <= len(means))


def _numbers(schema: FeatureSchema, kinds: tuple[str, ...] = ("number", "date")) -> Iterator[tuple[str, int]]:
    """Name and feature of each column of these kinds."""
    features = list(schema.names or ())
    for column in schema.columns or ():
        if column.kind in kinds:
            yield column.name, features.index(column.name)


def _dominant(batch: MessageBatch, center_labels: Array) -> Iterator[Notice]:
    """Name a column that outweighs all others, where centers are compared as they were sent."""
    names, n_spare = batch.schema.names, len(center_labels) - np.count_nonzero(np.bincount(center_labels))
    if batch.scale is not None or batch.n_features < (FEWEST_UNNAMED if names is None else 2):
        return
    if batch.n_devices < 2 or n_spare < FEWEST_SPARE:
        return
    some = some_rows(len(center_labels))
    found = heavy_column(batch.centers[some], center_labels[some], batch.counts[some])
    if found is not None:
        yield Notice.about_all(CODE, found.text(names))
