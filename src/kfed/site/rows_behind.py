"""The rows behind a clustering: their scatter in the units of the centers, and to read them again if they are there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.device import SAME_MEAN, LocalClustering, are_rows_of_table, own_scale, with_moments
from kfed.errors import InvalidInputError, KFedError
from kfed.site.read import is_table_name, table_stem
from kfed.site.table import Table
from kfed.wire import Notice

if TYPE_CHECKING:
    from kfed.site.kept import LocalFile


def with_table_moments(clustering: LocalClustering, table: Table) -> LocalClustering:
    """The same clustering, whose message also holds the scatter of the rows; see `kfed.device.with_moments`."""
    if table.schema is None:
        return with_moments(clustering, table, table.weights)
    if np.isnan(table.values).any():
        raise InvalidInputError(
            "--moments needs a table without missing cells, also with --missing drop; fill the cells, remove those "
            "rows, or leave --moments out"
        )
    is_agreed = table.schema.scaling == "agreed"
    values = own_scale(table.values, table.schema).apply(table.values) if is_agreed else table.values
    return with_moments(clustering, values, table.weights)


def tables_beside(local: Path) -> list[Path]:
    """The tables beside a local file that have its name: of north.local, north.csv and north.csv.gz.

    A longer name, such as north.labels.csv, is that of another table, or of labels.
    """
    near = (path for path in sorted(local.parent.iterdir()) if is_table_name(path))
    return [path for path in near if local.stem in (path.stem, table_stem(path))]


def clustered_rows(
    kept: LocalFile, table: str | os.PathLike[str], scale: str | os.PathLike[str] | None = None
) -> Array:
    """Read the rows that were clustered from their table; raise if they have changed."""
    again = kept.read_rows(table, scale)
    check_same_rows(kept.clustering, again.values, again.weights, kept.device_id)
    return again.values


def rows_if_there(kept: LocalFile, tables: Sequence[Path], scale: Path | None) -> tuple[Array | None, list[Notice]]:
    """Read the rows behind a summary from the first of these tables that holds them; a notice if none does.

    Where a number of clusters was asked for, rows are labelled by cluster, and no table is read.
    """
    if not kept.clustering.is_summary:
        return None, []
    refusals = []
    for table in tables:
        try:
            return clustered_rows(kept, table, scale), []
        except (KFedError, OSError) as error:
            refusals.append(f"{table} was not used to label each row: {error}. ")
    why = "".join(refusals) or f"no table lies beside the local file of {kept.device_id!r} under the same name. "
    return None, [Notice("by group", f"{why}{_by_group(kept)}")]


def _by_group(kept: LocalFile) -> str:
    are = "Rows are labelled by group, so some may get another label than by their own cells"
    if kept.clustering.withheld.all():
        are = "Rows are labelled by group, and this site sent no center: one label for all of them is likely wrong"
    return f"{are}; to label each row, use `kfed label --refine TABLE` with the table that was clustered"


def check_same_rows(found: LocalClustering, rows: Array, weights: Array | None, device_id: str) -> None:
    """Raise unless these are the rows that were clustered, in the same order: their means must be the centers.

    Centers with noise, of a private clustering, cannot tell.
    """
    if len(rows) != found.n_points:
        raise InvalidInputError(
            f"the rows must be the {found.n_points:,} clustered rows of {device_id!r}; got {len(rows):,}"
        )
    are_same = _are_rows_of_array if found.columns is None else are_rows_of_table
    if found.private is None and not are_same(found, rows, weights):
        raise InvalidInputError(
            f"the rows must be the clustered rows of {device_id!r}, in the same order and on the same scale; the means "
            "of these rows are not its centers"
        )


def _are_rows_of_array(found: LocalClustering, rows: Array, weights: Array | None) -> bool:
    if rows.shape[1] != found.n_features:
        return False
    sizes = np.bincount(found.labels, weights, minlength=found.n_local_clusters)
    means = means_by_label(rows, found.labels, found.centers, weights)
    spread = np.sqrt(found.sums_of_squares / np.maximum(sizes, 1e-300)) + np.linalg.norm(found.centers, axis=1)
    is_far = np.linalg.norm(means - found.centers, axis=1) > SAME_MEAN * spread
    return not (is_far & (sizes > 0)).any()
