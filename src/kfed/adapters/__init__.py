"""kfed on engines and platforms that people already run: maps over chunks of a table, Dask, Flower, vantage6, NVFlare.

`cluster_frame`, `collect_messages` and `label_frame` need pyarrow (``kfed[parquet]``). The modules `dask`, `flower` and
`nvflare` need an extra of their own (``kfed[dask]`` and so on), `vantage6` needs vantage6's algorithm tools; neither
`import kfed` nor `import kfed.adapters` imports any of them.
"""

from kfed.adapters._partition import PartitionWarning
from kfed.adapters.frames import cluster_frame, collect_messages, label_frame

__all__ = ["PartitionWarning", "cluster_frame", "collect_messages", "label_frame"]
