"""
A million devices, by a tree
============================

Regions that report to a continent need not hold all messages at once: ``aggregate_tree`` reads messages one by one,
and keeps a few hundred at most at each level.
"""

import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

import kfed

rng = np.random.default_rng(0)
means = 10 * rng.normal(size=(16, 8))


def messages(n_devices):
    """Messages of devices with four clusters each, made one at a time."""
    for i in range(n_devices):
        own = (i + np.arange(4)) % 16
        yield kfed.DeviceMessage(f"{i:07}", means[own] + 0.1 * rng.normal(size=(4, 8)), [50] * 4)


# %%
# Memory stays level while the number of devices grows.
numbers = [500, 2_000, 8_000]
peaks = []
for n_devices in numbers:
    tracemalloc.start()
    result = kfed.aggregate_tree(messages(n_devices), 16, fan_in=250)
    peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    print(f"{n_devices:,} devices: {result.cluster_sizes.sum():,} points in {result.n_clusters} clusters")

plt.plot(numbers, peaks, "o-")
plt.xscale("log")
plt.ylim(0)
plt.xlabel("devices")
plt.ylabel("peak memory of the server, MB")
plt.show()
