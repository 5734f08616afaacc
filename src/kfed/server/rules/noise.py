"""Private messages on the server: how much a noisy center weighs, and how noisy a summary of several is."""

from __future__ import annotations

import numpy as np

from kfed._base.array import Array
from kfed.wire import BatchDetails, Details, MessageBatch, Promise


def weights(batch: MessageBatch) -> Array:
    """How much each center weighs, (n_device_centers,): as much as its points, less if it is noisy.

    A center of n points with variance v in a column, and noise of variance s, has an error of v / n + s in that column.
    Its weight is inversely proportional to that: n / (1 + n s / v). If no device said its v, it is taken to be as large
    as the noise makes it seem, the median of n s.
    """
    if batch.details is None or not batch.details.noise[:, 0].any():
        return batch.counts
    scaled = batch.counts * batch.details.noise[:, 0] ** 2
    variances = batch.sums_of_squares / (batch.counts * batch.n_features)
    known = variances[variances > 0]
    return np.asarray(batch.counts / (1 + scaled / np.median(known if len(known) else scaled[scaled > 0])))


def summary_details(batch: MessageBatch, labels: Array, n_clusters: int) -> Details | None:
    """The noise in the means and counts of the centers of each label, and what holds for the rows of all devices."""
    if batch.details is None or not batch.details.noise.any():
        return None
    of_centers, of_counts = (batch.details.noise**2).T
    counts = np.bincount(labels, weights=batch.counts, minlength=n_clusters)
    in_means = np.sqrt(np.bincount(labels, weights=batch.counts**2 * of_centers, minlength=n_clusters)) / counts
    in_counts = np.sqrt(np.bincount(labels, weights=of_counts, minlength=n_clusters))
    return Details(noise=np.stack([in_means, in_counts], axis=1), promise=_weakest(batch.details))


def _weakest(details: BatchDetails) -> Promise | None:
    """The promise that all messages keep: each row is behind one of them, so it is the weakest, and not their sum."""
    promises = [None if message.details is None else message.details.promise for message in details.messages]
    made = [promise for promise in promises if promise is not None]
    if len(made) < len(promises):
        return None
    return Promise(
        max(promise.epsilon for promise in made),
        max(promise.delta for promise in made),
        max(promise.mu for promise in made),
        max(promise.radius for promise in made),
    )
