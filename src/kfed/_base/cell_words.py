"""Words in the cells of tables: what says that a cell is missing, yes or no, and numbers as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable

from kfed._base.checks import MAX_VALUE

_NO_ANSWER = {"k.a.", "k. a.", "keine angabe"}

ABSENT_WORDS = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "<na>", ".", "-", "--", "?", "missing", *_NO_ANSWER])
"""A cell that holds one of these, in any case, is missing, whatever its column holds; but see `absent_among`."""

MISSING_WORDS = ABSENT_WORDS | {"none", "nil", "nat"}
"""Cells that say that there is nothing, in any case. Those added here, and censored numbers such as "<5", say so among
numbers, flags and dates alone: among words, "none" or "<18" is a level like others."""

FLAGS = [{"yes": 1, "no": 0}, {"y": 1, "n": 0}, {"true": 1, "false": 0}, {"t": 1, "f": 0}, {"ja": 1, "nein": 0}]

_POSITIVE = re.compile(r"\++")
_CENSORED = re.compile(r"[<>≤≥]=?\s*[\d.,]+")


def is_missing_word(word: str) -> bool:
    """Whether a cell stands for a missing value, or is a censored number such as "<5"."""
    return word.lower() in MISSING_WORDS or _CENSORED.fullmatch(word) is not None


def absent_among(words: Iterable[str], levels: Collection[str] = ()) -> frozenset[str]:
    """What says that a cell is missing in a column of these words: beside "+", "-" is the result of a test.

    Parameters
    ----------
    levels : collection of str
        Words that are known to be levels.

    Examples
    --------
    >>> "-" in absent_among(["A", "-"]), "-" in absent_among(["+", "-"]), "-" in absent_among(["-"], ["-"])
    (True, False, False)
    """
    known = {level.lower() for level in levels}
    return ABSENT_WORDS - known - ({"-", "--"} if any(map(_POSITIVE.fullmatch, words)) else set())


def number_in(word: str, decimal: str = ".", thousands: str = "") -> float:
    """The number in a cell; NaN if it is not a number, or not one that a message may hold."""
    plain = word.replace("\u2212", "-")  # the minus sign of typesetters
    plain = plain.replace(thousands, "") if thousands else plain
    plain = plain.replace(",", ".") if decimal == "," else plain
    try:
        number = float(plain)
    except ValueError:
        return math.nan
    is_other = "_" in plain or not abs(number) <= MAX_VALUE  # Python reads 1_000 as a number; no other program does
    return math.nan if is_other else number


def flag_in(word: str) -> float:
    """1 or 0 for a word that says yes or no; NaN of any other.

    Examples
    --------
    >>> flag_in("Yes"), flag_in("nein"), flag_in("1.0"), flag_in("perhaps")
    (1.0, 0.0, 1.0, nan)
    """
    pairs = (*FLAGS, {"1": 1, "0": 0}, {"1.0": 1, "0.0": 0})
    return next((float(pair[word.lower()]) for pair in pairs if word.lower() in pair), math.nan)
