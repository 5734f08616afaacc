"""TensorFlow Federated's public archives, read in a stream: a SQLite file of `tf.train.Example` records by client.

The table ``examples`` has the columns ``split_name``, ``client_id`` and ``serialized_example_proto``. Neither
TensorFlow nor protobuf is needed: a record maps names to lists of bytes, floats or integers, and `example` reads that.
"""

from __future__ import annotations

import lzma
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.datasets.sources import cache_folder
from kfed.errors import CorruptFileError

BYTES_LIST, FLOAT_LIST, INT64_LIST = 1, 2, 3
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Kinds of fields in protobuf's encoding."""


def clients(path: Path, split: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each client of a split with its records, one client in memory at a time.

    Parameters
    ----------
    path : path
        The SQLite file, or the archive as published (``.lzma``), which is unpacked into the cache folder once.
    split : str
        A ``split_name``.
    """
    path = unpacked_archive(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT client_id, serialized_example_proto FROM examples "
                "WHERE split_name = ? ORDER BY client_id, rowid",
                (split,),
            )
            for client, own in groupby(rows, key=lambda row: str(row[0])):
                yield client, [example(record) for _, record in own]
    except (sqlite3.Error, IndexError, TypeError, ValueError, OverflowError) as error:
        raise CorruptFileError(f"{path} is not a SQLite file of tf.train.Example records ({error})") from error


def unpacked_archive(path: Path) -> Path:
    """Unpack an ``.lzma`` archive into the cache folder, in a stream and once; any other file is taken as it is."""
    if path.suffix != ".lzma":
        return path
    target = cache_folder() / path.parent.name / path.stem
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Runs beside each other may unpack at once: each into a folder of its own, and the last to be done stays.
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            partial = Path(folder) / target.name
            try:
                with lzma.open(path) as packed, partial.open("wb") as plain:
                    shutil.copyfileobj(packed, plain, 2**20)
            except (lzma.LZMAError, EOFError) as error:
                raise CorruptFileError(f"{path} is not a whole LZMA archive ({error}); download it again") from error
            partial.replace(target)
    return target


def example(record: bytes) -> dict[str, Any]:
    """Read one `tf.train.Example`: float and integer features as arrays, others as lists of bytes.

    Examples
    --------
    >>> example(bytes([10, 13, 10, 11, 10, 1, ord("y"), 18, 6, 26, 4, 10, 2, 7, 9]))
    {'y': array([7, 9])}
    """
    found = {}
    for features in _of(record, 1):
        for entry in _of(features, 1):
            (name,), (feature,) = _of(entry, 1), _of(entry, 2)
            found[name.decode()] = _values(feature)
    return found


def _values(feature: bytes) -> Any:
    for kind, content in _fields(feature):
        if kind == BYTES_LIST:
            return _of(content, 1)
        if kind == FLOAT_LIST:  # packed into one field, or one field each
            return np.frombuffer(b"".join(_of(content, 1)), "<f4")
        if kind == INT64_LIST:
            return _integers(content)
    return []


def _integers(content: bytes) -> Array:
    numbers: list[int] = []
    for number, value in _fields(content):
        if number == 1:
            numbers += [value] if isinstance(value, int) else _varints(value)
    return np.array(numbers, np.uint64).astype(np.int64)  # a negative number is its two's complement


def _varints(packed: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(packed):
        number, at = _varint(packed, at)
        numbers.append(number)
    return numbers


def _of(message: bytes, number: int) -> list[bytes]:
    """All contents of a numbered field."""
    return [content for own, content in _fields(message) if own == number]


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the content of each field."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            content, at = _varint(message, at)
            yield key >> 3, content
            continue
        if kind not in (FIXED64, LENGTH, FIXED32):
            raise ValueError(f"a field is of the unknown kind {kind}")
        size, at = _varint(message, at) if kind == LENGTH else ((8 if kind == FIXED64 else 4), at)
        if at + size > len(message):
            raise ValueError("a record is cut off")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    number, shift = 0, 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
