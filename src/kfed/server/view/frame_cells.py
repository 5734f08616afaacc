"""The cells of a data frame as the numbers that devices made of theirs: flags, dates and missing cells in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed._base.cell_words import absent_among, flag_in, is_missing_word, number_in
from kfed._base.dates import DAY_IN_MILLISECONDS, LAST_DAY, compact_day_in, days_in
from kfed._base.text import plural
from kfed.errors import InvalidInputError
from kfed.wire import Column

_READ = {"number": number_in, "flag": flag_in}
_MUST_HOLD = {"number": "numbers", "flag": "yes or no, or 1 and 0", "date": "dates such as 2026-01-31"}


def number_feature(cells: Array, column: Column) -> Array:
    """The feature of a column of numbers, flags or dates, (n_rows,); NaN where a cell is missing.

    Numbers stay as they are. Flags and dates are put on the scale that was agreed on, if one was, whether they are
    words, flags written as 1 and 0, or dates written as 20260131; other numbers are taken for features, as they are.

    Examples
    --------
    >>> number_feature(np.array(["yes", "no", "n/a"], object), Column("smoker", "flag"))
    array([ 1.,  0., nan])
    >>> number_feature(np.array([19700131, 19700201]), Column("visit", "date"))
    array([30., 31.])
    """
    if cells.dtype.kind in "fiub":
        numbers = cells.astype(np.float64)
        if column.kind == "flag" and np.isin(numbers[~np.isnan(numbers)], (0, 1)).all():
            return _scaled(numbers, column)
        if column.kind != "date" or not (numbers > LAST_DAY).any():
            return numbers
        cells = np.array([f"{number:.17g}" for number in numbers.tolist()], object)
    if cells.dtype.kind == "M" and column.kind == "date":
        days = cells.astype("datetime64[ms]").astype(np.int64) / DAY_IN_MILLISECONDS
        return _scaled(np.where(np.isnat(cells), np.nan, days), column)
    found = _read(cells, column)
    return found if column.kind == "number" else _scaled(found, column)


def _read(cells: Array, column: Column) -> Array:
    """What the words in cells say, (n_rows,)."""
    words, codes = words_of(cells)
    is_missing = np.array([is_missing_word(word) for word in words], bool)
    is_date = column.kind == "date"
    values = np.array(
        days_in(words, compact_day_in) if is_date else [_READ[column.kind](word) for word in words], float
    )
    n_bad = int(np.isin(codes, np.flatnonzero(np.isnan(values) & ~is_missing)).sum())
    if n_bad:
        raise InvalidInputError(
            f"X: column {column.name!r} must hold {_MUST_HOLD[column.kind]}, or nothing; "
            f"{plural(n_bad, 'cell holds', 'cells hold')} something else: convert them, or label the table with "
            "`kfed label`, which reads them as `kfed device` does"
        )
    return np.append(values, np.nan)[codes]


def words_of(cells: Iterable[Any], levels: Sequence[str] = ()) -> tuple[list[str], Array]:
    """The different words in a column, and which of them each cell holds, (n_rows,); -1 where a cell is missing."""
    held = ["" if cell is None or str(cell) == "<NA>" or cell != cell else str(cell).strip() for cell in cells]
    absent = absent_among(held, levels)
    words = sorted({word for word in held if word.lower() not in absent})
    places = {word: place for place, word in enumerate(words)}
    return words, np.array([places.get(word, -1) for word in held], np.intp)


def _scaled(values: Array, column: Column) -> Array:
    return values if column.shift is None or column.scale is None else (values - column.shift) / column.scale
