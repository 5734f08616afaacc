"""The steps of finding k, and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import calinski_harabasz_score

import kfed
from k_worlds import assert_same_choice, changed, with_outliers
from kfed.server import farthest_first
from kfed.server.center_spread import CenterSpread, chance_factor, directional_deviation
from kfed.server.k import cost_curve, trust
from kfed.server.k.cost_curve import calinski_harabasz
from kfed.wire import MessageBatch
from worlds import few_examples, gatherings, mixture_world, rotation

# Laws -----------------------------------------------------------------------------------------------------------


@given(data=st.data(), gathering=gatherings())
def test_any_messages_get_a_choice_that_does_not_depend_on_their_order(data, gathering):
    sent, _ = gathering
    choice = kfed.choose_n_clusters(sent)
    assert 1 <= choice.n_clusters <= max(1, sum(message.n_local_clusters for message in sent))
    assert np.isfinite(choice.distances).all()
    assert np.isfinite(choice.ratios).all()
    assert len(choice.ratios) == max(0, len(choice.distances) - 1)
    assert (np.diff(choice.distances) <= 0).all()
    assert_same_choice(choice, kfed.choose_n_clusters(data.draw(st.permutations(sent))))


@given(seed=st.integers(0, 10**6), exponent=st.integers(-20, 20), gap=st.sampled_from([5.0, 10.0, 20.0]))
@few_examples
def test_rotating_or_scaling_the_centers_does_not_change_the_choice(seed, exponent, gap):
    sent = mixture_world(gap=gap, seed=seed).messages(seed)
    scale, turn = 2.0**exponent, rotation(24, seed)
    turned = [
        changed(
            message,
            centers=scale * message.centers @ turn,
            sums_of_squares=scale**2 * message.sums_of_squares,
            spectral_deviation=scale * message.spectral_deviation,
        )
        for message in sent
    ]
    one, other = kfed.choose_n_clusters(sent), kfed.choose_n_clusters(turned)
    assert one.facts() == other.facts()
    np.testing.assert_allclose(scale * one.distances, other.distances, rtol=1e-9)


def test_more_threads_do_not_change_the_choice():
    sent = with_outliers(mixture_world(points_per_cluster=30), 4).messages()
    assert_same_choice(kfed.choose_n_clusters(sent, n_jobs=1), kfed.choose_n_clusters(sent, n_jobs=4))


def test_blocks_do_not_change_the_choice(monkeypatch):
    sent = with_outliers(mixture_world(points_per_cluster=30), 4).messages()
    whole = kfed.choose_n_clusters(sent)
    monkeypatch.setattr(trust, "BLOCK_ELEMENTS", 64)
    assert_same_choice(whole, kfed.choose_n_clusters(sent))


# Steps ----------------------------------------------------------------------------------------------------------


def gathering(centers, variances, counts=None):
    """A device for each center, of 100 points unless it is said."""
    counts = [100] * len(centers) if counts is None else counts
    sent = [
        kfed.DeviceMessage(f"{i:02}", [center], [count], [variance * (count - 1)])
        for i, (center, variance, count) in enumerate(zip(centers, variances, counts, strict=True))
    ]
    return MessageBatch.of(sent)


def mixtures_of(*arguments):
    found = gathering(*arguments)
    traversal = farthest_first(found.centers, len(found.centers), [int(found.counts.argmax())])
    return trust.mixtures(found.centers, CenterSpread.of(found), traversal).tolist()


def test_a_center_between_two_others_whose_spread_says_so_is_a_mixture():
    # a quarter of the points at the right, the rest at the left: variance 3/16 of the squared distance, 100
    assert mixtures_of([[0.0, 0.0], [10.0, 0.0], [2.5, 0.0]], [1.0, 1.0, 1.0 + 18.75]) == [False, False, True]
    assert mixtures_of([[0.0, 0.0], [10.0, 0.0], [2.5, 0.0]], [1.0, 1.0, 1.0]) == [False, False, False]


def test_a_mixture_of_three_is_one_also_where_two_of_them_are_mixed_elsewhere():
    corners = 10 * np.eye(3)
    centers = [*corners, corners[:2].mean(axis=0), corners.mean(axis=0)]
    between_two, between_three = 50.0, 200 / 3
    assert mixtures_of(centers, [1, 1, 1, 1 + between_two, 1 + between_three]) == [False] * 3 + [True] * 2


def test_a_wide_cluster_apart_from_the_others_is_no_mixture():
    assert mixtures_of([[0.0, 0.0], [10.0, 0.0], [5.0, 9.0]], [1.0, 1.0, 60.0]) == [False] * 3
    assert mixtures_of([[0.0], [10.0], [20.0]], [1.0, 6.0, 1.0]) == [False] * 3


def test_chance_puts_centers_of_one_cluster_no_farther_apart_than_is_allowed_for():
    rng = np.random.default_rng(0)
    for n_features in (1, 3, 50):
        centers = rng.normal(size=(200, n_features))
        squares = ((centers[:, None] - centers) ** 2).sum(axis=2)
        assert squares.max() < 2 * n_features * chance_factor(200, n_features)


def test_the_directional_deviation_sees_the_widest_direction():
    rng = np.random.default_rng(0)
    widths = np.r_[5.0, np.ones(29)]
    fleet = [widths * rng.normal(size=(300, 30)) for _ in range(5)]
    found = kfed.cluster_fleet(fleet, 1, random_state=0)
    gathered = MessageBatch.of(local.to_message(f"{i}") for i, local in enumerate(found))
    variance = float(np.median(CenterSpread.of(gathered).variances))
    assert variance == pytest.approx(25 + 29, rel=0.1)
    assert directional_deviation(gathered, variance, np.ones(5, bool)) == pytest.approx(5, rel=0.15)
    assert directional_deviation(gathered, variance, np.zeros(5, bool)) == pytest.approx(np.sqrt(54 / 30), rel=0.1)


def test_no_more_candidates_are_looked_at_than_the_bound(monkeypatch):
    monkeypatch.setattr("kfed.server.k.auto.MAX_CANDIDATES", 8)
    choice = kfed.choose_n_clusters(mixture_world().messages())
    assert len(choice.distances) == 8
    assert not choice.is_reliable


def test_the_index_of_calinski_and_harabasz_is_that_of_all_points():
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(int(n), 3)) + 8 * place for n, place in zip([9, 30, 12, 20], np.eye(4, 3), strict=True)]
    halves = [half for group in groups for half in (group[: len(group) // 2], group[len(group) // 2 :])]
    centers = np.array([half.mean(axis=0) for half in halves])
    squares = np.array([((half - half.mean(axis=0)) ** 2).sum() for half in halves])
    index = calinski_harabasz(centers, np.array([len(half) for half in halves]), squares)
    labels = np.repeat(np.arange(4), [len(group) for group in groups])
    assert index.argmax() + 2 == 4
    assert index[2] == pytest.approx(calinski_harabasz_score(np.concatenate(groups), labels))


def test_of_many_centers_a_sample_gives_the_same_maximum(monkeypatch):
    batch = MessageBatch.of(mixture_world(devices_per_group=40).messages())
    columns = (batch.centers, batch.counts, batch.sums_of_squares)
    whole = calinski_harabasz(*columns)
    monkeypatch.setattr(cost_curve, "MAX_CENTERS", 100)
    assert calinski_harabasz(*columns).argmax() == whole.argmax() == 14
