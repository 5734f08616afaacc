"""Which tables are taken as they are, with no scale, unless somebody says otherwise."""

from __future__ import annotations

from typing import Any

from kfed.site.npy_reader import NpyReader
from kfed.site.read import open_table
from kfed.wire import Notice

MOST_SPREADS = 256
"""A table of more columns is sent without the spread of each."""


def taken_as_is(path: Any, header: bool | None, sheet: str | None) -> tuple[bool, list[Notice]]:
    """Whether numbers are taken as they are, and what to say of it."""
    reader = open_table(path, header, sheet)
    n_columns = len(reader.names)
    if isinstance(reader, NpyReader) or n_columns <= MOST_SPREADS:
        return isinstance(reader, NpyReader), []
    text = (
        f"the table has {n_columns:,} columns, more than {MOST_SPREADS}, so numbers are taken as they are, without a "
        "scale: if columns have units of their own, use --by-column (as_is=False in Python) at every site"
    )
    return True, [Notice("as it is", text)]
