"""The paper's conditions in words: which pairs of clusters are too near, and the caveats of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kfed._base.array import Array
from kfed._base.text import listed
from kfed.theory.conditions import Presence, is_met_in_text_only


def pairs_too_near(attained: Array, names: Sequence[object], about: str = "") -> str:
    """Name the pairs with less than the required distance, the worst first; empty if there are none.

    Examples
    --------
    >>> pairs_too_near(np.array([[np.nan, 0.25], [0.25, np.nan]]), ["cats", "dogs"])
    '1 of 1 pairs of clusters is nearer than the main theorem requires: cats and dogs (0.25 of the distance)'
    """
    firsts, seconds = np.nonzero(np.triu(attained < 1, 1))
    shares = attained[firsts, seconds]
    if len(shares) == 0:
        return ""
    n_pairs = np.count_nonzero(np.triu(~np.isnan(attained), 1))
    worst = [
        f"{names[firsts[i]]} and {names[seconds[i]]} ({about}{shares[i]:.2g} of the distance)"
        for i in np.argsort(shares, kind="stable")
    ]
    are = "is" if len(shares) == 1 else "are"
    return (
        f"{len(shares):,} of {n_pairs:,} pairs of clusters {are} nearer than the main theorem requires: {listed(worst)}"
    )


def caveats(presence: Presence, attained: Array) -> Iterator[str]:
    """Yield caveats of a verdict."""
    if not presence.is_heterogeneous:
        yield "k' is larger than sqrt(k): the network is not heterogeneous, and the corollary does not apply"
    n_doubtful = np.count_nonzero(np.triu(is_met_in_text_only(attained, presence), 1))
    if n_doubtful:
        yield (
            f"{n_doubtful:,} inactive {'pair is' if n_doubtful == 1 else 'pairs are'} far enough apart for the "
            "statement of the theorem, but not for its proof, which assumes that no cluster is smaller "
            "than the smallest device"
        )
