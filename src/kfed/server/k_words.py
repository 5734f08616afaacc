"""What is said of numbers of clusters, in the same words on a terminal, a page, a picture and in a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kfed._base import text
from kfed._base.array import Array

if TYPE_CHECKING:
    from kfed.server.k_comparison import KComparison


def finding(n_clusters: int, *, stands_out: bool, is_reliable: bool) -> str:
    """How sure a number of clusters is, in the same words wherever it is said.

    Examples
    --------
    >>> finding(15, stands_out=True, is_reliable=True), finding(15, stands_out=True, is_reliable=False)
    ('15 clusters', '15 clusters stand out, but are not certain')
    >>> finding(2, stands_out=False, is_reliable=False)
    'no number of clusters stands out (2 at best)'
    """
    clusters = text.plural(n_clusters, "cluster")
    if is_reliable:
        return clusters
    if stands_out:  # two at least: one cluster has no silhouette
        return f"{clusters} stand out, but are not certain"
    return f"no number of clusters stands out ({n_clusters:,} at best)"


def ranges(values: Array) -> str:
    """Runs of numbers, as words.

    Examples
    --------
    >>> ranges(np.array([2, 3, 4, 17, 18])), ranges(np.array([2]))
    ('2 to 4 and 17 to 18', '2')
    """
    runs = np.split(values, np.flatnonzero(np.diff(values) > 1) + 1)
    return " and ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def mean_and_range(agreements: Array) -> tuple[float, float, float]:
    """The mean of those that are known, and the interval that holds nine in ten of them."""
    known = agreements[np.isfinite(agreements)]
    if len(known) == 0:
        return (float("nan"),) * 3
    low, high = np.quantile(known, [0.05, 0.95])
    return float(known.mean()), float(low), float(high)


def table_rows(found: KComparison) -> Iterator[tuple[str, ...]]:
    """A row of cells for each k; the one that stands out has a star."""
    for at, k in enumerate(found.n_clusters.tolist()):
        mean, low, high = found.stability[at]
        yield (
            f"{k} *" if k == found.recommended else str(k),
            _short(found.costs[at]),
            f"{found.explained[at]:.1%}",
            f"{found.silhouettes[at]:.3f}",
            f"{found.silhouettes_of_one_cloud[at]:.3f}",
            _short(found.calinski_harabasz[at]),
            "" if np.isnan(mean) else f"{mean:.2f} ({low:.2f}-{high:.2f})",
            "" if np.isnan(found.weakest[at]) else f"{found.weakest[at]:.2f}",
        )


def _short(value: float) -> str:
    """A number in at most eight characters."""
    return f"{value:,.0f}" if 1_000 <= value < 1e6 else f"{value:.4g}"
