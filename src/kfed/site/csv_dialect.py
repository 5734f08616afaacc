"""What the start of a CSV file tells of it: its encoding, its separator, and columns that are not there."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence

DELIMITERS = ",;\t|"
IN_WORDS = "a comma, semicolon, tab or bar"

_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def encoding_of(start: bytes, *, is_whole: bool) -> str | None:
    """The encoding of a file that starts with these bytes, or is them; None if it is not text."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    try:
        (start if is_whole else start[:-4]).decode()
    except UnicodeDecodeError:
        if b"\0" not in start:
            return "latin-1"
    if b"\0" not in start:
        return "utf-8"
    for encoding, every_other in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):  # without a mark
        if every_other.count(0) > len(start) // 4 and "\n" in start.decode(encoding, "ignore"):
            return encoding
    return None


def delimiter_of(lines: list[str]) -> str:
    """The separator that cuts most lines, from the first on, into the same number of cells, and more than one."""

    def score(delimiter: str) -> tuple[bool, int, float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        usual = Counter(widths).most_common(1)[0][0]
        return usual > 1, -widths.index(usual), widths.count(usual) / len(widths), usual

    return max(DELIMITERS, key=score)


def without_trailing(names: tuple[str, ...], rows: list[list[str]]) -> tuple[str, ...]:
    """The names without empty ones at the end, if their cells are empty, too: lines may end with a separator."""
    n_named = max((position + 1 for position, name in enumerate(names) if name), default=0)
    return names[:n_named] if 0 < n_named < len(names) and end_empty(rows, n_named) else names


def end_empty(rows: list[list[str]], n_named: int) -> bool:
    """Whether all rows have the same number of cells, and those beyond the names are empty."""
    widths = set(map(len, rows))
    return (
        len(widths) == 1 and min(widths) > n_named and not any(cell.strip() for row in rows for cell in row[n_named:])
    )


def blank_columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> set[int]:
    """Positions of columns without a name and without a filled cell, as spreadsheets leave them between others.

    Examples
    --------
    >>> blank_columns(["", "age", "", "dose"], [["a", "30", "", "1"], ["b", "31", " ", "2"]])
    {2}
    """
    blank = (position for position, name in enumerate(names) if not name)
    return {at for at in blank if not any(str(cell).strip() for row in rows for cell in row[at : at + 1])}
