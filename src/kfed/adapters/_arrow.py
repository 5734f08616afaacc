"""A pandas, polars or Arrow table as Arrow columns, and Arrow columns in the form of the table that came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array
from kfed._base.arrow import arrow
from kfed.errors import InvalidInputError


def is_pandas(frame: Any) -> bool:
    """Whether a table is a pandas data frame; does not import pandas."""
    return hasattr(frame, "iloc") and not hasattr(frame, "dask")


def as_arrow(frame: Any, names: Sequence[str]) -> Any:
    """These columns of a table, as an Arrow table."""
    check_there(frame, names)
    if is_pandas(frame):
        return arrow().table({name: _arrow_column(frame[name], name) for name in names})
    return arrow().table(frame).select(list(names))


def check_there(frame: Any, names: Sequence[str]) -> None:
    """Raise unless a table has all of these columns."""
    there = column_names(frame)
    missing = [name for name in names if name not in there]
    if missing:
        raise InvalidInputError(
            f"column not found: {text.listed(list(map(repr, missing)))}; the columns are {text.listed(there)}"
        )


def check_new(frame: Any, name: str) -> None:
    """Raise if a table has a column of this name."""
    if name in column_names(frame):
        raise InvalidInputError(f"label_column must be a new name; the table already has {name!r}")


def column_names(frame: Any) -> list[str]:
    """Names of the columns of a table."""
    if is_pandas(frame):
        return list(map(str, frame.columns))
    if hasattr(frame, "__arrow_c_stream__"):  # polars and Arrow
        return list(arrow().table(frame).column_names)
    remedy = ": call collect() first" if type(frame).__name__ == "LazyFrame" else ""
    remedy = ": use kfed.adapters.dask.cluster_partitions" if hasattr(frame, "dask") else remedy
    raise InvalidInputError(f"frame must be a pandas, polars or Arrow table; got a {type(frame).__name__}{remedy}")


def _arrow_column(column: Any, name: str) -> Any:
    """A column of a pandas frame; NaN is a missing cell."""
    pa = arrow()
    try:
        return pa.array(column, from_pandas=True)
    except pa.ArrowException:  # its text would show a cell
        raise InvalidInputError(f"column {name!r} must hold values of one type; some differ") from None


def named_codes(frame: Any, column: str) -> tuple[Array, list[str]]:
    """The device of each row, (n_rows,), as a position in the list of their names; -1 where there is none.

    A device is named by its value as text, whole numbers without a decimal point: a column of whole numbers is a column
    of fractions where a partition has missing cells.
    """
    if is_pandas(frame):
        check_there(frame, [column])
        import pandas as pd

        codes, values = pd.factorize(frame[column])  # -1 stands for null; a column of objects may hold several types
    else:
        encoded = as_arrow(frame, [column]).column(0).unify_dictionaries().combine_chunks().dictionary_encode()
        codes, values = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
    names = [None if value is None or value != value else _name(value) for value in values]  # NaN is no device
    place = {name: position for position, name in enumerate(dict.fromkeys(n for n in names if n is not None))}
    known = [-1 if name is None else place[name] for name in names]
    return np.array([*known, -1])[codes], list(place)


def _name(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def in_kind(table: Any, frame: Any) -> Any:
    """An Arrow table in the form of another table: pandas, polars or Arrow."""
    if is_pandas(frame):
        return table.to_pandas()
    if type(frame).__module__.startswith("polars"):
        import polars as pl

        return pl.from_arrow(table)
    return table


def with_numbers(frame: Any, name: str, numbers: Array, is_known: Array) -> Any:
    """The table with one more column, of whole numbers that are null where they are not known."""
    if is_pandas(frame):
        import pandas as pd

        return frame.assign(**{name: pd.arrays.IntegerArray(numbers, ~is_known)})
    column = arrow().array(numbers, mask=~is_known)
    if type(frame).__module__.startswith("polars"):
        import polars as pl

        return frame.with_columns(pl.Series(name, column))
    return arrow().table(frame).append_column(name, column)
