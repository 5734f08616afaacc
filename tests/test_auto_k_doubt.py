"""Finding k where it does not show, or where messages say little: it is said, and no number is called reliable."""

from functools import cache

import numpy as np
import pytest

import kfed
from k_worlds import changed, sent_by, shared_digits, square_of_places
from kfed.server import ComparisonWords
from worlds import mixture_world, rotation

# Unsure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_shards", [0, 1, 2])
@pytest.mark.parametrize("n_local_clusters", [2, 4, 10])
def test_digits_have_no_reliable_k(n_shards, n_local_clusters):
    sent = shared_digits(15, n_local_clusters, n_shards)
    choice = kfed.choose_n_clusters(sent)
    assert not choice.is_reliable
    with pytest.raises(kfed.NoReliableKError, match=r"distances drop\): .*give n_clusters as a number") as caught:
        choice.reliable_n_clusters()
    assert choice.reason in str(caught.value)
    for k, ratio in choice.candidates:
        assert f"{k} ({ratio:.2f})" in str(caught.value)


def test_where_no_k_is_reliable_the_best_of_those_compared_is_taken_and_it_is_said(few_compared):
    sent = shared_digits(15, 4, 2)
    with pytest.warns(kfed.AggregationWarning, match="no number of clusters stands out"):
        result = kfed.aggregate(sent)
    assert result.k_choice.comparison is not None
    assert result.n_clusters == result.k_choice.n_clusters == result.k_choice.comparison.best
    assert not result.k_choice.is_reliable
    assert ComparisonWords(result.k_choice.comparison).taken_by in result.k_choice.reason
    assert kfed.Aggregation.from_bytes(result.to_bytes()).k_choice.reason == result.k_choice.reason


def test_a_number_of_mixtures_is_not_relied_upon_however_stable_they_are(few_compared):
    """Sixteen clusters, of which each device finds four quarters: always the same four."""
    rng = np.random.default_rng(0)
    devices = [square_of_places(4, 20)[rng.integers(16, size=400)] + rng.normal(size=(400, 2)) for _ in range(30)]
    choice = kfed.aggregate(sent_by(devices, 4)).k_choice
    assert (choice.n_clusters, choice.certainty) == (4, "stands out")
    assert "as parts of one cluster do" in choice.reason
    some = [*sent_by(devices[:20], 4), *sent_by(devices[20:], None, prefix="summary-")]
    assert not kfed.aggregate(some).k_choice.is_reliable


@pytest.mark.parametrize("shape", ["long", "round", "uniform"])
@pytest.mark.parametrize("n_local_clusters", [2, 3, 5])
def test_parts_of_one_cluster_are_not_called_clusters(shape, n_local_clusters):
    rng = np.random.default_rng(n_local_clusters)
    for _ in range(3):
        if shape == "uniform":
            fleet = [rng.uniform(size=(200, 2)) for _ in range(20)]
        else:
            widths = np.r_[6.0 if shape == "long" else 1.0, np.ones(9)]
            fleet = [widths * rng.normal(size=(200, 10)) for _ in range(20)]
        found = kfed.cluster_fleet(fleet, n_local_clusters, random_state=0)
        choice = kfed.choose_n_clusters(local.to_message(f"{i}") for i, local in enumerate(found))
        assert not choice.is_reliable


@pytest.mark.parametrize("seed", [5, 63, 111])
def test_a_number_is_not_relied_upon_if_more_clusters_explain_more(seed):
    """Two of six clusters are 4.7 standard deviations apart in 8 dimensions; distances of centers show five."""
    rng = np.random.default_rng(seed)
    places = np.concatenate([np.zeros((1, 8)), 12 * np.eye(8)[:5]])
    places[5] = places[4] + 4.7 * np.eye(8)[6]
    devices = [places[rng.integers(0, 6, 60)] + rng.normal(size=(60, 8)) for _ in range(8)]
    choice = kfed.choose_n_clusters(sent_by(devices, 6))
    assert (choice.n_clusters, choice.is_reliable) == (5, False)
    assert "the Calinski-Harabasz index of all points is largest at 6" in choice.reason


def test_two_centers_far_apart_are_too_few():
    sent = [kfed.DeviceMessage("a", [[0.0], [9.0]], [50, 50], [50.0, 50.0])]
    choice = kfed.choose_n_clusters(sent)
    assert not choice.is_reliable
    assert "2 centers are too few" in choice.reason
    assert not kfed.aggregate(sent, "auto").k_choice.is_reliable


def test_a_lone_center_of_several_clusters_in_one_makes_the_choice_unsure():
    world = mixture_world(gap=20.0, points_per_cluster=40, devices_per_group=5)
    sent = world.messages()
    wide = sent[0]
    squares = np.array(wide.sums_of_squares)
    squares[0] *= 30  # much wider than any mixture of clusters 20 apart, and alone where it lies
    centers = np.array(wide.centers)
    centers[0] += 15 * rotation(24, 0)[20]
    sent[0] = changed(wide, centers=centers, sums_of_squares=squares)
    choice = kfed.choose_n_clusters(sent)
    assert not choice.is_reliable
    assert "come from one device" in choice.reason


def devices_of_few_clusters(n_rows_of_lone):
    """31 devices with four of 16 clusters each, of 150 rows; one device has a cluster that no other has."""
    rng = np.random.default_rng(0)
    places = square_of_places(5, 9.0)[rng.permutation(25)]
    held = np.concatenate([rng.permutation(16) for _ in range(31)])[: 31 * 4].reshape(31, 4)
    n_rows = np.ceil(150 / np.bincount(held.ravel())).astype(int)
    devices = [np.concatenate([rng.normal(places[r], size=(n_rows[r], 2)) for r in own]) for own in held]
    devices[13] = np.concatenate([devices[13], rng.normal(places[16], size=(n_rows_of_lone, 2))])
    return devices


@cache
def sent_by_few_clusters(n_rows_of_lone):
    return sent_by(devices_of_few_clusters(n_rows_of_lone), "auto")


@pytest.mark.parametrize(
    ("n_rows_of_lone", "is_reliable"),
    [
        (15, True),
        (200, False),
        pytest.param(0, True, marks=pytest.mark.slow),
        pytest.param(100, False, marks=pytest.mark.slow),
    ],
)
def test_a_number_is_not_relied_upon_if_one_device_may_have_a_cluster_more(n_rows_of_lone, is_reliable):
    sent = sent_by_few_clusters(n_rows_of_lone)
    choice = kfed.choose_n_clusters(sent)
    assert (choice.n_clusters, choice.is_reliable) == (16, is_reliable)
    assert ("the centers that were set aside from one device have enough points for a cluster" in choice.reason) == (
        not is_reliable
    )
    asked = kfed.choose_n_clusters(sent, min_devices=2)
    assert (asked.n_clusters, asked.is_reliable) == (16, True), "the caller said that such a cluster does not count"


def test_a_number_that_may_lack_a_cluster_is_taken_with_a_warning():
    sent = sent_by_few_clusters(200)
    with pytest.warns(kfed.AggregationWarning, match=r"\(16 at best\): the centers that were set aside"):
        found = kfed.aggregate(sent)
    assert (found.n_clusters, found.k_choice.is_reliable) == (16, False)


# Messages that say little ---------------------------------------------------------------------------------------


def without_squares(messages):
    return [changed(message, sums_of_squares=None, spectral_deviation=None) for message in messages]


def test_without_sums_of_squares_a_clear_drop_is_relied_upon_and_it_is_said_what_lacks():
    choice = kfed.choose_n_clusters(without_squares(mixture_world(gap=40.0).messages()))
    assert (choice.n_clusters, choice.is_reliable, choice.agreement) == (16, True, None)
    assert "lack sums of squares" in choice.reason


def test_without_sums_of_squares_a_drop_that_is_not_clear_is_not():
    sent = mixture_world(gap=10.0).messages()
    assert kfed.choose_n_clusters(sent).is_reliable
    choice = kfed.choose_n_clusters(without_squares(sent))
    assert not choice.is_reliable
    assert "lack sums of squares" in choice.reason


def test_some_messages_without_sums_of_squares_do_not_matter():
    sent = mixture_world().messages()
    some = [*without_squares(sent[:3]), *sent[3:]]
    choice = kfed.choose_n_clusters(some)
    assert (choice.n_clusters, choice.is_reliable, choice.agreement) == (16, True, True)


def test_without_spectral_deviations_k_is_found_from_the_sums_of_squares():
    sent = [changed(message, spectral_deviation=None) for message in mixture_world().messages()]
    assert kfed.aggregate(sent, "auto").n_clusters == 16


def test_there_must_be_a_center():
    nothing = kfed.DeviceMessage("a", np.empty((0, 2)), [])
    for function in (kfed.choose_n_clusters, lambda sent: kfed.aggregate(sent, "auto")):
        with pytest.raises(kfed.TooFewCentersError, match="no device sent a center"):
            function([nothing])


@pytest.mark.parametrize("value", ["automatic", "", "16", 2.5, 0, True])
def test_another_word_or_number_is_refused(value):
    with pytest.raises(kfed.InvalidInputError, match="n_clusters must be a whole number"):
        kfed.aggregate(mixture_world().messages(), value)
