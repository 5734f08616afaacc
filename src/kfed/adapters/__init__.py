"""kfed on engines that people already run: Dask for data on a cluster, Flower for federated networks.

Each module needs an extra of its own (``kfed[dask]``, ``kfed[flower]``), and `import kfed` imports none of them.
"""
