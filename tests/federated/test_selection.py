"""Selections pick distinct clients, by loss where they say so, and spread them over clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
from consoles import printed_by
from kfed.federated import KFedPowerOfChoice, PowerOfChoice, RandomSelection


@st.composite
def worlds(draw):
    n_clients = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    n_candidates = draw(st.integers(1, n_clients))
    clusters = [tuple(rng.choice(5, rng.integers(1, 3), replace=False)) for _ in range(n_clients)]
    sizes, losses = rng.integers(1, 50, n_clients), rng.random(n_clients)
    return sizes, clusters, losses, n_candidates, draw(st.integers(1, n_clients)), draw(st.integers(0, 99))


def selections(sizes, clusters, n_candidates, seed=0):
    return [
        RandomSelection(len(sizes), seed=seed),
        RandomSelection(len(sizes), sizes, seed=seed),
        PowerOfChoice(sizes, n_candidates, seed=seed),
        KFedPowerOfChoice(sizes, clusters, n_candidates, seed=seed),
    ]


@given(worlds())
def test_as_many_distinct_clients_as_asked_for_the_same_each_time(world):
    sizes, clusters, losses, n_candidates, n, round = world
    for one, two in zip(*(selections(sizes, clusters, n_candidates) for _ in range(2)), strict=True):
        chosen = one.select(round, n, losses=losses)
        assert len(set(chosen.tolist())) == n
        assert (chosen == np.sort(chosen)).all()
        assert 0 <= chosen.min() <= chosen.max() < len(sizes)
        two.select(round + 1, n, losses=losses)  # what came before does not matter
        assert np.array_equal(two.select(round, n, losses=losses), chosen)


@given(worlds())
def test_a_function_is_asked_for_the_candidates_alone(world):
    sizes, clusters, losses, n_candidates, n, round = world
    for selection in selections(sizes, clusters, n_candidates)[2:]:
        asked = []
        chosen = selection.select(round, n, losses=lambda c, asked=asked: asked.extend(c) or losses[c])
        assert len(asked) == max(n, n_candidates)
        assert set(chosen) <= set(asked)
        assert np.array_equal(chosen, selection.select(round, n, losses=losses))


@given(worlds())
def test_power_of_choice_takes_the_highest_losses_of_its_candidates(world):
    sizes, _, losses, n_candidates, n, round = world
    seen = []
    chosen = PowerOfChoice(sizes, n_candidates).select(round, n, losses=lambda c: seen.extend(c) or losses[c])
    left = set(seen) - set(chosen)
    assert not left or losses[list(left)].max() <= losses[chosen].min()


@given(worlds())
def test_with_clusters_a_client_is_passed_over_only_for_one_of_its_cluster_with_a_higher_loss(world):
    sizes, clusters, losses, n_candidates, n, round = world
    seen = []
    selection = KFedPowerOfChoice(sizes, clusters, n_candidates)
    chosen = selection.select(round, n, losses=lambda c: seen.extend(c) or losses[c])
    for client in set(seen) - set(chosen):
        higher = [c for c in chosen if losses[c] >= losses[client]]
        shares = any(set(clusters[client]) & set(clusters[c]) for c in higher)
        assert shares or len(higher) == n


@given(worlds())
def test_with_a_cluster_of_its_own_for_each_client_or_one_for_all_it_is_power_of_choice(world):
    sizes, _, losses, n_candidates, n, round = world
    plain = PowerOfChoice(sizes, n_candidates).select(round, n, losses=losses)
    for clusters in (range(len(sizes)), [7] * len(sizes)):
        clustered = KFedPowerOfChoice(sizes, list(clusters), n_candidates)
        assert np.array_equal(clustered.select(round, n, losses=losses), plain)


def test_all_clusters_are_taken_before_any_is_taken_twice():
    selection = KFedPowerOfChoice([1] * 12, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], n_candidates=12)
    for round in range(20):
        chosen = selection.select(round, 4, losses=np.random.default_rng(round).random(12))
        assert sorted(chosen // 3) == [0, 1, 2, 3]


def test_larger_clients_are_candidates_more_often():
    selection = PowerOfChoice([1, 99], n_candidates=1)
    chosen = [int(selection.select(round, 1, losses=[1.0, 0.0])[0]) for round in range(300)]
    assert 0.95 < np.mean(chosen) < 1.0


@pytest.mark.parametrize("loss", [np.nan, np.inf, -np.inf])
def test_a_client_whose_loss_is_not_finite_comes_last(loss):
    selection = PowerOfChoice([1, 1, 1], n_candidates=3)
    assert selection.select(0, 2, losses=[5.0, loss, 1.0]).tolist() == [0, 2]
    assert selection.select(0, 3, losses=[5.0, loss, 1.0]).tolist() == [0, 1, 2]


def test_ties_are_broken_evenly_and_the_same_way_each_time():
    for selection in selections([10] * 20, [i % 2 for i in range(20)], n_candidates=20)[2:]:
        picked = [selection.select(round, 2, losses=np.ones(20)) for round in range(400)]
        assert np.array_equal(picked, [selection.select(round, 2, losses=np.ones(20)) for round in range(400)])
        counts = np.bincount(np.concatenate(picked), minlength=20)
        assert counts.min() > 15  # 40 each on average
        assert counts.max() < 80


@given(worlds(), st.integers(0, 1000))
def test_only_available_clients_are_asked_and_picked(world, seed):
    sizes, clusters, losses, n_candidates, n, round = world
    rng = np.random.default_rng(seed)
    there = np.sort(rng.choice(len(sizes), rng.integers(1, len(sizes) + 1), replace=False))
    mask = np.isin(np.arange(len(sizes)), there)
    for selection in selections(sizes, clusters, n_candidates):
        asked = []
        chosen = selection.select(round, n, lambda c, asked=asked: asked.extend(c) or losses[c], available=there)
        assert len(chosen) == min(n, len(there))
        assert set(chosen) | set(asked) <= set(there)
        assert np.array_equal(chosen, selection.select(round, n, losses, available=mask))
        everyone = selection.select(round, n, losses, available=range(len(sizes)))
        assert np.array_equal(everyone, selection.select(round, n, losses))


def test_a_mapping_of_clusters_is_read_by_its_clients():
    losses = [0.1, 0.9, 0.4, 0.8]
    plain = KFedPowerOfChoice([10] * 4, [0, 1, 0, 1], 4).select(0, 2, losses=losses)
    by_name = KFedPowerOfChoice(dict.fromkeys("abcd", 10), {"d": 1, "c": [0], "b": 1, "a": 0}, 4)
    by_position = KFedPowerOfChoice([10] * 4, {3: 1, 2: 0, 1: 1, 0: 0}, 4)
    assert by_name.select(0, 2, losses=losses).tolist() == plain.tolist() == [1, 2]
    assert by_position.select(0, 2, losses=losses).tolist() == [1, 2]


def test_a_selection_says_whether_it_draws_by_size():
    by_size = [selection.draws_by_size for selection in selections([1, 2], [0, 1], n_candidates=1)]
    assert by_size == [False, True, True, True]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RandomSelection(3).select(0, 4), "at most 3, the number of clients; got 4"),
        (lambda: PowerOfChoice([1, 2], 3), "n_candidates must be at most 2, the number of clients"),
        (lambda: PowerOfChoice([1, 0], 1), "greater than 0"),
        (lambda: PowerOfChoice([1, 1], 1).select(0, 1), "losses must be given"),
        (lambda: PowerOfChoice([1, 1], 1).select(0, 1, losses=[1.0]), r"losses must have shape \(2,\)"),
        (lambda: KFedPowerOfChoice([1, 1], [0], 1), "one entry for each of 2 clients; got 1"),
        (lambda: KFedPowerOfChoice([1, 1], {"a": 0, "b": 1}, 1), "clusters must have the keys of sizes"),
        (lambda: KFedPowerOfChoice({"a": 1, "b": 1}, {"a": 0, "c": 1}, 1), "clusters must have the keys of sizes"),
        (lambda: RandomSelection(3).select(0, 1, available=[]), "at least one client; got none"),
        (lambda: RandomSelection(3).select(0, 1, available=[3]), "available must hold positions from 0 to 2"),
        (lambda: RandomSelection(3).select(0, 1, available=[True]), "or be a mask of 3 clients"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(kfed.InvalidInputError, match=said):
        make()


def test_selection_and_kfed_itself_leave_pytorch_alone():
    code = "import sys, kfed, kfed.federated, kfed.federated.selection; print('torch' in sys.modules)"
    assert printed_by(code) == ["False"]


def test_without_pytorch_the_error_names_the_extra():
    code = """
import sys
sys.modules["torch"] = None
import kfed, kfed.federated
kfed.federated.RandomSelection(3).select(0, 2)
try:
    kfed.federated.fit_personalized
except kfed.MissingExtraError as error:
    print("kfed[federated]" in str(error))
"""
    assert printed_by(code) == ["True"]


def test_all_names_are_there():
    pytest.importorskip("torch")
    assert list(kfed.federated.__all__) == sorted(kfed.federated.__all__)
    for name in kfed.federated.__all__:
        assert getattr(kfed.federated, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kfed.federated.nothing
