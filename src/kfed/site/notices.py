"""What a user should know about a table before its message leaves: how it was read, and what is missing in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural
from kfed.site.cells import Cells, are_flags_in_words
from kfed.site.kinds import FEWEST_ROWS, PLAINLY
from kfed.site.reader import TableReader
from kfed.wire import OTHER, FeatureSchema, Notice

_ARE_NINES = re.compile(r"-?99+")


def about_reading(reader: TableReader, cells: Sequence[Cells]) -> Iterator[Notice]:
    """Lines that were skipped, and columns of numbers that are taken as text."""
    if reader.n_titles:
        lines = plural(reader.n_titles, "line")
        yield Notice("title", f"{lines} above the names of the columns {_are(reader.n_titles)} skipped, as a title")
    for own in cells:
        if own.odd_row is not None:
            yield Notice(
                "numbers as text",
                f"column {own.name!r} is taken as a category, though most of its cells hold numbers or dates with "
                f"something else, such as a unit or a decimal comma (first in {reader.where(own.odd_row)}); {PLAINLY}",
            )


def about_cells(cells: Sequence[Cells]) -> Iterator[Notice]:
    """Levels that may mean the same, and numbers that may stand for missing cells."""
    for own in cells:
        if own.numbers is not None:
            n_nines = _n_nines(own.numbers)
            if n_nines:
                yield Notice(
                    "nines",
                    f"{plural(n_nines, 'cell')} of column {own.name!r} {'holds' if n_nines == 1 else 'hold'} nothing "
                    "but nines, far from all others; if that stands for a missing cell, leave it empty",
                )
        elif len({text.lower() for text in own.texts}) < len(own.texts):
            yield Notice(
                "spelling", f"levels of column {own.name!r} differ in capital letters alone, and count as different"
            )
        elif own.texts and are_flags_in_words(own.texts):
            yield Notice(
                "spelling",
                f"column {own.name!r} has more than one word for yes or for no, so it is taken as a category; use "
                f"--kinds {own.name}=flag if it is a yes/no column",
            )


def _n_nines(numbers: Array) -> int:
    """Cells at 99, -999 and the like, if no other cell is half as far from the middle."""
    ends = [float(end) for end in (np.fmax.reduce(numbers), np.fmin.reduce(numbers))]  # which ignore missing cells
    for end in (end for end in ends if _ARE_NINES.fullmatch(f"{end:.17g}")):
        known = numbers[~np.isnan(numbers)]
        rest = known[known != end]
        middle = float(np.median(rest)) if len(rest) else end
        is_far = len(rest) > len(known) / 2 and np.abs(rest - middle).max() < abs(end - middle) / 2
        if is_far and len(known) >= FEWEST_ROWS:
            return len(known) - len(rest)
    return 0


def about_missing(cells: Sequence[Cells]) -> Iterator[Notice]:
    """How many cells count as missing; columns without any cell are another matter."""
    counts = {own.name: int(np.count_nonzero(own.is_missing)) for own in cells if not own.is_missing.all()}
    total, n_cells = sum(counts.values()), sum(len(own) for own in cells if own.name in counts)
    if total:
        most = max(counts, key=counts.__getitem__)
        share = f", {counts[most]:,} of them in column {most!r}" if 2 * counts[most] > total > counts[most] else ""
        share = f", all in column {most!r}" if counts[most] == total > 1 else share
        yield Notice(
            "missing cells",
            f"{total:,} of {plural(n_cells, 'cell')} {'counts' if total == 1 else 'count'} as missing{share}",
        )


def about_levels(cells: Sequence[Cells], schema: FeatureSchema) -> Iterator[Notice]:
    """Cells with a level that a schema does not have."""
    levels = {column.name: column.levels for column in schema.columns or () if column.kind == "category"}
    for own in cells:
        if own.name not in levels or own.codes is None:
            continue
        unknown = [code for code, text in enumerate(own.texts) if text not in levels[own.name]]
        n_cells = int(np.isin(own.codes, unknown).sum())
        if n_cells:
            hold, count = ("holds", "counts") if n_cells == 1 else ("hold", "count")
            yield Notice(
                "unknown level",
                f"{plural(n_cells, 'cell')} of {own.name!r} {hold} a level that is not in the schema, and {count} as "
                f"{repr(OTHER) if OTHER in levels[own.name] else 'missing'}",
            )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
