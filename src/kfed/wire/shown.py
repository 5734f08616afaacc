"""A message in a few lines and a table, for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kfed._base import text
from kfed._base.dates import date_of
from kfed._base.report import Block, Paragraph, TextTable

if TYPE_CHECKING:
    from kfed.wire.message import DeviceMessage

MOST_CENTERS, MOST_FEATURES = 20, 10

NOT_TOLD = "not told"
"""What stands for an average that the message does not have."""


def message_blocks(message: DeviceMessage) -> Iterator[Block]:
    """What a message says of each center: rows, spread and the first features, dates as such."""
    names = list(message.feature_names or [f"feature {position}" for position in range(message.n_features)])
    yield Paragraph(
        f"{message.device_id!r}: {text.plural(message.n_local_clusters, 'center')} of "
        f"{text.plural(message.n_features, 'feature')}, which speak for {message.n_points:,} rows"
    )
    squares = message.sums_of_squares
    spreads = None if squares is None else np.sqrt(squares / message.counts)
    are_dates = [column.kind == "date" for column in message.schema.columns or () for _ in column.features]
    are_dates = are_dates or [False] * message.n_features
    rows = tuple(
        (
            f"{message.counts[i]:,}",
            "" if spreads is None else f"{spreads[i]:.3g}",
            *map(_value, message.known_centers[i, :MOST_FEATURES].tolist(), are_dates),
        )
        for i in range(min(message.n_local_clusters, MOST_CENTERS))
    )
    if rows:
        yield TextTable("", ("rows", "spread", *names[:MOST_FEATURES]), rows, n_words=0)
    if np.isnan(message.known_centers[:MOST_CENTERS, :MOST_FEATURES]).any():
        yield Paragraph(f"{NOT_TOLD}: too few rows behind a center have a value there, or none has", is_aside=True)


def _value(value: float, is_date: bool) -> str:
    if np.isnan(value):
        return NOT_TOLD
    return (date_of(value) if is_date else None) or f"{value:.4g}"
