"""Labels with the index of the pandas data frame that their rows came from."""

from __future__ import annotations

import sys
from typing import Any

from kfed._base.array import Array


def index_of(frame: Any) -> Any:
    """The index of a pandas data frame; None of anything else."""
    pandas = sys.modules.get("pandas")  # who has a data frame has imported it
    return frame.index if pandas is not None and isinstance(frame, pandas.DataFrame) else None


def with_index(labels: Array, index: Any) -> Any:
    """Labels as a pandas series with this index; as they are without one."""
    if index is None:
        return labels
    import pandas

    return pandas.Series(labels, index=index, name="cluster")
