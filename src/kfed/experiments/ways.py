"""Ways to label the points of devices that are clustered: by the paper's rule, the robust one, or refined as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.device import LocalClustering
from kfed.simulate import Round

WAYS = {"paper": "0.5", "robust": "#2f6690", "robust, refined": "#d1603d"}
"""The ways, and their colors in pictures."""


def labels_each_way(local: Mapping[str, LocalClustering], points: Mapping[str, Any], k: int) -> dict[str, Array]:
    """Label the points of all devices in every way, (n_points,) each."""
    done = {rule: Round.of(local, k, rule=rule) for rule in ("paper", "robust")}
    refined = done["robust"].device_labels(refine=points.values())
    return {rule: own.labels for rule, own in done.items()} | {"robust, refined": np.concatenate(refined)}
