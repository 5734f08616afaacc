"""
A partitioned table, with Dask
==============================

Every shop is a device. Its rows are clustered where they lie, and only centers move; labels come back as a lazy
frame.
"""

import dask
import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kfed.adapters.dask import cluster_partitions

dask.config.set(scheduler="synchronous")
rng = np.random.default_rng(0)
means = np.array([[0, 0], [6, 0], [0, 6], [6, 6.0]])
shop = np.repeat([f"shop-{i:02}" for i in range(40)], 100)
kind = (np.repeat(np.arange(40), 100) + rng.integers(2, size=4000)) % 4
table = pd.DataFrame(means[kind] + rng.normal(size=(4000, 2)), columns=["basket", "visits"]).assign(shop=shop)

# %%
# One function; the frame may as well be a folder of Parquet files.
run = cluster_partitions(dd.from_pandas(table, npartitions=8), "shop", ["basket", "visits"], 2, 4)
labelled = run.labelled.compute()
print(labelled.head())

plt.scatter(
    labelled["basket"], labelled["visits"], c=labelled["cluster"].astype(int), s=4, cmap="tab10", vmin=0, vmax=9
)
plt.xlabel("basket")
plt.ylabel("visits")
plt.show()
