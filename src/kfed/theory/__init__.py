"""Section 3 of the paper: the conditions of its theorems, bounds on norm(A - C), and the certificate made of them.

Everything here follows from messages or from plain numbers; no data point is needed or seen.
"""

from kfed.theory.certificate import Certificate
from kfed.theory.conditions import (
    INACTIVE_FACTOR,
    LEAST_RATIO,
    Bounds,
    Condition,
    Measured,
    active_scales,
    centralized_separations,
    corollary_separations,
    inactive_scale,
    over,
    proximity_gaps,
    required_separations,
    separation_ratios,
    sums_of_pairs,
    verdict_of,
)
from kfed.theory.deviation_bounds import DEVIATION_MARGIN, EXACT_FEATURES, WIDE, largest_eigenvalue
from kfed.theory.judgement import Judgement, kinds_of_pairs
from kfed.theory.means import cluster_means, distances_of
from kfed.theory.pair_plot import bins, drawable, label_axes
from kfed.theory.presence import Presence
from kfed.theory.scatter import scatter_factors
from kfed.theory.words import caveats, pairs_too_near

__all__ = [
    "DEVIATION_MARGIN",
    "EXACT_FEATURES",
    "INACTIVE_FACTOR",
    "LEAST_RATIO",
    "WIDE",
    "Bounds",
    "Certificate",
    "Condition",
    "Judgement",
    "Measured",
    "Presence",
    "active_scales",
    "bins",
    "caveats",
    "centralized_separations",
    "cluster_means",
    "corollary_separations",
    "distances_of",
    "drawable",
    "inactive_scale",
    "kinds_of_pairs",
    "label_axes",
    "largest_eigenvalue",
    "over",
    "pairs_too_near",
    "proximity_gaps",
    "required_separations",
    "scatter_factors",
    "separation_ratios",
    "sums_of_pairs",
    "verdict_of",
]
