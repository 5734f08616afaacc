"""What to know of an aggregation before relying on it: the warnings that `kfed.aggregate` gives, once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base import text
from kfed._base.array import Array
from kfed.server.auto_k import KChoice
from kfed.theory import Presence
from kfed.wire import MessageBatch

FAR_OUT = 10.0
"""A device is on another scale, it seems, if its centers lie this many times as far out as those of most devices."""

MOST_SITES = 1_000
"""More devices than this were not set up by hand, each by somebody who could forget something."""


def advice(
    center_owners: Array, center_labels: Array, n_clusters: int, choice: KChoice | None, rule: str = "paper"
) -> Iterator[str]:
    """Say what about these clusters should be looked at. One device alone has nothing to agree on.

    Regions are expected to have many clusters each: the corollary is about their devices.

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
            f"({text.listed(list(map(str, lone)))}), which one stray center is enough for; "
            f"look at them{'' if rule == 'robust' else ', use the robust rule,'} or ask for fewer clusters"
        )
    presence = Presence.of(center_owners, center_labels, n_clusters=n_clusters)
    if not (rule == "regions" or presence.is_heterogeneous):
        yield (
            f"a device has {presence.max_local_clusters:,} of the {n_clusters:,} clusters, more than "
            f"sqrt(k) = {n_clusters**0.5:.3g}: devices are too alike for the paper's corollary"
        )
    if choice is not None and not choice.agreement:
        yield f"the number of clusters has no second opinion: {choice.reason}"


def off_scale(batch: MessageBatch) -> Iterator[str]:
    """Name the devices whose rows, it seems, were not put on the scale of the others.

    Examples
    --------
    >>> from kfed import DeviceMessage
    >>> sent = [DeviceMessage(name, [[0.5 * at], [at]], [9, 9]) for name, at in {"a": 1, "b": -2, "c": 170}.items()]
    >>> list(off_scale(MessageBatch.of(sent)))
    ["all centers of 'c' lie more than 10 times as far out as those of most devices: are its rows on the scale ...?"]
    """
    present, owners = np.unique(batch.owners, return_inverse=True)
    if not 3 <= len(present) <= MOST_SITES:
        return
    centers = batch.centers.astype(np.float64)
    out = np.linalg.norm(centers - np.median(centers, axis=0), axis=1)
    nearest, farthest = np.full(len(present), np.inf), np.zeros(len(present))
    np.minimum.at(nearest, owners, out)
    np.maximum.at(farthest, owners, out)
    usual = np.median(farthest)
    far = np.flatnonzero(nearest > FAR_OUT * usual)
    if usual > 0 and len(far):
        names = text.listed([repr(batch.device_ids[position]) for position in present[far]])
        yield (
            f"all centers of {names} lie more than {FAR_OUT:g} times as far out as those of most devices: are "
            f"{'its' if len(far) == 1 else 'their'} rows on the scale that all agreed on?"
        )
