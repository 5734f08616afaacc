"""What to know of an aggregation before relying on it: the warnings that `kfed.aggregate` gives, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _words
from kfed._auto_k import KChoice
from kfed._conditions import Presence

Array = npt.NDArray[Any]


def advice(
    center_owners: Array, center_labels: Array, n_clusters: int, choice: KChoice | None, *, of_regions: bool = False
) -> Iterator[str]:
    """Say what about these clusters should be looked at. One device alone has nothing to agree on.

    Regions are expected to have many clusters each: the corollary speaks of their devices.

    Examples
    --------
    >>> list(advice(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2, None))
    ["a device has 2 of the 2 clusters, more than sqrt(k) = 1.41: devices are too alike for the paper's corollary"]
    """
    if np.ptp(center_owners) == 0:
        return
    lone = np.flatnonzero(np.bincount(center_labels, minlength=n_clusters) == 1)
    if len(lone):
        rest = "cluster rests" if len(lone) == 1 else "clusters rest"
        yield (
            f"{len(lone):,} of {n_clusters:,} {rest} on a single device center "
            f"({_words.listed(list(map(str, lone)))}), which one stray center is enough for; "
            "look at them, ask for fewer clusters, or use rule='robust'"
        )
    presence = Presence.of(center_owners, center_labels, n_clusters=n_clusters)
    if not (of_regions or presence.is_heterogeneous):
        yield (
            f"a device has {presence.max_local_clusters:,} of the {n_clusters:,} clusters, more than "
            f"sqrt(k) = {n_clusters**0.5:.3g}: devices are too alike for the paper's corollary"
        )
    if choice is not None and not choice.agreement:
        yield f"the number of clusters has no second opinion: {choice.reason}"
