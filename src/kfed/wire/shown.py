"""A message in a few lines and a table, for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kfed._base import text
from kfed._base.report import Block, Paragraph, TextTable

if TYPE_CHECKING:
    from kfed.wire.message import DeviceMessage

MOST_CENTERS, MOST_FEATURES = 20, 10


def message_blocks(message: DeviceMessage) -> Iterator[Block]:
    """What a message says of each center: rows, spread and the first features."""
    names = list(message.feature_names or [f"feature {position}" for position in range(message.n_features)])
    yield Paragraph(
        f"{message.device_id!r}: {text.plural(message.n_local_clusters, 'center')} of "
        f"{text.plural(message.n_features, 'feature')}, which speak for {message.n_points:,} rows"
    )
    squares = message.sums_of_squares
    spreads = None if squares is None else np.sqrt(squares / message.counts)
    rows = tuple(
        (
            f"{message.counts[i]:,}",
            "" if spreads is None else f"{spreads[i]:.3g}",
            *(f"{value:.4g}" for value in message.centers[i, :MOST_FEATURES]),
        )
        for i in range(min(message.n_local_clusters, MOST_CENTERS))
    )
    if rows:
        yield TextTable("", ("rows", "spread", *names[:MOST_FEATURES]), rows, n_words=0)
