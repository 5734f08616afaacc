"""Shakespeare's plays, one row a line with its role: each role is a device, each window of its text a point."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np

from kfed.datasets.sources import locate
from kfed.datasets.table import Dataset
from kfed.datasets.text import character_features, windows
from kfed.errors import CorruptFileError

WINDOW_LENGTH = 400
FILE = "shakespeare_lines.csv.gz"


def shakespeare_lines(*, window_length: int = WINDOW_LENGTH, n_features: int = 4096) -> Dataset:
    """Give what every role says, in windows of text, as hashed character n-grams (sparse).

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
    """
    texts, owners, plays = [], [], []
    for (play, speaker), text in read_roles(locate("shakespeare-lines")[FILE]).items():
        pieces = windows(text, window_length)
        texts += pieces
        owners += [f"{play}: {speaker}"] * len(pieces)
        plays += [play] * len(pieces)
    points = character_features(texts, n_features=n_features)
    return Dataset("Shakespeare", points, np.asarray(plays), np.asarray(owners))


def read_roles(path: Path) -> dict[tuple[str, str], str]:
    """All that each (play, speaker) says, in order; headings and stage directions, which have no line number, not."""
    try:
        content = gzip.decompress(path.read_bytes()).decode()
        spoken = defaultdict(list)
        for row in csv.DictReader(io.StringIO(content), strict=True):
            if row["line_number"] and row["speaker"]:
                spoken[row["play"], row["speaker"]].append(row["text"])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error, KeyError) as error:
        raise CorruptFileError(
            f"{path} is not a packed CSV with play, line_number, speaker and text ({error!r}); "
            "replace it by the published file"
        ) from error
    return {role: " ".join(lines) for role, lines in spoken.items()}
