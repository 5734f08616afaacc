"""`TableReader`: a table that is open, whatever its format; no row of it is read yet."""

from __future__ import annotations

from collections.abc import Sequence

from kfed.site.cells import Cells


class TableReader:
    """What readers of all formats have in common."""

    names: tuple[str, ...]
    has_header = True
    fault = "is NaN or infinite"
    """What is wrong with a bad cell of a column of numbers, in words that do not show it."""

    def cells(self, names: Sequence[str], as_text: Sequence[str] = ()) -> dict[str, Cells]:
        """These columns; those of `as_text` as they are written."""
        return {name: self._column(name, name in as_text) for name in names}

    def where(self, row: int) -> str:
        """The place of a row, counted from 0, in words."""
        return f"row {row} (counted from 0)"

    def fault_at(self, name: str, row: int) -> str:  # noqa: ARG002
        """What is wrong with a cell of a column of numbers, in words that do not show it."""
        return self.fault

    def _column(self, name: str, as_text: bool) -> Cells:
        raise NotImplementedError
