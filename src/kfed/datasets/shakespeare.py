"""Shakespeare's plays by role: each role is a device, each window of its text a point.

The text comes from LEAF's files, from TFF's public archive, or from a table with one row a line.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kfed.datasets import tff
from kfed.datasets.sources import leaf_files, locate, shakespeare_files
from kfed.datasets.table import Dataset
from kfed.datasets.text import character_features, windows
from kfed.errors import CorruptFileError, InvalidInputError

WINDOW_LENGTH = 400
LINES, LINES_FILES = "Shakespeare, table of lines", ("shakespeare-lines",)
FILE = "shakespeare_lines.csv.gz"


def shakespeare_lines(*, window_length: int = WINDOW_LENGTH, n_features: int = 4096) -> Dataset:
    """Load what every role says, in windows of text, as hashed character n-grams (sparse).

    Parameters
    ----------
    window_length : int
        Characters of a point; roles that say less have none.
    n_features : int
        Columns that n-grams are hashed to.

    Returns
    -------
    Dataset
        Owners are roles, classes are plays.

    Examples
    --------
    With a small table of lines in place of the published one:

    >>> data = shakespeare_lines(window_length=5, n_features=64)
    >>> data.points.shape, set(data.classes.tolist()), set(data.owners.tolist())
    ((3, 64), {'Hamlet'}, {'Hamlet: HAMLET'})
    """
    texts, owners, plays = [], [], []
    for (play, speaker), text in read_roles(locate("shakespeare-lines")[FILE]).items():
        pieces = windows(text, window_length)
        texts += pieces
        owners += [f"{play}: {speaker}"] * len(pieces)
        plays += [play] * len(pieces)
    points = character_features(texts, n_features=n_features)
    return Dataset(LINES, points, np.asarray(plays), np.asarray(owners))


def shakespeare(*, window_length: int = WINDOW_LENGTH, n_features: int = 4096) -> Dataset:
    """Load what every role says as `shakespeare_lines` does, from whatever is at hand; its name says from what.

    Examples
    --------
    With LEAF's files of two roles in the folder that ``KFED_DATA`` names:

    >>> data = shakespeare(window_length=5, n_features=64)
    >>> data.name, data.points.shape
    ('Shakespeare, LEAF', (8, 64))
    """
    source, roles = shakespeare_roles()
    if source == LINES:
        return shakespeare_lines(window_length=window_length, n_features=n_features)
    pieces = {role: windows(text, window_length) for role, text in roles.items()}
    if not any(pieces.values()):
        raise InvalidInputError(f"no role of {source} says {window_length} characters; ask for a shorter window_length")
    texts = [piece for own in pieces.values() for piece in own]
    owners = np.repeat(list(pieces), list(map(len, pieces.values())))
    return Dataset(source, character_features(texts, n_features=n_features), None, owners)


def shakespeare_roles() -> tuple[str, dict[str, str]]:
    """What every role says, and where it comes from: LEAF's files, TFF's archive, or the table of lines.

    Examples
    --------
    With LEAF's files of two roles in the folder that ``KFED_DATA`` names:

    >>> source, roles = shakespeare_roles()
    >>> source, roles["HAMLET"]
    ('Shakespeare, LEAF', 'to be or not tr')
    """
    files = shakespeare_files()
    if not files:
        return "Shakespeare, LEAF", dict(_leaf_roles())
    if files == LINES_FILES:
        every = read_roles(locate("shakespeare-lines")[FILE])
        return LINES, {f"{play}: {who}": text for (play, who), text in every.items()}
    archive = locate("tff-shakespeare")["shakespeare.sqlite.lzma"]
    return "Shakespeare, TFF", _archived_roles(archive)


def _leaf_roles() -> Iterator[tuple[str, str]]:
    """LEAF cuts what a role says into overlapping windows, each with the letter after it."""
    from kfed.datasets.leaf import read_users

    for path in leaf_files("shakespeare", "train"):
        for role, samples, following in read_users(path):
            if not all(isinstance(piece, str) for piece in (*samples[:1], *following)):
                raise CorruptFileError(f"{path} has numbers where LEAF's Shakespeare has text")
            if samples:
                yield role, samples[0] + "".join(following)


def _archived_roles(archive: Path) -> dict[str, str]:
    """TFF has contiguous pieces of text, most to train with and the last ones to test with."""
    spoken: dict[str, list[str]] = defaultdict(list)
    for split in ("train", "test"):
        for role, records in tff.clients(archive, split):
            spoken[role] += [
                piece.decode(errors="replace") for record in records for piece in record.get("snippets", ())
            ]
    return {role: " ".join(pieces) for role, pieces in spoken.items()}


def read_roles(path: Path) -> dict[tuple[str, str], str]:
    """Read what each (play, speaker) says, in order, without headings and stage directions (no line number)."""
    try:
        content = gzip.decompress(path.read_bytes()).decode()
        spoken = defaultdict(list)
        for row in csv.DictReader(io.StringIO(content), strict=True):
            if row["line_number"] and row["speaker"]:
                spoken[row["play"], row["speaker"]].append(row["text"])
        texts = {role: " ".join(lines) for role, lines in spoken.items()}
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{path} is not a packed CSV with play, line_number, speaker and text ({error!r}); "
            "replace it by the published file"
        ) from error
    if not spoken:
        raise CorruptFileError(f"{path} holds no line of any role; replace it by the published file")
    return texts
