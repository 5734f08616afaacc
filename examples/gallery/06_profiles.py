"""
What the clusters are
=====================

A message carries the spread of every column, so the server can say what sets each cluster apart, in the units of the
tables, without a row.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import kfed
from kfed.site import cluster_file

warnings.simplefilter("ignore", kfed.KFedWarning)
wine = load_wine(as_frame=True)
cellar = np.random.default_rng(0).integers(6, size=len(wine.data))
messages = [cluster_file(wine.data[cellar == c], 3, f"cellar-{c}").to_message() for c in range(6)]
profile = kfed.aggregate(messages, 3).profile()
for cluster in range(3):
    print(f"cluster {cluster}: {profile.in_words(cluster)}")

# %%
# Rows are clusters, columns are the table's, colours say how far a cluster's mean is from that of all.
profile.plot()
plt.show()
