"""`read_column`: one column of a table as text, such as the name of the device of each row."""

from __future__ import annotations

import os

from kfed.errors import InvalidInputError
from kfed.site.columns import check_known
from kfed.site.read import open_table


def read_column(path: str | os.PathLike[str], column: str | None = None) -> tuple[str, ...]:
    """Read one column as text: names of devices, or of clusters.

    Parameters
    ----------
    path : path
        As in `read_table`.
    column : str, optional
        Its name; by default the last.
    """
    reader = open_table(path)
    name = reader.names[-1] if column is None else column
    check_known([name], reader.names, os.fspath(path))
    cells = reader.cells([name], as_text=[name])[name].as_texts()
    if "" in cells:
        raise InvalidInputError(
            f"{path}: column {name!r} must be filled in every row; it is empty in row {cells.index('')} "
            "(counted from 0). Remove or fill such rows first"
        )
    return cells
