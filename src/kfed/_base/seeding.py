"""Greedy k-means++ seeding (Arthur and Vassilvitskii, SODA 2007) of many small problems at once.

Points are *lifted*: x becomes (x, |x|^2, 1), so that one product with (-2c, 1, |c|^2) gives |x - c|^2 for every point
and center. A stack of lifted points has shape (n_problems, n_features + 2, n_points).
"""

from __future__ import annotations

from math import log

import numpy as np
import numpy.typing as npt

from kfed._base import random
from kfed._base.array import Array

CORESET_SIZE = 2**15
"""A problem with more points than this is seeded from a sample of this size."""

_SAMPLING = np.uint64(0x5851F42D4C957F2D)
"""Changes a key into that of the sample, whose draws are then independent of the others of the device."""


def lift(lifted: Array) -> Array:
    """Fill in |x|^2 and 1, given a stack whose other rows hold coordinates; center them first, for precision."""
    np.einsum("bdn,bdn->bn", lifted[:, :-2], lifted[:, :-2], out=lifted[:, -2])
    lifted[:, -1] = 1
    return lifted


def lifted_distances(lifted: Array, centers: Array) -> Array:
    """Squared distances of lifted points to `centers` (n_problems, m, n_features): (n_problems, m, n_points).

    Rounding may make a distance near zero slightly negative.
    """
    return np.asarray(np.matmul(query_of(centers), lifted))


def query_of(centers: Array) -> Array:
    """Centers in the form whose product with a lifted point is their squared distance: (-2c, 1, |c|^2)."""
    query = np.empty((*centers.shape[:2], centers.shape[2] + 2), centers.dtype)
    np.multiply(centers, -2, out=query[:, :, :-2])
    query[:, :, -2] = 1
    np.einsum("bmd,bmd->bm", centers, centers, out=query[:, :, -1])
    return query


def points_at(lifted: Array, indices: Array) -> Array:
    """The points at `indices` (n_problems, m), no longer lifted: (n_problems, m, n_features)."""
    return lifted[np.arange(len(lifted))[:, None], :-2, indices]


def n_draws(n_clusters: int, n_tries: int) -> int:
    """Random numbers that `greedy_seeds` uses for one problem."""
    return n_tries * (1 + (n_clusters - 1) * _n_candidates(n_clusters))


def greedy_seeds(lifted: Array, weights: Array, n_clusters: int, n_tries: int, uniforms: Array) -> Array:
    """Seeds of several tries, as indices of points (n_problems, n_tries, n_clusters).

    Each next seed is the best of a few candidates, drawn in proportion to the points' squared distances to the seeds.
    """
    problems, tries = np.arange(len(lifted))[:, None], np.arange(n_tries)
    first, rest = np.split(uniforms, [n_tries], axis=1)
    rest = rest.reshape(len(lifted), n_clusters - 1, n_tries, -1) if n_clusters > 1 else rest
    picks = np.empty((len(lifted), n_tries, n_clusters), np.intp)
    picks[:, :, 0] = draw(weights, stratified(first))
    costs = lifted_distances(lifted, points_at(lifted, picks[:, :, 0]))  # (n_problems, n_tries, n_points)
    for step in range(1, n_clusters):
        np.maximum(costs, 0, out=costs)
        candidates = draw(costs * weights[:, None], rest[:, step - 1])
        next_costs, potentials = _with_each(candidates, lifted, weights, costs)
        best = potentials.argmin(axis=2)
        picks[:, :, step], costs = candidates[problems, tries, best], next_costs[problems, tries, best]
    return picks


def draw(mass: Array, uniforms: Array) -> Array:
    """Indices drawn in proportion to `mass` (..., n_points), one for each of `uniforms` (..., m).

    Each draw descends a binary tree of sums, one level at a time for all draws of all problems.
    """
    # At a node of mass L + R the draw holds a remainder 0 <= r < L + R. It goes left if r < L, else right with
    # r - L < R, so the inequality holds at every node down to the leaf: leaf i is reached just if u * total lies in
    # [S_i, S_i + mass_i), with S_i the mass before it, which has the chance mass_i / total. Rounding can break the
    # inequality by a few eps of the total, and end at a leaf without mass; then the heaviest point is drawn.
    levels = _pairwise_sums(mass)
    remaining = uniforms * levels[-1]
    drawn = root = np.arange(levels[-1].size).reshape(levels[-1].shape)
    for level in levels[-2::-1]:
        drawn = 2 * drawn
        left = level.take(drawn)
        goes_right = remaining >= left
        remaining = remaining - left * goes_right
        drawn = drawn + goes_right
    has_mass = levels[0].take(drawn) > 0
    drawn = drawn - root * levels[0].shape[-1]
    return np.asarray(drawn if has_mass.all() else np.where(has_mass, drawn, mass.argmax(axis=-1, keepdims=True)))


def _pairwise_sums(mass: Array) -> list[Array]:
    """Levels of a tree of sums: `mass` (..., n) padded with zeros to a power of two, sums of pairs, ..., the total."""
    n_points = mass.shape[-1]
    padded = np.zeros((*mass.shape[:-1], 1 << (n_points - 1).bit_length()), mass.dtype)
    padded[..., :n_points] = mass
    levels = [padded]
    while levels[-1].shape[-1] > 1:
        levels.append(levels[-1][..., ::2] + levels[-1][..., 1::2])
    return levels


def stratified(uniforms: Array) -> Array:
    """One number in each of m equal parts of [0, 1), from m numbers in [0, 1)."""
    n_parts = uniforms.shape[-1]
    return np.asarray((np.arange(n_parts, dtype=uniforms.dtype) + uniforms) / uniforms.dtype.type(n_parts))


def coreset(
    lifted: Array, weights: Array, keys: npt.NDArray[np.uint64], size: int = CORESET_SIZE
) -> tuple[Array, Array]:
    """Points and weights to seed from: all of them, or a lightweight coreset of each large problem.

    A point is sampled half by its share of the weight and half by its share of the squared distances to the mean, so
    that small clusters far out are sampled too (Bachem, Lucic and Krause, "Scalable k-means clustering via lightweight
    coresets", KDD 2018). The random numbers of a problem come from its key.
    """
    if weights.shape[1] <= size:
        return lifted, weights
    uniforms = random.uniforms(keys ^ _SAMPLING, size)
    parts = [_coreset_of_one(*problem, size) for problem in zip(lifted, weights, uniforms, strict=True)]
    points, sample_weights = zip(*parts, strict=True)
    return np.stack(points), np.stack(sample_weights)


def _coreset_of_one(lifted: Array, weights: Array, uniforms: Array, size: int) -> tuple[Array, Array]:
    sample, sample_weights = sample_by_cost(lifted[-2], weights, size, uniforms)
    return lifted[:, sample], sample_weights.astype(weights.dtype)


def sample_by_cost(costs: Array, weights: Array, size: int, uniforms: Array) -> tuple[Array, Array]:
    """Rows of a lightweight coreset, and the weight that each stands for; see `coreset`.

    Parameters
    ----------
    costs : array of shape (n_points,)
        Squared distance of each point to the mean.
    weights : array of shape (n_points,)
    size : int
        Rows to sample; one may come twice.
    uniforms : array of shape (size,)
        Random numbers in [0, 1). One in each of `size` equal parts of the total chance is drawn by each of them, so
        the sample follows the order of the rows evenly and yet falls in step with no period of it.
    """
    mass = weights.astype(np.float64)
    cost = mass * costs
    chance = mass / mass.sum() + cost / max(cost.sum(), np.finfo(np.float64).tiny)
    cumulative = np.cumsum(chance)
    marks = stratified(uniforms) * cumulative[-1]
    rows = np.minimum(np.searchsorted(cumulative, marks, side="right"), len(mass) - 1)
    return rows, (2 / size) * mass[rows] / chance[rows]


def _n_candidates(n_clusters: int) -> int:
    return 2 + int(log(n_clusters))


def _with_each(candidates: Array, lifted: Array, weights: Array, costs: Array) -> tuple[Array, Array]:
    """Cost of every point with each candidate as the next seed, (*candidates.shape, n_points), and their sums."""
    distances = lifted_distances(lifted, points_at(lifted, candidates.reshape(len(candidates), -1)))
    by_try = distances.reshape(*candidates.shape, -1)
    np.minimum(by_try, costs[:, :, None], out=by_try)
    return by_try, np.matmul(distances, weights[:, :, None]).reshape(candidates.shape)
