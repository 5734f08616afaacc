"""Models, data and settings that cannot be trained are refused before they are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trainings import perceptron  # noqa: E402

import kfed  # noqa: E402
from kfed.federated import (  # noqa: E402
    FedAvg,
    fit_global,
    fit_ifca,
    fit_personalized,
)


# Refused --------------------
@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: torch.nn.Linear(4, 2), r"does not accept inputs of shape \(3,\)"),
        (lambda: torch.nn.Linear(3, 1), "one score for each class; got outputs of shape .* from 0 to 1"),
        (lambda: torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)), "running statistics.*GroupNorm"),
        (lambda: torch.nn.Flatten(), "with trainable parameters"),
        (lambda: "a model", "torch.nn.Module; got a str"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(two_kinds, model, said):
    for fit in (fit_global, lambda d, m: fit_personalized(d, 2, m), lambda d, m: fit_ifca(d, 2, m)):
        with pytest.raises(kfed.InvalidInputError, match=said):
            fit(two_kinds, model)


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ({}, "at least one device"),
        ({"a": (np.ones((2, 3)), [0])}, "a target for each input"),
        ({"a": (np.ones((0, 3)), np.ones(0, int))}, "at least one row"),
        ({"a": (np.full((2, 3), np.nan), [0, 1])}, "must be finite"),
        ({"a": (np.ones((2, 3)), [0, 1]), "b": (np.ones((2, 4)), [0, 1])}, r"\(3,\) from 'a' and .* \(4,\) from 'b'"),
        ({"a": np.ones((2, 3))}, r"pair \(inputs, targets\); got a ndarray"),
        ({"a": (np.ones((2, 3)), ["x", "y"])}, "encode them first"),
        ({"a": (np.ones((2, 3)), [0.5, 1.0])}, "targets must be integers"),
        ({"a": (np.ones((2, 3)), [-1, 1])}, "from -1 to 1"),
    ],
)
def test_data_that_is_not_sound_is_refused(devices, said):
    with pytest.raises(kfed.InvalidInputError, match=said):
        fit_global(devices, perceptron)


def test_more_clients_than_there_are_is_an_error(two_kinds):
    with pytest.raises(kfed.InvalidInputError, match="at most 8, the number of devices; got 9"):
        fit_global(two_kinds, perceptron, FedAvg(clients_per_round=9))


def test_a_loss_that_is_a_mean_is_refused(two_kinds):
    with pytest.raises(kfed.InvalidInputError, match="reduction='none'"):
        fit_global(two_kinds, perceptron, FedAvg(loss=torch.nn.functional.cross_entropy))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"learning_rate": 0.0},
        {"weighting": "none"},
        {"clip_norm": -1},
        {"seed": -1},
        {"shared_rounds": -1},
        {"shared_rounds": 4, "rounds": 4},
        {"batch_size": 1.5},
        {"batched": "perhaps"},
        {"proximal": -0.1},
        {"threads": 0},
        {"device": "nowhere"},
    ],
)
def test_settings_are_checked_when_they_are_made(wrong):
    with pytest.raises(kfed.InvalidInputError, match=next(iter(wrong))):
        FedAvg(**wrong)
