"""How far the cost can be from the best possible: a lower bound on the cost of every clustering, from the scatter.

The means of k clusters span at most k - 1 directions about the mean of all rows, so no clustering into k can explain
more than the k - 1 largest eigenvalues of the scatter (Ding and He, "K-means clustering via principal component
analysis", ICML 2004, Theorem 3.3; Zha and others, NIPS 2001). What is left is a cost that nobody can avoid.

The bound is weak where clusters explain little or where d is small: with d < k it is zero.

Of many features, devices send a sketch: the directions in which their rows spread most, T_z, of a scatter S_z = T_z +
R_z. By Ky Fan, the k - 1 largest eigenvalues of the sum of all S_z are together at most those of the sum of all T_z,
plus, for each device, k - 1 times the largest eigenvalue of R_z, and no more than its trace. The former is at most the
least eigenvalue in T_z, and the latter follows from the sums of squares: nothing else has to be sent.

Centers that were rounded, by off in all (the root of the sum over all rows), move the root of a cost by at most that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from kfed._base.array import Array
from kfed._base.notebook import InNotebook
from kfed._base.report import Block, Conclusion, TextTable
from kfed.errors import InvalidInputError
from kfed.server.view.quality import RowMoments
from kfed.theory import scatter_factors
from kfed.wire import MessageBatch


@dataclass(frozen=True)
class Optimality(InNotebook):
    """The cost of clusters, and a bound that no clustering into as many clusters can be below.

    Attributes
    ----------
    cost : float
        k-means cost, where every row keeps its local cluster; at most so much, if centers were rounded.
    lower_bound : float
        No clustering of these rows into as many clusters costs less.
    n_silent : int
        Devices that sent no scatter; of their rows, only the centers count for the bound.
    """

    cost: float
    lower_bound: float
    n_silent: int

    @property
    def ratio(self) -> float:
        """The cost is at most this many times the best possible; infinite if nothing is known."""
        if self.cost <= 0:
            return 1.0
        return max(1.0, self.cost / self.lower_bound) if self.lower_bound > 0 else float("inf")

    def conclusion(self) -> Conclusion:
        """The same in words."""
        if np.isinf(self.ratio):
            return Conclusion("how far from the best possible cost is not known: too few features to tell", None)
        return Conclusion(f"the cost is at most {_rounded_up(self.ratio)} times the best possible one", None)

    def _shown(self) -> Iterable[Block]:
        yield self.conclusion()
        rows = [("cost", f"{self.cost:,.6g}"), ("no clustering costs less than", f"{self.lower_bound:,.6g}")]
        silent = [("devices without scatter", f"{self.n_silent:,}")] if self.n_silent else []
        yield TextTable("", ("", ""), tuple(rows + silent))


def _rounded_up(ratio: float) -> str:
    """Three digits of a number that is 1 at least, and none that is smaller.

    Examples
    --------
    >>> _rounded_up(1.0), _rounded_up(1.2301), _rounded_up(99.95)
    ('1', '1.24', '100')
    """
    step = 10.0 ** (math.floor(math.log10(ratio)) - 2)
    return f"{math.ceil(ratio / step - 1e-9) * step:.3g}"


def optimality(batch: MessageBatch, labels: Array, n_clusters: int) -> Optimality:
    """Bound how far the grouping that puts device center s in cluster ``labels[s]`` is from the best."""
    whole, sketches = scatter_factors(batch), scatter_factors(batch, "sketch")
    scatters = [own if own is not None else sketch for own, sketch in zip(whole, sketches, strict=True)]
    n_silent = sum(scatter is None for scatter in scatters)
    if n_silent == len(scatters):
        raise InvalidInputError(
            "no device sent its scatter; make messages with `kfed device --moments` (Python: kfed.device.with_moments)"
        )
    # Of devices without scatter, bound and cost are those of rows whose missing cells are filled by their center's.
    moments = replace(RowMoments.of(batch), cells=None)
    if moments.share_known < 1:
        raise InvalidInputError("the cost needs the sums of squares of all devices; some devices sent none")
    values = _eigenvalues(_factors(moments, scatters), batch.n_features)
    rest = [_rest(moments, device, own, n_clusters) for device, own in enumerate(sketches) if own is not None]
    rounding = float(np.finfo(np.float32).eps if _is_single(scatters) else np.finfo(np.float64).eps)
    slack = 8 * rounding * len(values) * moments.total
    least = max(0.0, float(values[n_clusters - 1 :].sum()) + sum(rest) - slack)
    cost, off = moments.quality(labels, n_clusters).cost, _coarseness(batch)
    return Optimality((np.sqrt(cost) + off) ** 2 if off else cost, max(0.0, np.sqrt(least) - off) ** 2, n_silent)


def _rest(moments: RowMoments, device: int, sketch: Array, n_clusters: int) -> float:
    """How much of what a sketch leaves out no clustering explains."""
    mine = moments.owners == device
    counts, centers = moments.counts[mine], moments.centers[mine]
    about = np.square(centers - np.average(centers, axis=0, weights=counts)).sum(axis=1)
    kept = np.square(sketch, dtype=np.float64).sum(axis=1)
    trace = max(0.0, float(moments.squares[mine].sum() + counts @ about - kept.sum()))
    return trace - min(trace, (n_clusters - 1) * float(kept.min(initial=np.inf)))


def _coarseness(batch: MessageBatch) -> float:
    """Root of the sum of squares by which rounding may have moved the rows of all devices with their centers."""
    details = batch.rescaled.details
    if details is None or details.rounding is None:
        return 0.0
    return float(np.sqrt(batch.counts @ np.square(details.rounding).sum(axis=1)))


def _is_single(scatters: list[Array | None]) -> bool:
    return any(own is not None and own.dtype == np.float32 for own in scatters)


def _factors(moments: RowMoments, scatters: list[Array | None]) -> list[Array]:
    """Matrices F whose F^T F add up to at most the scatter of all rows, and to all of it if all devices sent theirs.

    The scatter about the mean of all is that of each device about its own mean, plus that of these means. A device
    that sent none is taken to have all rows of a cluster at its center, which only lowers the scatter.
    """
    parts, means, rows = [], [], []
    for device, own in enumerate(scatters):
        mine = moments.owners == device
        if mine.any():
            counts, centers = moments.counts[mine], moments.centers[mine]
            mean = np.average(centers, axis=0, weights=counts)
            parts.append((centers - mean) * np.sqrt(counts)[:, None] if own is None else own)
            means.append(mean)
            rows.append(counts.sum())
    weights, places = np.array(rows), np.array(means)
    between = (places - np.average(places, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    return [*parts, between]


def _eigenvalues(factors: list[Array], n_features: int) -> Array:
    """Eigenvalues of the sum of all F^T F, the largest first."""
    if sum(map(len, factors)) < n_features:
        return np.linalg.svd(np.concatenate(factors).astype(np.float64), compute_uv=False) ** 2
    scatter = np.zeros((n_features, n_features))
    for factor in factors:
        wide = factor.astype(np.float64)
        scatter += wide.T @ wide
    return np.asarray(np.maximum(np.linalg.eigvalsh(scatter)[::-1], 0))
