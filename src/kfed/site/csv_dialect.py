"""What the first lines of a CSV file tell of it: its separator, decimal commas, separators at the end of lines."""

from __future__ import annotations

import csv
import re
from collections import Counter

DELIMITERS = ",;\t|"
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"[-+]?\d*,\d+"), re.compile(r"[-+]?\d*\.\d+")


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
    """Whether all rows have as many cells, more than there are names, and nothing in those."""
    widths = set(map(len, rows))
    return (
        len(widths) == 1 and min(widths) > n_named and not any(cell.strip() for row in rows for cell in row[n_named:])
    )


def has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether more cells hold a decimal comma than a decimal point."""
    words = [cell.strip() for row in rows for cell in row]
    n_commas, n_points = (sum(map(bool, map(form.fullmatch, words))) for form in (DECIMAL_COMMA, DECIMAL_POINT))
    return n_commas > n_points
