"""
A promise in numbers
====================

With ``privacy=`` a message is differentially private before it leaves the device. What that costs depends on how many
rows are behind each center, so fewer clusters on a device cost less.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

import kfed
from kfed.simulate import Round

warnings.simplefilter("ignore", kfed.KFedWarning)
rng = np.random.default_rng(0)
corners = np.array([(x, y) for x in (-0.6, 0.6) for y in (-0.6, 0.6)])


def agreement(epsilon, n_rows):
    """How well ten devices with two of four groups each find the groups, on the scale that all agreed on."""
    targets = [rng.choice([i % 4, (i + 1) % 4], size=n_rows) for i in range(10)]
    devices = {f"device-{i}": corners[own] + 0.08 * rng.normal(size=(n_rows, 2)) for i, own in enumerate(targets)}
    privacy = kfed.Privacy(epsilon=epsilon, radius=1.2)
    try:
        labels = Round.run(devices, 4, 2, privacy=privacy, random_state=0).labels
    except kfed.TooFewCentersError:  # so much noise that hardly a center is worth sending
        return 0.0
    return adjusted_rand_score(np.concatenate(targets), labels)


epsilons = [0.25, 0.5, 1, 2, 4]
for n_rows in (500, 1500, 4500):
    plt.plot(epsilons, [agreement(epsilon, n_rows) for epsilon in epsilons], "o-", label=f"{n_rows:,} rows a device")
plt.xscale("log")
plt.xlabel("epsilon: smaller promises more")
plt.ylabel("adjusted Rand index")
plt.ylim(-0.02, 1.03)
plt.legend()
plt.show()
