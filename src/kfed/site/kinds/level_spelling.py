"""`levels_that_differ`: levels that summaries of sites write in different ways, said before anyone agrees on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kfed.server import level_differences
from kfed.site.summary import TableSummary
from kfed.wire import Notice


def levels_that_differ(summaries: Mapping[str, TableSummary]) -> list[Notice]:
    """Name columns whose levels differ in spelling alone between sites, or are not shared at all."""
    by_column: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for site, summary in summaries.items():
        for column in (one.column for one in summary.columns):
            if column.levels:
                by_column[column.name][site] = frozenset(column.levels)
    return list(level_differences(by_column))
