"""Makes the table of Shakespeare's lines from a copy of the repository that it comes from, as a command.

::

    git clone https://github.com/cressid/Shakespeare
    git -C Shakespeare checkout 919201431378da47e8d24a1dc2781afa71e201c8
    python -m kfed.datasets.shakespeare_table Shakespeare

Each of 36 files holds one play, as a JSON array of lines: ``var Macbeth = [{"line_id": 55780, ...}, ...]``. The table
has all lines, by their ids. What is written is the published file, byte for byte, or nothing.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from kfed._base import files
from kfed.datasets.sources import SOURCES, data_folders
from kfed.errors import CorruptFileError, KFedError, MissingDataError

COMMIT = "919201431378da47e8d24a1dc2781afa71e201c8"
TEXT_SHA256 = "06a1f0b0824651b8df95126b1b3bb120c7ec4fa05acb517530e278b238c9de3a"
"""Of the table before it is gzipped."""

COLUMNS = {
    "line_id": "line_id",
    "play": "play_name",
    "speech_number": "speech_number",
    "line_number": "line_number",
    "speaker": "speaker",
    "text": "text_entry",
}
"""The columns of the table, and what a line of a play calls them."""

PLAYS = (
    "AllsWellThatEndsWell",
    "AntonyAndCleopatra",
    "AsYouLikeIt",
    "ComedyOfErrors",
    "Coriolanus",
    "Cymbeline",
    "hamlet",
    "HenryIV",
    "HenryV",
    "HenryVIII",
    "HenryVIPart1",
    "HenryVIPart2",
    "HenryVIPart3",
    "JuliusCaesar",
    "KingJohn",
    "KingLear",
    "LovesLaboursLost",
    "Macbeth",
    "MeasureForMeasure",
    "MerchantOfVenice",
    "MerryWivesOfWindsor",
    "MidsummerNightsDream",
    "MuchAdoAboutNothing",
    "Othello",
    "Pericles",
    "RichardII",
    "RichardIII",
    "RomeoAndJuliet",
    "TamingOfTheShrew",
    "TheTempest",
    "TimonOfAthens",
    "TitusAndronicus",
    "TroilusAndCressida",
    "TwelfthNight",
    "TwoGentlemenOfVerona",
    "WintersTale",
)
"""The names of the files, without ``.js``; other files there are code."""

_ASSIGNMENT = re.compile(r"\ufeff?\s*(?:var\s+\w+\s*=\s*)?")
_END = re.compile(r"\s*;?\s*")


def make_table(folder: Path) -> bytes:
    """Make the table from the plays in a folder, wherever in it they are; raise if it is not the published one."""
    lines = in_order(line for path in find_plays(folder) for line in read_play(path))
    text = to_csv(lines)
    if (found := hashlib.sha256(text).hexdigest()) != TEXT_SHA256:
        raise CorruptFileError(
            f"the text of the {len(lines):,} lines in {folder} is not the published one (sha256 {found}; expected "
            f"{TEXT_SHA256}); take the files of commit {COMMIT}, unchanged"
        )
    return _as_published(gzipped(text))


def find_plays(folder: Path) -> list[Path]:
    """Find the file of each play; of several with one name, the one nearest to the top."""
    if not folder.is_dir():
        raise MissingDataError(f"{folder}: no such folder; name the copy of the repository")
    nearest: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.js"), key=lambda path: (len(path.parts), path)):
        nearest.setdefault(path.stem, path)
    if absent := [f"{play}.js" for play in PLAYS if play not in nearest]:
        raise MissingDataError(f"{folder} has no {', '.join(absent)}; name the copy of the repository, with all plays")
    return [nearest[play] for play in PLAYS]


def read_play(path: Path) -> list[dict[str, Any]]:
    """Read the lines of one play; their array may be assigned to a name, as in JavaScript."""
    try:
        content = path.read_text(encoding="utf-8")
        start = _ASSIGNMENT.match(content)
        lines, end = json.JSONDecoder().raw_decode(content, start.end() if start else 0)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} is not a JSON array ({error}); {_remedy()}") from error
    if not _END.fullmatch(content, end) or not isinstance(lines, list) or not all(map(_is_line, lines)):
        raise CorruptFileError(
            f"{path} must be one JSON array of objects with {', '.join(COLUMNS.values())}; {_remedy()}"
        )
    return lines


def _is_line(line: object) -> bool:
    if not isinstance(line, dict) or not all(type(line.get(name)) in (str, int) for name in COLUMNS.values()):
        return False
    return type(line["line_id"]) is int


def in_order(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort lines by their ids, which must be 1, 2, 3 and so on."""
    ordered = sorted(lines, key=lambda line: line["line_id"])
    for before, after in pairwise([0, *(line["line_id"] for line in ordered)]):
        if after <= before:
            raise CorruptFileError(f"line_id {after} is there twice, or below 1; {_remedy()}")
        if after > before + 1:
            raise CorruptFileError(f"line_id {before + 1} to {after - 1} are missing; {_remedy()}")
    return ordered


def to_csv(lines: Iterable[dict[str, Any]]) -> bytes:
    """Write lines as CSV.

    Examples
    --------
    >>> line = {"line_id": 4, "play_name": "Henry IV", "speech_number": 1, "line_number": "1.1.1"}
    >>> print(to_csv([line | {"speaker": "KING", "text_entry": "So shaken as we are, so wan"}]).decode())
    line_id,play,speech_number,line_number,speaker,text
    4,Henry IV,1,1.1.1,KING,"So shaken as we are, so wan"
    <BLANKLINE>
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([line[name] for name in COLUMNS.values()] for line in lines)
    return text.getvalue().encode()


def gzipped(text: bytes) -> bytes:
    """Pack with gzip, without a name and a time."""
    stream = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, mtime=0, fileobj=stream) as file:
        file.write(text)
    return stream.getvalue()


def _as_published(table: bytes) -> bytes:
    (published,) = SOURCES["shakespeare-lines"]
    if hashlib.sha256(table).hexdigest() != published.sha256:
        raise CorruptFileError(
            f"the text is the published one, but the zlib of this Python ({zlib.ZLIB_RUNTIME_VERSION}) packs it into "
            "other bytes, which kfed would refuse; run this with a Python whose zlib.ZLIB_RUNTIME_VERSION has no ng "
            "in it, on any machine, and copy the file"
        )
    return table


def _remedy() -> str:
    return f"take the files of commit {COMMIT}, unchanged"


def write_table(source: Path, folder: Path) -> Path:
    """Make the table, and write it where kfed looks for it in a folder of data sets."""
    (published,) = SOURCES["shakespeare-lines"]
    table, path = make_table(source), folder / published.folder / published.name
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, table)
    return path


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code is 1 if no table could be written, 2 if arguments are wrong."""
    told = _parser().parse_args(arguments)
    try:
        path = write_table(told.folder, told.output or data_folders()[0])
    except (KFedError, OSError) as error:
        sys.stderr.write(f"error: {files.reason_of(error)}\n")
        return 1
    sys.stdout.write(f"wrote {path}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kfed.datasets.shakespeare_table",
        description="Make the table of Shakespeare's lines from the 36 plays of github.com/cressid/Shakespeare, "
        f"commit {COMMIT}.",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a copy of the repository")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="the folder of data sets to write to; by default the one that KFED_DATA names, else the cache",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
