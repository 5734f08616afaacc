"""Quotes that are never closed: readers of CSV take all lines behind one for a single cell, and say nothing."""

from __future__ import annotations

import csv
from typing import IO, Any, TextIO

_BLOCK = 2**22


def count_quotes_and_breaks(file: IO[Any]) -> tuple[int, int]:
    """How many quotes and line breaks there are; much faster than reading the cells."""
    n_quotes = n_breaks = 0
    while block := file.read(_BLOCK):
        quote, line_break = ('"', "\n") if isinstance(block, str) else (b'"', b"\n")
        n_quotes, n_breaks = n_quotes + block.count(quote), n_breaks + block.count(line_break)
    return n_quotes, n_breaks


def line_of_open_quote(file: TextIO, delimiter: str) -> int | None:
    r"""The line of the first quote that is not closed before the cell ends.

    Examples
    --------
    >>> import io
    >>> line_of_open_quote(io.StringIO('a,b\n1,"x\n2,y\n'), ",")
    2
    """
    reader, last = csv.reader(file, delimiter=delimiter, strict=True), 0
    while True:
        try:
            if next(reader, None) is None:
                return None
        except csv.Error as error:
            if reader.line_num > last + 1 or "end of data" in str(error):
                return last + 1  # within a single line it is text behind a closed quote, which is harmless
        last = reader.line_num
