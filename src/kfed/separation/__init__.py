"""The conditions of the paper's main theorem, measured on data points that come with a target clustering."""

from kfed.separation.choice import SeparationChoice, choose_by_separation
from kfed.separation.report import SeparationReport, separation_report

__all__ = [
    "SeparationChoice",
    "SeparationReport",
    "choose_by_separation",
    "separation_report",
]
