"""`refine_file`: the second message of a site, from the rows that it clustered and the clusters that came back."""

from __future__ import annotations

import os
from dataclasses import replace

from kfed.device import refine_device
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.site.kept import LocalFile
from kfed.site.owners import owners_of
from kfed.site.table import MIN_TABLE_CLUSTER_SIZE
from kfed.wire import Identity, clusters_fingerprint


def refine_file(
    kept: LocalFile,
    path: str | os.PathLike[str],
    clusters: Aggregation | Identity,
    *,
    scale: str | os.PathLike[str] | None = None,
    bits: int | None = None,
) -> tuple[LocalFile, LocalFile]:
    """Count the rows of a site by global cluster.

    Parameters
    ----------
    kept : LocalFile
        What the site kept when it sent its message.
    path : path
        The table that it clustered.
    clusters : Aggregation or Identity
        What came back.
    scale : path, optional
        The scale that rows were clustered on, if they were.
    bits : {4, 8, 16}, optional
        Send centers rounded to so many bits a number; by default as in the first message.

    Returns
    -------
    kept : LocalFile
        The file to keep in place of the one before; it remembers that a second message was made, and of what.
    second : LocalFile
        Its `to_message` is the second message, and it labels the rows when the refined clusters are there.
    """
    fingerprint = clusters_fingerprint(clusters.cluster_centers)
    if kept.refined not in (None, fingerprint):
        raise InvalidInputError(
            f"{kept.device_id!r} has already made a second message about other clusters; the difference of two could "
            "reveal single rows. Start again with `kfed device`"
        )
    answer = clusters.answer(kept.to_message()) if isinstance(clusters, Aggregation) else clusters
    rows = kept.read_rows(path, scale)
    floor = MIN_TABLE_CLUSTER_SIZE if kept.min_cluster_size is None else kept.min_cluster_size
    clustering = refine_device(
        kept.clustering,
        answer,
        rows.values if kept.clustering.columns is not None else rows,
        sample_weight=rows.weights,
        ids=owners_of(rows),
        min_cluster_size=floor,
    )
    return replace(kept, refined=fingerprint), replace(
        kept, clustering=clustering, refined=fingerprint, bits=bits or kept.bits
    )
