"""Algorithm 2 of the paper: the server groups the centers that devices sent, and answers each device.

It knows devices by their messages alone; the import contract keeps it from everything that touches a data point.
"""

from kfed.server.aggregation import Aggregation, AggregationSettings, aggregate_batch
from kfed.server.algorithm2 import DEFAULT, RULES, Clustered, clusters_for, rule_for
from kfed.server.door import Inbox, aggregate, choose_n_clusters, read_messages
from kfed.server.k.auto import choose_k
from kfed.server.k.choice import KChoice
from kfed.server.k.comparing import compare_k
from kfed.server.k.comparison import KComparison
from kfed.server.k.finding import compare_usual, find_k
from kfed.server.k.stability import agreement, cluster_again
from kfed.server.k.words import ComparisonWords
from kfed.server.model import ClusterModel
from kfed.server.notices.left_out import rows_left_out
from kfed.server.notices.of_columns import late_advice, row_advice, unit_advice
from kfed.server.notices.of_levels import level_differences, new_level_advice
from kfed.server.rules.grouping import Grouping
from kfed.server.rules.own import BUILT_IN_RULES, OwnRule, register_rule, rule_name
from kfed.server.rules.traversal import farthest_first
from kfed.server.second_round import aggregate_refined, as_aggregated
from kfed.server.tree import aggregate_tree
from kfed.server.view.fit import Without, gaps_between, misfits, nearest_pair, without_each
from kfed.server.view.optimality import Optimality
from kfed.server.view.plots import cluster_colors, dot_areas, plot_centers, plot_k_choice, plot_traversal
from kfed.server.view.prediction import HasCenters, distances, predict
from kfed.server.view.profile import Profile
from kfed.server.view.quality import RowMoments

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
