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
    from kfed.wire.schema import FeatureSchema

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
    are_dates = dates_of(message.schema)
    rows = tuple(
        (
            f"{message.counts[i]:,}",
            "" if spreads is None else f"{spreads[i]:.3g}",
            *map(shown_value, message.known_centers[i, :MOST_FEATURES].tolist(), are_dates),
        )
        for i in range(min(message.n_local_clusters, MOST_CENTERS))
    )
    if rows:
        yield TextTable("", ("rows", "spread", *names[:MOST_FEATURES]), rows, n_words=0)
    if np.isnan(message.known_centers[:MOST_CENTERS, :MOST_FEATURES]).any():
        yield Paragraph(f"{NOT_TOLD}: too few rows behind a center have a value there, or none has", is_aside=True)


def dates_of(schema: FeatureSchema) -> list[bool]:
    """Whether each feature is a date."""
    found = [column.kind == "date" for column in schema.columns or () for _ in column.features]
    return found or [False] * schema.n_features


def shown_value(value: float, is_date: bool) -> str:
    """A value of a center: a date as one, and words if nothing is told of it."""
    if np.isnan(value):
        return NOT_TOLD
    return (date_of(value) if is_date else None) or f"{value:.4g}"
