"""Clusters of a number that somebody asked for: noted beside the number that was found."""

from __future__ import annotations

from dataclasses import replace

from kfed._base.text import plural
from kfed.coordinator.core.clusters import MAX_NOTICES, Clusters
from kfed.wire import Notice


def as_asked(clusters: Clusters, n_clusters: int, previous: Clusters | None) -> Clusters:
    """These clusters with the number that was asked for, and a notice if another was found before."""
    before = None if previous is None else _found(previous)
    asked = replace(clusters, how_many=replace(clusters.how_many, asked=n_clusters, found_before=before))
    if before is None or before[0] == n_clusters:
        return asked
    were = f"{plural(n_clusters, 'cluster')} {'was' if n_clusters == 1 else 'were'}"
    doubt = Notice.about_all("unsure k", f"{were} asked for, but {before[1]}")
    return replace(asked, notices=(*clusters.notices[: MAX_NOTICES - 1], doubt))


def _found(previous: Clusters) -> tuple[int, str] | None:
    how = previous.how_many
    return how.found_before if how.k_choice is None else (previous.n_clusters, how.found)
