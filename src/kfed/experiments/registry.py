"""Which experiments there are, by name, in the order of the paper."""

from __future__ import annotations

from kfed.errors import InvalidInputError
from kfed.experiments import client_selection, table1, table2
from kfed.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (table1, table2, client_selection)
}


def get(name: str) -> Experiment:
    """Find an experiment; an error lists the known ones."""
    if name not in EXPERIMENTS:
        raise InvalidInputError(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}, or all of them: all"
        )
    return EXPERIMENTS[name]
