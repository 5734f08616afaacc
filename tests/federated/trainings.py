"""A small model and a short training."""

import pytest

torch = pytest.importorskip("torch")


from kfed.federated import FedAvg  # noqa: E402

SETTINGS = FedAvg(rounds=5, clients_per_round=5, local_steps=4, batch_size=16, learning_rate=0.2, batched=True)


def linear():
    return torch.nn.Linear(3, 2)


def perceptron():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def parameters(models):
    return {name: values.clone() for name, values in models._stack.parameters.items()}


def assert_same(ours, theirs, tolerance=0.0):
    for name, values in parameters(ours).items():
        torch.testing.assert_close(values, parameters(theirs)[name], rtol=tolerance, atol=tolerance)
