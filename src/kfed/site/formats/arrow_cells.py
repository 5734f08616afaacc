"""`cells_of_each`: columns of an Arrow table as cells, whatever their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed._base.arrow import arrow, release
from kfed._base.dates import DAY_IN_MILLISECONDS
from kfed._base.text import exclusion
from kfed.errors import InvalidInputError
from kfed.site.kinds.cells import Cells, as_ids, from_levels, from_text
from kfed.site.kinds.thousands import Signs, signs_of_column
from kfed.wire import MAX_VALUE


def cells_of_each(columns: dict[str, Any], as_text: Sequence[str], signs: Signs | None = None) -> dict[str, Cells]:
    """All columns as cells; takes them out of `columns`, so that a large table is not in memory twice."""
    found = {}
    for name in list(columns):
        found[name] = cells_of(name, columns.pop(name), signs, as_text=name in as_text)
        release()
    return found


def cells_of(name: str, column: Any, signs: Signs | None = None, as_text: bool = False) -> Cells:
    """One column of an Arrow table as cells; with `as_text`, as written. Without `signs`, the column shows them."""
    types = arrow().types
    if types.is_dictionary(column.type):
        return _of_codes(name, _decoded(column), signs, as_text)
    kind = column.type
    if as_text and not _is_refused(kind):
        return _texts(name, column)
    if types.is_boolean(kind):
        return Cells(name, "flag", _floats(column.cast("int8")))
    if types.is_date(kind) or types.is_timestamp(kind):
        return Cells(
            name, "date", _floats(column.cast(arrow().timestamp("ms"), safe=False).cast("int64")) / DAY_IN_MILLISECONDS
        )
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _number_cells(name, column.cast("float64", safe=False) if types.is_decimal(kind) else column)
    if types.is_null(kind):
        return Cells(name, "number", np.full(len(column), np.nan))
    if types.is_time(kind):
        return cells_of(name, column.cast("string"), signs)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return cells_of(name, column.cast("string"), signs)
    if not types.is_string(kind):
        what = "intervals, as by pandas.cut" if "pandas.interval" in str(kind) else kind
        raise InvalidInputError(
            f"column {name!r} holds {what}, which cannot be clustered; leave it out with {exclusion([name])}, or turn "
            "it into text or numbers first"
        )
    texts, codes = _encoded(column)
    return from_text(name, texts, codes, signs_of_column([text or "" for text in texts]) if signs is None else signs)


def _of_codes(name: str, column: Any, signs: Signs | None, as_text: bool) -> Cells:
    """What the codes of a category stand for: numbers are its levels, too, unless they have decimals."""
    found = cells_of(name, column, signs, as_text)
    if found.kind != "number" or found.numbers is None or found.is_missing.all():
        return found
    known = found.numbers[~found.is_missing]
    are_levels = bool((known == np.rint(known)).all()) or arrow().types.is_string(column.type)
    return from_levels(name, _texts(name, column).as_texts()) if are_levels else found


def _is_refused(kind: Any) -> bool:
    """Whether cells of this type cannot be written as text: lists, intervals and other compounds."""
    return bool(arrow().types.is_nested(kind)) or isinstance(kind, arrow().BaseExtensionType)


def _decoded(column: Any) -> Any:
    """A column of codes as what they stand for; pyarrow cannot cast codes of all types itself."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    words = [_as_strings(chunk.dictionary).take(chunk.indices) for chunk in chunks]
    return arrow().chunked_array(words, None if words else column.type.value_type)


def _as_strings(values: Any) -> Any:
    return values.cast("string") if arrow().types.is_string_view(values.type) else values


def _texts(name: str, column: Any) -> Cells:
    """Cells as they are written: whole numbers without a decimal point."""
    if arrow().types.is_floating(column.type):
        return Cells(name, "text", codes=np.arange(len(column)), texts=as_ids(column.to_pylist()))
    texts, codes = _encoded((column.cast("date32") if _are_days(column) else column).cast("string"))
    return Cells(name, "text", codes=codes, texts=tuple(map(str.strip, texts)))


def _are_days(column: Any) -> bool:
    """Whether these are moments without a zone, all of them at midnight."""
    if not arrow().types.is_timestamp(column.type) or column.type.tz is not None:
        return False
    from pyarrow import compute

    of_day = compute.subtract(column, column.cast("date32").cast(column.type))
    return compute.any(compute.not_equal(of_day.cast("int64"), 0)).as_py() is not True


def _encoded(column: Any) -> tuple[list[str], Array]:
    """Distinct texts, and the position of each cell among them; -1 where there is none."""
    encoded = column.unify_dictionaries() if hasattr(column, "unify_dictionaries") else column
    encoded = encoded.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), codes.astype(np.intp)


def _number_cells(name: str, column: Any) -> Cells:
    """Numbers; one beyond what a message may hold is a fault, and NaN is a missing cell."""
    numbers = _floats(column)
    bad = np.abs(numbers) > np.float64(MAX_VALUE)
    return Cells(name, "number", numbers, bad_rows=tuple(np.flatnonzero(bad).tolist()))


def _floats(column: Any) -> Array:
    """Numbers in the precision they have, whole ones as floats; NaN for missing ones."""
    is_single = arrow().types.is_float32(column.type)
    return np.asarray(column.to_numpy(), np.float32 if is_single else np.float64)
