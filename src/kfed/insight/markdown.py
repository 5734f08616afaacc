"""A report as a page of Markdown, with its pictures in a folder beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import singledispatch
from pathlib import Path

from kfed._base import files
from kfed._base import report as parts
from kfed._base.html import png_of
from kfed._base.text import sentence


def write_markdown(report: parts.Report, path: str | Path, preface: str = "") -> None:
    """Write a report as Markdown; its pictures go to a folder beside it that has the name of the page.

    Parameters
    ----------
    report : Report
    path : path
        The page.
    preface : str
        Text for the first paragraph, before the source of the report.
    """
    page = Path(path)
    folder = page.with_suffix("")
    pictures = [block for block in report.blocks() if isinstance(block, (parts.Plot, parts.ImageFile))]
    if pictures:
        folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        png = png_of(picture.draw) if isinstance(picture, parts.Plot) else picture.path.read_bytes()
        files.write(folder / _file_name(picture), png)
    files.write(page, to_markdown(report, folder.name, preface).encode())


def to_markdown(report: parts.Report, pictures: str = "", preface: str = "") -> str:
    r"""Render a report as Markdown whose pictures are files in the folder `pictures`.

    Examples
    --------
    >>> prices = parts.TextTable("In euro", ("what", "a|b"), (("*", "1"),))
    >>> print(to_markdown(parts.Report("Prices", (parts.Section("", (prices,)),))))
    # Prices
    <BLANKLINE>
    In euro:
    <BLANKLINE>
    | what | a\|b |
    | --- | --- |
    | \* | 1 |
    <BLANKLINE>
    """
    return "\n".join(_page(report, pictures, preface)) + "\n"


def _page(report: parts.Report, pictures: str, preface: str) -> Iterator[str]:
    yield f"# {report.title}"
    yield ""
    source = [f"[{report.source[0]}]({report.source[1]})."] if report.source else []
    yield from _lines(*([preface] if preface else []), *source)
    about = " ".join(f"{text}." for text in (report.summary, report.foot) if text)
    yield from _lines(*([about] if about else []))
    findings = [(section.name, finding) for section in report.sections for finding in section.findings]
    for whose, is_ours in (("the paper", False), ("kfed, beyond the paper", True)):
        cells = [
            (f"[{name}](#{name})", *map(_escaped, (one.claim, one.paper, one.ours)), _stressed(one.verdict))
            for name, one in findings
            if one.is_ours is is_ours
        ]
        if cells:
            yield from _lines(f"Claims of {whose}:")
            yield from _rows(("experiment", "claim", "paper", "ours", "verdict"), *cells)
    for section in report.sections:
        yield from _section(section, pictures)


def _section(section: parts.Section, pictures: str) -> Iterator[str]:
    """A heading makes its own anchor in Markdown, so that a section with a name is headed by it."""
    if section.name or section.title:
        yield from _lines(f"## {section.name or section.title}")
    if section.name:
        yield from _lines(f"{section.title} ({section.source}). {section.lead}")
    for block in section.blocks:
        if isinstance(block, (parts.Plot, parts.ImageFile)):
            yield from _lines(f"![{block.title}]({pictures}/{_file_name(block)})")
        else:
            yield from _markdown(block)


@singledispatch
def _markdown(block: parts.Block) -> Iterator[str]:
    raise NotImplementedError(type(block))


@_markdown.register
def _(block: parts.Conclusion) -> Iterator[str]:
    yield from _lines(f"**{_escaped(sentence(block.answer))}**")
    for text in (block.reason, *block.meaning):
        if text:
            yield from _lines(_escaped(sentence(text)))


@_markdown.register
def _(block: parts.Paragraph) -> Iterator[str]:
    yield from _lines(f"{block.label}: {_escaped(block.text)}" if block.label else _escaped(block.text))


@_markdown.register
def _(block: parts.Notes) -> Iterator[str]:
    if block.texts:
        texts = (re.sub(r"\?\.$", "?", sentence(text)) for text in block.texts)
        yield from _lines(*(f"- {_escaped(text)}" for text in texts))


@_markdown.register
def _(block: parts.TextTable) -> Iterator[str]:
    if block.title:
        yield from _lines(f"{_escaped(block.title)}:")
    yield from _rows(block.headings, *(tuple(map(_escaped, row)) for row in block.rows))


@_markdown.register
def _(block: parts.GreyPictures) -> Iterator[str]:
    yield from _lines(f"(pictures: {', '.join(_escaped(title) for title, _ in block.pictures)})")


@_markdown.register
def _(block: parts.Findings) -> Iterator[str]:
    for one in block.findings:
        reason = f" ({_escaped(one.reason)})" if one.reason else ""
        yield f"- {_escaped(one.claim)}: **{one.verdict}**{reason}"
    yield ""


@_markdown.register
def _(block: parts.Origin) -> Iterator[str]:
    yield from _lines(f"{block.text}.")


def _rows(headings: tuple[str, ...], *rows: tuple[str, ...]) -> Iterator[str]:
    for row in (tuple(map(_cell, headings)), ("---",) * len(headings), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _lines(*lines: str) -> Iterator[str]:
    """Some lines, and an empty one if there are any."""
    yield from lines
    if lines:
        yield ""


def _file_name(picture: parts.Plot | parts.ImageFile) -> str:
    if isinstance(picture, parts.ImageFile):
        return picture.path.name
    return re.sub(r"\W+", "-", picture.title.lower()).strip("-") + ".png"


def _stressed(verdict: str) -> str:
    return f"**{verdict}**" if verdict == "not reproduced" else verdict


def _escaped(text: str) -> str:
    return _cell(text).replace("*", "\\*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
