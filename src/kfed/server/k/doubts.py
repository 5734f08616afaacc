"""What speaks against a number of clusters that stands out in a comparison: other ways to count say something else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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

    `counted` is what the distances and the cost of all centers say of the same messages, see `choose_k`.
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
    if counted.may_lack_a_cluster:
        yield LACKING
