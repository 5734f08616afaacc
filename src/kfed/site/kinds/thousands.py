"""Points and commas in numbers: whether they separate thousands or decimals, and whether that can be told.

1.234 is a decimal number in one country and a whole one in another. A table shows its decimal sign by cells that can be
read in one way alone (0.5, 1234.567), and a column shows that it holds thousands by 1.234.567, or by 669 beside 5.250:
who writes the zero of 5.250 would write 669.000, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_WHOLE = re.compile(r"[-+\u2212]?\d{1,3}")
_HUNDREDS = re.compile(r"[-+\u2212]?[1-9]\d\d")
DECIMAL = {sign: re.compile(rf"[-+\u2212]?\d*{re.escape(sign)}\d+") for sign in ".,"}
_GROUPED = {sign: re.compile(rf"[-+\u2212]?[1-9]\d{{0,2}}(?:{re.escape(sign)}\d{{3}})+") for sign in ".,"}
_GROUPED_WITH_DECIMALS = {
    sign: re.compile(rf"{_GROUPED[sign].pattern}{re.escape(other)}\d+") for sign, other in (".,", ",.")
}


@dataclass(frozen=True)
class Signs:
    """The signs in the numbers of a table.

    Attributes
    ----------
    decimal : {".", ","}
    is_certain : bool
        Whether the format of the table or some cell shows the decimal sign.
    thousands : {".", ",", ""}
        The other sign, if it may separate thousands.
    """

    decimal: str = "."
    is_certain: bool = True
    thousands: str = ""


POINTS = Signs()
"""Those of a table whose cells are separated by commas, or that is no CSV."""


@dataclass(frozen=True)
class SignsRead:
    """How the signs in one column are read.

    Attributes
    ----------
    thousands : {".", ",", ""}
        The sign that separates thousands.
    in_doubt : {".", ",", ""}
        The sign that could be read in the other way.
    """

    thousands: str = ""
    in_doubt: str = ""


def signs_of(rows: Iterable[Sequence[str]], more: Mapping[str, int] | None = None) -> Signs:
    """The signs of a table whose cells are not separated by commas, from its first rows, and `more` cells counted."""
    words = Counter(cell.strip() for row in rows for cell in row)
    words.update(more or {})
    every = {sign: list(filter(form.fullmatch, words)) for sign, form in DECIMAL.items()}
    plain = {
        sign: sum(words[word] for word in found if not _GROUPED[sign].fullmatch(word)) for sign, found in every.items()
    }
    is_certain = any(plain.values())
    counts = plain if is_certain else {sign: sum(words[word] for word in found) for sign, found in every.items()}
    return Signs(",", is_certain, ".") if counts[","] > counts["."] else Signs(".", is_certain, ",")


def signs_of_column(words: Sequence[str]) -> Signs:
    """The signs of a column of text in a table that is no CSV: decimal commas, if it has such and no decimal points.

    Examples
    --------
    >>> [signs_of_column(words).decimal for words in (["0,5", "12"], ["0,5", "0.5"], ["A"])]
    [',', '.', '.']
    """
    found = signs_of([words])
    has_points = any(map(DECIMAL["."].fullmatch, map(str.strip, words)))
    return found if found.decimal == "," and not has_points else POINTS


def is_open(words: Iterable[str], sign: str) -> bool:
    """Whether a sign could separate thousands in a column of these words."""
    return all(_WHOLE.fullmatch(word) or _GROUPED[sign].fullmatch(word) for word in words)


def is_grouped(words: Iterable[str], sign: str) -> bool:
    """Whether a sign separates what may be thousands in one of these words."""
    return any(_GROUPED[sign].fullmatch(word) for word in words)


def signs_in(words: Sequence[str], signs: Signs) -> SignsRead:
    """How to read the signs in one column, from its distinct cells.

    Examples
    --------
    >>> signs_in(["669", "5.250", "7.729"], Signs(is_certain=False))
    SignsRead(thousands='.', in_doubt='.')
    >>> signs_in(["1.756.461", "12"], Signs())
    SignsRead(thousands='.', in_doubt='')
    >>> signs_in(["1.234", "0.5"], Signs(is_certain=False))
    SignsRead(thousands='', in_doubt='')
    """
    other = [word for word in words if signs.thousands and signs.thousands in word]
    return _other_sign(words, other, signs.thousands) if other else _decimal_sign(words, signs)


def _other_sign(words: Sequence[str], marked: Sequence[str], sign: str) -> SignsRead:
    """The sign that is not the decimal sign: thousands, unless a cell cannot be read so."""
    forms = _GROUPED[sign], _GROUPED_WITH_DECIMALS[sign]
    if not all(any(form.fullmatch(word) for form in forms) for word in marked):
        return SignsRead()
    is_plain = any(forms[1].fullmatch(word) or word.count(sign) > 1 for word in marked) or any(
        map(_HUNDREDS.fullmatch, words)
    )
    return SignsRead(sign, "" if is_plain else sign)


def _decimal_sign(words: Sequence[str], signs: Signs) -> SignsRead:
    sign = signs.decimal
    grouped = list(filter(_GROUPED[sign].fullmatch, words))
    if not grouped or not is_open(words, sign):
        return SignsRead()
    if any(word.count(sign) > 1 for word in grouped):
        return SignsRead(sign)
    hundreds = [int(word[-3:]) for word in filter(_HUNDREDS.fullmatch, words)]
    if signs.is_certain:
        return SignsRead(in_doubt=sign if hundreds else "")
    largest = max(float(word.lstrip("-+\u2212").replace(sign, ".")) for word in grouped)
    are_thousands = hundreds and (any(word.endswith("0") for word in grouped) or min(hundreds) > largest)
    return SignsRead(sign if are_thousands else "", sign)
