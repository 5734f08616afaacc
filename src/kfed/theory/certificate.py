"""`Certificate`: whether the paper's main theorem covers an aggregation, found from the messages alone.

Messages are enough to bound norm(A - C) (`kfed.theory.deviation_bounds`), and with it the separation ratio c_rs of
every pair of clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kfed._base import checks, pool, text
from kfed._base.array import Array, frozen
from kfed._base.report import Conclusion, TextTable
from kfed._base.text import plural
from kfed.theory import words
from kfed.theory.conditions import Bounds, Measured, inactive_scale, over, sums_of_pairs, verdict_of
from kfed.theory.deviation_bounds import Spreads, bound_deviation
from kfed.theory.judgement import Judgement, kinds_of_pairs
from kfed.theory.means import distances_of
from kfed.theory.presence import Presence
from kfed.wire import MessageBatch

PAIRS_HEADER = ("pairs", "number", "least c_rs", "least share of distance required", "far enough", "too near")

PRIVATE = "messages are differentially private, and their noise hides how far rows lie from their centers"
WITHHELD = "clusters that devices withheld are not covered"


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate(Judgement):
    """Whether the main theorem covers the clusters that the server found. Made by `Aggregation.certificate`.

    It judges the induced clustering, in which a point belongs to the cluster of its local center. An array of pairs
    has shape (n_clusters, n_clusters), with NaN on the diagonal and for clusters without points. `Bounds` are (lower,
    upper); the value computed from all points lies between them.

    Attributes
    ----------
    verdict : str
        "guaranteed", "not guaranteed: ..." with the reasons, or "unknown: ..." with what is missing. The conditions are
        sufficient, not necessary: a clustering that is not guaranteed may still be right.
    is_guaranteed : bool or None
        The verdict as a value; None if it is unknown.
    conditions : tuple of Condition
        Every condition that the proofs use: its name, where the paper uses it, and whether it is met.
    notes : tuple of str
        Caveats of the verdict.
    required_ratio : float
        c of the main theorem. Below 100 nothing is proved.
    spectral_deviation : Bounds of float
        norm(A - C). The upper bound is infinite if a device did not send the spread of its points.
    inactive_scale : Bounds of float
        lambda = sqrt(k') norm(A - C) / sqrt(n_min).
    separation_ratios : Bounds of array of pairs
        c_rs, the distance of two means over 2 sqrt(m0) (Delta_r + Delta_s). Infinite if the spread is zero.
    attained : Bounds of array of pairs
        The distance of two means over the distance that the proofs of the main theorem require: at least 1 is enough.
    distances : array of pairs
        Distances of the means of the clusters.
    active_pairs : array of int, shape (n_active_pairs, 2)
        Pairs of clusters that share a device, the lower number first.
    cluster_sizes : array of shape (n_clusters,)
        n_r, the points (or weight) of each cluster.
    smallest_size : float
        n_min, the points (or weight) of the smallest device or cluster, whichever has fewer.
    size_imbalance : float
        m0: every device that has points of a cluster has at least one part in m0 of them.
    max_local_clusters : int
        k', the most clusters on a device.

    Examples
    --------
    >>> import kfed
    >>> messages = [
    ...     kfed.DeviceMessage("a", [[0, 0], [5000, 0]], [50, 50], [80, 90], spectral_deviation=9.5),
    ...     kfed.DeviceMessage("b", [[5000, 1], [0, 5000]], [50, 50], [85, 80], spectral_deviation=9.3),
    ... ]
    >>> certificate = kfed.aggregate(messages, n_clusters=3).certificate()
    >>> certificate.verdict
    'guaranteed'
    >>> [round(bound, 1) for bound in certificate.spectral_deviation]
    [13.5, 14.2]
    >>> certificate.active_pairs.tolist(), certificate.size_imbalance, certificate.max_local_clusters
    ([[0, 1], [1, 2]], 2.0, 2)
    """

    verdict: str
    is_guaranteed: bool | None
    spectral_deviation: Bounds
    inactive_scale: Bounds
    separation_ratios: Bounds = field(repr=False)
    attained: Bounds = field(repr=False)

    @classmethod
    def of(
        cls, batch: MessageBatch, center_labels: Array, n_clusters: int, required_ratio: float = 100.0
    ) -> Certificate:
        """Judge the clustering that puts device center s in cluster ``center_labels[s]``."""
        required_ratio = checks.positive_number(required_ratio, "required_ratio")
        presence = Presence.of(batch.owners, center_labels, batch.counts, n_clusters=n_clusters)
        with pool.one_blas_thread():
            bounded = bound_deviation(batch, center_labels, n_clusters)
        distances = distances_of(bounded.means)
        errors = sums_of_pairs(bounded.mean_errors)
        measured = Measured(
            presence,
            Bounds(np.maximum(distances - errors, 0), distances + errors),
            bounded.deviation,
            required_ratio,
            names=range(n_clusters),
            split=_split(batch, presence),
            missing=tuple(_missing(batch, bounded.spreads)),
            about="at most ",
        )
        conditions = measured.conditions()
        verdict, is_guaranteed = verdict_of(conditions)
        if batch.details is not None and batch.details.noise.any():
            verdict, is_guaranteed = f"unknown: {PRIVATE}", None
        return cls(
            verdict=verdict,
            is_guaranteed=is_guaranteed,
            conditions=conditions,
            notes=(*words.caveats(presence), *_notes(bounded.spreads), *_withheld(batch)),
            required_ratio=required_ratio,
            spectral_deviation=bounded.deviation,
            inactive_scale=Bounds(*(inactive_scale(norm, presence) for norm in bounded.deviation)),
            separation_ratios=Bounds(*map(frozen, measured.ratios)),
            attained=Bounds(*map(frozen, measured.attained)),
            distances=frozen(np.where(np.isnan(errors), np.nan, distances)),
            active_pairs=frozen(presence.active_pairs),
            cluster_sizes=frozen(presence.cluster_sizes),
            smallest_size=presence.smallest_size,
            size_imbalance=presence.size_imbalance,
            max_local_clusters=presence.max_local_clusters,
        )

    def conclusion(self) -> Conclusion:
        """Give the verdict, and whether it is a guarantee."""
        return Conclusion(self.verdict, self.is_guaranteed)

    def facts(self) -> list[tuple[str, str]]:
        """List the numbers that are about all clusters, each with its name."""
        return list(self._facts_of_theorem(_between(*self.spectral_deviation), _between(*self.inactive_scale)))

    def pair_table(self) -> TextTable:
        """Tabulate the active and the inactive pairs of clusters, a row each."""
        kinds = kinds_of_pairs(self.attained.upper, self.active_pairs)
        return TextTable("", PAIRS_HEADER, tuple(self._pair_row(*kind) for kind in kinds))

    def ratios_to_draw(self) -> tuple[Array, Array, str]:
        """Lower bounds of c_rs, and the c_rs that the proofs require of each pair."""
        required = over(self.separation_ratios.upper, self.attained.upper)
        return self.separation_ratios.lower, required, "lower bound of the separation ratio"

    def _pair_row(self, name: str, pairs: Array) -> tuple[str, ...]:
        ratios, attained = ([bound[pairs] for bound in bounds] for bounds in (self.separation_ratios, self.attained))
        return (
            name,
            f"{np.count_nonzero(pairs):,}",
            _between(*(bound.min() for bound in ratios)),
            _between(*(bound.min() for bound in attained)),
            f"{np.count_nonzero(attained[0] >= 1):,}",
            f"{np.count_nonzero(attained[1] < 1):,}",
        )


def _between(lower: float, upper: float) -> str:
    texts = f"{lower:.3g}", f"{upper:.3g}"
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def _split(batch: MessageBatch, presence: Presence) -> str:
    """Name the devices that sent several centers of one cluster."""
    n_devices = len(batch.device_ids)
    n_pieces = np.bincount(presence.devices, minlength=n_devices)
    splitting = np.bincount(batch.owners, minlength=n_devices) > n_pieces
    if not splitting.any():
        return ""
    if batch.is_summary is not None and batch.is_summary[splitting].all():
        advice = "summaries do, but the theorem needs n_local_clusters to be set on each device"
    else:
        advice = "use a smaller n_local_clusters there"
    return f"{_named(batch, splitting)} sent several centers of one cluster; {advice}"


def _missing(batch: MessageBatch, spreads: Spreads) -> Iterator[str]:
    """Name the devices that leave norm(A - C) without an upper bound."""
    silent = spreads.is_silent & ~spreads.is_impossible
    if silent.any():
        yield f"{_named(batch, silent)} sent no spectral deviation"
    if spreads.is_impossible.any():
        yield f"{_named(batch, spreads.is_impossible)} sent an impossible spectral deviation"


def _withheld(batch: MessageBatch) -> Iterator[str]:
    """Say how many rows were withheld, where messages tell it."""
    details = [] if batch.details is None else [message.details for message in batch.details.messages]
    told = [own.n_left_out for own in details if own is not None and own.n_left_out is not None]
    are_all = len(told) == batch.n_devices
    if not any(told) and not are_all:
        yield f"{WITHHELD}: messages do not say how many points they hold"
    elif any(told):
        rows = plural(sum(told), "row")
        yield f"{WITHHELD}: they, and rows with too few filled cells, are {'' if are_all else 'at least '}{rows}"


def _notes(spreads: Spreads) -> Iterator[str]:
    if spreads.is_loose.any():
        n_loose = np.count_nonzero(spreads.is_loose)
        many = "" if n_loose == 1 else "s"
        yield f"{n_loose:,} device{many} sent sums of squares but no spectral deviation, so the upper bound is looser"


def _named(batch: MessageBatch, chosen: Array) -> str:
    names = [repr(batch.device_ids[position]) for position in np.flatnonzero(chosen)]
    return f"{len(names):,} of {len(chosen):,} devices ({text.listed(names)})"
