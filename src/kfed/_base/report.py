"""A report, described once, in blocks that every output renders in its own way.

Plain text is rendered by `kfed._base.text`, a terminal by `kfed.cli`, HTML and Markdown by `kfed.insight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from kfed._base.array import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["not reproduced", "direction only", "reproduced", "exceeded"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""From the worst to the best."""


@dataclass(frozen=True)
class Conclusion:
    """The answer of a report.

    Attributes
    ----------
    text : str
        The answer, and after a colon the reason if there is one: "not guaranteed: 2 of 3 pairs ...".
    is_good : bool or None
        Whether it is good news; None if it is open.
    meaning : tuple of str
        What it means, in full sentences.
    """

    text: str
    is_good: bool | None
    meaning: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """The text before the colon."""
        return self.text.partition(": ")[0]

    @property
    def reason(self) -> str:
        """The text after the colon; empty if there is none."""
        return self.text.partition(": ")[2]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text, which may have a label; an aside is less prominent."""

    text: str
    label: str = ""
    is_aside: bool = False


@dataclass(frozen=True)
class Notes:
    """Short remarks, each labelled as a note or a warning where the output has no list."""

    texts: tuple[str, ...]
    label: str = "note"


@dataclass(frozen=True)
class TextTable:
    """Rows of text under headings.

    Attributes
    ----------
    title : str
        May be empty.
    headings : tuple of str
        One for each column; if all are empty, none is shown.
    rows : tuple of tuple of str
    n_words : int
        The first `n_words` columns hold words, aligned to the left; the others hold numbers, aligned to the right.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_words: int = 1

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return column >= self.n_words

    @property
    def has_headings(self) -> bool:
        """Whether any column has a heading."""
        return any(self.headings)


@dataclass(frozen=True)
class HeatTable(TextTable):
    """A table whose numbers have colours, where an output has them.

    Attributes
    ----------
    heats : tuple of tuple of float
        A number from -1 (far below) over 0 (no colour) to 1 (far above) for each cell that is a number.
    caption : str
        What the colours mean.
    """

    heats: tuple[tuple[float, ...], ...] = ()
    caption: str = ""


@dataclass(frozen=True)
class GreyPictures:
    """Small grey pictures side by side, each with a title; values from 0 (black) to 1 (white), (height, width)."""

    pictures: tuple[tuple[str, Array], ...]
    caption: str = ""


def fact_table(facts: list[tuple[str, str]]) -> TextTable:
    """A table of names and values, without headings."""
    return TextTable("", ("", ""), tuple(facts), n_words=2)


@dataclass(frozen=True)
class Plot:
    """A picture that is drawn on matplotlib axes when an output needs it."""

    title: str
    caption: str
    draw: Callable[[Axes], object] = field(repr=False)


@dataclass(frozen=True)
class ImageFile:
    """A picture that was drawn already, as a PNG file."""

    title: str
    path: Path


@dataclass(frozen=True)
class Finding:
    """One claim beside what was measured; the paper's, or one of ours that goes beyond it."""

    claim: str
    paper: str
    ours: str
    verdict: Verdict
    reason: str = ""
    is_ours: bool = False


@dataclass(frozen=True)
class Findings:
    """The findings of one experiment, and what they rest on."""

    findings: tuple[Finding, ...]
    basis: str = ""


@dataclass(frozen=True)
class Origin:
    """How a section came about, and the command that makes it again."""

    text: str
    command: str


Block = Conclusion | Paragraph | Notes | TextTable | GreyPictures | Plot | ImageFile | Findings | Origin


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes
    ----------
    title : str
        Its heading; may be empty.
    blocks : tuple of blocks
    name : str
        A short name that links lead to. Sections with a name are listed in the contents of the report.
    source, lead : str
        Where the matter comes from, and the first paragraph.
    """

    title: str
    blocks: tuple[Block, ...]
    name: str = ""
    source: str = ""
    lead: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of the section."""
        return tuple(one for block in self.blocks if isinstance(block, Findings) for one in block.findings)


@dataclass(frozen=True)
class Report:
    """A title and sections.

    Attributes
    ----------
    title : str
    sections : tuple of Section
    source : (str, str), optional
        The name and the address of what the report is about.
    summary : str
        One sentence for all sections.
    foot : str
        When and with what the report was made.
    """

    title: str
    sections: tuple[Section, ...]
    source: tuple[str, str] | None = None
    summary: str = ""
    foot: str = ""

    def blocks(self) -> Iterator[Block]:
        """All blocks, for an output that shows no sections."""
        for section in self.sections:
            yield from section.blocks
