"""`with_table_moments`: the scatter of the rows of a table, in the units of its centers."""

from __future__ import annotations

import numpy as np

from kfed.device import LocalClustering, own_scale, with_moments
from kfed.errors import InvalidInputError
from kfed.site.table import Table


def with_table_moments(clustering: LocalClustering, table: Table) -> LocalClustering:
    """The same clustering, whose message also holds the scatter of the rows; see `kfed.device.with_moments`."""
    if table.schema is None:
        return with_moments(clustering, table, table.weights)
    if np.isnan(table.values).any():
        raise InvalidInputError("moments need every cell; some are missing: leave --moments out")
    is_agreed = table.schema.scaling == "agreed"
    values = own_scale(table.values, table.schema).apply(table.values) if is_agreed else table.values
    return with_moments(clustering, values, table.weights)
