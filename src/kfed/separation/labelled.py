"""Points with a target clustering, spread over devices: how `kfed.separation` checks its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.separation.problem import Problem
from kfed.simulate import Devices, are_tables


@dataclass(frozen=True)
class Labelled:
    """Checked points in the order of their devices, and the target cluster of each."""

    points: Any  # (n_points, n_features), dense or CSR
    labels: Array  # (n_points,), positions in clusters
    clusters: tuple[Any, ...]  # names of the clusters, sorted
    device_ids: tuple[str, ...]
    ends: Array  # (n_devices + 1,), where the points of each device begin and end
    order: Array  # (n_points,), the position of each point in the input

    @classmethod
    def of(cls, points: Any, target_labels: Any, groups: Any = None, n_clusters: int | None = None) -> Labelled:
        """Check the input: one table, as one device or with `groups`, or a list of tables and of label arrays."""
        if are_tables(points):
            points, target_labels, groups = _stacked(points, target_labels, groups)
        table = checks.finite_table(points)
        names = label_array(target_labels, table.shape[0])
        clusters, labels = _numbered(names, n_clusters)
        devices = Devices.by_group(labels[:, None], np.zeros(len(labels), int) if groups is None else groups)
        order, ends = np.concatenate(devices.rows), np.cumsum([0, *map(len, devices.rows)])
        if (np.diff(order) != 1).any():
            table, labels = table[order], labels[order]
        return cls(table, labels, clusters, tuple(devices.ids), ends, order)

    @property
    def devices(self) -> Array:
        """Position of the device of each point in `device_ids`, (n_points,)."""
        return np.repeat(np.arange(len(self.device_ids)), np.diff(self.ends))

    def as_given(self, values: Array) -> Array:
        """Reorder values of the points to the order of the input."""
        given = np.empty_like(values)
        given[self.order] = values
        return given

    def problem(self, n_jobs: int | None = None) -> Problem:
        """The clustering problem of the network: all points."""
        return Problem(self.points, self.labels, len(self.clusters), n_jobs)

    def local_problems(self, n_jobs: int | None = None) -> Iterator[tuple[slice, Problem]]:
        """Yield the slice of points of each device and its own clustering problem, with its clusters renumbered."""
        for start, end in pairwise(self.ends.tolist()):
            own = slice(start, end)
            present, labels = np.unique(self.labels[own], return_inverse=True)
            yield own, Problem(self.points[own], labels, len(present), n_jobs)


def label_array(labels: Any, n_points: int, where: str = "") -> Array:
    """Check that there is one label for each point, (n_points,): numbers or strings, none missing."""
    array = np.asarray(labels)
    if array.shape != (n_points,):
        raise InvalidInputError(
            f"target_labels{where} must have shape ({n_points},), one label for each point; got {array.shape}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidInputError("target_labels must be finite; got NaN or infinity. Drop points without a label")
    return array


def _stacked(tables: Sequence[Any], labels: Any, groups: Any) -> tuple[Any, Array, Array]:
    """Stack a list of tables, and give the label of each row and the position of its table."""
    if groups is not None:
        raise InvalidInputError("groups must be None when points is a list of tables, one for each device")
    if not len(tables):
        raise InvalidInputError("points must have at least one table; got an empty list")
    if not isinstance(labels, (list, tuple)) or len(labels) != len(tables):
        raise InvalidInputError(f"target_labels must be a list of {len(tables)} arrays, one for each table in points")
    checked = [checks.finite_table(table, f"points of device {i}") for i, table in enumerate(tables)]
    for i, table in enumerate(checked):
        if table.shape[1] != checked[0].shape[1]:
            raise FeatureMismatchError(
                f"all tables must have the same number of columns; got {checked[0].shape[1]} in table 0 "
                f"and {table.shape[1]} in table {i}"
            )
    sizes = [table.shape[0] for table in checked]
    names = [label_array(own, size, f" of device {i}") for i, (own, size) in enumerate(zip(labels, sizes, strict=True))]
    groups = np.repeat(np.arange(len(sizes)), sizes)
    if not any(map(checks.is_sparse, checked)):
        return np.concatenate(checked), np.concatenate(names), groups
    from scipy.sparse import vstack

    return vstack(checked, format="csr"), np.concatenate(names), groups


def _numbered(names: Array, n_clusters: int | None) -> tuple[tuple[Any, ...], Array]:
    """Number the labels: the names of the clusters, sorted, and the position of each point's name among them."""
    try:
        clusters, labels = np.unique(names, return_inverse=True)
    except TypeError:
        raise InvalidInputError("target_labels must be all numbers or all strings, without missing values") from None
    if n_clusters is not None:
        expected = np.arange(checks.positive_integer(n_clusters, "n_clusters"))
        absent = np.setdiff1d(expected, clusters)
        if len(absent):
            raise InvalidInputError(
                f"every cluster from 0 to {n_clusters - 1} must have points; cluster {absent[0]} has none. "
                "Omit n_clusters to use the labels that occur"
            )
        if len(clusters) > len(expected):
            raise InvalidInputError(f"target_labels must be whole numbers from 0 to {n_clusters - 1}")
    return tuple(clusters.tolist()), labels
