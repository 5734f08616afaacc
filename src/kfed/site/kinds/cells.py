"""`Cells`: one column of a table as it was read, before anyone decides what to make of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from kfed._base.array import Array
from kfed._base.cell_words import absent_among, is_missing_word, number_in
from kfed._base.dates import compact_day_in, days_in
from kfed._base.text import accents_joined
from kfed.site.kinds.flags import flags_among, flags_in
from kfed.site.kinds.thousands import POINTS, Signs, signs_in
from kfed.wire import MAX_VALUE

MANY_WORDS = 1000
"""If none of so many different cells is a date, the column holds none."""

_NUMBER = r"(?:\d*[.,]?\d+|\d{1,3}(?:[,.' \u00a0\u202f]\d{3})+(?:[.,]\d+)?)"
_UNIT = r"(?:[mkcdnuµ][glm]|m?mol|mmhg|bpm|k?cal|kj|min|ms|yrs?)(?:/\w+)?"
_DAY = r"(?:\d{1,2}([/.-])\d{1,2}\1(?:\d\d){1,2}|\d{4}([/.-])\d{1,2}\2\d{1,2})"
_NAMED = (
    r"(?:jan(?:uary?)?|feb(?:ruary?)?|mar(?:ch)?|märz?|apr(?:il)?|ma[yi]|jun[ei]?|jul[yi]?|aug(?:ust)?|"
    r"sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\.?"
)
_YEAR = r"(?:19|20)\d\d"
_IN_LETTERS = rf"\d{{1,2}}[\s.-]*{_NAMED}[\s,-]*(?:{_YEAR}|\d\d)|{_NAMED}\s*\d{{1,2}},?\s+{_YEAR}|{_NAMED}[\s-]+{_YEAR}"
_MONTH = rf"{_YEAR}[-/](?:0?[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])[-/]{_YEAR}"
_ODD = re.compile(
    rf"(?:{_DAY}|{_IN_LETTERS}|{_MONTH})(?:\s.*)?|[-+]?[$€£¥]?\s?{_NUMBER}(?:\s?[%$€£¥]|\s+\S{{1,10}}|{_UNIT})?",
    re.IGNORECASE,
)
"""Dates that could be read in two ways, are on no calendar, lack a day or have a month in letters; numbers with a comma
between commas, separators of thousands, a sign for percent or money, or a unit. Not codes such as 3a or MAR0012."""

_ZEROS = re.compile(r"0\d+")

_TIME = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?(\s?[ap]\.?m\.?)?", re.IGNORECASE)


@dataclass(frozen=True)
class Cells:
    """The cells of one column.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "date", "text"}
    numbers : array of shape (n_rows,) or None
        Values, flags as 0 and 1, dates as days since 1970; NaN where a cell is missing. None for text.
    codes : array of int, shape (n_rows,) or None
        Position of each text in `texts`; -1 where a cell is missing.
    texts : tuple of str
    bad_rows : tuple of int
        Rows whose cell is not missing and not of the kind that the column must have.
    odd_row : int or None
        The first row of a column of text that holds a number or a date in a way in which it cannot be read, such as
        "3 mg", "1/2/2026", "2026-01" or "31 Jan 2026", if most of its cells hold such.
    other_rows : tuple of int
        Rows of a column of flags that say neither yes nor no, and count as missing.
    in_doubt : {".", ",", ""}
        The sign in a column of numbers that could separate thousands or decimals.
    are_thousands : bool
        How that sign was read.
    has_zeros : bool
        Whether a cell of a column of numbers was written with leading zeros, as codes are.
    are_times : bool
        Whether all cells of a column of text are times of day.
    only_word, n_only_word : str and int
        The word of all filled cells, such as "<18" or "none", if they count as missing for it; and how many these are.
    """

    name: str
    kind: str
    numbers: Array | None = None
    codes: Array | None = None
    texts: tuple[str, ...] = ()
    bad_rows: tuple[int, ...] = ()
    odd_row: int | None = None
    other_rows: tuple[int, ...] = ()
    in_doubt: str = ""
    are_thousands: bool = False
    has_zeros: bool = False
    are_times: bool = False
    only_word: str = ""
    n_only_word: int = 0

    @property
    def is_missing(self) -> Array:
        """Which cells are missing, (n_rows,)."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        assert self.codes is not None
        return self.codes < 0

    def could_hold(self, word: str) -> bool:
        """Whether a word is one of the cells, or a flag or date in a column of these."""
        is_flag, is_date = not np.isnan(flags_in([word])[0]), not np.isnan(days_in([word])[0])
        return word in self.texts or {"flag": is_flag, "date": is_date}.get(self.kind, False)

    def __len__(self) -> int:
        values = self.numbers if self.codes is None else self.codes
        assert values is not None
        return len(values)

    def as_texts(self) -> tuple[str, ...]:
        """Every cell as text, and nothing for missing ones."""
        if self.codes is not None:
            known = (*self.texts, "")
            return tuple(known[code] for code in self.codes.tolist())
        assert self.numbers is not None
        return tuple("" if number != number else f"{number:.17g}" for number in self.numbers.tolist())


def from_text(name: str, texts: Sequence[str], codes: Array, signs: Signs = POINTS, kind: str | None = None) -> Cells:
    """Make numbers, flags or dates of a column of text, if that is what it holds.

    Parameters
    ----------
    texts : sequence of str
        The distinct cells.
    codes : array of int, shape (n_rows,)
        Position of each cell in `texts`, or -1.
    signs : Signs
        What separates decimals in the table.
    kind : {"number", "flag", "date"}, optional
        What it must hold; then `bad_rows` are those that do not.

    Examples
    --------
    >>> from_text("dose", ["0.5", "n/a", "<5"], np.array([0, 1, 2, 0])).numbers
    array([0.5, nan, nan, 0.5])
    >>> from_text("visit", ["1970-01-31"], np.array([0, -1])).numbers
    array([30., nan])
    >>> from_text("stage", ["I", "II"], np.array([0, 1])).kind
    'text'
    """
    words = [accents_joined(text.strip()) for text in texts]
    is_missing = np.array([is_missing_word(word) for word in words], bool)
    is_absent = _are_absent(words)
    filled = {word for word, gone in zip(words, is_absent, strict=True) if not gone}
    if is_missing.all() and len(filled) < 2:
        n_filled = int(np.count_nonzero(codes >= 0) - np.count_nonzero(np.append(is_absent, False)[codes]))
        return Cells(name, "number", np.full(len(codes), np.nan), only_word=(*filled, "")[0], n_only_word=n_filled)
    known = [word for word, gone in zip(words, is_missing, strict=True) if not gone]
    read = signs_in(known, signs)
    numbers = np.array([number_in(word, signs.decimal, read.thousands) for word in words])
    is_number = ~np.isnan(numbers) & ~is_missing
    is_like_number = is_number | np.array([_is_too_large(word) for word in words])
    flags = flags_among(_counted(words, is_missing, codes)) if kind is None else None
    are_numbers = not is_missing.all() and not flags and _share(is_like_number, is_missing, codes) >= 0.5
    if kind == "number" or (kind is None and are_numbers):
        found = _numbers(name, "number", numbers, is_number | is_missing, codes)
        zeros = has_leading_zero(known)
        return replace(found, in_doubt=read.in_doubt, are_thousands=bool(read.thousands), has_zeros=zeros)
    if kind is not None:
        values = np.array(_FORCED[kind](words), float)
        return _numbers(name, kind, values, ~np.isnan(values) | is_missing, codes)
    if flags:
        values = np.array([flags.get(word, np.nan) for word in words], float)
        others = (codes >= 0) & np.append(np.isnan(values) & ~is_missing, False)[codes]
        return Cells(name, "flag", _taken(values, codes), other_rows=tuple(np.flatnonzero(others).tolist()))
    if not np.isnan(days_in(known[:MANY_WORDS])).all():
        days = np.array(days_in(words))
        if _share(~np.isnan(days), is_missing, codes) >= 0.5:
            return _numbers(name, "date", days, ~np.isnan(days) | is_missing, codes)
    found = _text(name, words, is_absent, codes)
    if known and all(map(_TIME.fullmatch, known)):
        return replace(found, are_times=True)
    is_odd = np.array([_ODD.fullmatch(word) is not None for word in words], bool) & ~is_number & ~is_missing
    if is_odd.any() and _share(is_odd | is_number, is_missing, codes) >= 0.5:
        return replace(found, odd_row=int(((codes >= 0) & np.append(is_odd, False)[codes]).argmax()))
    return found


def has_leading_zero(words: Iterable[str]) -> bool:
    """Whether a word is a whole number with zeros before it, as a code is.

    Examples
    --------
    >>> has_leading_zero(["12", "003"]), has_leading_zero(["0", "0.5", "-1"])
    (True, False)
    """
    return any(map(_ZEROS.fullmatch, words))


def from_levels(name: str, texts: Sequence[str], levels: Sequence[str] = ()) -> Cells:
    """A column of text whose cells are levels, as written; words in `levels` never count as missing."""
    words = [accents_joined(text.strip()) for text in texts]
    distinct = sorted(set(words))
    place = {word: position for position, word in enumerate(distinct)}
    return _text(name, distinct, _are_absent(distinct, levels), np.array([place[word] for word in words], np.intp))


def _are_absent(words: Sequence[str], levels: Sequence[str] = ()) -> Array:
    absent = absent_among(words, levels)
    return np.array([word.lower() in absent for word in words], bool)


def cell_text(cell: object) -> str:
    """A cell as CSV would hold it.

    Examples
    --------
    >>> cell_text(True), cell_text(date(2026, 1, 31)), cell_text(30.5)
    ('true', '2026-01-31', '30.5')
    """
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def as_ids(cells: Sequence[object]) -> tuple[str, ...]:
    """Cells as text: whole numbers without a decimal point, missing cells as nothing."""
    return tuple(
        "" if cell is None else str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
        for cell in cells
    )


def _is_too_large(word: str) -> bool:
    """Whether a word is a number that is infinite, or larger than what a message may hold."""
    try:
        return "_" not in word and abs(float(word)) > MAX_VALUE
    except ValueError:
        return False


def _share(is_number: Array, is_missing: Array, codes: Array) -> float:
    """The share of numbers among the cells that are not missing."""
    counts = np.bincount(codes[codes >= 0], minlength=len(is_number))
    return float(counts[is_number].sum() / max(1, counts[~is_missing].sum()))


def _counted(words: Sequence[str], is_missing: Array, codes: Array) -> dict[str, int]:
    """Cells of each word, but those that are missing."""
    counts: Counter[str] = Counter()
    for word, gone, count in zip(words, is_missing, np.bincount(codes[codes >= 0], minlength=len(words)), strict=True):
        if not gone:
            counts[word] += int(count)
    return counts


def _numbers(name: str, kind: str, numbers: Array, is_sound: Array, codes: Array) -> Cells:
    bad = (codes >= 0) & ~np.append(is_sound, True)[codes]
    return Cells(name, kind, _taken(numbers, codes), bad_rows=tuple(np.flatnonzero(bad).tolist()))


def _taken(values: Array, codes: Array) -> Array:
    return np.append(values, np.nan)[codes]


def _text(name: str, words: list[str], is_missing: Array, codes: Array) -> Cells:
    levels = sorted({word for word, gone in zip(words, is_missing, strict=True) if not gone})
    place = {level: position for position, level in enumerate(levels)}
    places = np.array([-1 if gone else place[word] for word, gone in zip(words, is_missing, strict=True)] + [-1])
    return Cells(name, "text", codes=places[codes], texts=tuple(levels))


def _any_days_in(words: Sequence[str]) -> list[float]:
    return days_in(words, compact_day_in)


_FORCED = {"flag": flags_in, "date": _any_days_in}
