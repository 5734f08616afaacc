"""What `KFed` tells of one table without groups: how sure the number of its clusters is, and whether they overlap."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kfed.device import LocalClustering
from kfed.errors import AggregationWarning
from kfed.server import Aggregation
from kfed.simulate import Round

_MIXTURES = "mixtures"


def aggregated_alone(alone: Mapping[str, LocalClustering], shown: Aggregation | None, **options: Any) -> Aggregation:
    """Aggregate one device, and warn in words that go with one table.

    `shown` are the clusters of its summary, if the number of clusters was taken from there.
    """
    (local,), choice = alone.values(), None if shown is None else shown.k_choice
    n_clusters = int(np.count_nonzero(local.counts))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Round.of(alone, n_clusters, **options).aggregation
    is_unsure = choice is not None and not choice.stands_out
    if is_unsure:
        _warn(f"{choice}; give n_clusters, or groups if the rows are of several devices", "unsure k")
    for one in caught:
        if getattr(one.message, "code", "") != _MIXTURES:
            warnings.warn(one.message, stacklevel=4)
        elif not is_unsure:
            _warn("the clusters overlap, or some hold several groups; try another n_clusters", _MIXTURES)
    is_of_these = choice is not None and choice.n_clusters == n_clusters
    return replace(found, k_choice=choice) if is_of_these else found


def _warn(text: str, code: str) -> None:
    warnings.warn(AggregationWarning(text, code), stacklevel=5)
