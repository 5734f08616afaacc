"""An aggregation in a few lines and a table, for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kfed._base import text
from kfed._base.report import Block, Notes, Paragraph, TextTable

if TYPE_CHECKING:
    from kfed.server.aggregation import Aggregation

MOST_CLUSTERS = 50


def aggregation_blocks(aggregation: Aggregation) -> Iterator[Block]:
    """Size, devices and what sets it apart, for each cluster."""
    profile, batch = aggregation.profile(), aggregation.messages
    yield Paragraph(
        f"{text.plural(len(batch.centers), 'center')} of {text.plural(batch.n_devices, 'device')} in "
        f"{text.plural(aggregation.n_clusters, 'cluster')} (rule: {aggregation.rule})"
    )
    shown = range(min(aggregation.n_clusters, MOST_CLUSTERS))
    n_devices = np.count_nonzero(profile.rows_on_devices, axis=0)
    rows = tuple(
        (str(r), profile.in_words(r), f"{profile.sizes[r]:,.0f}", f"{profile.shares[r]:.1%}", f"{n_devices[r]:,}")
        for r in shown
    )
    yield TextTable("", ("cluster", "what sets it apart", "rows", "share", "devices"), rows, n_words=2)
    left_out = aggregation.n_clusters - len(shown)
    if left_out:
        yield Paragraph(
            f"{text.plural(left_out, 'further cluster is', 'further clusters are')} not shown", is_aside=True
        )
    if aggregation.notices:
        yield Notes(tuple(notice.text for notice in aggregation.notices), "warning")
