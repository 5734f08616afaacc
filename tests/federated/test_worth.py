"""Groups judged by the losses of their models."""

import numpy as np
import pytest

import kfed
from kfed.federated import GroupWorth


def test_a_share_is_a_mean_over_groups_so_that_a_large_one_does_not_decide():
    losses = [[0.1, 0.9]] * 9 + [[0.2, 0.8]]  # nine devices at home in group 0, and one of group 1 that is not
    worth = GroupWorth.by_losses(losses, [0] * 9 + [1])
    assert (worth.share, worth.chance, worth.n_judged) == (0.5, 0.5, 10)
    assert not worth.matters


def test_models_that_are_all_alike_are_at_chance():
    assert GroupWorth.by_losses(np.ones((8, 4)), np.arange(8) % 4).share == 0.25


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_a_finite_number_is_the_worst(bad):
    assert GroupWorth.by_losses([[bad, 5.0], [5.0, bad]], [1, 0]).share == 1.0


@pytest.mark.parametrize(
    ("losses", "groups"),
    [([0.1, 0.2], [0, 1]), ([[0.1, 0.2]], [0, 1]), ([[0.1, 0.2]], [2]), ([[0.1, 0.2]], [-1]), (np.ones((0, 2)), [])],
)
def test_losses_that_do_not_fit_the_groups_are_refused(losses, groups):
    with pytest.raises(kfed.InvalidInputError, match="groups"):
        GroupWorth.by_losses(losses, groups)
