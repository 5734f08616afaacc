"""What the clusters are and how far to rely on them: diagnosis, reports and pictures, all from messages alone."""

from kfed.insight.diagnosis import Diagnosis, diagnose, diagnose_data
from kfed.insight.plots import cluster_colors, dot_areas, plot_centers, plot_traversal

__all__ = [
    "Diagnosis",
    "cluster_colors",
    "diagnose",
    "diagnose_data",
    "dot_areas",
    "plot_centers",
    "plot_traversal",
]
