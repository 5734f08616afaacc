"""
Heterogeneity wins
==================

Two clusters that lie close together are hard to tell apart in pooled data. If no device holds both of them, no device
has to: each sends two clear centers, and the server's only task is to see that those of one device are different
clusters.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import kfed
from kfed.metrics import matched_accuracy
from kfed.simulate import Round

warnings.simplefilter("ignore", kfed.KFedWarning)
K, D, N_DEVICES, N_POINTS = 16, 100, 24, 150
rng = np.random.default_rng(0)


def world(gap):
    """Sixteen clusters in four families: 20 sd apart within a family, and near each other across families."""
    first = 20 / np.sqrt(2) * np.eye(D)[:4]
    means = np.concatenate([first + gap * family * np.eye(D)[50] for family in range(4)])
    targets = [rng.integers(4, size=N_POINTS) + 4 * (device % 4) for device in range(N_DEVICES)]
    points = {f"device-{i}": means[own] + rng.normal(size=(N_POINTS, D)) for i, own in enumerate(targets)}
    return points, np.concatenate(targets)


# %%
# The same points, once on their devices and once in one place.
gaps = [1, 2, 4, 8]
ours, pooled = [], []
for gap in gaps:
    devices, truth = world(gap)
    labels = Round.run(devices, K, 4, random_state=0).labels
    ours.append(100 * matched_accuracy(truth, labels))
    found = KMeans(K, n_init=4, random_state=0).fit_predict(np.concatenate(list(devices.values())))
    pooled.append(100 * matched_accuracy(truth, found))

plt.plot(gaps, ours, "o-", label="k-FED, one round")
plt.plot(gaps, pooled, "s--", label="k-means on pooled data")
plt.xscale("log", base=2)
plt.xticks(gaps, gaps)
plt.xlabel("distance of the nearest clusters that no device holds together, in standard deviations")
plt.ylabel("points in their right cluster, %")
plt.ylim(0, 103)
plt.legend()
plt.show()
