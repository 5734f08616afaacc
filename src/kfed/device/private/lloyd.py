"""Private k-means on one device: noisy Lloyd steps from public centers, in two phases.

The partition is found with noise, too: each step assigns rows to centers that are public or were released, and releases
counts and sums together. What happens between two releases knows nothing of the rows, and costs nothing.

- **Scouting**: three times as many centers as clusters start at public places, spread over the ball. A center to which
  no rows came, as far as the noise can tell, goes on to split a heavy one.
- **Settling**: the scouts are merged to one center a cluster by Algorithm 1, weighed by their noisy counts. Then each
  step releases how far the rows lie from their center, cut at half the distance to the nearest other center. That is
  far less than the radius of all rows, and so is the noise. What steps say of a center that stays is averaged.

The rule for the phases and their shares of the budget is free of data: it is the constants below. They were chosen on
the data of `kfed reproduce privacy` and are not sensitive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kfed._base import geometry
from kfed._base.array import Array
from kfed.device.algorithm1 import local_kmeans
from kfed.device.private.noisy_rows import NoisyRows
from kfed.device.rows.batches import stacked
from kfed.device.settings import MAX_ITERATIONS

SCOUTS_PER_CLUSTER = 3
N_SCOUTING, N_SETTLING = 3, 3
N_STEPS = N_SCOUTING + N_SETTLING
SCOUTING_SHARE = 0.4
"""Of the square of mu; the rest is for settling."""

SCOUTS_COUNT_SHARE, COUNT_SHARE = 0.3, 0.15
"""Of the square of the mu of a step of each phase, for counts; the rest is for sums."""

FIRST_DISTANCE, SPLIT_DISTANCE, LEAST_REACH = 0.6, 0.05, 0.02
"""In radii: of the first centers from the origin, of a new center from the one that it splits, and of the least cut."""

SEEN = 3.0
"""Standard deviations of noise that a count must exceed so that its center is taken for one with rows."""

STAYED = 2.0
"""Squared distance over its expectation, by noise alone, up to which a center is taken for unmoved."""

N_MERGES = 8


@dataclass(frozen=True)
class PrivateCenters:
    """Centers that were released, with the noise in them."""

    centers: Array  # (n_clusters, n_features)
    counts: Array  # (n_clusters,), may be negative
    noise: Array  # (n_clusters, 2), standard deviation in every value of a center, and in its count

    @property
    def seen(self) -> Array:
        """Whether a center has rows, as far as the noise can tell, (n_clusters,)."""
        return np.asarray(self.counts > SEEN * self.noise[:, 1])


def private_kmeans(rows: NoisyRows, n_clusters: int, seed: int) -> PrivateCenters:
    """Spend the budget of `rows` on the centers of `n_clusters` clusters; `seed` decides public choices alone."""
    generator = np.random.default_rng(seed)
    scouts, weights = _scout(rows, n_clusters, generator)
    centers = _merged(scouts, weights, n_clusters, rows.radius, generator)
    mu = rows.mu * math.sqrt((1 - SCOUTING_SHARE) / N_SETTLING)
    known = PrivateCenters(centers, np.zeros(n_clusters), np.full((n_clusters, 2), np.inf))
    for _ in range(N_SETTLING):
        released = rows.release(known.centers, mu, COUNT_SHARE, _reach(known.centers, rows.radius))
        counts = np.maximum(released.counts, SEEN * released.count_noise)
        places = _in_ball(known.centers + released.sums / counts[:, None], rows.radius)
        noise = np.stack([released.sum_noise / counts, np.full(n_clusters, released.count_noise)], axis=1)
        known = _combined(known, PrivateCenters(places, released.counts, noise))
    return known


def _combined(old: PrivateCenters, new: PrivateCenters) -> PrivateCenters:
    """What two steps say of a center: their average by precision if it moved no farther than noise, else the new."""
    squares = ((old.centers - new.centers) ** 2).sum(axis=1) / old.centers.shape[1]
    stayed = squares <= STAYED * (old.noise[:, 0] ** 2 + new.noise[:, 0] ** 2)
    with np.errstate(divide="ignore"):
        shares = np.where(stayed[:, None], 1 / (1 + (new.noise / old.noise) ** 2), 1.0)  # of the new
    places, counts = shares.T
    noise = np.where(stayed[:, None], new.noise * np.sqrt(shares), new.noise)
    return PrivateCenters(
        old.centers + places[:, None] * (new.centers - old.centers),
        old.counts + counts * (new.counts - old.counts),
        noise,
    )


def least_points(mu: float, n_clusters: int, n_features: int) -> int:
    """Rows below which the first step can neither see a cluster nor place it within half the radius."""
    step = mu * math.sqrt(SCOUTING_SHARE / N_SCOUTING)
    to_see = SEEN / (step * math.sqrt(SCOUTS_COUNT_SHARE))
    to_place = 2 * math.sqrt(n_features) / (step * math.sqrt(1 - SCOUTS_COUNT_SHARE))
    return math.ceil(n_clusters * max(to_see, to_place))


def _scout(rows: NoisyRows, n_clusters: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Centers where rows are, of which there may be none, and how many rows."""
    mu = rows.mu * math.sqrt(SCOUTING_SHARE / N_SCOUTING)
    centers = _directions((SCOUTS_PER_CLUSTER * n_clusters, rows.n_features), generator) * FIRST_DISTANCE * rows.radius
    for _ in range(N_SCOUTING):
        released = rows.release(centers, mu, SCOUTS_COUNT_SHARE)
        seen = released.counts > SEEN * released.count_noise
        means = released.sums / np.where(seen, released.counts, 1.0)[:, None]
        found = _in_ball(means[seen], rows.radius), released.counts[seen]
        if seen.any():
            centers = _with_halves(*found, len(centers), rows.radius, generator)
    return found


def _with_halves(centers: Array, counts: Array, n_centers: int, radius: float, generator: np.random.Generator) -> Array:
    """Centers, and so many next to the heaviest of them that there are `n_centers`."""
    n_missing = n_centers - len(centers)
    heaviest = np.argsort(-counts, kind="stable")[np.arange(n_missing) % len(centers)]
    moves = _directions((n_missing, centers.shape[1]), generator) * SPLIT_DISTANCE * radius
    return np.concatenate([centers, centers[heaviest] + moves])


def _merged(scouts: Array, weights: Array, n_clusters: int, radius: float, generator: np.random.Generator) -> Array:
    """One center for each cluster: the cheapest of several runs of Algorithm 1 on the scouts."""
    if len(scouts) == 0:
        return _directions((n_clusters, scouts.shape[1]), generator) * FIRST_DISTANCE * radius
    if len(scouts) <= n_clusters:
        return _with_halves(scouts, weights, n_clusters, radius, generator)
    keys = generator.integers(2**63, size=N_MERGES, dtype=np.uint64)
    copies = stacked([scouts] * N_MERGES, [weights] * N_MERGES)
    solution = local_kmeans(copies, n_clusters, keys, MAX_ITERATIONS)
    costs = [weights @ geometry.squared_distances(scouts, own).min(axis=1) for own in solution.centers]
    return np.asarray(solution.centers[int(np.argmin(costs))])


def _reach(centers: Array, radius: float) -> Array:
    """Half the distance of each center to the nearest other one, within bounds, (n_centers,)."""
    squares = geometry.squared_distances(centers, centers)
    np.fill_diagonal(squares, np.inf)
    return np.asarray(np.clip(np.sqrt(squares.min(axis=1)) / 2, LEAST_REACH * radius, radius))


def _directions(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    vectors = generator.normal(size=shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _in_ball(centers: Array, radius: float) -> Array:
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    return np.asarray(centers * np.minimum(1.0, radius / np.maximum(lengths, radius)))
