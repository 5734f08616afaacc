"""`with_moments`: the scatter of the rows behind a message, from which a server bounds the best cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array, frozen
from kfed.device.clustering import LocalClustering
from kfed.errors import InvalidInputError

MOST_WHOLE = 256
"""With more features the whole scatter takes too many bytes: a sketch is sent, of the directions of most spread."""

EQUAL = 1e-8
"""Directions have equal spread if their sums of squares differ by no more than this share of the largest."""

N_DIRECTIONS = 192
"""How many directions a sketch has."""


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
    if _are_too_few(local):
        raise InvalidInputError("moments of so few rows would reveal them; drop moments")
    weights = checks.sample_weight(sample_weight, rows)
    sent = ~local.withheld[local.labels]
    dense = (rows[sent].toarray() if checks.is_sparse(rows) else rows[sent]).astype(np.float64)
    own = np.ones(len(dense)) if weights is None else weights[sent].astype(np.float64)
    factor = _factor(dense, own)
    if local.columns is None and dense.shape[1] > MOST_WHOLE:
        factor = factor[np.argsort(-np.square(factor).sum(axis=1), kind="stable")[:N_DIRECTIONS]]
    return replace(local, scatter=frozen(factor.astype(local.centers.dtype)))


def _are_too_few(local: LocalClustering) -> bool:
    """Whether sums of squares of what is sent are withheld, since they are over too few rows."""
    sent = ~local.withheld
    if local.columns is not None:
        return not sent.any() or bool(local.columns.withheld[sent].any())
    return not sent.any() or (local.sent is not None and bool(np.isnan(local.sent.sums_of_squares[sent]).any()))


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
