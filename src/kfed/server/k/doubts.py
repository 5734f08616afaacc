"""What speaks against a number of clusters that stands out in a comparison: other ways to count say something else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base.array import Array
from kfed.server.algorithm2 import group
from kfed.server.k.auto import LACKING
from kfed.server.k.choice import KChoice
from kfed.server.k.comparison import KComparison
from kfed.server.k.standards import comes_back
from kfed.wire import MessageBatch


def doubt_about(
    found: KComparison, counted: KChoice, batch: MessageBatch, n_jobs: int | None, min_devices: int | None
) -> str:
    """The doubts about the number that stands out, beside its stability; empty if there are none, or if none does.

    `counted` is what the distances and the cost of all centers say of the same messages, see `choose_k`. Where devices
    sent clusters that they looked for, what it doubts stays in doubt: if they looked for too few, each of theirs is a
    mixture of several, and these mixtures are as stable, and as clear, as clusters are.
    """
    return "; ".join(_doubts(found, counted, batch, n_jobs, min_devices))


def _doubts(
    found: KComparison, counted: KChoice, batch: MessageBatch, n_jobs: int | None, min_devices: int | None
) -> Iterator[str]:
    if found.recommended is None:
        return
    if found.best != counted.n_clusters:
        yield f"the gaps between centers suggest {counted.n_clusters:,}"
    elif comes_back(found.best, found):
        labels = group(batch.rescaled, found.best, found.rule, None, n_jobs, min_devices).center_labels
        if np.bincount(labels).min() == 1:
            yield "a cluster is a single center, which comes back wherever its device is drawn"
    if batch.is_summary is None:
        if not counted.is_reliable:
            yield counted.reason
        return
    if counted.may_lack_a_cluster:
        yield LACKING
    if found.best <= _most_looked_for(batch, batch.is_summary):
        yield "a device looked for as many clusters itself, or more, so that each of its clusters may be several in one"


def _most_looked_for(batch: MessageBatch, is_summary: Array) -> int:
    """The most centers of a device that sent the clusters it looked for, or 0 if all sent summaries."""
    n_centers = np.bincount(batch.owners, minlength=len(batch.device_ids))
    return int(n_centers[~is_summary].max(initial=0))
