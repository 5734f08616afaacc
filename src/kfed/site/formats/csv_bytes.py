"""The bytes of a CSV file, plain or compressed; an error names the file if it is damaged."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from kfed._base.arrow import arrow
from kfed.errors import InvalidInputError


@contextmanager
def opened_bytes(path: str) -> Iterator[BinaryIO]:
    """The file, decompressed if its name ends in .gz or .zst."""
    with damage_named(path):
        if path.lower().endswith(".zst"):
            with arrow().input_stream(path, compression="zstd") as stream:
                yield stream
        else:
            opened = gzip.open if path.lower().endswith(".gz") else open
            with opened(path, "rb") as file:
                yield file  # type: ignore[misc]


@contextmanager
def arrow_stream(path: str) -> Iterator[Any]:
    """The file as Arrow reads it."""
    with damage_named(path), arrow().input_stream(path, compression="detect") as stream:
        yield stream


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """Turn an error of a decoder, whose words may show bytes of the file, into one that names the file."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system: the file is not there, say
            raise
        packed = ", or is not compressed as its name says" if path.lower().endswith((".gz", ".zst")) else ""
        raise InvalidInputError(
            f"{path}: a CSV file must be text in one encoding, and whole; this file is not{packed}"
        ) from None
