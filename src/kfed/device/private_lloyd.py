"""Private k-means on one device: noisy Lloyd steps from public centers, in two phases.

The partition is found with noise, too: each step assigns rows to centers that are public or were released, and releases
counts and sums together. What happens between two releases knows nothing of the rows, and costs nothing.

- **Scouting**: three times as many centers as clusters start at public places, spread over the ball. A center to which no
  rows came, as far as the noise can tell, goes on to split a heavy one.
- **Settling**: the scouts are merged to one center a cluster by Algorithm 1, weighed by their noisy counts. Then each step
  releases how far the rows lie from their center, cut at half the distance to the nearest other center. That is far less
  than the radius of all rows, and so is the noise.

The rule for the phases and their shares of the budget is free of data: it is the constants below. They were chosen on
the data of `kfed reproduce privacy` and are not sensitive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kfed._base import geometry, random
from kfed._base.array import Array
from kfed.device.algorithm1 import local_kmeans
from kfed.device.batches import rows_of_one
from kfed.device.noisy_rows import NoisyRows
from kfed.device.settings import MAX_ITERATIONS

SCOUTS_PER_CLUSTER = 3
N_SCOUTING, N_SETTLING = 3, 3
SCOUTING_SHARE = 0.4
"""Of the square of mu."""

SCOUTS_COUNT_SHARE, COUNT_SHARE = 0.3, 0.15
FIRST_DISTANCE = 0.6
"""Distance of the first centers from the middle of the ball, and ..."""

SPLIT_DISTANCE = 0.05
"""... of the halves of a center that is split, in radii."""

LEAST_RADIUS = 0.02
SEEN = 3.0
"""Standard deviations of noise that a count must exceed, so that the center counts as one with rows."""

N_STEPS = N_SCOUTING + N_SETTLING


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
    centers = _merged(scouts, weights, n_clusters, generator, rows.radius)
    mu = rows.mu * math.sqrt((1 - SCOUTING_SHARE) / N_SETTLING)
    for _ in range(N_SETTLING):
        radii = _reach(centers, rows.radius)
        released = rows.release(centers, mu, COUNT_SHARE, radii)
        counts = np.maximum(released.counts, SEEN * released.count_noise)
        centers = _in_ball(centers + released.sums / counts[:, None], rows.radius)
    noise = np.stack([released.sum_noise / counts, np.full(n_clusters, released.count_noise)], axis=1)
    return PrivateCenters(centers, released.counts, noise)


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


def _merged(scouts: Array, weights: Array, n_clusters: int, generator: np.random.Generator, radius: float) -> Array:
    """One center for each cluster."""
    if len(scouts) == 0:
        return _directions((n_clusters, scouts.shape[1]), generator) * FIRST_DISTANCE * radius
    if len(scouts) <= n_clusters:
        return _with_halves(scouts, weights, n_clusters, radius, generator)
    keys = random.device_keys(int(generator.integers(2**63)), [""])
    return np.asarray(
        local_kmeans(rows_of_one(scouts, weights, n_clusters), n_clusters, keys, MAX_ITERATIONS).centers[0]
    )


def _reach(centers: Array, radius: float) -> Array:
    """Half the distance of each center to the nearest other one, within bounds, (n_centers,)."""
    squares = geometry.squared_distances(centers, centers)
    np.fill_diagonal(squares, np.inf)
    return np.clip(np.sqrt(squares.min(axis=1)) / 2, LEAST_RADIUS * radius, radius)


def _directions(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    vectors = generator.normal(size=shape)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _in_ball(centers: Array, radius: float) -> Array:
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    return np.asarray(centers * np.minimum(1.0, radius / np.maximum(lengths, radius)))
