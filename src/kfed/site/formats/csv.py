"""`CsvReader`: a table from CSV, by pyarrow if it is there; read line by line to say where something is wrong."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import IO, Any, TextIO

import numpy as np

from kfed._base.arrow import arrow
from kfed._base.cell_words import number_in
from kfed._base.text import plural
from kfed.errors import InvalidInputError, MissingExtraError
from kfed.site.formats import csv_signs
from kfed.site.formats.arrow_cells import cells_of_each
from kfed.site.formats.csv_bytes import arrow_stream, opened_bytes
from kfed.site.formats.csv_dialect import (
    IN_WORDS,
    blank_columns,
    delimiter_of,
    encoding_of,
    end_empty,
    is_filled,
    null_words,
    on_one_line,
    without_trailing,
)
from kfed.site.formats.csv_quotes import line_of_open_quote, occurrences
from kfed.site.formats.reader import TableReader, dated, n_titles
from kfed.site.kinds.cells import Cells, from_text, has_leading_zero
from kfed.site.kinds.thousands import POINTS, signs_in, signs_of

LARGE = 2**24
"""Bytes from which on a file is read block by block."""

_SAMPLE_BYTES = 2**16


class CsvReader(TableReader):
    """Reads text in UTF-8, UTF-16 or Windows-1252, plain, .gz or .zst, separated by comma, semicolon, tab or bar."""

    separators = IN_WORDS

    def __init__(self, path: str | os.PathLike[str], header: bool | None) -> None:
        self._path = os.fspath(path)
        self._encoding = self._find_encoding()
        self.delimiter = ","
        self.has_header, self.may_lack_header = header is not False, header is None
        with self._opened() as file:
            sample = file.read(_SAMPLE_BYTES)
        lines = list(filter(str.strip, sample.splitlines(keepends=True)))
        if len(sample) == _SAMPLE_BYTES and len(lines) > 1:
            lines.pop()  # it may be cut short
        self.delimiter = delimiter_of(lines) if lines else ","
        every = list(filter(is_filled, csv.reader(lines, delimiter=self.delimiter)))
        if not every:
            raise InvalidInputError(f"{self._path}: a table must have at least one row; this file is empty")
        self.n_titles = n_titles(every) if self.has_header else 0
        first, *rows = every[self.n_titles :]
        self.signs = POINTS if self.delimiter == "," else signs_of(rows or [first])
        self._is_settled = self.signs.is_certain or len(sample) < _SAMPLE_BYTES
        holds = "numbers" if any(map(self._is_number, map(str.strip, first))) else "dates" if dated(first, rows) else ""
        if header is None and holds:
            raise InvalidInputError(
                f"{self._path}: the first line must hold the names of the columns; it holds {holds}. Use --no-header "
                f"if the file has no such line, or --header if the names are {holds}"
            )
        names = tuple(map(on_one_line, first)) if self.has_header else tuple(map(str, range(len(first))))
        named = without_trailing(names, rows)
        self._sample = rows
        self._n_cells = max(len(names), len(rows[0])) if end_empty(rows, len(named)) else len(names)
        self._blank = {*blank_columns(named, rows), *range(len(named), self._n_cells)}
        self._positions = {name: at for at, name in enumerate(named) if at not in self._blank}
        self.names = tuple(name for at, name in enumerate(named) if at not in self._blank)

    def _is_number(self, word: str) -> bool:
        return not np.isnan(number_in(word, self.signs.decimal, signs_in([word], self.signs).thousands))

    def cells(self, names: Sequence[str], as_text: Sequence[str] = ()) -> dict[str, Cells]:
        """The cells of these columns; those of columns in `as_text` as they are written."""
        try:
            found = self._by_arrow(names, as_text)
            as_written = [name for name in names if name not in as_text and self._must_be_seen(found[name])]
            if as_written:
                found |= self._by_arrow(as_written, (), as_written)
        except MissingExtraError:
            found = self._by_line(names, as_text)
        self._check_quotes(len(next(iter(found.values()))))
        return {name: self._with_zeros(own) for name, own in found.items()}

    def _must_be_seen(self, cells: Cells) -> bool:
        return csv_signs.must_be_seen(cells, self._first(cells.name), self.signs, lambda: self._has_whole_decimals)

    def _with_zeros(self, cells: Cells) -> Cells:
        """Numbers that Arrow read have lost their leading zeros: the first lines tell whether they had any."""
        is_code = cells.kind == "number" and has_leading_zero(self._first(cells.name))
        return replace(cells, has_zeros=True) if is_code else cells

    def _first(self, name: str) -> list[str]:
        """The cells of a column in the first lines."""
        position = self._positions[name]
        return [row[position].strip() for row in self._sample if position < len(row)]

    def where(self, row: int) -> str:
        """The place of a row, counted from 0, in words."""
        line = next((line for at, (line, _) in enumerate(self._lines()) if at == row), None)
        return super().where(row) if line is None else f"line {line}"

    def fault_at(self, name: str, row: int) -> str:
        """What is wrong with a cell of a column of numbers, in words that do not show the cell."""
        cell = next(cells for at, (_, cells) in enumerate(self._lines()) if at == row)[self._positions[name]].strip()
        return csv_signs.fault_in(cell, self.signs)

    def _by_arrow(
        self, names: Sequence[str], as_text: Sequence[str], as_written: Sequence[str] = ()
    ) -> dict[str, Cells]:
        """Read by Arrow: columns in `as_text` stay text; the text of those in `as_written` is made into cells here."""
        columns = self._arrow_columns(names, (*as_text, *as_written))
        if columns is None:
            return self._by_line(names, as_text)
        if (codes := csv_signs.whole(columns)) and self._has_hexadecimal():
            columns |= self._arrow_texts(codes)
        if not self._is_settled:
            decimals = csv_signs.floating(columns) if self._occurrences(self.signs.decimal) else []
            columns |= csv_signs.with_a_sign(self._arrow_texts(decimals))
            self._settle(csv_signs.signed_words(columns))
        return cells_of_each(columns, as_text, self.signs)

    def _arrow_texts(self, names: Sequence[str]) -> dict[str, Any]:
        return (self._arrow_columns(names, names) or {}) if names else {}

    def _settle(self, words: Mapping[str, int]) -> None:
        """Find the signs of the table from all of its cells, where its first lines do not show them."""
        self.signs, self._is_settled = signs_of(self._sample, words), True

    def _arrow_columns(self, names: Sequence[str], as_text: Sequence[str]) -> dict[str, Any] | None:
        """These columns, those in `as_text` as text; None if Arrow cannot read them as they are meant."""
        module = arrow()
        from pyarrow import csv as arrow_csv

        every, blank = list(map(str, range(self._n_cells))), list(map(str, self._blank))
        positions = {name: str(self._positions[name]) for name in names}
        options = {
            "include_columns": [*positions.values(), *blank],
            "null_values": null_words(),
            "decimal_point": self.signs.decimal,
        }
        texts = {positions[name]: module.string() for name in as_text}
        strings = dict.fromkeys(every, module.string())
        try:
            table = self._arrow_table(arrow_csv, every, {**options, "column_types": texts})
        except module.ArrowInvalid:  # its words show cells: they go no further
            self._check_even()
            try:
                table = self._arrow_table(arrow_csv, every, {**options, "column_types": strings})
            except module.ArrowInvalid:  # as of a file that is one line without an end
                return None
        if self._n_cells == 1 or table.num_rows == 0:
            return None  # a blank line is an empty cell here
        if any(not module.types.is_null(table.column(at).type) for at in blank):
            self._check_even()
        return {name: table.column(at) for name, at in positions.items()}

    def _arrow_table(self, arrow_csv: Any, every: list[str], convert: dict[str, Any]) -> Any:
        encoding = "utf-8" if self._encoding == "utf-8-sig" else self._encoding
        read = arrow_csv.ReadOptions(column_names=every, skip_rows=self._lines_before(), encoding=encoding)
        parse = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        if os.path.getsize(self._path) >= LARGE:
            try:
                return self._in_blocks(arrow_csv, (read, parse), convert)
            except arrow().ArrowInvalid:  # a column is not what its first cells seem to be
                pass
        with arrow_stream(self._path) as stream:
            return arrow_csv.read_csv(stream, read, parse, arrow_csv.ConvertOptions(**convert))

    def _in_blocks(self, arrow_csv: Any, how: tuple[Any, Any], convert: dict[str, Any]) -> Any:
        """Read block by block, in half the memory; the first block tells what the columns are."""
        types, known = arrow().types, convert["column_types"]
        with arrow_stream(self._path) as stream:
            first = arrow_csv.open_csv(stream, *how, arrow_csv.ConvertOptions(**convert)).schema
        loose = [one.name for one in first if types.is_integer(one.type) or types.is_null(one.type)]
        convert = {**convert, "column_types": dict.fromkeys(loose, arrow().float64()) | known}
        with arrow_stream(self._path) as stream:
            reader = arrow_csv.open_csv(stream, *how, arrow_csv.ConvertOptions(**convert))
            return arrow().Table.from_batches(list(reader), reader.schema)

    def _lines_before(self) -> int:
        """Physical lines before the first row."""
        with self._opened() as file:
            reader = self._reader(file)
            if not self.has_header:
                return 0
            for _ in range(self.n_titles + 1):
                next(filter(is_filled, reader))
            return int(reader.line_num)

    def _by_line(self, names: Sequence[str], as_text: Sequence[str]) -> dict[str, Cells]:
        rows = [self._even(line, row) for line, row in self._lines()]
        if not self._is_settled:
            positions = [self._positions[name] for name in names]
            self._settle(Counter(row[position].strip() for row in rows for position in positions))
        return {name: self._column_of(name, rows, name in as_text) for name in names}

    def _column_of(self, name: str, rows: list[list[str]], as_text: bool) -> Cells:
        position = self._positions[name]
        codes: dict[str, int] = {}
        places = np.array([codes.setdefault(row[position], len(codes)) for row in rows], np.intp)
        if as_text:
            return Cells(name, "text", codes=places, texts=tuple(text.strip() for text in codes))
        return from_text(name, list(codes), places, self.signs)

    def _check_quotes(self, n_rows: int) -> None:
        """Raise if a quote is not closed, so that the lines behind it were read as one cell."""
        n_quotes = self._occurrences('"')
        if n_quotes and (n_quotes % 2 or self._occurrences("\n") > n_rows + self._lines_before()):
            with self._opened() as text:
                line = line_of_open_quote(text, self.delimiter)
            if line is not None:
                raise InvalidInputError(
                    f"{self._path}: every quote must be closed; the one in line {line} is not, so the lines after it "
                    "would be lost. Close it, and write a quote within a cell as two quotes"
                )

    def _occurrences(self, character: str) -> int:
        with self._raw() as file:
            return occurrences(file, character)

    def _has_hexadecimal(self) -> bool:
        with self._raw() as file:
            return csv_signs.has_hexadecimal(file)

    @cached_property
    def _has_whole_decimals(self) -> bool:
        with self._raw() as file:
            return csv_signs.has_whole_decimals(file, self.signs.decimal)

    def _raw(self) -> AbstractContextManager[IO[Any]]:
        """The file as bytes, or as text where a character takes several of them."""
        return self._opened() if self._encoding.startswith("utf-16") else opened_bytes(self._path)

    def _check_even(self) -> None:
        for line, row in self._lines():
            self._even(line, row)

    def _even(self, line: int, row: list[str]) -> list[str]:
        n_named = max(self._positions.values()) + 1
        if len(row) != self._n_cells or any(map(str.strip, row[n_named:])):
            self._check_quotes(n_rows=0)  # the line may be the rest of a file behind an open quote
            raise InvalidInputError(
                f"{self._path}: every line must have {plural(n_named, 'cell')}; line {line} has {len(row)}. Put quotes "
                "around cells that contain a separator, and remove lines above the names of the columns"
            )
        if any(row[at].strip() for at in self._blank):
            raise InvalidInputError(
                f"{self._path}: every filled cell must be in a column with a name; line {line} has one in a column "
                "that has none. Name the column, or clear the cell"
            )
        return row

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row.

        Blank lines are skipped, but in a table of one column they are empty cells, except at the end.
        """
        blank: list[int] = []
        with self._opened() as file:
            reader = self._reader(file)
            rows = ((reader.line_num, row) for row in reader)
            for _ in range(self.n_titles + 1 if self.has_header else 0):
                next(row for row in rows if is_filled(row[1]))
            for line, row in rows:
                if row:
                    yield from ((earlier, [""]) for earlier in blank)
                    blank = []
                    yield line, row
                elif self._n_cells == 1:
                    blank.append(line)

    def _reader(self, file: TextIO) -> Any:
        return csv.reader(file, delimiter=self.delimiter)

    def _find_encoding(self) -> str:
        with opened_bytes(self._path) as file:
            found = encoding_of(file)
        if found is None:
            raise InvalidInputError(f"{self._path}: a CSV file must be text; this file is not")
        return found

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        with opened_bytes(self._path) as raw, io.TextIOWrapper(raw, self._encoding, newline="") as file:
            yield file
