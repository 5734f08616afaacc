"""How numbers are written in a CSV file, where its first lines and Arrow leave it open: 5,13 or 0x1A far below."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from kfed._base.arrow import arrow
from kfed._base.cell_words import ABSENT_WORDS, MISSING_WORDS, is_missing_word
from kfed.site.formats.reader import DECIMAL_COMMA, EITHER_COMMA
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.thousands import DECIMAL, Signs, is_grouped, is_open

_BLOCK = 2**22

_WITH_A_SIGN = r"^\s*[-+\x{2212}]?\d*[.,][\d.,]*\d\s*$"


def floating(columns: Mapping[str, Any]) -> list[str]:
    """Columns that Arrow took for decimals, also if all of them are whole: 69.000 may be a thousand times as much."""
    return [name for name, column in columns.items() if arrow().types.is_floating(column.type)]


def with_a_sign(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of text that hold a number with a point or a comma; numbers in others can be read in one way alone."""
    return {name: column for name, column in columns.items() if signed_words({name: column})}


def whole(columns: Mapping[str, Any]) -> list[str]:
    """Columns that Arrow took for whole numbers."""
    return [name for name, column in columns.items() if arrow().types.is_integer(column.type)]


def has_hexadecimal(file: IO[Any]) -> bool:
    """Whether 0x occurs in a file of text or bytes: Arrow takes 0x1A for 26, and nobody else does."""
    small, large, last = "0x", "0X", file.read(0)
    while block := file.read(_BLOCK):
        words = (small, large) if isinstance(block, str) else (small.encode(), large.encode())
        block = last + block
        if any(word[1:] in block and word in block for word in words):
            return True
        last = block[-1:]
    return False


def has_whole_decimals(file: IO[Any], sign: str) -> bool:
    """Whether a number such as 85.000 occurs in a file of text or bytes: Arrow takes it for 85."""
    form, last = rf"{re.escape(sign)}000(?!\d)", file.read(0)  # a plain beginning is found fast
    found = re.compile(form if isinstance(last, str) else form.encode())
    while block := file.read(_BLOCK):
        if found.search(last + block):
            return True
        last = (last + block)[-4:]
    return False


def signed_words(columns: Mapping[str, Any]) -> Counter[str]:
    """How often each number with a point or a comma occurs in the columns of text."""
    from pyarrow import compute

    counts: Counter[str] = Counter()
    for column in columns.values():
        if arrow().types.is_string(column.type):
            found = compute.value_counts(column.filter(compute.match_substring_regex(column, _WITH_A_SIGN)))
            for word, count in zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True):
                counts[word.strip()] += count
    return counts


def must_be_seen(cells: Cells, first: Sequence[str], signs: Signs, has_whole_decimals: Callable[[], bool]) -> bool:
    """Whether the text of a column that Arrow took for numbers must be looked at.

    That is so if it may hold thousands, or nothing but a word that counts as missing.

    Parameters
    ----------
    first : sequence of str
        The first cells of the column, as they are written.
    signs : Signs
        Those of the table.
    has_whole_decimals : callable
        Whether the file holds numbers such as 85.000; asked where nothing else tells that a column has none.
    """
    if cells.kind != "number" or cells.numbers is None or cells.only_word or cells.in_doubt:
        return False
    words = [word for word in first if not is_missing_word(word)]
    if not is_open(words, signs.decimal):
        return False
    if cells.is_missing.all():
        return len(first) < len(cells) or not ABSENT_WORDS.issuperset(map(str.lower, first))
    known = np.abs(cells.numbers[~np.isnan(cells.numbers)])
    is_whole = known == np.rint(known)
    if signs.is_certain and not (is_whole & (known >= 100) & (known < 1000)).any():
        return False
    return is_grouped(words, signs.decimal) or not is_whole.all() or has_whole_decimals()


def as_float(cell: str) -> float | None:
    """The number in a cell as Python reads it, or None; infinite ones are numbers here."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def fault_in(cell: str, signs: Signs) -> str:
    """What is wrong with a cell of a column of numbers, in words that do not show it.

    Examples
    --------
    >>> fault_in("", Signs()), fault_in("n/a", Signs()), fault_in("tall", Signs())
    ('is empty', 'has a missing value', 'holds text')
    """
    if not cell:
        return "is empty"
    if is_grouped([cell], ",") and signs.decimal == ".":
        return EITHER_COMMA
    if DECIMAL[","].fullmatch(cell):
        return DECIMAL_COMMA
    number = as_float(cell)
    if number is None:
        return "has a missing value" if cell.lower() in MISSING_WORDS else "holds text"
    return "is too large" if np.isfinite(number) else "is NaN or infinite"
