"""
Training in groups on Flower
============================

Nodes of a Flower network hold handwritten digits, each turned in its own way. One round of k-FED finds the nodes that
belong together, and an ordinary ``ClientApp`` then trains one model for each group.

The round below is the same one on one machine, as Flower is not installed where this site is built. The app, which
also trains, is in ``examples/flower-training``.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import kfed
from kfed import datasets
from kfed.simulate import Round

# %%
# In the app of the nodes, the last line adds k-FED::
#
#     client_app(load_points, n_local_clusters=1, app=app)
#
# In the app of the server, one round comes before the training, which is then that of any strategy of Flower::
#
#     outcome = run_round(grid, Settings(n_clusters=4, rule="robust", min_nodes=8))
#     strategy = ClusteredFedAvg(outcome)
#     strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=10)
#     print(strategy.worth)  # are the groups worth it?
warnings.simplefilter("ignore", kfed.KFedWarning)  # a node is taken as one whole
digits = datasets.digits()
images = np.array_split(digits.points.reshape(-1, 8, 8), 8)
nodes = {f"node {i}": np.rot90(own, i % 4, axes=(1, 2)) for i, own in enumerate(images)}

# %%
# What the nodes send is the mean of their images; what they get is the number of their group.
points = {name: own.reshape(len(own), -1) for name, own in nodes.items()}
found = Round.run(points, n_clusters=4, n_local_clusters=1, rule="robust", random_state=0)
print(f"{found.sent.bytes_up / len(nodes):.0f} bytes from each node")

figure, axes = plt.subplots(2, 4, figsize=(9, 3.4))
members = sorted(nodes, key=lambda name: int(found.clusters[name][0]))
for axis, name in zip(axes.T.flat, members, strict=True):
    axis.imshow(np.hstack(np.pad(nodes[name][:3], [(0, 0), (1, 1), (1, 1)])), cmap="gray_r")
    axis.set_title(f"{name}: group {found.clusters[name][0]}", fontsize=10)
    axis.set_axis_off()
figure.suptitle("three digits of each node; a column is a group")
plt.show()
