"""What a certificate promises: the truth about points that it never saw lies in its intervals, and it says what it lacks."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import gatherings, mixture_world, theorem_world

import kfed
import kfed._deviation_bounds
from kfed._conditions import Presence
from kfed._deviation_bounds import Bounds, largest_eigenvalue

# The truth, computed plainly from the points --------------------------------------------------------------------


@dataclass
class Round:
    """A whole round, and what only someone with all the points can know of it; withheld clusters are left out."""

    aggregation: kfed.Aggregation
    points: np.ndarray  # in double precision
    weights: np.ndarray
    devices: np.ndarray
    labels: np.ndarray  # global clusters

    @property
    def sizes(self):
        return np.bincount(self.labels, self.weights, minlength=self.aggregation.n_clusters)

    @property
    def means(self):
        sums = np.zeros((self.aggregation.n_clusters, self.points.shape[1]))
        np.add.at(sums, self.labels, self.points * self.weights[:, None])
        with np.errstate(invalid="ignore"):
            return sums / self.sizes[:, None]

    @property
    def norm(self):
        residuals = (self.points - self.means[self.labels]) * np.sqrt(self.weights)[:, None]
        return np.linalg.norm(residuals, 2)

    @property
    def pieces(self):
        """Size of each cluster on each device, {(device, cluster): n}."""
        found = {}
        for device, cluster, weight in zip(self.devices, self.labels, self.weights, strict=True):
            found[device, cluster] = found.get((device, cluster), 0.0) + weight
        return found

    def ratio(self, r, s):
        pieces = self.pieces
        imbalance = max(self.sizes[cluster] / n for (_, cluster), n in pieces.items())
        most = max(sum(1 for device, _ in pieces if device == z) for z, _ in pieces)
        scales = most * self.norm / np.sqrt(self.sizes[[r, s]])
        distance = np.linalg.norm(self.means[r] - self.means[s])
        return distance / (2 * np.sqrt(imbalance) * scales.sum())


def play(points, n_local_clusters, n_clusters, weights=None, rule="paper", **options):
    """Run a round and keep what was sent."""
    ids = [f"{i:03}" for i in range(len(points))]
    weights = [None] * len(points) if weights is None else weights
    locals_ = [
        kfed.cluster_device(own, k, sample_weight=w, random_state=0, device_id=name, n_jobs=1, **options)
        for own, k, w, name in zip(points, n_local_clusters, weights, ids, strict=True)
    ]
    messages = [local.to_message(name) for local, name in zip(locals_, ids, strict=True)]
    n_centers = sum(message.n_local_clusters for message in messages)
    if n_centers == 0:
        return None
    aggregation = kfed.aggregate(messages, min(n_clusters, n_centers), rule=rule)
    kept = [~local.withheld[local.labels] for local in locals_]
    return Round(
        aggregation,
        np.concatenate([own[keep] for own, keep in zip(points, kept, strict=True)]).astype(np.float64),
        np.concatenate([np.ones(len(k))[k] if w is None else w[k] for w, k in zip(weights, kept, strict=True)]),
        np.repeat(np.arange(len(points)), [np.count_nonzero(keep) for keep in kept]),
        np.concatenate(
            [
                local.induced_labels(aggregation.identity(name))[keep]
                for local, name, keep in zip(locals_, ids, kept, strict=True)
            ]
        ),
    )


def assert_contains_the_truth(played):
    certificate = played.aggregation.certificate()
    lower, upper = certificate.spectral_deviation
    assert lower <= played.norm <= upper
    for bounds in (certificate.separation_ratios, certificate.attained):
        assert (np.isnan(bounds.lower) | (bounds.lower <= bounds.upper)).all()
    k = played.aggregation.n_clusters
    for r in range(k):
        for s in range(r):
            low, high = (bound[r, s] for bound in certificate.separation_ratios)
            if played.sizes[r] == 0 or played.sizes[s] == 0:
                assert np.isnan(low)
                assert np.isnan(high)
            else:
                with np.errstate(divide="ignore", invalid="ignore"):
                    assert low <= np.nan_to_num(played.ratio(r, s), nan=0.0, posinf=np.inf) <= high


@st.composite
def rounds(draw):
    """A round on a mixture of any shape: sizes, devices, features, spread, offset, precision, weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_devices, n_true = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    n_features = draw(st.sampled_from([1, 2, 3, 8, 40]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    spread = draw(st.sampled_from([np.ones(n_features), np.geomspace(5, 0.1, n_features), np.eye(1, n_features)[0]]))
    means = draw(st.sampled_from([0.0, 1.0, 30.0])) * rng.normal(size=(n_true, n_features))
    means += draw(st.sampled_from([0.0, 1000.0]))
    points, n_local = [], []
    for _ in range(n_devices):
        own = rng.permutation(n_true)[: rng.integers(1, n_true + 1)]
        target = np.repeat(own, rng.integers(1, 30, size=len(own)))
        points.append((means[target] + spread * rng.normal(size=(len(target), n_features))).astype(dtype))
        n_local.append(len(own))
    weights = None
    if draw(st.booleans()):
        weights = [rng.choice([0.5, 1.0, 3.0], size=len(own)).astype(dtype) for own in points]
    return play(points, n_local, draw(st.integers(1, 6)), weights, draw(st.sampled_from(["paper", "robust"])))


@given(rounds())
@settings(deadline=None, max_examples=150)
def test_the_intervals_contain_the_truth(played):
    if played is not None:
        assert_contains_the_truth(played)
