"""Plain text: a report in lines, lists that name the first few, sentences; and values in types that JSON knows."""

from __future__ import annotations

import csv
import io
import math
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from kfed._base.report import Block, Conclusion, Notes, Paragraph, TextTable

MOST_NAMED = 5
"""How many names of a longer list are shown."""


def listed(names: Sequence[str], limit: int = MOST_NAMED) -> str:
    """List the first few names, and count the rest.

    Examples
    --------
    >>> listed(["a", "b"]), listed("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def quoted(names: Sequence[str], limit: int = 8) -> str:
    """Quote the first few for a sentence.

    Examples
    --------
    >>> quoted(["visit_date", "sex"]), quoted("abcd", limit=2)
    ("'visit_date' and 'sex'", "'a', 'b' and 2 more")
    """
    if 1 < len(names) <= limit:
        return f"{listed(list(map(repr, names[:-1])), limit)} and {names[-1]!r}"
    return listed(list(map(repr, names)), limit)


def accents_joined(word: str) -> str:
    r"""A word with letters and their accents as one character each (NFC), however the system wrote it.

    Examples
    --------
    >>> len("Gro\u0308\u00dfe"), len(accents_joined("Gro\u0308\u00dfe"))
    (6, 5)
    """
    return word if word.isascii() else unicodedata.normalize("NFC", word)


def folded(word: str) -> str:
    """Normalize a word for comparison: ignore case, extra spaces, and how accents are encoded.

    Examples
    --------
    >>> folded(" Innere  Medizin") == folded("innere medizin")
    True
    """
    return accents_joined(" ".join(word.split()).casefold())


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(2000, "row"), plural(2, "identity", "identities")
    ('1 row', '2,000 rows', '2 identities')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def verb(count: int, one: str, many: str) -> str:
    """The word that goes with one thing, or the word that goes with more.

    Examples
    --------
    >>> verb(1, "is", "are"), verb(2, "is", "are")
    ('is', 'are')
    """
    return one if count == 1 else many


def as_csv(heads: Sequence[str] | None, lines: Iterable[Sequence[Any]]) -> str:
    r"""Lines of CSV, below their heads if there are any.

    Examples
    --------
    >>> as_csv(["row", "cluster"], [("a,b", 0)])
    'row,cluster\n"a,b",0\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heads is not None:
        writer.writerow(heads)
    writer.writerows(lines)
    return text.getvalue()


def exclusion(names: Sequence[str]) -> str:
    """The option that leaves out columns, as one types it; without their names if they are many or cannot be typed.

    Examples
    --------
    >>> print(exclusion(["note"]), "or", exclusion(["visit date", "a,b"]))
    --exclude note or --exclude 'visit date,"a,b"'
    """
    if len(names) > MOST_NAMED or not all(name and name.isprintable() for name in names):
        return "--exclude NAME,..."
    return f"--exclude {shlex.quote(as_csv(None, [names]).rstrip())}"


def render(blocks: Iterable[Block]) -> str:
    """Write a report as plain text, with an empty line between blocks. Pictures are left out.

    Examples
    --------
    >>> print(render([Conclusion("guaranteed", True), TextTable("", ("pairs", "number"), (("active", "3"),))]))
    guaranteed
    <BLANKLINE>
    pairs   number
    active       3
    """
    return "\n\n".join("\n".join(lines) for lines in map(_lines, blocks) if lines)


@singledispatch
def _lines(block: Block) -> list[str]:  # noqa: ARG001
    return []


@_lines.register
def _(block: Conclusion) -> list[str]:
    return [block.text, *block.meaning]


@_lines.register
def _(block: Paragraph) -> list[str]:
    return [f"{block.label}: {block.text}" if block.label else block.text]


@_lines.register
def _(block: Notes) -> list[str]:
    return [f"{block.label}: {text}" for text in block.texts]


@_lines.register
def _(block: TextTable) -> list[str]:
    rows = [block.headings, *block.rows] if block.has_headings else block.rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = (
        [cell.rjust(width) if block.is_number(i) else cell.ljust(width) for i, (cell, width) in enumerate(columns)]
        for columns in (zip(row, widths, strict=True) for row in rows)
    )
    return [block.title] * bool(block.title) + ["  ".join(cells).rstrip() for cells in aligned]


def sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop; k' keeps its small letter.

    Examples
    --------
    >>> sentence("two clusters are too near"), sentence("k' is 3.")
    ('Two clusters are too near.', "k' is 3.")
    """
    first = text[:1] if text.startswith("k'") else text[:1].upper()
    return f"{first}{text[1:]}{'' if text.endswith('.') else '.'}"


def plain(value: Any) -> Any:
    """Convert a value to types that JSON knows; a number that is not finite becomes None.

    Examples
    --------
    >>> plain({"sizes": np.array([2, 3]), "norm": np.float64(np.inf), "names": ("a", 1)})
    {'sizes': [2, 3], 'norm': None, 'names': ['a', 1]}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
