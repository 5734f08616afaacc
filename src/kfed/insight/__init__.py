"""What the clusters are and how far to rely on them: diagnosis, reports and pictures, all from messages alone."""

from kfed.insight.clusters import cluster_report, profile_csv
from kfed.insight.diagnosis import Diagnosis, diagnose, diagnose_data
from kfed.insight.html import to_html
from kfed.insight.markdown import to_markdown, write_markdown
from kfed.insight.names import check_names
from kfed.server import cluster_colors, dot_areas, plot_centers, plot_traversal

__all__ = [
    "Diagnosis",
    "check_names",
    "cluster_colors",
    "cluster_report",
    "diagnose",
    "diagnose_data",
    "dot_areas",
    "plot_centers",
    "plot_traversal",
    "profile_csv",
    "to_html",
    "to_markdown",
    "write_markdown",
]
