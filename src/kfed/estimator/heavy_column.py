"""What `KFed` says where one column outweighs all others, so that the clusters are those of this column alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from kfed._base.array import Array
from kfed._base.heavy_column import CODE, heavy_column, some_rows
from kfed.errors import AggregationWarning
from kfed.simulate import Devices


def warn_of_heavy_column(devices: Devices, labels: Array, names: Sequence[str] | None) -> None:
    """Warn of a column that decides alone; sparse rows are not looked at."""
    if any(map(sparse.issparse, devices.tables)) or devices.tables[0].shape[1] < 2:
        return
    some, starts = some_rows(devices.n_rows), np.cumsum([0, *(len(table) for table in devices.tables)])
    drawn = [
        own - start for own, start in zip(np.split(some, np.searchsorted(some, starts[1:-1])), starts, strict=False)
    ]
    rows = [table[own] for table, own in zip(devices.tables, drawn, strict=True)]
    clusters = [labels[device_rows][own] for device_rows, own in zip(devices.rows, drawn, strict=True)]
    found = heavy_column(np.concatenate(rows), np.concatenate(clusters))
    if found is not None:
        warnings.warn(AggregationWarning(found.text(names), CODE), stacklevel=3)
