"""The conditions of the paper's main theorem, measured on data points that come with a target clustering."""

from kfed.separation.choice import SeparationChoice, choose_by_separation
from kfed.separation.known_mixture import MixtureReport, mixture_report
from kfed.separation.report import SeparationReport, separation_report

__all__ = [
    "MixtureReport",
    "SeparationChoice",
    "SeparationReport",
    "choose_by_separation",
    "mixture_report",
    "separation_report",
]
