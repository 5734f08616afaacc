"""Sums of squares as they are sent: those of small clusters of a device are shared out among them.

A center of a few whole numbers and the exact sum of their squares often give the numbers. So a sum that is sent is one
over at least `POOLED` times as many rows as a cluster must have. The sum over a device stays what it is, which is all
that the certificate uses, and every small cluster gets the variance of all of them. The many small clusters of a
summary share with those of the most similar variance, so that one that is made of rows from several places can still
be told from the others.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kfed._base.array import Array

POOLED = 3
"""A sum of squares is one over at least this many times `min_cluster_size` rows."""


def sent_sums(spread: Array, n_rows: Array, is_sent: Array, min_cluster_size: int, is_summary: bool = False) -> Array:
    """Sums of squares to send, (n_devices, n_clusters); NaN on a device with too few rows to send any.

    Parameters
    ----------
    spread : array of shape (n_devices, n_clusters)
        The sums of squares.
    n_rows : array of shape (n_devices, n_clusters)
        Rows of each cluster.
    is_sent : array of bool, shape (n_devices, n_clusters)
    min_cluster_size : int
    is_summary : bool
        Whether clusters share with those of similar variance, and not with all.

    Examples
    --------
    >>> sent_sums(np.array([[2.0, 10.0, 90.0]]), np.array([[5, 9, 40]]), np.array([[True, True, True]]), 4)
    array([[ 4.,  8., 90.]])
    """
    least = POOLED * min_cluster_size
    sent = spread.copy()
    if min_cluster_size == 1:
        return sent
    for device in np.flatnonzero((is_sent & (n_rows < least)).any(axis=1)):
        clusters = np.flatnonzero(is_sent[device])
        by_size = clusters[np.argsort(n_rows[device, clusters], kind="stable")]
        sizes = n_rows[device, by_size]
        n_pooled = max(int(np.count_nonzero(sizes < least)), int(np.searchsorted(np.cumsum(sizes), least)) + 1)
        if n_pooled > len(by_size):
            sent[device] = np.nan
            continue
        small = by_size[:n_pooled]
        for pooled in _alike(spread[device], n_rows[device], small, least) if is_summary else [small]:
            freedom = np.maximum(n_rows[device, pooled] - 1, 1)
            sent[device, pooled] = spread[device, pooled].sum() * freedom / freedom.sum()
    return sent


def _alike(spread: Array, n_rows: Array, clusters: Array, least: int) -> list[Array]:
    """The clusters, ordered by their variance, in runs of at least `least` rows."""
    ordered = clusters[np.argsort(spread[clusters] / np.maximum(n_rows[clusters], 1), kind="stable")]
    edges, n_open = [0], 0
    for position, cluster in enumerate(ordered):
        n_open += int(n_rows[cluster])
        if n_open >= least:
            edges.append(position + 1)
            n_open = 0
    edges[-1] = len(ordered)  # what is left over joins the last run
    return [ordered[first:last] for first, last in pairwise(edges)]
