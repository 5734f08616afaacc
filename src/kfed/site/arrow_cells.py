"""Columns of Arrow tables as `Cells`: what Parquet, Feather, data frames and fast CSV have in common."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.errors import InvalidInputError, MissingExtraError
from kfed.site.cells import Cells, from_text
from kfed.wire import MAX_VALUE

_DAY = 86_400_000.0  # in milliseconds


def arrow() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("this kind of table needs pyarrow: pip install 'kfed[parquet]'") from error
    return pyarrow


def cells_of_each(columns: dict[str, Any], as_text: Sequence[str], decimal: str = ".") -> dict[str, Cells]:
    """All columns as cells. Empties `columns`: so a large table is not in memory twice."""
    found = {}
    for name in list(columns):
        found[name] = cells_of(name, columns.pop(name), decimal, as_text=name in as_text)
        release()
    return found


def release() -> None:
    """Give memory that pyarrow no longer uses back to the system, if it was used at all."""
    if (module := sys.modules.get("pyarrow")) is not None:
        module.default_memory_pool().release_unused()


def cells_of(name: str, column: Any, decimal: str = ".", as_text: bool = False) -> Cells:
    """One column of an Arrow table as cells; with `as_text`, as it is written."""
    types, kind = arrow().types, column.type
    if as_text:
        return _texts(name, column)
    if types.is_boolean(kind):
        return Cells(name, "flag", _floats(column.cast("int8")))
    if types.is_date(kind) or types.is_timestamp(kind):
        return Cells(name, "date", _floats(column.cast(arrow().timestamp("ms"), safe=False).cast("int64")) / _DAY)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _number_cells(name, column.cast("float64", safe=False) if types.is_decimal(kind) else column)
    if types.is_null(kind):
        return Cells(name, "number", np.full(len(column), np.nan))
    if types.is_dictionary(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return cells_of(name, column.cast(kind.value_type if types.is_dictionary(kind) else "string"), decimal)
    if not types.is_string(column.type):
        raise InvalidInputError(f"column {name!r} holds {kind}, which cannot be clustered; leave it out with --columns")
    texts, codes = _encoded(column)
    return from_text(name, texts, codes, decimal)


def _texts(name: str, column: Any) -> Cells:
    """Cells as they are written: whole numbers without a decimal point."""
    if arrow().types.is_floating(column.type):
        return Cells(name, "text", codes=np.arange(len(column)), texts=as_ids(column.to_pylist()))
    texts, codes = _encoded(column.cast("string"))
    return Cells(name, "text", codes=codes, texts=tuple(map(str.strip, texts)))


def _encoded(column: Any) -> tuple[list[str], Array]:
    """Distinct texts, and the position of each cell among them; -1 where there is none."""
    encoded = column.unify_dictionaries() if hasattr(column, "unify_dictionaries") else column
    encoded = encoded.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), codes.astype(np.intp)


def as_ids(cells: Sequence[object]) -> tuple[str, ...]:
    """Cells as text: whole numbers without a decimal point, missing cells as nothing."""
    return tuple(
        "" if cell is None else str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
        for cell in cells
    )


def _number_cells(name: str, column: Any) -> Cells:
    """Numbers; one beyond what a message may hold is a fault, and NaN is a missing cell."""
    numbers = _floats(column)
    bad = np.abs(numbers) > np.float64(MAX_VALUE)
    return Cells(name, "number", numbers, bad_row=int(bad.argmax()) if bad.any() else None)


def _floats(column: Any) -> Array:
    """Numbers in the precision they have, whole ones as floats; NaN for missing ones."""
    is_single = arrow().types.is_float32(column.type)
    return np.asarray(column.to_numpy(), np.float32 if is_single else np.float64)
