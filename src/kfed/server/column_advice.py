"""Columns that give wrong clusters in silence: one that outweighs all others, and one in another unit at one device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural
from kfed.wire import DeviceMessage, FeatureSchema, MessageBatch, Notice

DOMINANT = 0.999
"""A column that makes up this share of all squared distances between centers decides alone."""

FOREIGN = 4.0
"""Another unit, it seems, if mean or spread are so many times those of others, and the ranges do not overlap."""

FEWEST_DEVICES = 3

MOST_COMPARED = 64
"""Of more devices, each is compared with about as many: with all, time would grow with the square of their number."""


def column_advice(batch: MessageBatch) -> Iterator[Notice]:
    """Say which columns to look at, in messages as they were sent."""
    yield from _dominant(batch)
    yield from _left_out(batch)
    messages = [] if batch.details is None else list(filter(_says_columns, batch.details.messages))
    ranges = list(map(_ranges, messages))
    some = range(0, len(messages), max(1, len(messages) // MOST_COMPARED))
    for own, message in enumerate(messages if batch.n_devices >= FEWEST_DEVICES else messages[:1]):
        yield from _foreign(message, ranges[own], [ranges[other] for other in some if other != own])


def late_advice(batch: MessageBatch, message: DeviceMessage) -> list[Notice]:
    """Say which columns of a late device to look at, beside those of the devices that were aggregated."""
    return [] if batch.details is None else list(foreign_columns(message, list(batch.details.messages)))


def foreign_columns(message: DeviceMessage, others: list[DeviceMessage]) -> Iterator[Notice]:
    """Name the columns of a device that lie far from the same columns of others."""
    if _says_columns(message):
        yield from _foreign(message, _ranges(message), [_ranges(other) for other in others if _says_columns(other)])


def _foreign(message: DeviceMessage, own_ranges: dict[str, Array], ranges: list[dict[str, Array]]) -> Iterator[Notice]:
    whose = "the other devices" if len(ranges) > 1 else "the other device"
    for name, own in own_ranges.items():
        theirs = np.array([found[name] for found in ranges if name in found])
        if len(theirs) and _is_foreign(own, theirs):
            yield Notice(
                "other unit",
                f"column {name!r} of {message.device_id!r} lies far from that of {whose}: is it in the same unit?",
            )


def _says_columns(message: DeviceMessage) -> bool:
    details = message.details
    if message.schema.columns is None or details is None:
        return False
    return details.squares is not None and details.observed is not None


def _ranges(message: DeviceMessage) -> dict[str, Array]:
    """Range (center plus and minus two standard deviations), mean and spread of each column of numbers."""
    assert message.details is not None
    assert message.details.observed is not None
    assert message.details.squares is not None
    found = {}
    for name, feature in _numbers(message.schema):
        observed = message.details.observed[:, feature]
        known = observed > 0
        if known.any():
            centers, cells = message.centers[known, feature].astype(np.float64), observed[known]
            within = np.sqrt(message.details.squares[known, feature] / cells)
            mean = float(cells @ centers / cells.sum())
            spread = float(np.sqrt(cells @ (within**2 + (centers - mean) ** 2) / cells.sum()))
            found[name] = np.array([(centers - 2 * within).min(), (centers + 2 * within).max(), mean, spread])
    return found


def _numbers(schema: FeatureSchema) -> Iterator[tuple[str, int]]:
    """Name and feature of each column of numbers or dates."""
    features = list(schema.names or ())
    for column in schema.columns or ():
        if column.kind in ("number", "date"):
            yield column.name, features.index(column.name)


def _is_foreign(own: Array, theirs: Array) -> bool:
    is_apart = own[0] > theirs[:, 1].max() or own[1] < theirs[:, 0].min()
    usual = np.median(np.abs(theirs[:, 2:]), axis=0)
    ratios = np.abs(own[2:]) / np.maximum(usual, 1e-300)
    return bool(is_apart and ((ratios >= FOREIGN) | (ratios <= 1 / FOREIGN)).any())


def _dominant(batch: MessageBatch) -> Iterator[Notice]:
    """Name a column that outweighs all others, where centers are compared as they were sent."""
    names = batch.schema.names
    if names is None or len(names) < 2 or batch.scale is not None or batch.n_devices < FEWEST_DEVICES:
        return
    spreads = batch.centers.astype(np.float64).var(axis=0)
    total = float(spreads.sum())
    heaviest = int(spreads.argmax())
    if total > 0 and spreads[heaviest] >= DOMINANT * total:
        yield Notice(
            "dominant column",
            f"column {names[heaviest]!r} makes up {100 * spreads[heaviest] / total:.3g} % of all squared distances, so "
            "the others hardly count: leave the scale to the messages (no --as-is), or agree on one (--scale)",
        )


def _left_out(batch: MessageBatch) -> Iterator[Notice]:
    """Say how many rows are in no cluster that was sent, and who sent no center at all."""
    silent = np.setdiff1d(np.arange(batch.n_devices), batch.owners)
    for position in silent[:5].tolist():
        yield Notice(
            "no center", f"{batch.device_ids[position]!r} sent no center: its rows had no part in the clusters"
        )
    if batch.details is None:
        return
    counts = [message.details.n_left_out or 0 for message in batch.details.messages if message.details is not None]
    total = sum(counts)
    if total > 0.05 * (total + float(batch.counts.sum())):
        yield Notice(
            "rows left out",
            f"{plural(total, 'row')} had no part in the clusters: their groups were too small to be sent, or too few "
            "of their cells are filled; they get labels, too",
        )
