"""What a CSV file tells of itself: its encoding, its separator, and columns that are not there."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO

from kfed._base.cell_words import MISSING_WORDS
from kfed._base.text import accents_joined

DELIMITERS = ",;\t|"
IN_WORDS = "a comma, semicolon, tab or bar"

_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"
_BLOCK = 2**20


def encoding_of(file: BinaryIO) -> str | None:
    """The encoding of a file; None if it is not text. The whole file is read, unless its start shows the encoding."""
    start = file.read(_BLOCK)
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    if b"\0" not in start:
        return _of_bytes(chain([start], iter(partial(file.read, _BLOCK), b"")))
    for encoding, every_other in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):  # without a mark
        if every_other.count(0) > len(start) // 4 and "\n" in start.decode(encoding, "ignore"):
            return encoding
    return None


def _of_bytes(blocks: Iterator[bytes]) -> str:
    """UTF-8 if that can be read; otherwise what Windows writes, or Latin-1 if it holds bytes that Windows does not."""
    decoder, is_utf_8, is_windows = codecs.getincrementaldecoder("utf-8")(), True, True
    for block in blocks:
        is_windows = is_windows and (block.isascii() or len(block.translate(None, _NOT_WINDOWS)) == len(block))
        is_utf_8 = is_utf_8 and _is_decoded(decoder, block)
        if not is_utf_8 and not is_windows:
            return "latin-1"
    if is_utf_8 and _is_decoded(decoder, b"", is_end=True):
        return "utf-8"
    return "cp1252" if is_windows else "latin-1"


def _is_decoded(decoder: codecs.IncrementalDecoder, block: bytes, *, is_end: bool = False) -> bool:
    try:
        decoder.decode(block, is_end)
    except UnicodeDecodeError:
        return False
    return True


def delimiter_of(lines: list[str]) -> str:
    """The separator that splits most lines, from the first on, into the same number of cells, at least two."""

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


def is_filled(row: list[str]) -> bool:
    """Whether a row has a cell with something in it: above the names of the columns, no other row counts."""
    return any(map(str.strip, row))


def on_one_line(name: str) -> str:
    """The name of a column, which may be written in several lines."""
    return accents_joined(" ".join(map(str.strip, name.strip().splitlines())))


def null_words() -> list[str]:
    """Words of missing cells, as Arrow looks for them."""
    ways = (str.lower, str.upper, str.capitalize, str.title)
    return sorted({"NaT", *(way(word) for word in MISSING_WORDS for way in ways)})
