"""A report as one self-contained HTML page: text, tables and pictures in one file that loads nothing from a network.

It reads on a phone and in the dark.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING

from kfed._base.figures import new_figure
from kfed._base.report import (
    Block,
    Conclusion,
    Finding,
    Findings,
    ImageFile,
    Notes,
    Origin,
    Paragraph,
    Plot,
    Report,
    Section,
    TextTable,
)
from kfed._base.text import sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI = 150

STYLE = """
:root { color-scheme: light dark; --text: #1c2733; --soft: #5b6875; --page: #ffffff; --card: #f4f6f8; --line: #d9dfe5;
  --good: #1a7f4b; --bad: #b3501b; --open: #4a6178; --link: #1f5f9e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e9ee; --soft: #9fabb7; --page: #14191f; --card: #1d242c;
  --line: #323c47; --good: #57c98c; --bad: #f0a066; --open: #a9bccf; --link: #7db8f0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p, ul { margin: .5rem 0; }
a { color: var(--link); }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.verdict { border-left: .35rem solid var(--open); background: var(--card); padding: .8rem 1rem; margin: 1rem 0; }
.verdict strong { display: block; font-size: 1.15rem; overflow-wrap: anywhere; }
.good { border-color: var(--good); } .good strong, td.good { color: var(--good); }
.bad { border-color: var(--bad); } .bad strong, td.bad { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; min-width: 50%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
figure { margin: 1rem 0; }
figure img { display: block; width: 100%; min-width: 30rem; max-width: 54rem; height: auto; border-radius: .3rem;
  background: #fff; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
.tally { font-size: 1.1rem; font-weight: 600; }
nav { display: flex; flex-wrap: wrap; gap: .4rem .5rem; margin: 1.2rem 0; }
nav a { background: var(--card); border: 1px solid var(--line); border-radius: 2rem; padding: .25rem .75rem;
  text-decoration: none; color: var(--text); font-size: .9rem; }
.dot { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; margin-right: .45rem; }
.dot.good { background: var(--good); } .dot.bad { background: var(--bad); } .dot.skipped { background: var(--open); }
.dot.mixed { background: linear-gradient(90deg, var(--good) 50%, var(--bad) 50%); }
section { border-top: 1px solid var(--line); margin: 2.5rem 0 0; }
article { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: 1rem 0; }
article p { margin: .25rem 0; }
.mark { display: inline-block; font-size: .8rem; font-weight: 600; border: 1px solid currentColor; border-radius: .3rem;
  padding: 0 .4rem; margin-right: .5rem; color: var(--good); }
.mark.not-reproduced { color: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .2rem 1rem; margin: .3rem 0; }
dt { color: var(--soft); font-size: .9rem; }
dd { margin: 0; }
""".strip()

_KINDS = {True: "good", False: "bad", None: "open"}


def to_html(report: Report) -> bytes:
    """Render a report as one HTML file.

    Examples
    --------
    >>> page = to_html(Report("Apples & pears", (Section("Prices", (Paragraph("None is < 1."),)),)))
    >>> "<h1>Apples &amp; pears</h1>" in page.decode(), "<p>None is &lt; 1.</p>" in page.decode()
    (True, True)
    """
    body = "\n".join(_body(report))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(report.title)}</h1>\n{body}\n<footer>{escape(report.foot)}</footer>\n</main>\n</body>\n</html>\n"
    ).encode()


def png_of(draw: Callable[[Axes], object]) -> bytes:
    """Draw on new axes, and give the picture as PNG."""
    figure = new_figure(8.5, 4.4)
    draw(figure.add_subplot())
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    return drawn.getvalue()


def _body(report: Report) -> Iterator[str]:
    if report.source:
        name, address = report.source
        yield f'<p><a href="{escape(address)}">{escape(name)}</a></p>'
    if report.summary:
        yield f"<p class=tally>{escape(report.summary)}</p>"
    links = [_link(section) for section in report.sections if section.name]
    if links:
        yield f"<nav>{' '.join(links)}</nav>"
    for section in report.sections:
        yield from _section(section)


def _link(section: Section) -> str:
    verdicts = {finding.verdict for finding in section.findings}
    failed = "not reproduced" in verdicts
    kind = "skipped" if not verdicts else "mixed" if failed and len(verdicts) > 1 else "bad" if failed else "good"
    name = escape(section.name)
    return f'<a href="#{name}"><i class="dot {kind}"></i>{name}</a>'


def _section(section: Section) -> Iterator[str]:
    if section.name:
        yield f'<section id="{escape(section.name)}">'
    if section.title:
        yield f"<h2>{escape(section.title)}</h2>"
    if section.source:
        yield _paragraph(section.source, "soft")
    if section.lead:
        yield _paragraph(section.lead)
    yield from map(_html, section.blocks)
    if section.name:
        yield "</section>"


@singledispatch
def _html(block: Block) -> str:
    raise NotImplementedError(type(block))


@_html.register
def _(block: Conclusion) -> str:
    meaning = [text for text in (block.reason, *block.meaning) if text]
    reasons = "".join(_paragraph(sentence(text)) for text in meaning)
    return (
        f'<div class="verdict {_KINDS[block.is_good]}"><strong>{escape(sentence(block.answer))}</strong>{reasons}</div>'
    )


@_html.register
def _(block: Paragraph) -> str:
    if block.label:
        return f"<p><b>{escape(block.label)}.</b> {escape(block.text)}</p>"
    return _paragraph(block.text, "soft" if block.is_aside else "")


@_html.register
def _(block: Notes) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence(text))}</li>' for text in block.texts)}</ul>" if block.texts else ""


@_html.register
def _(block: TextTable) -> str:
    def row(tag: str, cells: tuple[str, ...]) -> str:
        classes = (" class=number" * block.is_number(column) for column in range(len(cells)))
        inner = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(classes, cells, strict=True))
        return f"<tr>{''.join(inner)}</tr>"

    caption = f"<caption>{escape(block.title)}</caption>" if block.title else ""
    head = f"<thead>{row('th', block.headings)}</thead>\n" if block.has_headings else ""
    body = "".join(row("td", cells) for cells in block.rows)
    return f"<div class=scroll><table>{caption}{head}<tbody>{body}</tbody></table></div>"


@_html.register
def _(block: Plot) -> str:
    return _figure(png_of(block.draw), block.caption, f"<figcaption>{escape(block.caption)}</figcaption>")


@_html.register
def _(block: ImageFile) -> str:
    return _figure(block.path.read_bytes(), block.title)


@_html.register
def _(block: Findings) -> str:
    return "\n".join(map(_finding, block.findings))


@_html.register
def _(block: Origin) -> str:
    return f"<p class=soft>{escape(block.text)}: <code>{escape(block.command)}</code></p>"


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{escape(text)}</p>"


def _figure(png: bytes, alt: str, caption: str = "") -> str:
    data = base64.b64encode(png).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}">'
    return f"<figure><div class=scroll>{image}</div>{caption}</figure>"


def _finding(finding: Finding) -> str:
    reason = _paragraph(finding.reason, "soft") if finding.reason else ""
    verdict = f'<span class="mark {finding.verdict.replace(" ", "-")}">{finding.verdict}</span>'
    return (
        f"<article><p>{verdict}{escape(finding.claim)}</p>"
        f"<dl><div><dt>paper</dt><dd>{escape(finding.paper)}</dd></div>"
        f"<div><dt>ours</dt><dd>{escape(finding.ours)}</dd></div></dl>{reason}</article>"
    )
