"""`federated`: a round of FedAvg with devices side by side, against the loop over devices that anyone would write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.figures import Figure, race

N_FEATURES, N_HIDDEN, N_CLASSES = 784, 200, 10


def federated(quick: bool) -> Iterator[Figure]:
    """Rounds of the network of Table 2: twenty of a hundred devices, ten steps of fifty rows. Needs PyTorch."""
    try:
        import torch
    except ImportError:
        return
    from kfed.federated import FedAvg, fit_global

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(N_FEATURES, N_HIDDEN), torch.nn.ReLU(), torch.nn.Linear(N_HIDDEN, N_CLASSES)
        )

    if not quick:
        yield from _fastest_way()
    rng = np.random.default_rng(0)
    devices = [(rng.random((100, N_FEATURES), dtype=np.float32), rng.integers(N_CLASSES, size=100)) for _ in range(100)]
    n_rounds = 2 if quick else 5
    training = FedAvg(n_rounds, clients_per_round=20, local_steps=10, batch_size=50, learning_rate=0.1)
    side_by_side = partial(fit_global, devices, network, training)
    one_by_one = partial(fit_global, devices, network, replace(training, batched=False))
    seconds = race({"kfed": side_by_side, "loop": one_by_one}, rounds=3)
    each = {who: taken / n_rounds * 1e3 for who, taken in seconds.items()}
    detail = f"kfed {each['kfed']:.0f} ms a round, plain loop {each['loop']:.0f} ms, {torch.get_num_threads()} threads"
    yield Figure("federated", "times as fast as a plain loop", each["loop"] / each["kfed"], 1.2, True, detail)
    ours, theirs = side_by_side(), one_by_one()
    pairs = zip(ours.model(0).parameters(), theirs.model(0).parameters(), strict=True)
    apart = max(float((one - other).detach().abs().max()) for one, other in pairs)
    yield Figure("federated", "largest difference of a parameter", apart, 1e-4, False, "from the plain loop's")


def _fastest_way() -> Iterator[Figure]:
    """Networks that train faster one by one: what is measured before must see that."""
    import torch
    from torch import nn

    from kfed.federated import FedAvg, fit_global

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.last = nn.LSTM(28, 64, batch_first=True), nn.Linear(64, N_CLASSES)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.last(self.lstm(inputs[:, 0])[0][:, -1])
            return found

    def convolutional() -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(1600, N_CLASSES)),
        )

    rng = np.random.default_rng(0)
    images = [(rng.random((64, 1, 28, 28), dtype=np.float32), rng.integers(N_CLASSES, size=64)) for _ in range(10)]
    training = FedAvg(rounds=4, local_steps=5, batch_size=32)
    for name, factory in (("32 and 64 channels", convolutional), ("an LSTM", Recurrent)):
        ways = {
            "kfed": partial(fit_global, images, factory, training),
            "loop": partial(fit_global, images, factory, replace(training, batched=False)),
        }
        seconds = race(ways, rounds=3)
        detail = f"kfed {seconds['kfed']:.2f} s, plain loop {seconds['loop']:.2f} s"
        label = f"time of a plain loop, {name}"
        yield Figure("federated", label, seconds["kfed"] / seconds["loop"], 1.1, False, detail)
