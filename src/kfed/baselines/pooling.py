"""The points of all devices in one table, as no device would send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base import checks


def pool(devices: Sequence[Any]) -> Any:
    """Stack the points of all devices: an array, or a sparse matrix if they are sparse."""
    from scipy import sparse

    return sparse.vstack(list(devices), "csr") if checks.is_sparse(devices[0]) else np.concatenate(list(devices))
