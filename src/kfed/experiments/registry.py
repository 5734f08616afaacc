"""Which experiments there are, by name, in the order of the paper."""

from __future__ import annotations

from kfed.errors import InvalidInputError
from kfed.experiments import (
    auto_k,
    choosing_k,
    client_selection,
    communication,
    device_failures,
    heterogeneity,
    inactive_separation,
    pooled_quality,
    privacy,
    robustness,
    rules_on_mnist,
    scaling,
    separation_constant,
    table1,
    table2,
    table2_settings,
    tables,
)
from kfed.experiments.experiment import Experiment
from kfed.experiments.own import load_experiment

MODULES = (
    inactive_separation,
    table1,
    separation_constant,
    heterogeneity,
    communication,
    table2,
    table2_settings,
    client_selection,
    choosing_k,
    scaling,
    device_failures,
    robustness,
    rules_on_mnist,
    pooled_quality,
    auto_k,
    tables,
    privacy,
)

EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}


def get(name: str) -> Experiment:
    """Find an experiment by its name, or in a Python file of one's own; an error lists the known ones."""
    if name.endswith(".py"):
        return load_experiment(name)
    if name not in EXPERIMENTS:
        known = f"{', '.join(EXPERIMENTS)}, all, or the path of a Python file of your own"
        raise InvalidInputError(f"unknown experiment {name!r}; choose from {known}")
    return EXPERIMENTS[name]
