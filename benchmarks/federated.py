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
