"""Dates as people write them: a day is a number, counted from 1970."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

DAY_IN_MILLISECONDS = 86_400_000.0

_EPOCH = date(1970, 1, 1).toordinal()

LAST_DAY = date.max.toordinal() - _EPOCH
"""The end of the year 9999: a larger number counts no days since 1970."""

_COMPACT = re.compile(r"(19|20)\d{6}")
_TIME = r"(?:[ T]+(\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?))?"
_DOTTED = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){_TIME}")
_SLASHED = re.compile(rf"(\d{{1,2}})/(\d{{1,2}})/(\d{{4}}){_TIME}")
_YEAR_FIRST = re.compile(rf"(\d{{4}})/(\d{{1,2}})/(\d{{1,2}}){_TIME}")


def day_in(word: str) -> float:
    """Days since 1970 of 2026-01-31, 2026/01/31 or 31.01.2026, with or without a time; NaN of anything else.

    Examples
    --------
    >>> day_in("1970-01-31"), day_in("31.01.1970"), day_in("1970-01-31T12:00"), day_in("31/01/1970")
    (30.0, 30.0, 30.5, nan)
    >>> day_in("1970/1/31"), day_in("31.01.1970 6:00")
    (30.0, 30.25)
    """
    day = _iso_day(word)
    day = _other_day(word) if day is None else day
    return math.nan if day is None else day


def date_of(day: float) -> str | None:
    """The date of a number of days since 1970, as 2026-01-31; None if it is in no year from 1 to 9999.

    Examples
    --------
    >>> date_of(30.4), date_of(-1), date_of(1e9)
    ('1970-01-31', '1969-12-31', None)
    """
    is_date = -_EPOCH < round(day) <= LAST_DAY
    return date.fromordinal(_EPOCH + round(day)).isoformat() if is_date else None


def compact_day_in(word: str) -> float:
    """Like `day_in`, of 20260131, too: to be used where it is known that these are dates, not numbers.

    Examples
    --------
    >>> compact_day_in("19700131"), compact_day_in("1970-01-31"), compact_day_in("19700231")
    (30.0, 30.0, nan)
    """
    return day_in(f"{word[:4]}-{word[4:6]}-{word[6:]}" if _COMPACT.fullmatch(word) else word)


def days_in(words: Sequence[str], read: Callable[[str], float] = day_in) -> list[float]:
    """Like `day_in` of every word of a column; of 28/12/2024, too, if a day above 12 shows that it comes first in all.

    Examples
    --------
    >>> days_in(["31/01/1970", "01/02/1970"]), days_in(["01/02/1970"])
    ([30.0, 31.0], [nan])
    """
    found = [match.groups() for word in words if (match := _SLASHED.fullmatch(word))]
    first, second = (max((int(parts[place]) for parts in found), default=0) for place in (0, 1))
    if first <= 12 or second > 12:
        return [read(word) for word in words]
    return [read(word.replace("/", ".") if _SLASHED.fullmatch(word) else word) for word in words]


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


def _other_day(word: str) -> float | None:
    """The day of a date with dots, or with slashes after the year."""
    dotted, year_first = _DOTTED.fullmatch(word), _YEAR_FIRST.fullmatch(word)
    found = dotted or year_first
    if found is None:
        return None
    year, month, day = found.group(3, 2, 1) if dotted else found.group(1, 2, 3)
    hour, _, rest = (found.group(4) or "0:00").partition(":")
    return _iso_day(f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{rest}")
