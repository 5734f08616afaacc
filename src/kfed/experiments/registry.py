"""Which experiments there are, by name, in the order of the paper."""

from __future__ import annotations

from kfed.errors import InvalidInputError
from kfed.experiments import (
    auto_k,
    choosing_k,
    client_selection,
    communication,
    heterogeneity,
    pooled_quality,
    privacy,
    robustness,
    rules_on_mnist,
    scaling,
    separation_constant,
    table1,
    table2,
    tables,
)
from kfed.experiments.experiment import Experiment

MODULES = (
    table1,
    separation_constant,
    heterogeneity,
    communication,
    table2,
    client_selection,
    choosing_k,
    scaling,
    robustness,
    rules_on_mnist,
    pooled_quality,
    auto_k,
    tables,
    privacy,
)

EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}


def get(name: str) -> Experiment:
    """Find an experiment; an error lists the known ones."""
    if name not in EXPERIMENTS:
        raise InvalidInputError(f"unknown experiment {name!r}; choose from {', '.join(EXPERIMENTS)}, or all")
    return EXPERIMENTS[name]
