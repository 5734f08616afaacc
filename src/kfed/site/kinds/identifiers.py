"""Which columns tell rows or people apart, by their names and by their cells.

Clusters by them mean nothing, and where people have several rows, a center could hold one person's number and a level
one person's name. So they are left out, unless a user names the column or its kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base.array import Array
from kfed._base.identifier_names import may_count, names_a_person, names_people, names_rows
from kfed._base.text import exclusion
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.kind_option import kind_option
from kfed.wire import Notice

FEWEST_ROWS = 20
"""In a smaller table, distinct values may well be no identifier, unless the name of the column says so."""

MOSTLY = 0.9
"""A column with the name of an identifier is one, too, if a few values occur twice."""

EXACT = 2.0**53
"""Larger whole numbers are not told apart here, and measure nothing."""

MANY_PEOPLE = 20
"""More values than this, or than a third of the rows, are those of an identifier rather than of a group."""

MOST_LEVELS = 50
"""A column of text with more distinct values is refused: it holds names or remarks. A schema may list more."""

ROWS_OF_ONE = 100
"""Words that have more rows than this, in the median, are those of a category rather than of people."""

SURE = 25
"""Numbers whose being distinct has a chance below exp(-SURE) are a counter."""

CODE = 10_000
"""Whole numbers from here on, all of the same length, may be codes."""


def about_identifier(cells: Cells, *, has_ids: bool, keep: str = "") -> Notice | None:
    """Why a column is left out, if it identifies rows or people.

    Parameters
    ----------
    cells : Cells
    has_ids : bool
        Whether it is known whose the rows are: then a level that several ids have is not one person's name.
    keep : str
        What keeps the column; by default naming its kind.
    """
    name, n_known = cells.name, int((~cells.is_missing).sum())
    if not n_known or cells.kind not in ("number", "text") or cells.are_times:
        return None
    keep = keep or f"{kind_option(name, 'number' if cells.kind == 'number' else 'category')} keeps it"
    is_small = n_known < (1 if names_rows(name) and not may_count(name) else FEWEST_ROWS)
    if not is_small and _tells_rows_apart(cells, n_known):
        keep = f"; {keep}" if cells.kind == "number" else ""
        return Notice("identifier", f"column {name!r} looks like an identifier and is left out{keep}")
    if (names_a_person(name) and _names_some(cells)) or (
        not is_small and names_people(name) and _tells_people_apart(cells, n_known)
    ):
        return _of_people(cells, "looks like an identifier", keep)
    if not has_ids and (_are_repeated_words(cells, n_known) or _are_repeated_codes(cells)):
        return _of_people(cells, "has many values, of several rows each, so it looks like an identifier", keep)
    return None


def about_numbers(cells: Cells) -> Iterator[Notice]:
    """Say that a column that is kept may number the rows, or hold codes."""
    if cells.kind != "number" or int((~cells.is_missing).sum()) < FEWEST_ROWS or not _are_whole(cells):
        return
    known, leave = _known(cells), f"if it is one, leave it out with {exclusion([cells.name])}"
    steps = np.diff(known)
    if not cells.is_missing.any() and ((steps > 0).all() or (steps < 0).all()):
        yield Notice(
            "row number",
            f"column {cells.name!r} looks like a row number, as its values only grow, or only fall; {leave}",
        )
    elif _have_one_length(known) and known.min() > EXACT:
        yield Notice(
            "possible identifier",
            f"column {cells.name!r} could be an identifier: its whole numbers are too long to be told apart here, and "
            f"have the same number of digits; {leave}",
        )
    elif _have_one_length(known) and len(np.unique(known)) == len(known):
        yield Notice(
            "possible identifier",
            f"column {cells.name!r} could be an identifier: its whole numbers differ in all rows, and have the same "
            f"number of digits; {leave}",
        )


def _of_people(cells: Cells, looks: str, keep: str) -> Notice:
    return Notice(
        "identifier",
        f"column {cells.name!r} {looks} of people with several rows and is left out; name it with --id-column, to "
        f"count people instead of rows. If it is none, {keep}",
    )


def _tells_rows_apart(cells: Cells, n_known: int) -> bool:
    """Whether every row has its own value, and the name or the values say that it is an identifier."""
    is_named = names_rows(cells.name)
    least = n_known if not is_named or may_count(cells.name) else MOSTLY * n_known
    if cells.kind == "text":
        return (cells.odd_row is None or is_named) and len(cells.texts) >= least
    if n_known >= FEWEST_ROWS and _counts_rows(_known(cells)):
        return True
    if not _are_whole(cells):
        return False
    if not is_named:
        return _is_shuffled_counter(_known(cells))
    return _n_distinct(cells) >= least or bool(np.abs(_known(cells)).max() > EXACT)


def _counts_rows(known: Array) -> bool:
    """Whether numbers are consecutive, wherever they start."""
    steps = np.diff(known)
    return bool(known[0] == np.rint(known[0])) and bool((steps == 1).all() or (steps == -1).all())


def _is_shuffled_counter(known: Array) -> bool:
    """Whether whole numbers are all distinct in a range where numbers of independent rows would not be.

    Among n independent draws from any distribution on R values, the chance of no two alike is at most
    (1 - 1/R)(1 - 2/R) ... (1 - (n - 1)/R) < exp(-n (n - 1) / 2R), which the uniform one attains.
    """
    n, size = len(known), float(known.max() - known.min()) + 1
    return n <= size and n * (n - 1) > 2 * SURE * size and len(np.unique(known)) == n


def _names_some(cells: Cells) -> bool:
    """Whether a column holds words, or whole numbers that are not just two codes."""
    return cells.kind == "text" or (_are_whole(cells) and _n_distinct(cells) > 2)


def _tells_people_apart(cells: Cells, n_known: int) -> bool:
    """Whether a column has many values, of text or whole numbers."""
    n_distinct = _n_distinct(cells)
    is_sound = cells.kind == "text" or _are_whole(cells)
    return is_sound and (n_distinct > MANY_PEOPLE or 3 * n_distinct >= n_known)


def _are_repeated_words(cells: Cells, n_known: int) -> bool:
    """Whether there are many words, few of them in only one row and few in as many rows as a ward has."""
    most = min(MOST_LEVELS, n_known // 2)
    if cells.kind != "text" or cells.odd_row is not None or not MANY_PEOPLE < len(cells.texts) <= most:
        return False
    assert cells.codes is not None
    counts = np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.texts))
    return bool((counts > 1).mean() >= MOSTLY and np.median(counts) <= ROWS_OF_ONE)


def _are_repeated_codes(cells: Cells) -> bool:
    """Whether whole numbers of one length repeat, though they lie too far apart for measurements to meet by chance."""
    if cells.kind != "number" or not _are_whole(cells) or not _have_one_length(known := _known(cells)):
        return False
    values, counts = np.unique(known, return_counts=True)
    if len(values) <= MANY_PEOPLE or (counts > 1).mean() < MOSTLY or np.median(counts) > ROWS_OF_ONE:
        return False
    steps = np.diff(values).astype(np.int64) if values[-1] < EXACT else np.ones(1, np.int64)
    return bool(steps.sum() / np.gcd.reduce(steps) >= 4 * len(values))  # 150,000 and 151,000 are rounded, not codes


def _have_one_length(known: Array) -> bool:
    """Whether these whole numbers are as long as codes, and all of the same length."""
    low, high = float(known.min()), float(known.max())
    return low >= CODE and len(f"{low:.0f}") == len(f"{high:.0f}")


def _n_distinct(cells: Cells) -> int:
    return len(cells.texts) if cells.kind == "text" else len(np.unique(_known(cells)))


def _are_whole(cells: Cells) -> bool:
    known = _known(cells)
    parts = (known[:100], known)  # the first rows tell it of most columns
    return all(bool((part == np.rint(part)).all()) for part in parts)


def _known(cells: Cells) -> Array:
    assert cells.numbers is not None
    return cells.numbers[~cells.is_missing]
