"""Algorithm 1 of the paper, on one device or on a simulated fleet: points in, a `LocalClustering` out.

Only `LocalClustering.to_message` may leave a device. What it withholds is decided in `withholding`; with `Privacy`,
what it sends is differentially private.
"""

from kfed.device.advice import caller_tells_rows, column_of_all, rows_not_sent
from kfed.device.choosing import MAX_LOCAL_CLUSTERS
from kfed.device.cluster import check_max_bytes, cluster_device
from kfed.device.clustering import LocalClustering
from kfed.device.columns import SAME_MEAN, are_rows_of_table, cluster_columns, own_scale
from kfed.device.convergence import caller_tells_convergence
from kfed.device.deviation.moments import coarse_enough, with_moments
from kfed.device.facts import ColumnFacts, SentClusters
from kfed.device.fleet import cluster_fleet
from kfed.device.floor.column_floor import told_columns
from kfed.device.floor.distinct_rows import ALIKE, are_many
from kfed.device.floor.level_holders import mostly_differ, sampled_rows
from kfed.device.floor.pooled_sums import POOLED
from kfed.device.private.privacy import Privacy
from kfed.device.refine import nearest_centers
from kfed.device.rows.blocked import BlockedRows
from kfed.device.rows.rows import Rows
from kfed.device.rows.sparse import SparseRows
from kfed.device.second_message import refine_device
from kfed.device.settings import MAX_ITERATIONS, MIN_CLUSTER_SIZE
from kfed.device.steps.lloyd_step import scores
from kfed.device.summaries.summary import fitting

__all__ = [
    "ALIKE",
    "MAX_ITERATIONS",
    "MAX_LOCAL_CLUSTERS",
    "MIN_CLUSTER_SIZE",
    "POOLED",
    "SAME_MEAN",
    "BlockedRows",
    "ColumnFacts",
    "LocalClustering",
    "Privacy",
    "Rows",
    "SentClusters",
    "SparseRows",
    "are_many",
    "are_rows_of_table",
    "caller_tells_convergence",
    "caller_tells_rows",
    "check_max_bytes",
    "cluster_columns",
    "cluster_device",
    "cluster_fleet",
    "coarse_enough",
    "column_of_all",
    "fitting",
    "mostly_differ",
    "nearest_centers",
    "own_scale",
    "refine_device",
    "rows_not_sent",
    "sampled_rows",
    "scores",
    "told_columns",
    "with_moments",
]
