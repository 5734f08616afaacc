"""A report as one self-contained HTML page: text, tables and pictures in one file that loads nothing from a network.

It reads on a phone and in the dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from kfed._base.html import html_of, paragraph
from kfed._base.report import Block, Conclusion, Notes, Paragraph, Report, Section
from kfed.insight.on_paper import on_paper

STYLE = """
:root { color-scheme: light dark; --text: #1c2733; --soft: #5b6875; --page: #ffffff; --card: #f4f6f8; --line: #d9dfe5;
  --good: #1a7f4b; --bad: #b3501b; --open: #4a6178; --link: #1f5f9e; --shade: rgba(28,39,51,.35); }
@media (prefers-color-scheme: dark) { :root { --text: #e4e9ee; --soft: #9fabb7; --page: #14191f; --card: #1d242c;
  --line: #323c47; --good: #57c98c; --bad: #f0a066; --open: #a9bccf; --link: #7db8f0; --shade: rgba(228,233,238,.4); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p, ul { margin: .5rem 0; overflow-wrap: anywhere; }
a { color: var(--link); }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.verdict { border-left: .35rem solid var(--open); background: var(--card); padding: .8rem 1rem; margin: 1rem 0; }
.verdict strong { display: block; font-size: 1.15rem; overflow-wrap: anywhere; }
.good { border-color: var(--good); } .good strong, td.good { color: var(--good); }
.bad { border-color: var(--bad); } .bad strong, td.bad { color: var(--bad); }
.scroll { overflow-x: auto; background: linear-gradient(90deg, var(--page) 2rem, transparent) 0 / 4rem 100% local,
  linear-gradient(270deg, var(--page) 2rem, transparent) 100% / 4rem 100% local,
  linear-gradient(90deg, var(--shade), transparent) 0 / 1rem 100% scroll,
  linear-gradient(270deg, var(--shade), transparent) 100% / 1rem 100% scroll; background-repeat: no-repeat; }
table { border-collapse: collapse; margin: .6rem 0; min-width: 50%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; padding-left: .5rem; }
th.number { white-space: normal; vertical-align: bottom; }
figure { margin: 1rem 0; }
figure img { display: block; width: 100%; max-width: 54rem; height: auto; border-radius: .3rem; background: #fff; }
@media (prefers-color-scheme: dark) { figure .scroll { background: none; } figure img { padding: .6rem; } }
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
.mark.not-reproduced { color: var(--bad); } .mark.direction-only { color: var(--open); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .2rem 1rem; margin: .3rem 0; }
code { font-family: ui-monospace, monospace; font-size: .9em; }
dt { color: var(--soft); font-size: .9rem; }
dd { margin: 0; }
.scroll th:first-child, .scroll td:first-child { position: sticky; left: 0; background: var(--page); }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem; margin: .8rem 0; }
.pictures figure { margin: 0; width: 7rem; }
.pictures img { width: 7rem; padding: 0; height: auto; image-rendering: pixelated; border: 1px solid var(--line); }
@media (max-width: 40rem) { main { padding: 1rem .75rem 3rem; } table { font-size: .75rem; width: 100%; }
  th, td { padding: .25rem .15rem .25rem 0; } td.number, th.number { padding-left: .2rem; white-space: normal; }
  .scroll th:first-child, .scroll td:first-child { min-width: 4.5rem;
  max-width: 8.5rem; overflow-wrap: anywhere; } }
@media print { :root { color-scheme: light; --text: #000; --soft: #444; --page: #fff; --card: #f4f6f8; --line: #bbb; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } body { font-size: 11pt; } main { padding: 0; }
  nav { display: none; } .scroll { overflow: visible; background: none; } tr, figure, .verdict { break-inside: avoid; }
  table { font-size: 8pt; max-width: 100%; } th, td { padding: .15rem .2rem .15rem 0; overflow-wrap: anywhere; }
  td.number { padding-left: .25rem; } th.number { padding-left: .25rem; min-width: 2.6rem; }
  .scroll th:first-child, .scroll td:first-child { position: static; min-width: 6rem; max-width: 12rem; }
  h2, h3 { break-after: avoid; } }
""".strip()


_CODE, _QUESTION = re.compile(r"`([^`<>]+)`"), re.compile(r"([?!])\.(?=</)")


def to_html(report: Report) -> bytes:
    """Render a report as one HTML file.

    Examples
    --------
    >>> from kfed._base.report import Paragraph
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
        yield paragraph(section.source, "soft")
    if section.lead:
        yield paragraph(section.lead)
    for block in section.blocks:
        yield from map(_html, on_paper(block))
    if section.name:
        yield "</section>"


def _html(block: Block) -> str:
    """A block in HTML; in text, what stands between backticks is code, and a question ends with its mark."""
    shown = html_of(block)
    if not isinstance(block, Conclusion | Notes | Paragraph):
        return shown
    return _QUESTION.sub(r"\1", _CODE.sub(r"<code>\1</code>", shown))
