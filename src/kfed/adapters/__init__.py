"""kfed on engines that people already run: any map over chunks of a table, Dask, and Flower for federated networks.

`cluster_frame`, `collect_messages` and `label_frame` need pyarrow (``kfed[parquet]``). The modules `dask` and `flower`
need an extra of their own (``kfed[dask]``, ``kfed[flower]``), and `import kfed` imports none of them.
"""

from kfed.adapters._partition import PartitionWarning
from kfed.adapters.frames import cluster_frame, collect_messages, label_frame

__all__ = ["PartitionWarning", "cluster_frame", "collect_messages", "label_frame"]
