"""Rows that no device center stands for: how many there are, and at which devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base.text import listed, plural, verb
from kfed.wire import DeviceMessage, MessageBatch, Notice

CODE, NO_CENTER = "rows left out", "no center"

MOST = 0.05
"""A larger share of rows that were left out is worth a warning."""

MOST_NAMED = 5


def rows_left_out(batch: MessageBatch) -> dict[str, int]:
    """How many rows of each device no center stands for, where devices said so and there are any.

    A device of which a few such rows could be told apart by it does not say how many it has.

    Examples
    --------
    >>> from kfed.wire import Column, Details, FeatureSchema
    >>> details = Details(observed=[[9.0]], squares=[[9.0]], n_left_out=6)
    >>> table = FeatureSchema.of_columns([Column("age")])
    >>> sent = DeviceMessage("north", [[50.0]], [9], schema=table, details=details)
    >>> rows_left_out(MessageBatch.of([sent]))
    {'north': 6}
    """
    messages = [] if batch.details is None else batch.details.messages
    counts = {message.device_id: n_left_out(message) for message in messages}
    return {device_id: count for device_id, count in counts.items() if count}


def n_left_out(message: DeviceMessage) -> int:
    """Rows that no center of a message stands for; 0 if it does not say."""
    return 0 if message.details is None else message.details.n_left_out or 0


def left_out_advice(batch: MessageBatch) -> Iterator[Notice]:
    """Say how many rows are in no cluster that was sent, and at which devices; and who sent no center at all."""
    counts = rows_left_out(batch)
    sent = np.bincount(batch.owners, batch.counts, minlength=batch.n_devices)
    silent = np.setdiff1d(np.arange(batch.n_devices), batch.owners)
    for device_id in [batch.device_ids[position] for position in silent[:MOST_NAMED]]:
        rows = _rows(counts.get(device_id, 0), "was", "were")
        text = f"{device_id!r} sent no center: its {rows} not used for the clusters"
        yield Notice.about([device_id], NO_CENTER, text)
    rows_of = dict(zip(batch.device_ids, sent.tolist(), strict=True))
    many = [name for name, count in counts.items() if _is_much(count, rows_of[name])]
    total = sum(counts.values())
    if many or _is_much(total, float(sent.sum())):
        many.sort(key=lambda name: -counts[name])
        said = [f"{counts[name]:,} of {counts[name] + rows_of[name]:,.0f} at {name!r}" for name in many]
        told = (
            f"{plural(total, 'row')} {verb(total, 'was', 'were')} not used for the clusters, because a group was too "
            "small to send or too few cells were filled. Such rows still get labels"
        )
        text = f"{told}. By device: {listed(said, limit=MOST_NAMED)}" if said else told
        yield Notice.about_all(CODE, text, told)


def late_left_out(message: DeviceMessage) -> Iterator[Notice]:
    """Say the same of a late device."""
    n_rows, n_sent = n_left_out(message), float(message.counts.sum())
    if not len(message.centers):
        rows = _rows(n_rows, "gets", "get")
        text = f"{message.device_id!r} sent no center: its {rows} labels, but could not be checked"
        yield Notice.about([message.device_id], NO_CENTER, text)
    elif _is_much(n_rows, n_sent):
        yield Notice.about(
            [message.device_id],
            CODE,
            f"{n_rows:,} of {n_rows + n_sent:,.0f} rows of {message.device_id!r} did not count for any center that it "
            "sent, because a group was too small to send or too few cells were filled. Such rows get labels, but could "
            "not be checked",
        )


def _is_much(n_rows: int, n_sent: float) -> bool:
    return n_rows > MOST * (n_rows + n_sent)


def _rows(n_rows: int, one: str, many: str) -> str:
    """Rows with their verb; how many, if that is known."""
    return f"{plural(n_rows, 'row')} {verb(n_rows, one, many)}" if n_rows else f"rows {many}"
