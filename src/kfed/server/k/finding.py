"""How many clusters, where nobody said: the number that the centers show, or the best of those that are compared.

Farthest-first distances tell k where clusters are separated as the paper asks (`auto`). Elsewhere, and for fine
summaries, whose centers lie apart within one cluster, values of k are compared (`comparing`): the one that stands out
is taken, and if none does, the one that comes nearest to it. There is always an answer, and it says how sure it is: a
few groups of many clusters stand out, too, so that the distances and the cost must name the same number.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kfed.errors import TooFewCentersError
from kfed.server.algorithm2 import has_summaries
from kfed.server.k.auto import choose_k
from kfed.server.k.choice import KChoice
from kfed.server.k.comparing import compare_k
from kfed.server.k.comparison import KComparison
from kfed.server.k.doubts import doubt_about
from kfed.server.k.standards import rises_at_the_end
from kfed.server.k.words import ComparisonWords
from kfed.wire import MessageBatch

COMPARED, MORE = range(2, 13), range(13, 31)
"""The values of k that are compared; more of them if the silhouette still rises at the end."""

BELOW, ABOVE, MOST_NAMED = 5, 3, 64
"""So many values below and above the number that distances and cost name are compared, too, unless it is larger than
this. Of few rows the cost names too large a number rather than too small a one."""

LEAST_TO_COMPARE = 3
"""Of fewer device centers, each is a cluster."""


def find_k(batch: MessageBatch, rule: str, n_jobs: int | None = None, min_devices: int | None = None) -> KChoice:
    """Find k; `rule` groups the centers."""
    choice = choose_k(batch.rescaled, n_jobs, min_devices)
    is_settled = choice.is_reliable or choice.may_lack_a_cluster  # comparing cannot tell what was set aside
    if len(batch.centers) < LEAST_TO_COMPARE or (is_settled and not has_summaries(batch)):
        return choice
    try:
        found = _compared(batch, choice, rule, n_jobs, min_devices)
    except TooFewCentersError:
        return choice
    agreement, words = found.best == choice.n_clusters, ComparisonWords(found)
    return replace(
        choice,
        n_clusters=found.best,
        is_reliable=found.is_sure,
        agreement=agreement,
        reason="; ".join(filter(None, [words.doubt, found.reason, words.taken_by])),
        comparison=found,
    )


def compare_usual(
    batch: MessageBatch, rule: str, n_jobs: int | None = None, min_devices: int | None = None, *, also: int = 2
) -> KComparison:
    """Compare what `find_k` would compare, whether k is clear without that or not, and `also` this number.

    As many clusters as there are centers are left out: each center would be one.
    """
    counted = choose_k(batch.rescaled, n_jobs, min_devices)
    return _compared(batch, counted, rule, n_jobs, min_devices, also, len(batch.centers) - 1)


def _compared(
    batch: MessageBatch,
    counted: KChoice,
    rule: str,
    n_jobs: int | None,
    min_devices: int | None,
    also: int = 2,
    most: int | None = None,
) -> KComparison:
    """Compare small numbers of clusters, and those around the number that distances and cost name."""
    by = "pooled" if rule == "pooled" else "robust"
    named = counted.n_clusters
    around = range(max(2, named - BELOW), named + ABOVE + 1) if named <= MOST_NAMED else ()
    values = {k for k in (*COMPARED, *around, also) if most is None or k <= most}
    more = {k for k in MORE if most is None or k <= most} - values
    found = compare_k(batch, values, rule=by, min_devices=min_devices, n_jobs=n_jobs)
    if more and rises_at_the_end(found):
        with suppress(TooFewCentersError):  # for any more
            found = _together(found, compare_k(batch, more, rule=by, min_devices=min_devices, n_jobs=n_jobs))
    return replace(found, doubt=doubt_about(found, counted, batch, n_jobs, min_devices))


def _together(first: KComparison, second: KComparison) -> KComparison:
    """Two comparisons of the same messages as one; what is found of a k does not depend on the others."""
    order = np.argsort(np.concatenate([first.n_clusters, second.n_clusters]))
    by_k = [field.name for field in fields(first) if isinstance(getattr(first, field.name), np.ndarray)]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])[order] for name in by_k
    }
    return replace(first, **columns)
