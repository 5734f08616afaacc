"""Whether the clusters that messages seem to show are clusters: not parts of one, and not several in one.

Two groups of device centers may be the halves of one cluster that every device cut in two. They are not if they lie
farther apart than halves do, or if devices have one of them without the other: who has points of a cluster has points
of both its halves. And one group may be several clusters that every device mixed up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed.server.center_spread import CenterSpread
from kfed.server.rules.support import n_senders
from kfed.wire import MessageBatch

APART = 4.0
"""Standard deviations between two clusters. Halves of one Gaussian lie 2.7 apart, halves of one uniform 3.5."""

APART_SEEN_ALONE = 2.5
"""The same, if devices have each of the two without the other. Two ways to cut one cluster overlap: they lie nearer."""

LEAST_ALONE = 2
"""Devices that must have a cluster without a near one."""

ROUND = 1.05
"""One cluster alone is told from clusters that devices mixed up by its shape: wider than this along no direction."""

LEAST_VOTES = 20
"""Devices whose sums of squares are compared to tell one cluster from many."""

LEAST_SCATTER, MOST_SCATTER = 0.75, 2.0
"""How much the variances that devices measure scatter, over what those of one Gaussian do. Of a uniform it is 0.4."""

JOINED = 0.25
"""The share of devices that may have two local clusters in one global cluster, though these lie apart."""

MAX_NEIGHBOURS = 8


def doubt_about_one(batch: MessageBatch, spread: CenterSpread, deviation: float) -> str | None:
    """Say why coinciding centers may be those of many clusters that every device mixed up, or None.

    The sum of squares of n points of a Gaussian in d round dimensions is a chi-squared variable: its variance is 2 / (n
    - 1) d of its squared mean. That of points from many clusters is smaller, since these fill a region evenly.
    """
    centers = batch.centers.astype(np.float64)
    if np.linalg.norm(centers - centers[:1], axis=1).max() <= spread.rounding:
        return None
    variance = float(np.median(spread.variances))
    if deviation > ROUND * np.sqrt(variance / batch.n_features):
        return "all centers coincide, but points are stretched in one direction, which suggests several clusters"
    freedom = batch.n_features * (batch.counts - 1)
    is_said = ~np.isnan(batch.sums_of_squares) & (freedom > 0)
    if is_said.sum() < LEAST_VOTES:
        return f"all centers coincide; with fewer than {LEAST_VOTES} of them, one cluster cannot be told from many"
    variances, freedom = spread.variances[is_said], freedom[is_said]
    relative = variances / np.average(variances, weights=freedom) - 1
    scatter = float((relative**2 * freedom).sum() / 2 / (len(relative) - 1))
    if not LEAST_SCATTER <= scatter <= MOST_SCATTER:
        return (
            f"all centers coincide, but the spreads of devices vary {scatter:.2f} times as much as in one Gaussian "
            "cluster, which suggests several clusters"
        )
    return None


class CenterGroups:
    """Device centers in groups: a proposal for the clusters.

    Parameters
    ----------
    means : array of shape (n_clusters, n_features)
    labels, owners : arrays of shape (n_device_centers,)
        The group and the device of each center.
    is_pure : array of bool, shape (n_devices,)
        The devices of which no center was set aside: what they lack, they do not have.
    """

    def __init__(self, means: Array, labels: Array, owners: Array, is_pure: Array) -> None:
        self.means, self.labels, self.owners, self.is_pure = means, labels, owners, is_pure

    def lie_apart(self, deviation: float, may_be_near: bool) -> bool:
        """Whether every two groups lie farther apart than parts of one cluster of this standard deviation.

        Where they `may_be_near`, it is enough that devices have each without the other.
        """
        first, second = np.triu_indices(len(self.means), 1)
        squares = geometry.squared_distances(self.means, self.means)[first, second] / max(deviation**2, 1e-300)
        if squares.min(initial=np.inf) >= APART**2:
            return True
        near = squares < APART**2
        return (
            may_be_near
            and bool(squares.min() >= APART_SEEN_ALONE**2)
            and all(self._are_seen_alone(r, s) for r, s in zip(first[near], second[near], strict=True))
        )

    def _are_seen_alone(self, one: int, other: int) -> bool:
        """Whether half of the devices that have either group, and at least two, do not have the other."""
        with_one, with_other = (self._devices(group) for group in (one, other))
        n_both = len(np.intersect1d(with_one, with_other, assume_unique=True))
        return all(len(some) - n_both >= max(LEAST_ALONE, len(some) / 2) for some in (with_one, with_other))

    def _devices(self, group: int) -> Array:
        owners = np.unique(self.owners[self.labels == group])
        return np.asarray(owners[self.is_pure[owners]])

    def share_joined(self, centers: Array, variances: Array) -> float:
        """Share of devices with two neighbouring centers in one group that lie apart by the smaller spread."""
        keys = self.owners.astype(np.int64) * len(self.means) + self.labels
        order = np.argsort(keys, kind="stable")
        nearest = np.full(len(keys), np.inf)
        for step in range(1, MAX_NEIGHBOURS):
            here = np.flatnonzero(keys[order[:-step]] == keys[order[step:]])
            if len(here) == 0:
                break
            one, other = order[here], order[here + step]
            squares = ((centers[one].astype(np.float64) - centers[other]) ** 2).sum(axis=1)
            with np.errstate(over="ignore"):  # infinite, where neither spreads
                ratios = squares / np.maximum(np.minimum(variances[one], variances[other]), 1e-300)
            np.minimum.at(nearest, one, ratios)
            np.minimum.at(nearest, other, ratios)
        is_joined = (nearest >= APART**2) & np.isfinite(nearest)
        return n_senders(self.owners[is_joined]) / max(1, n_senders(self.owners))


def doubts_about_groups(
    groups: CenterGroups, centers: Array, variances: Array, deviation: float, may_be_near: bool
) -> Iterator[str]:
    """Reasons why the groups may be parts of clusters, or several clusters each."""
    if not groups.lie_apart(deviation, may_be_near):
        yield f"some clusters would lie nearer than {APART:g} standard deviations, as parts of one cluster do"
    if groups.share_joined(centers, variances) > JOINED:
        yield "on many devices, two well-separated local clusters were put into one cluster"
