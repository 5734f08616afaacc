"""An attack on private messages: can anyone tell whether one row was there, better than the promise allows?

The attacker knows every other row, the row in question, and all that was released on the way to the message: strictly
more than the message. It knows how far the row moves each release, learns on half of the runs how much each number
tells, and guesses on the other half. From the rates of right and wrong guesses follows a lower confidence bound on mu,
and on epsilon (Nasr et al., "Tight auditing of differentially private machine learning", USENIX Security 2023).
"""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from kfed import Privacy
from kfed._base.accounting import epsilon_of
from kfed.device.private import lloyd as private_lloyd
from kfed.device.private import noisy_rows
from kfed.device.private.discrete_gaussian import discrete_gaussian
from kfed.device.private.lloyd import private_kmeans
from kfed.device.private.noisy_rows import NoisyRows

RADIUS, DELTA = 1.0, 1e-6
CONFIDENCE = 0.9999


def rows_without(n_features):
    """Two tight groups; the row in question lies far from both, at the clip or beyond."""
    place = np.zeros(n_features)
    place[0] = 0.5
    spread = 0.02 * np.random.default_rng(0).normal(size=(60, n_features))
    return np.concatenate([spread[:30] + place, spread[30:] - place])


def row_in_question(n_features, distance):
    row = np.zeros(n_features)
    row[-1] = distance
    return row


def one_release(rows, seed):
    """The whole budget in one step from public centers."""
    centers = np.random.default_rng(seed).normal(size=(4, rows.n_features)) / 2
    return rows.release(centers, rows.mu, 0.3)


def whole_mechanism(rows, seed):
    return private_kmeans(rows, 2, seed)


def lower_bound_of_epsilon(mechanism, privacy, n_features, n_runs, distance=RADIUS):
    """What the attack proves of epsilon, from `n_runs` runs, half of them with the row and half without it."""
    without, row = rows_without(n_features), row_in_question(n_features, distance)
    clues = [
        np.array([observe(mechanism, rows, without, row, privacy, seed) for seed in range(n_runs // 2)])
        for rows in (without, np.vstack([without, row]))
    ]
    n_guesses = n_runs // 4
    is_there = learned_rule(*(own[n_guesses:] for own in clues))
    wrong, right = (int(np.count_nonzero(is_there(own[:n_guesses]))) for own in clues)
    most_wrong = 1.0 if wrong == n_guesses else beta.ppf(CONFIDENCE, wrong + 1, n_guesses - wrong)
    least_right = 0.0 if right == 0 else beta.ppf(1 - CONFIDENCE, right, n_guesses - right + 1)
    mu = ndtri(least_right) - ndtri(most_wrong)
    return epsilon_of(mu, privacy.delta) if mu > 0 else 0.0


def observe(mechanism, rows, without, row, privacy, seed):
    """Run the mechanism, and say for each release how far it lies from that without the row, towards that with it."""
    clues = []

    class Tapped(NoisyRows):
        def release(self, centers, mu, count_share, radii=None):
            released = super().release(centers, mu, count_share, radii)
            counts, sums = exact(without, centers, radii)
            extra_counts, extra_sums = exact(row[None], centers, radii)
            clues.append((released.counts - counts) @ extra_counts)
            clues.append(((released.sums - sums) * extra_sums).sum())
            clues.append((released.sums - sums).sum(axis=0) @ row)
            return released

    found = mechanism(Tapped(rows, RADIUS, privacy.mu), seed % 3)
    return np.array([*clues, found.counts.min(), found.counts.max()])


def exact(points, centers, radii):
    """Counts and sums that a release would give without noise."""
    points = points * np.minimum(1, RADIUS / np.linalg.norm(points, axis=1))[:, None]
    labels = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    vectors = points - (0 if radii is None else centers[labels])
    bounds = RADIUS if radii is None else radii[labels]
    vectors = vectors * np.minimum(1, bounds / np.maximum(np.linalg.norm(vectors, axis=1), 1e-12))[:, None]
    counts, sums = np.zeros(len(centers)), np.zeros(centers.shape)
    np.add.at(counts, labels, 1)
    np.add.at(sums, labels, vectors)
    return counts, sums


def learned_rule(without, with_row):
    """A rule that says of clues whether the row was there; numbers that tell more weigh more."""
    means = without.mean(axis=0), with_row.mean(axis=0)
    variances = (without.var(axis=0) + with_row.var(axis=0)) / 2 + 1e-12
    weights = (means[1] - means[0]) / variances
    return lambda clues: (clues - (means[0] + means[1]) / 2) @ weights > 0


# Faults ---------------------------------------------------------------------------------------------------------------


def half_the_noise(patch):
    patch.setattr(noisy_rows, "discrete_gaussian", lambda shape: discrete_gaussian(shape) // 2)


def exact_counts(patch):
    def without_noise_in_counts(shape):
        noise = discrete_gaussian(shape)
        noise[:, -1] = 0
        return noise

    patch.setattr(noisy_rows, "discrete_gaussian", without_noise_in_counts)


def no_clip(patch):
    patch.setattr(noisy_rows, "_shortened", lambda vectors, bounds: vectors)


def partition_without_noise(patch):
    """Noise in the sums of clusters, but the clusters are those that k-means finds in the rows."""
    release = NoisyRows.release

    def with_exact_partition(rows, centers, mu, count_share, radii=None):
        points = rows._rows * rows._step
        exact_centers = points[[0, int(((points - points[0]) ** 2).sum(axis=1).argmax())]]
        for _ in range(5):
            labels = ((points[:, None] - exact_centers) ** 2).sum(axis=2).argmin(axis=1)
            exact_centers = np.array([points[labels == own].mean(axis=0) for own in range(2)])
        filled = np.concatenate([exact_centers, np.full((len(centers) - 2, centers.shape[1]), 9.0)])
        return release(rows, filled, mu, count_share, radii)

    patch.setattr(NoisyRows, "release", with_exact_partition)


FAULTS = [half_the_noise, exact_counts, no_clip, partition_without_noise]


def audited(mechanism, fault, epsilon, n_features, n_runs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_lloyd, "N_MERGES", 1)  # merging is public; once is faster
        if fault is not None:
            fault(patch)
        privacy = Privacy(epsilon=epsilon, delta=DELTA, radius=RADIUS)
        distance = 100 * RADIUS if fault is no_clip else RADIUS
        return lower_bound_of_epsilon(mechanism, privacy, n_features, n_runs, distance)


def test_the_attack_proves_no_more_than_the_promise():
    assert audited(one_release, None, epsilon=8.0, n_features=2, n_runs=400) <= 8.0


@pytest.mark.parametrize("fault", FAULTS)
def test_the_attack_catches_planted_faults(fault):
    assert audited(one_release, fault, epsilon=8.0, n_features=2, n_runs=800 if fault is half_the_noise else 240) > 8.0


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [2, 8])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_ten_thousand_runs_prove_no_more_than_the_promise(epsilon, n_features):
    proven = audited(whole_mechanism, None, epsilon, n_features, n_runs=10_000)
    assert proven <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_whole_mechanism_with_a_fault_is_caught(fault):
    assert audited(whole_mechanism, fault, epsilon=4.0, n_features=8, n_runs=4_000) > 4.0
