"""What to know of an aggregation before relying on it: the warnings that `kfed.aggregate` gives, once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base import geometry, text
from kfed._base.array import Array
from kfed.server.center_spread import CenterSpread
from kfed.server.k.choice import KChoice
from kfed.theory import Presence
from kfed.wire import MessageBatch, Notice

MIXED_UP = 0.4
"""Standard deviation of the points about local centers, over the gap between neighbouring global centers, from which
local clusters seem to mix several. On six public sets it was at most 0.35 where the cost was within half of pooled
k-means', and at least 0.78 on devices that are alike with k^(z) = sqrt(k), where the cost was 5 to 38 times as high."""


def advice(
    center_owners: Array,
    center_labels: Array,
    n_clusters: int,
    choice: KChoice | None,
    rule: str = "paper",
    rounds: int = 1,
) -> Iterator[Notice]:
    """Say what to look at in these clusters; nothing if there is one device only.

    Regions are expected to have many clusters each: the corollary is about their devices. A second message has one
    center for each cluster, of however many rows, so that a single center says nothing then.

    Examples
    --------
    >>> [found] = advice(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2, None)
    >>> found.code, found.text
    ('alike', "a device has 2 of the 2 clusters, more than sqrt(k) = 1.41: devices are too alike for the paper's ...")
    """
    if np.ptp(center_owners) == 0:
        return
    sizes = np.bincount(center_labels, minlength=n_clusters)
    n_empty = int(np.count_nonzero(sizes == 0))
    if n_empty:
        yield Notice.about_all(
            "empty clusters",
            f"{n_empty:,} of {n_clusters:,} clusters {'is' if n_empty == 1 else 'are'} empty, since there are fewer "
            "distinct device centers than clusters: ask for fewer clusters",
        )
    lone = np.flatnonzero(sizes == 1)
    if len(lone) and rounds == 1:
        rest, which = ("clusters rests", "cluster") if len(lone) == 1 else ("clusters each rest", "clusters")
        yield Notice.about_all(
            "single center",
            f"{len(lone):,} of {n_clusters:,} {rest} on a single device center "
            f"({which} {text.listed(list(map(str, lone)))}); a single outlier can cause that: check "
            f"for one{'' if rule in ('robust', 'pooled') else ', use the robust rule,'} or ask for fewer clusters",
        )
    presence = Presence.of(center_owners, center_labels, n_clusters=n_clusters)
    if not (rule in ("regions", "pooled") or presence.is_heterogeneous):
        yield Notice.about_all(
            "alike",
            f"a device has {presence.max_local_clusters:,} of the {n_clusters:,} clusters, more than "
            f"sqrt(k) = {n_clusters**0.5:.3g}: devices are too alike for the paper's corollary, so it gives no "
            "guarantee; the clusters may still be right",
        )
    if choice is not None and not choice.is_reliable:
        yield Notice.about_all("unsure k", str(choice), choice.told)
    elif choice is not None and not choice.agreement:
        told = "the number of clusters could not be cross-checked"
        yield Notice.about_all("unsure k", f"{told}: {choice.reason}", told)


def mixed_up(batch: MessageBatch, cluster_centers: Array) -> Iterator[Notice]:
    """Say that local clusters seem to mix several global ones.

    Examples
    --------
    >>> from kfed import DeviceMessage
    >>> sent = [DeviceMessage(name, [[0.0], [10.0]], [50, 50], [1250.0, 1250.0]) for name in "ab"]
    >>> next(mixed_up(MessageBatch.of(sent), np.array([[0.0], [10.0]]))).text[:95]
    'local clusters seem to mix several clusters (spread of points / gap between clusters is 0.51; e'
    """
    spread = CenterSpread.of(batch)
    if not spread.is_known or len(cluster_centers) < 2:
        return
    squares = geometry.squared_distances(cluster_centers, cluster_centers)
    np.fill_diagonal(squares, np.inf)
    gap = float(np.median(np.sqrt(squares.min(axis=1))))
    if gap == 0:  # clusters in one place are empty ones, which `advice` names
        return
    with np.errstate(over="ignore", invalid="ignore"):  # of sums of squares beyond reason, which warn of nothing
        deviation = _mean_deviation(batch, spread)
    if deviation > MIXED_UP * gap:
        yield Notice.about_all(
            "mixtures",
            "local clusters seem to mix several clusters (spread of points / gap between clusters is "
            f"{deviation / max(gap, 1e-300):.2g}; expected at most {MIXED_UP:g}); {_remedy(batch)}",
        )


def _remedy(batch: MessageBatch) -> str:
    """What helps against mixtures. No rule does: on devices that are alike, none undoes what local clusters merged."""
    if batch.is_summary is not None and batch.is_summary.all():
        return "devices have too few rows to tell so many clusters apart: ask for fewer clusters"
    return "let devices look for more local clusters, or leave out their number, so that they send summaries"


def _mean_deviation(batch: MessageBatch, spread: CenterSpread) -> float:
    """Average over devices of the standard deviation about local centers along the widest direction.

    The norm of n rows of noise is about sqrt(n) times that, plus the root of the total variance; see
    `directional_deviation`. A device that did not measure its norm counts by its variance per feature.
    """
    n_points = np.bincount(batch.owners, weights=batch.counts, minlength=len(batch.device_ids))
    has_points = n_points > 0
    totals = np.bincount(batch.owners, weights=batch.counts * spread.variances, minlength=len(batch.device_ids))
    n_points, totals = n_points[has_points], totals[has_points]
    variances = totals / n_points
    along = (batch.spectral_deviations[has_points] - np.sqrt(variances)) / np.sqrt(n_points)
    deviations = np.fmax(along, np.sqrt(variances / batch.n_features))
    return float(np.average(deviations, weights=n_points))
