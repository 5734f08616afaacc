"""The paper's conditions in words: which pairs of clusters are too near, and the caveats of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kfed._base.array import Array
from kfed._base.text import listed
from kfed.theory.presence import Presence


def pairs_too_near(attained: Array, names: Sequence[object], about: str = "") -> str:
    """Name the pairs with less than the required distance, the worst first; empty if there are none.

    Examples
    --------
    >>> pairs_too_near(np.array([[np.nan, 0.25], [0.25, np.nan]]), ["cats", "dogs"])
    '1 of 1 pairs of clusters is nearer than the main theorem requires: cats and dogs (0.25 of the required distance)'
    """
    return _named("pairs of clusters", "nearer than the main theorem requires", attained, names, about)


def pairs_too_near_on_server(attained: Array, names: Sequence[object], about: str, smallest_size: float) -> str:
    """Name the pairs that share a device and are far enough apart for it, but not for the server; empty if none.

    Examples
    --------
    >>> pairs_too_near_on_server(np.array([[np.nan, 0.25], [0.25, np.nan]]), ["cats", "dogs"], "at most ", 3)
    '1 of 1 pairs of clusters that share a device is far enough apart for it, but not for the server, with a device \
or cluster as small as 3 points: cats and dogs (at most 0.25 of the required distance)'
    """
    points = f"{number(smallest_size)} point{'s' * (smallest_size != 1)}"
    trouble = f"far enough apart for it, but not for the server, with a device or cluster as small as {points}"
    return _named("pairs of clusters that share a device", trouble, attained, names, about)


def _named(what: str, trouble: str, attained: Array, names: Sequence[object], about: str) -> str:
    firsts, seconds = np.nonzero(np.triu(attained < 1, 1))
    shares = attained[firsts, seconds]
    if len(shares) == 0:
        return ""
    n_pairs = np.count_nonzero(np.triu(~np.isnan(attained), 1))
    worst = [
        f"{names[firsts[i]]} and {names[seconds[i]]} ({about}{shares[i]:.2g} of the required distance)"
        for i in np.argsort(shares, kind="stable")
    ]
    are = "is" if len(shares) == 1 else "are"
    return f"{len(shares):,} of {n_pairs:,} {what} {are} {trouble}: {listed(worst)}"


def number(size: float) -> str:
    """Write a number of points, which may be a weight.

    Examples
    --------
    >>> number(2000000.0), number(0.5)
    ('2,000,000', '0.5')
    """
    return f"{size:,.0f}" if size == round(size) else f"{size:,.6g}"


def caveats(presence: Presence) -> Iterator[str]:
    """Yield caveats of a verdict."""
    if not presence.is_heterogeneous:
        yield "k' is larger than sqrt(k): the network is not heterogeneous, and the corollary does not apply"
