"""`Cells`: one column of a table as it was read, before anyone decides what to make of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import numpy as np

from kfed._base.array import Array
from kfed.wire import MAX_VALUE

ABSENT_WORDS = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "."])
MISSING_WORDS = ABSENT_WORDS | {"none", "nil", "-", "--", "?", "missing"}
"""Cells that say that there is nothing, in any case. Those added here, and censored numbers such as "<5", say so among
numbers, flags and dates alone: among words, "none" or "<18" is a level like others."""

_CENSORED = re.compile(r"[<>≤≥]=?\s*[\d.,]+")
_FLAGS = [{"yes": 1, "no": 0}, {"y": 1, "n": 0}, {"true": 1, "false": 0}, {"t": 1, "f": 0}, {"ja": 1, "nein": 0}]
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d+)?")
_NUMBER = r"(?:\d*[.,]?\d+|\d{1,3}(?:[,.' \u00a0\u202f]\d{3})+(?:[.,]\d+)?)"
_UNIT = r"(?:[mkcdnuµ][glm]|m?mol|mmhg|bpm|k?cal|kj|min|ms|yrs?)(?:/\w+)?"
_DAY = r"(?:\d{1,2}([/.-])\d{1,2}\1(?:\d\d){1,2}|\d{4}([/.-])\d{1,2}\2\d{1,2})"
_ODD = re.compile(rf"{_DAY}(?:\s.*)?|[-+]?[$€£¥]?\s?{_NUMBER}(?:\s?[%$€£¥]|\s+\S{{1,10}}|{_UNIT})?", re.IGNORECASE)
"""Dates that could be read in two ways or are on no calendar; numbers with a comma between commas, separators of
thousands, a sign for percent or money, or a unit. Not codes such as 3a."""

MANY_WORDS = 1000
"""If none of so many different cells is a date, the column holds none."""

_EPOCH = date(1970, 1, 1).toordinal()


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
    bad_row : int or None
        The first row of a column of numbers (or of what else it must be) whose cell is neither that nor missing.
    odd_row : int or None
        The first row of a column of text that holds a number or a date in a way in which it cannot be read, such as
        "3 mg" or "1/2/2026", if most of its cells hold such.
    """

    name: str
    kind: str
    numbers: Array | None = None
    codes: Array | None = None
    texts: tuple[str, ...] = ()
    bad_row: int | None = None
    odd_row: int | None = None

    @property
    def is_missing(self) -> Array:
        """Which cells are missing, (n_rows,)."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        assert self.codes is not None
        return self.codes < 0

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


def from_text(name: str, texts: Sequence[str], codes: Array, decimal: str = ".", kind: str | None = None) -> Cells:
    """Make numbers, flags or dates of a column of text, if that is what it holds.

    Parameters
    ----------
    texts : sequence of str
        The distinct cells.
    codes : array of int, shape (n_rows,)
        Position of each cell in `texts`, or -1.
    kind : {"number", "flag", "date"}, optional
        What it must hold; then `bad_row` is the first row that does not.

    Examples
    --------
    >>> from_text("dose", ["0.5", "n/a", "<5"], np.array([0, 1, 2, 0])).numbers
    array([0.5, nan, nan, 0.5])
    >>> from_text("visit", ["1970-01-31"], np.array([0, -1])).numbers
    array([30., nan])
    >>> from_text("stage", ["I", "II"], np.array([0, 1])).kind
    'text'
    """
    words = [text.strip() for text in texts]
    is_missing = np.array([is_missing_word(word) for word in words], bool)
    is_absent = np.array([word.lower() in ABSENT_WORDS for word in words], bool)
    if is_missing.all() and len(set(words)) - is_absent.any() < 2:
        return Cells(name, "number", np.full(len(codes), np.nan))
    numbers = np.array([number_in(word, decimal) for word in words])
    is_number = ~np.isnan(numbers) & ~is_missing
    are_numbers = not is_missing.all() and _share(is_number, is_missing, codes) >= 0.5
    if kind == "number" or (kind is None and are_numbers):
        return _numbers(name, "number", numbers, is_number | is_missing, codes)
    known = [word for word, gone in zip(words, is_missing, strict=True) if not gone]
    if kind is not None:
        values = np.array([_FORCED[kind](word) for word in words], float)
        return _numbers(name, kind, values, ~np.isnan(values) | is_missing, codes)
    if flags := _flags(known):
        return Cells(name, "flag", _taken(np.array([flags.get(word, np.nan) for word in words], float), codes))
    if any(map(_is_date, known[:MANY_WORDS])):
        days = np.array([_one_date(word) for word in words])
        if _share(~np.isnan(days), is_missing, codes) >= 0.5:
            return _numbers(name, "date", days, ~np.isnan(days) | is_missing, codes)
    found = _text(name, words, is_absent, codes)
    is_odd = np.array([_ODD.fullmatch(word) is not None for word in words], bool) & ~is_number & ~is_missing
    if is_odd.any() and _share(is_odd | is_number, is_missing, codes) >= 0.5:
        return replace(found, odd_row=int(((codes >= 0) & np.append(is_odd, False)[codes]).argmax()))
    return found


def from_levels(name: str, texts: Sequence[str]) -> Cells:
    """A column of text whose cells are levels, as they are written."""
    words = [text.strip() for text in texts]
    distinct = sorted(set(words))
    place = {word: position for position, word in enumerate(distinct)}
    is_absent = np.array([word.lower() in ABSENT_WORDS for word in distinct], bool)
    return _text(name, distinct, is_absent, np.array([place[word] for word in words], np.intp))


def is_missing_word(word: str) -> bool:
    """Whether a cell says that there is nothing, or is a censored number."""
    return word.lower() in MISSING_WORDS or _CENSORED.fullmatch(word) is not None


def number_in(word: str, decimal: str = ".") -> float:
    """The number in a cell; NaN if it is not a number, or not one that a message may hold."""
    word = word.replace("\u2212", "-")  # the minus sign of typesetters
    plain = word.replace(".", "").replace(",", ".") if decimal == "," and _THOUSANDS.fullmatch(word) else word
    plain = plain.replace(",", ".") if decimal == "," else plain
    try:
        number = float(plain)
    except ValueError:
        return np.nan
    is_other = "_" in plain or not abs(number) <= MAX_VALUE  # Python reads 1_000 as a number; no other program does
    return np.nan if is_other else number


def _share(is_number: Array, is_missing: Array, codes: Array) -> float:
    """The share of numbers among the cells that are not missing."""
    counts = np.bincount(codes[codes >= 0], minlength=len(is_number))
    return float(counts[is_number].sum() / max(1, counts[~is_missing].sum()))


def _numbers(name: str, kind: str, numbers: Array, is_sound: Array, codes: Array) -> Cells:
    bad = (codes >= 0) & ~np.append(is_sound, True)[codes]
    return Cells(name, kind, _taken(numbers, codes), bad_row=int(bad.argmax()) if bad.any() else None)


def _taken(values: Array, codes: Array) -> Array:
    return np.append(values, np.nan)[codes]


def _text(name: str, words: list[str], is_missing: Array, codes: Array) -> Cells:
    levels = sorted({word for word, gone in zip(words, is_missing, strict=True) if not gone})
    place = {level: position for position, level in enumerate(levels)}
    places = np.array([-1 if gone else place[word] for word, gone in zip(words, is_missing, strict=True)] + [-1])
    return Cells(name, "text", codes=places[codes], texts=tuple(levels))


def _flags(words: list[str]) -> dict[str, float] | None:
    lower = {word: word.lower() for word in words}
    for pair in _FLAGS:
        found = set(lower.values())
        if found == pair.keys() or (found <= pair.keys() and min(map(len, pair)) > 1):  # a lone "F" is no "false"
            return {word: float(pair[low]) for word, low in lower.items()}
    return None


def are_flags_in_words(words: Iterable[str]) -> bool:
    """Whether all words say yes or no, in whatever language, and not as numbers."""
    return all(any(word.lower() in pair for pair in _FLAGS) for word in words)


def _is_date(word: str) -> bool:
    return not np.isnan(_one_date(word))


def _one_date(word: str) -> float:
    """Days since 1970 of a date such as 2026-01-31, with or without a time, or 31.01.2026; NaN of anything else."""
    day = _iso_day(word)
    day = _dotted_day(word) if day is None else day
    return np.nan if day is None else day


def _iso_day(word: str) -> float | None:
    try:
        moment = datetime.fromisoformat(word)
        moment = moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if len(word) < 10:  # also 20260131, which is as likely a number
        return None
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return moment.toordinal() - _EPOCH + seconds / 86400


def _dotted_day(word: str) -> float | None:
    found = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", word)
    try:
        return None if found is None else float(date(*map(int, found.group(3, 2, 1))).toordinal() - _EPOCH)
    except ValueError:
        return None


def _one_flag(word: str) -> float:
    pairs = (*_FLAGS, {"1": 1, "0": 0}, {"1.0": 1, "0.0": 0})
    return next((float(pair[word.lower()]) for pair in pairs if word.lower() in pair), np.nan)


_FORCED = {"flag": _one_flag, "date": _one_date}
