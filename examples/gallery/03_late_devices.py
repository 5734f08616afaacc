"""
Devices that come late
======================

A device that comes after the clusters were made gets its answer from the stored centers: as many distances as it has
centers times clusters. Nobody else is asked, and nothing changes for them.
"""

import matplotlib.pyplot as plt
import numpy as np

import kfed

rng = np.random.default_rng(0)
means = 8 * rng.normal(size=(6, 2))


def device(*groups):
    """Fifty points of each of these groups."""
    return np.concatenate([rng.normal(means[group], size=(50, 2)) for group in groups])


# %%
# Twelve devices of two groups each are there in time.
early = {f"device-{i}": device(i % 6, (i + 1) % 6) for i in range(12)}
messages = [kfed.cluster_device(points, 2, random_state=0).to_message(name) for name, points in early.items()]
result = kfed.aggregate(messages, 6)

# %%
# One comes late.
points = device(2, 5)
late = kfed.cluster_device(points, 2, random_state=0)
labels = late.induced_labels(result.assign(late.to_message("late")))

plt.scatter(*np.concatenate(list(early.values())).T, s=4, color="0.85")
plt.scatter(*points.T, s=12, c=labels, cmap="tab10", vmin=0, vmax=9, label="points of the late device")
plt.scatter(*result.cluster_centers.T, s=160, marker="x", color="black", label="clusters that were there")
plt.legend()
plt.axis("equal")
plt.show()
