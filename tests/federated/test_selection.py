"""Selections pick distinct clients, by loss where they say so, and spread them over clusters."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kfed
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


def test_a_client_whose_loss_is_not_known_is_worth_a_look():
    chosen = PowerOfChoice([1, 1, 1], n_candidates=3).select(0, 1, losses=[5.0, np.nan, 1.0])
    assert chosen.tolist() == [1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RandomSelection(3).select(0, 4), "at most 3, the number of clients; got 4"),
        (lambda: PowerOfChoice([1, 2], 3), "n_candidates must be at most 2, the number of clients"),
        (lambda: PowerOfChoice([1, 0], 1), "greater than 0"),
        (lambda: PowerOfChoice([1, 1], 1).select(0, 1), "losses must be given"),
        (lambda: PowerOfChoice([1, 1], 1).select(0, 1, losses=[1.0]), r"losses must have shape \(2,\)"),
        (lambda: KFedPowerOfChoice([1, 1], [0], 1), "one entry for each of 2 clients; got 1"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(kfed.InvalidInputError, match=said):
        make()


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_selection_and_kfed_itself_leave_pytorch_alone():
    assert run("import sys, kfed, kfed.federated, kfed.federated.selection; print('torch' in sys.modules)") == ["False"]


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
    assert run(code) == ["True"]


def test_all_names_are_there():
    pytest.importorskip("torch")
    assert list(kfed.federated.__all__) == sorted(kfed.federated.__all__)
    for name in kfed.federated.__all__:
        assert getattr(kfed.federated, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kfed.federated.nothing
