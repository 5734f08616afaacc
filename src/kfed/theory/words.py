"""The paper's conditions in words: which pairs of clusters are too near, and what to know of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kfed._base.array import Array
from kfed._base.text import listed
from kfed.theory.conditions import Presence, is_met_in_text_only


def pairs_too_near(attained: Array, names: Sequence[object], about: str = "") -> str:
    """Say which pairs have less than 1 of the distance that is asked of them, the worst first; nothing if none has.

    Examples
    --------
    >>> pairs_too_near(np.array([[np.nan, 0.25], [0.25, np.nan]]), ["cats", "dogs"])
    '1 of 1 pairs of clusters is nearer than the main theorem asks: cats and dogs (0.25 of it)'
    """
    firsts, seconds = np.nonzero(np.triu(attained < 1, 1))
    shares = attained[firsts, seconds]
    if len(shares) == 0:
        return ""
    n_pairs = np.count_nonzero(np.triu(~np.isnan(attained), 1))
    worst = [
        f"{names[firsts[i]]} and {names[seconds[i]]} ({about}{shares[i]:.2g} of it)"
        for i in np.argsort(shares, kind="stable")
    ]
    are = "is" if len(shares) == 1 else "are"
    return f"{len(shares):,} of {n_pairs:,} pairs of clusters {are} nearer than the main theorem asks: {listed(worst)}"


def caveats(presence: Presence, attained: Array) -> Iterator[str]:
    """Say what to know of the conditions before relying on a verdict."""
    if not presence.is_heterogeneous:
        yield "k' is more than sqrt(k): the network is not heterogeneous, and the corollary does not apply"
    n_doubtful = np.count_nonzero(np.triu(is_met_in_text_only(attained, presence), 1))
    if n_doubtful:
        yield (
            f"{n_doubtful:,} inactive pairs are far enough apart by the words of the theorem, but not by its proof, "
            "which takes no cluster to be smaller than the smallest device"
        )
