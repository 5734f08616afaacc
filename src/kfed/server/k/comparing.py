"""`compare_k`: several numbers of clusters side by side, and the one that stands out, if one does.

A number stands out if it passes two tests, both beyond the paper:

- every cluster survives other devices: its Jaccard similarity to the best match in a resampling is at least 0.8 on
  average (Hennig, "Cluster-wise assessment of cluster stability", CSDA 2007; the threshold is that of Tibshirani and
  Walther, "Cluster validation by prediction strength", JCGS 2005);
- the clusters are clearer than one cloud: their silhouette is clearly above that of a Gaussian with the same covariance
  (the null hypothesis of SigClust; Liu, Hayes, Nobel and Marron, JASA 2008).

Of several that pass, the one with the silhouette farthest above that of one cloud is taken, or a larger one that is as
stable and explains more, see `KComparison.recommended`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kfed._base import checks, pool
from kfed.errors import InvalidInputError, TooFewCentersError
from kfed.server.algorithm2 import DEFAULT, group, rule_for
from kfed.server.k.auto import choose_k
from kfed.server.k.comparison import KComparison
from kfed.server.k.doubts import doubt_about
from kfed.server.k.one_cloud import silhouette_of_one_cloud
from kfed.server.k.stability import Survival, resampled_weights, survival
from kfed.server.rules.own import OwnRule, rule_name
from kfed.server.view.quality import GroupingQuality, RowMoments
from kfed.wire import DeviceMessage, MessageBatch

N_RESAMPLINGS = 20


def compare_k(
    messages: Iterable[DeviceMessage] | MessageBatch,
    n_clusters: Iterable[int] = range(2, 13),
    *,
    rule: str | OwnRule = DEFAULT,
    min_devices: int | None = None,
    n_resamplings: int = N_RESAMPLINGS,
    seed: int = 0,
    n_jobs: int | None = None,
) -> KComparison:
    """Compare numbers of global clusters, k, by what devices sent.

    Parameters
    ----------
    messages : iterable of DeviceMessage, or MessageBatch
        As in `kfed.aggregate`.
    n_clusters : iterable of int
        The values of k to compare; those above the number of device centers are left out.
    rule : {"default", "robust", "pooled", "paper", "regions"}, the name of a custom rule, or a callable
        The rule that groups device centers, see `kfed.aggregate`. By default ``"pooled"`` for summaries of devices, and
        else ``"robust"``.
    min_devices : int, optional
        How many devices every cluster must rest on, see `kfed.aggregate`; values of k that leave too few are left out.
    n_resamplings : int
        How often devices are left out or drawn anew, to see how stable clusters are.
    seed : int
        Decides which devices these are.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Returns
    -------
    KComparison
        A row for each k, and a recommendation with its reason; `print` shows it as a table.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    >>> sent = [DeviceMessage(f"{i}", places + rng.normal(size=(3, 2)), [20] * 3, [40.0] * 3) for i in range(8)]
    >>> compare_k(sent, range(2, 7)).recommended
    3
    """
    batch = messages if isinstance(messages, MessageBatch) else MessageBatch.of(messages)
    rule = rule_for(batch, rule_name(rule), "robust")
    if not isinstance(n_clusters, Iterable):
        raise InvalidInputError(f"n_clusters must be a range or several numbers; got {n_clusters!r}")
    wanted = sorted({checks.positive_integer(k, "n_clusters") for k in n_clusters})
    if not wanted:
        raise InvalidInputError("n_clusters must hold at least one number to compare; got none")
    values = [k for k in wanted if k <= len(batch.centers)]
    if not values:
        raise TooFewCentersError(
            f"k must be at most {len(batch.centers)}, the number of device centers; got {wanted[0]}"
        )
    checks.positive_integer(n_resamplings, "n_resamplings")
    moments, on_scale = RowMoments.of(batch), batch.rescaled
    several = len(np.unique(moments.owners)) > 1
    resamplings = list(resampled_weights(moments, n_resamplings, seed)) if several else []

    def measure(k: int) -> tuple[int, GroupingQuality, float, Survival] | None:
        try:
            labels = group(on_scale, k, rule, None, n_jobs, min_devices).center_labels
        except TooFewCentersError:
            return None
        survived = survival(moments, labels, k, resamplings)
        return k, moments.quality(labels, k), silhouette_of_one_cloud(moments, k), survived

    found = [one for one in pool.map_in_order(measure, values, n_jobs) if one is not None]
    if not found:
        group(on_scale, values[0], rule, None, n_jobs, min_devices)  # raises, and says why
    possible, measured, of_one_cloud, survived = zip(*found, strict=True)
    compared = KComparison(
        n_clusters=np.array(possible),
        costs=np.array([one.cost for one in measured]),
        explained=np.array([one.explained for one in measured]),
        silhouettes=np.array([one.silhouette for one in measured]),
        silhouettes_of_one_cloud=np.array(of_one_cloud),
        calinski_harabasz=np.array([one.calinski_harabasz for one in measured]),
        agreements=np.array([own.agreements for own in survived]),
        weakest=np.array([own.weakest for own in survived]),
        n_devices=batch.n_devices,
        n_device_centers=len(batch.centers),
        rule=rule,
        share_known=moments.share_known,
        largest_share=float(np.bincount(moments.owners, moments.counts).max() / moments.counts.sum()),
        inexact=moments.inexact,
    )
    if compared.recommended is None:
        return compared
    counted = choose_k(on_scale, n_jobs, min_devices)
    return replace(compared, doubt=doubt_about(compared, counted, batch, n_jobs, min_devices))
