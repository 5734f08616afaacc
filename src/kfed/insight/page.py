"""One self-contained HTML page: text, tables and pictures in one file that asks nothing of a network.

It reads on a phone and in the dark. A page is a sequence of blocks, each a piece of HTML made by a function here.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
""".strip()


def page(title: str, blocks: Iterable[str], foot: str, style: str = "") -> bytes:
    """The whole file; `style` adds to how it looks."""
    body = "\n".join(blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}{style}\n</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f"{body}\n<footer>{escape(foot)}</footer>\n</main>\n</body>\n</html>\n"
    ).encode()


def heading(text: str, level: int = 2, anchor: str | None = None) -> str:
    """A heading, which links can lead to by its anchor."""
    place = f' id="{escape(anchor)}"' if anchor else ""
    return f"<h{level}{place}>{escape(text)}</h{level}>"


def paragraph(text: str, *, soft: bool = False) -> str:
    """A paragraph of text."""
    return f"<p{' class=soft' * soft}>{escape(text)}</p>"


def bullets(texts: Sequence[str]) -> str:
    """A list; nothing if it is empty."""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def verdict(text: str, reasons: Sequence[str], kind: str) -> str:
    """The conclusion, in a box: `kind` is "good", "bad" or "open"."""
    return f'<div class="verdict {kind}"><strong>{escape(text)}</strong>{"".join(map(paragraph, reasons))}</div>'


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table whose columns of numbers stand to the right; it scrolls by itself where the page is narrow.

    Examples
    --------
    >>> print(table(["who", "n"], [["a & b", "1"]]))
    <div class=scroll><table><thead><tr><th>who</th><th class=number>n</th></tr></thead>
    <tbody><tr><td>a &amp; b</td><td class=number>1</td></tr></tbody></table></div>
    """
    numeric = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(headings))]
    titles = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th{_align(n)}>{escape(text)}</th>" for text, n in zip(headings, numeric, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{_align(n)}>{escape(text)}</td>' for text, n in zip(row, numeric, strict=True))}</tr>"
        for row in rows
    )
    shown = f"<thead><tr>{head}</tr></thead>\n" if any(headings) else ""
    return f"<div class=scroll><table>{titles}{shown}<tbody>{body}</tbody></table></div>"


def picture(png: bytes, words: str, *, captioned: bool = True) -> str:
    """A picture that is part of the file, with words for those who do not see it, which may stand below it, too."""
    data, words = base64.b64encode(png).decode(), escape(words)
    caption = f"<figcaption>{words}</figcaption>" if captioned else ""
    return f'<figure><div class=scroll><img src="data:image/png;base64,{data}" alt="{words}"></div>{caption}</figure>'


def png_of(figure: Figure) -> bytes:
    """A figure as a PNG."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    return drawn.getvalue()


def _is_number(text: str) -> bool:
    return text == "" or text.lstrip("-+<>~≤≥ ")[:1].isdigit()


def _align(is_numeric: bool) -> str:
    return " class=number" * is_numeric
