"""How many clusters, where nobody said: the number that the centers show, or the best of those that are compared.

Farthest-first distances tell k where clusters are separated as the paper asks (`auto_k`). Elsewhere, and for fine
summaries, whose centers lie apart within one cluster, values of k are compared (`comparing`): the one that stands out
is taken, and if none does, the one that comes nearest to it. There is always an answer, and it says how sure it is.
"""

from __future__ import annotations

from dataclasses import replace

from kfed.errors import TooFewCentersError
from kfed.server.auto_k import choose_k
from kfed.server.comparing import compare_k
from kfed.server.k_choice import KChoice
from kfed.server.k_comparison import KComparison
from kfed.server.pooled import has_summaries
from kfed.wire import MessageBatch

COMPARED = (range(2, 13), range(2, 31))
"""The values of k that are compared; the second ones if the silhouette still rises at the end of the first."""

LEAST_TO_COMPARE = 3
"""Of fewer device centers, each is a cluster."""


def find_k(
    batch: MessageBatch, rule: str, n_jobs: int | None = None, min_devices: int | None = None
) -> tuple[KChoice, KComparison | None]:
    """Find k, and the comparison if there was one; `rule` groups the centers."""
    choice = choose_k(batch.rescaled, n_jobs, min_devices)
    if len(batch.centers) < LEAST_TO_COMPARE or (choice.is_reliable and not has_summaries(batch)):
        return choice, None
    try:
        found = _compared(batch, rule, n_jobs, min_devices)
    except TooFewCentersError:
        return choice, None
    is_clear = found.recommended is not None
    reason = f"{found.reason}; k = {found.best} {'stands out among' if is_clear else 'is the best of'} {_range(found)}"
    return replace(choice, n_clusters=found.best, is_reliable=is_clear, agreement=is_clear, reason=reason), found


def _compared(batch: MessageBatch, rule: str, n_jobs: int | None, min_devices: int | None) -> KComparison:
    by = "pooled" if rule == "pooled" else "robust"
    for values in COMPARED:
        found = compare_k(batch, values, rule=by, min_devices=min_devices, n_jobs=n_jobs)
        if not found.rises_at_the_end:
            break
    return found


def _range(found: KComparison) -> str:
    return f"{found.n_clusters[0]} to {found.n_clusters[-1]}"
