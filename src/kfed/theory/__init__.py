"""Section 3 of the paper: the conditions of its theorems, bounds on norm(A - C), and the certificate made of them.

Everything here follows from messages or from plain numbers; no data point is needed or seen.
"""

from kfed.theory.certificate import Certificate
from kfed.theory.conditions import (
    Presence,
    active_scales,
    cluster_means,
    corollary_separations,
    distances_of,
    inactive_scale,
    is_met_in_text_only,
    over,
    proximity_gaps,
    required_separations,
    separation_ratios,
    sums_of_pairs,
)
from kfed.theory.deviation_bounds import DEVIATION_MARGIN, EXACT_FEATURES, WIDE, Bounds, largest_eigenvalue
from kfed.theory.judgement import Judgement, kinds_of_pairs
from kfed.theory.pair_plot import bins, drawable, label_axes
from kfed.theory.words import caveats, pairs_too_near

__all__ = [
    "DEVIATION_MARGIN",
    "EXACT_FEATURES",
    "WIDE",
    "Bounds",
    "Certificate",
    "Judgement",
    "Presence",
    "active_scales",
    "bins",
    "caveats",
    "cluster_means",
    "corollary_separations",
    "distances_of",
    "drawable",
    "inactive_scale",
    "is_met_in_text_only",
    "kinds_of_pairs",
    "label_axes",
    "largest_eigenvalue",
    "over",
    "pairs_too_near",
    "proximity_gaps",
    "required_separations",
    "separation_ratios",
    "sums_of_pairs",
]
