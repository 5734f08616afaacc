"""Algorithm 2 of the paper: the server groups the centers that devices sent, and answers each device.

It knows devices by their messages alone; the import contract keeps it from everything that touches a data point.
"""

from kfed.server.aggregation import Aggregation, AggregationSettings, aggregate_batch
from kfed.server.algorithm2 import DEFAULT, RULES, Clustered, clusters_for, rule_for
from kfed.server.auto_k import choose_k
from kfed.server.column_advice import late_advice, row_advice, unit_advice
from kfed.server.comparing import compare_k
from kfed.server.door import Inbox, aggregate, choose_n_clusters, read_messages
from kfed.server.finding_k import compare_usual, find_k
from kfed.server.fit import Without, gaps_between, misfits, nearest_pair, without_each
from kfed.server.grouping import Grouping
from kfed.server.k_choice import KChoice
from kfed.server.k_comparison import KComparison
from kfed.server.k_words import ComparisonWords
from kfed.server.left_out import rows_left_out
from kfed.server.level_advice import level_differences, new_level_advice
from kfed.server.model import ClusterModel
from kfed.server.optimality import Optimality
from kfed.server.plots import cluster_colors, dot_areas, plot_centers, plot_k_choice, plot_traversal
from kfed.server.prediction import HasCenters, distances, predict
from kfed.server.profile import Profile
from kfed.server.quality import RowMoments
from kfed.server.rules import BUILT_IN_RULES, OwnRule, register_rule, rule_name
from kfed.server.second_round import aggregate_refined, as_aggregated
from kfed.server.stability import agreement, cluster_again
from kfed.server.traversal import farthest_first
from kfed.server.tree import aggregate_tree

__all__ = [
    "BUILT_IN_RULES",
    "DEFAULT",
    "RULES",
    "Aggregation",
    "AggregationSettings",
    "ClusterModel",
    "Clustered",
    "ComparisonWords",
    "Grouping",
    "HasCenters",
    "Inbox",
    "KChoice",
    "KComparison",
    "Optimality",
    "OwnRule",
    "Profile",
    "RowMoments",
    "Without",
    "aggregate",
    "aggregate_batch",
    "aggregate_refined",
    "aggregate_tree",
    "agreement",
    "as_aggregated",
    "choose_k",
    "choose_n_clusters",
    "cluster_again",
    "cluster_colors",
    "clusters_for",
    "compare_k",
    "compare_usual",
    "distances",
    "dot_areas",
    "farthest_first",
    "find_k",
    "gaps_between",
    "late_advice",
    "level_differences",
    "misfits",
    "nearest_pair",
    "new_level_advice",
    "plot_centers",
    "plot_k_choice",
    "plot_traversal",
    "predict",
    "read_messages",
    "register_rule",
    "row_advice",
    "rows_left_out",
    "rule_for",
    "rule_name",
    "unit_advice",
    "without_each",
]
