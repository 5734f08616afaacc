"""`table_of_frame`: a data frame as an Arrow table; columns that Arrow refuses are read as in Excel, or named."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import date
from decimal import Decimal
from numbers import Number
from typing import Any

from kfed._base.arrow import arrow
from kfed._base.text import quoted
from kfed.errors import InvalidInputError
from kfed.site.kinds.cells import cell_text

_OF_FRAMES = ("__arrow_c_stream__", "__dataframe__", "iloc", "column_names")
"""What data frames have, one or the other, in all versions of pandas, Polars and Arrow; not Polars' lazy ones."""

_AGAIN = ("columns", "column_names", "num_rows")
"""What data frames have that can be read again; streams of Arrow do not."""

_REFUSED = (ValueError, TypeError, NotImplementedError)
"""Errors of Arrow, which has its own beneath them; their words show cells and go no further."""


def check_frame(table: Any) -> None:
    """Raise if these rows have no column names, such as a list of tuples from a database, or an array."""
    if hasattr(table, "to_frame") and not hasattr(table, "columns"):
        raise InvalidInputError(
            f"a table must be a path or a data frame; got a single column ({type(table).__name__}): use .to_frame()"
        )
    if not (isinstance(table, dict) or any(hasattr(table, name) for name in _OF_FRAMES)):
        raise InvalidInputError(
            f"a table must be a path, or a data frame of pandas, Polars or Arrow; got {type(table).__name__}. Rows "
            "from a database have no names: pandas.DataFrame(rows, columns=[...]) gives them some. A lazy frame must "
            "be collected; arrays of numbers are clustered by kfed.cluster_device"
        )


def held_table(table: Any) -> Any:
    """A table that can be read more than once: a stream gives its rows a single time, so they are kept."""
    if isinstance(table, str | os.PathLike | dict):
        return table
    check_frame(table)  # first, as a lazy frame warns if it is asked for its columns
    return table if any(hasattr(table, name) for name in _AGAIN) else table_of_frame(table)


def table_of_frame(frame: Any) -> Any:
    """Convert a data frame to an Arrow table; an index that is more than row numbers becomes a column."""
    module = arrow()
    with suppress(*_REFUSED, module.ArrowException):
        return module.table(frame)
    is_other = not isinstance(frame, dict) and not hasattr(frame, "columns")
    return _interchanged(frame) if is_other else _column_by_column(frame)


def _interchanged(frame: Any) -> Any:
    """A data frame that has nothing but the dataframe interchange protocol."""
    try:
        from pyarrow.interchange import from_dataframe

        return from_dataframe(frame)
    except (*_REFUSED, AttributeError, ImportError, RuntimeError, arrow().ArrowException) as error:
        raise InvalidInputError(
            f"the data frame: pyarrow cannot read a {type(frame).__name__}; convert it to a data frame of pandas, "
            "Polars or Arrow first"
        ) from error


def _column_by_column(frame: Any) -> Any:
    names = list(getattr(frame, "columns", ()))
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInputError(
            f"the data frame: column names must be distinct; {quoted(repeated)} "
            f"{'occurs' if len(repeated) == 1 else 'occur'} more than once"
        )
    if not names or isinstance(frame, dict):
        raise InvalidInputError("the data frame: it must have columns of types that pyarrow knows; convert them first")
    return arrow().table({str(name): _column(frame, name) for name in names})


def _column(frame: Any, name: Any) -> Any:
    module = arrow()
    with suppress(*_REFUSED, module.ArrowException):
        return module.table(frame[[name]]).column(0)
    kind = str(frame[name].dtype)
    if kind != "object":
        raise InvalidInputError(
            f"the data frame: column {str(name)!r} is of a type that cannot be read, {kind}; convert it to numbers or "
            "text first"
        )
    cells = [None if gone else cell for cell, gone in zip(frame[name], frame[name].isna(), strict=True)]
    if not all(isinstance(cell, str | Number | Decimal | date | None) for cell in cells):
        raise InvalidInputError(
            f"the data frame: column {str(name)!r} must hold cells of one type; it mixes numbers or text with "
            "something else: convert it"
        )
    return module.array([None if cell is None else cell_text(cell) for cell in cells], module.string())
