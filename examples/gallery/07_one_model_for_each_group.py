"""
One model for each group
========================

Clients whose data differ in kind are better served by a model of their own kind. k-FED finds the kinds in one round,
before any training.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from kfed.federated import FedAvg, fit_global, fit_personalized

rng = np.random.default_rng(0)


def client(kind):
    """Eighty rows whose labels depend on the kind of client, and whose inputs show the kind."""
    inputs = rng.normal(loc=3 * np.eye(3)[kind], size=(80, 3))
    return inputs, ((inputs - 3 * np.eye(3)[kind])[:, kind] > 0).astype(int)


train = {f"client-{i:02}": client(i % 3) for i in range(18)}
test = {name: client(i % 3) for i, name in enumerate(train)}
training = FedAvg(rounds=12, clients_per_round=6, local_steps=5, learning_rate=0.5, batched=False)

# %%
# The same clients, the same training; one model for all, and one for each group.
one = fit_global(train, lambda: torch.nn.Linear(3, 2), training).evaluate(test)
each = fit_personalized(train, n_clusters=3, model_factory=lambda: torch.nn.Linear(3, 2), training=training).evaluate(
    test
)
plt.bar(
    ["one model for all", "one for each group"], [100 * one.accuracy, 100 * each.accuracy], color=["0.7", "tab:blue"]
)
plt.ylabel("accuracy on held-out rows, %")
plt.ylim(0, 100)
plt.show()
