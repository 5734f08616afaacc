"""`TableReader`: a table that is open, whatever its format; no row of it is read yet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kfed._base.dates import day_in
from kfed.errors import InvalidInputError
from kfed.site.kinds.cells import Cells, from_text
from kfed.site.kinds.thousands import POINTS, Signs

DECIMAL_COMMA, EITHER_COMMA = "holds a decimal comma", "holds a comma that separates thousands or decimals"
"""What may be wrong with a cell of a column of numbers."""


def n_titles(rows: Sequence[Sequence[object]]) -> int:
    """Rows at the top with nothing but a first cell, above one with several: a title, not names of columns.

    Examples
    --------
    >>> n_titles([["Export of 2026-01-31", ""], ["", ""], ["age", "height"], ["30", "170"], ["41", ""]])
    2
    """
    are_more = [any(str(cell).strip() for cell in row[1:]) for row in rows]
    return are_more.index(True) if True in are_more else 0


def dated(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a name is a date, and so is a cell below it: then the names are a row.

    Examples
    --------
    >>> dated(["M", "2026-01-31"], [["F", "2026-02-01"]]), dated(["2026-01-31"], [["170.5"]])
    (True, False)
    """
    own = [at for at, name in enumerate(names) if not math.isnan(day_in(name.strip()))]
    return any(not math.isnan(day_in(cell.strip())) for at in own for row in rows for cell in row[at : at + 1])


class TableReader:
    """What readers of all formats have in common."""

    names: tuple[str, ...]
    has_header = True
    may_lack_header = False
    """Whether nobody said that the first line holds the names of the columns."""
    n_titles = 0
    """Lines above the names of the columns, which are skipped."""
    sheet = ""
    """Of a file with several sheets, the one that is read."""
    other_sheets: tuple[str, ...] = ()
    """Those with cells in them that are not read."""
    delimiter = ","
    """What separates the cells of a line, also where the format has no lines."""
    separators = ""
    """What may separate the cells of a line, in words, where that is found by looking."""
    signs = POINTS
    fault = "is NaN or infinite"
    """What is wrong with a bad cell of a column of numbers, in words that do not show it."""

    def cells(self, names: Sequence[str], as_text: Sequence[str] = ()) -> dict[str, Cells]:
        """The cells of these columns; those of columns in `as_text` as they are written."""
        return {name: self._column(name, name in as_text) for name in names}

    def where(self, row: int) -> str:
        """The place of a row, counted from 0, in words."""
        return f"row {row} (counted from 0)"

    def places(self, rows: Sequence[int], limit: int = 3) -> str:
        """The places of the first few rows, in words, and how many more there are."""
        more = f" and {len(rows) - limit:,} more" if len(rows) > limit else ""
        return ", ".join(map(self.where, rows[:limit])) + more

    def fault_at(self, name: str, row: int) -> str:  # noqa: ARG002
        """What is wrong with a cell of a column of numbers, in words that do not show it."""
        return self.fault

    @contextmanager
    def separators_named(self) -> Iterator[None]:
        """Say in an error that only one column was found, since it may be all of them."""
        try:
            yield
        except InvalidInputError as error:
            if not self.separators or len(self.names) > 1:
                raise
            raise InvalidInputError(
                f"{error}. Only one column was found: cells must be separated by {self.separators}, not by blanks"
            ) from None

    def cells_as(self, name: str, kind: str) -> Cells:
        """One column of text as the kind that it must be; `bad_rows` are those that are not."""
        found = self.cells([name], as_text=[name])[name]
        assert found.codes is not None
        return from_text(name, found.texts, found.codes, self.signs_for(found.texts), kind)

    def signs_for(self, texts: Sequence[str]) -> Signs:  # noqa: ARG002
        """How numbers in a column of these texts are written."""
        return self.signs

    def _column(self, name: str, as_text: bool) -> Cells:
        raise NotImplementedError
