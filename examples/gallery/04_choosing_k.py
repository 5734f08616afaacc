"""
How many clusters
=================

The exact cost of every clustering follows from the messages, and so does how well it survives leaving out devices.
Compare numbers of clusters without asking the devices again.
"""

import matplotlib.pyplot as plt
import numpy as np

import kfed

rng = np.random.default_rng(1)
means = 9 * rng.normal(size=(7, 4))
messages = []
for i in range(30):
    groups = rng.choice(7, size=3, replace=False)
    points = np.concatenate([rng.normal(means[group], size=(60, 4)) for group in groups])
    messages.append(kfed.cluster_device(points, 3, random_state=0).to_message(f"device-{i}"))

comparison = kfed.compare_k(messages, range(2, 13))
print(comparison)
comparison.plot()
plt.show()
