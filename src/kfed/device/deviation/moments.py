"""`with_moments`: the scatter of the rows behind a message, from which a server bounds the best cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array, frozen
from kfed._base.text import plural
from kfed.device.clustering import LocalClustering
from kfed.errors import InvalidInputError

MOST_WHOLE = 256
"""With more features the whole scatter takes too many bytes: a sketch is sent, of the directions of most spread."""

EQUAL = 1e-8
"""Directions have equal spread if their sums of squares differ by no more than this share of the largest."""

N_DIRECTIONS = 192
"""How many directions a sketch has."""


TOO_FEW = "too few rows are sent for moments (--moments), which would reveal single rows; drop moments"


class UntoldValuesError(InvalidInputError):
    """Centers of which some values are not told: the scatter of the same rows could tell them."""

    def __init__(self, untold: str, n_centers: int, is_summary: bool) -> None:
        super().__init__(
            f"moments (--moments) would reveal what is withheld: {untold}; "
            "ask for fewer local clusters, leave out the column, or drop moments"
        )
        self.n_centers, self.is_summary = n_centers, is_summary


def coarse_enough(cluster: Callable[[int], LocalClustering], n_centers: int) -> LocalClustering:
    """The result of `cluster`, called with at most `n_centers`, and with half as many until all values may be told.

    `cluster` calls `with_moments`, which refuses a clustering of which a value is withheld: with the scatter of all
    rows it could be computed. The groups of a finer summary are too small more often than those of a coarser one. A
    number of local clusters that somebody asked for stays as it is.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(30, 2))
    >>> once = lambda most: with_moments(kfed.cluster_device(points, most, random_state=0), points)
    >>> coarse_enough(once, 2).n_local_clusters
    2
    """
    while True:
        try:
            return cluster(n_centers)
        except UntoldValuesError as error:
            n_centers = min(n_centers, error.n_centers) // 2
            if n_centers == 0 or not error.is_summary:
                raise


def with_moments(local: LocalClustering, points: Any, sample_weight: Any = None) -> LocalClustering:
    """The same clustering, whose message also holds the scatter of its rows.

    It says how all rows together spread in every direction, d x d numbers at most, and no more of a single row than
    that; but that is more than centers say. Rows of clusters that are withheld have no part in it. Of more than 256
    features it is a sketch: the 192 directions in which the rows spread most.

    Parameters
    ----------
    local : LocalClustering
    points : array or sparse matrix of shape (n_points, n_features)
        The points that were clustered, in the same order and units.
    sample_weight : array of shape (n_points,), optional
        Their weights.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(30, 2))
    >>> local = kfed.cluster_device(points, 1, random_state=0)
    >>> sent = with_moments(local, points).to_message("site7")
    >>> np.allclose(sent.details.scatter.T @ sent.details.scatter, 30 * np.cov(points.T, bias=True))
    True
    """
    rows = checks.finite_table(points, "points")
    if rows.shape != (local.n_points, local.n_features):
        raise InvalidInputError(
            f"points must be the {local.n_points} points of {local.n_features} features that were clustered; "
            f"got shape {rows.shape}"
        )
    if local.private is not None:
        raise InvalidInputError(
            "moments cannot be sent with privacy: they would have no noise; drop moments or privacy"
        )
    if local.sent is not None and not np.array_equal(local.sent.counts, local.counts):
        raise InvalidInputError("moments cannot be combined with borrowed rows; use small_clusters='withhold'")
    _check_told(local)
    weights = checks.sample_weight(sample_weight, rows)
    sent = ~local.withheld[local.labels]
    dense = (rows[sent].toarray() if checks.is_sparse(rows) else rows[sent]).astype(np.float64)
    own = np.ones(len(dense)) if weights is None else weights[sent].astype(np.float64)
    if local.columns is not None and not sent.all():
        _check_sums(local, local.columns.squares[~local.withheld].sum(axis=0), dense, own, local.labels[sent])
    factor = _factor(dense, own)
    if local.columns is None and dense.shape[1] > MOST_WHOLE:
        factor = factor[np.argsort(-np.square(factor).sum(axis=1), kind="stable")[:N_DIRECTIONS]]
    return replace(local, scatter=frozen(factor.astype(local.centers.dtype)))


def _check_told(local: LocalClustering) -> None:
    """Raise unless every value of the centers that are sent is told, and every sum of squares."""
    sent, columns = ~local.withheld, local.columns
    if not sent.any() or (local.sent is not None and np.isnan(local.sent.sums_of_squares[sent]).any()):
        raise InvalidInputError(TOO_FEW)
    if columns is None:
        return
    about = (int(sent.sum()), local.is_summary)
    n_untold = int(np.count_nonzero(columns.withheld[sent].any(axis=1)))
    if n_untold:
        which = f"{n_untold:,} of {plural(about[0], 'center')}"
        raise UntoldValuesError(f"an average dominated by one cell, in {which}", *about)
    # The product of a flag that one row has with another column is that row's cell.
    if columns.centers is not None and not np.allclose(columns.centers[sent], local.centers[sent], 1e-11, 1e-11):
        raise UntoldValuesError("a category or flag that too few rows of a cluster have", *about)


def _check_sums(local: LocalClustering, told: Array, rows: Array, weights: Array, labels: Array) -> None:
    """Raise if the sums of squares that are told have a share of rows that are withheld.

    They do where too few rows are sent for a sum of their own (`squares_to_send`). The scatter is such a sum, and the
    difference of both would be one over the rows that are withheld.
    """
    exact = weights @ np.square(rows - local.centers[labels])
    if not np.allclose(told, exact, rtol=1e-3, atol=1e-9 * float(np.square(rows).max(initial=0))):
        raise InvalidInputError(TOO_FEW)


def _factor(rows: Array, weights: Array) -> Array:
    """F with F^T F the scatter of the rows about their mean.

    F is made of eigenvectors, so its rows are at right angles. It is a function of the scatter alone, and no row can be
    read from it that could not be read from the scatter.
    """
    if len(rows) == 0:
        return np.zeros((0, rows.shape[1]))
    centered = (rows - np.average(rows, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    if len(rows) < rows.shape[1]:
        squares, turns = np.linalg.eigh(centered @ centered.T)  # U of the singular value decomposition: U^T X = S V^T
        return _turned(turns.T @ centered, squares)
    squares, vectors = np.linalg.eigh(centered.T @ centered)
    return np.asarray(np.sqrt(np.maximum(squares, 0))[:, None] * vectors.T)


def _turned(factor: Array, squares: Array) -> Array:
    """The same factor, with directions of equal spread turned in a way that depends on the space that they span alone.

    Which of the many bases of such a space `eigh` has found depends on the rows: it may have found the rows themselves.
    """
    # Another basis is O F, O orthogonal. If F G = Q R with G fixed, then (O F) G = (O Q) R, and (O Q)^T (O F) = Q^T F.
    turned = factor.copy()
    edges = np.flatnonzero(np.diff(squares) > EQUAL * squares[-1]) + 1
    for alike in np.split(np.arange(len(squares)), edges):
        fixed = np.random.default_rng(0).standard_normal((factor.shape[1], len(alike)))
        q, r = np.linalg.qr(factor[alike] @ fixed)
        turned[alike] = (q * np.where(np.diag(r) < 0, -1.0, 1.0)).T @ factor[alike]
    return turned
