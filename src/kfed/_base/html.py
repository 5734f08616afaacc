"""Blocks of a report as HTML: for a page, see `kfed.insight`, and for a notebook."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING

from kfed._base import figures
from kfed._base.png import grey_png
from kfed._base.report import (
    Block,
    Conclusion,
    Finding,
    Findings,
    GreyPictures,
    HeatTable,
    ImageFile,
    Notes,
    Origin,
    Paragraph,
    Plot,
    TextTable,
)
from kfed._base.text import sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ALPHA = 0.65
_KINDS = {True: "good", False: "bad", None: "open"}


def for_notebook(title: str, blocks: Iterable[Block]) -> str:
    r"""What a notebook shows of a value: a title and blocks, without pictures.

    Examples
    --------
    >>> for_notebook("A <model>", [Paragraph("2 clusters")])
    '<div><p><b>A &lt;model&gt;</b></p>\n<p>2 clusters</p></div>'
    """
    shown = (html_of(block) for block in blocks if not isinstance(block, Plot | ImageFile))
    return "\n".join([f"<div><p><b>{escape(title)}</b></p>", *filter(None, shown)]) + "</div>"


def png_of(draw: Callable[[Axes], object]) -> bytes:
    """Draw on new axes, and give the picture as PNG."""
    figure = figures.new_figure(8.5, 4.4)
    draw(figure.add_subplot())
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=figures.DPI)
    return drawn.getvalue()


@singledispatch
def html_of(block: Block) -> str:
    """Render one block."""
    raise NotImplementedError(type(block))


@html_of.register
def _(block: Conclusion) -> str:
    meaning = [text for text in (block.reason, *block.meaning) if text]
    reasons = "".join(paragraph(sentence(text)) for text in meaning)
    return (
        f'<div class="verdict {_KINDS[block.is_good]}"><strong>{escape(sentence(block.answer))}</strong>{reasons}</div>'
    )


@html_of.register
def _(block: Paragraph) -> str:
    if block.label:
        return f"<p><b>{escape(block.label)}.</b> {escape(block.text)}</p>"
    return paragraph(block.text, "soft" if block.is_aside else "")


@html_of.register
def _(block: Notes) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence(text))}</li>' for text in block.texts)}</ul>" if block.texts else ""


@html_of.register
def _(block: TextTable) -> str:
    return _table(block, [[""] * len(row) for row in block.rows])


@html_of.register
def _(block: HeatTable) -> str:
    styles = [[""] * block.n_words + list(map(_heat, heats)) for heats in block.heats]
    caption = paragraph(block.caption, "soft") if block.caption else ""
    return _table(block, styles) + caption


def _heat(heat: float) -> str:
    """The background of a cell; it is half transparent, so that it serves a light and a dark page."""
    alpha = min(abs(heat), 1.0) * MOST_ALPHA
    return f' style="background: rgba({"209,96,61" if heat > 0 else "47,110,170"},{alpha:.2f})"' if alpha > 0.02 else ""


def _table(block: TextTable, styles: list[list[str]]) -> str:
    def row(tag: str, cells: tuple[str, ...], own: list[str]) -> str:
        classes = (" class=number" * block.is_number(column) for column in range(len(cells)))
        inner = (
            f"<{tag}{kind}{style}>{escape(cell)}</{tag}>" for kind, style, cell in zip(classes, own, cells, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    caption = f"<caption>{escape(block.title)}</caption>" if block.title else ""
    plain = [""] * len(block.headings)
    head = f"<thead>{row('th', block.headings, plain)}</thead>\n" if block.has_headings else ""
    body = "".join(row("td", cells, own) for cells, own in zip(block.rows, styles, strict=True))
    return f"<div class=scroll><table>{caption}{head}<tbody>{body}</tbody></table></div>"


@html_of.register
def _(block: GreyPictures) -> str:
    shown = "".join(
        f'<figure><img src="data:image/png;base64,{base64.b64encode(grey_png(values)).decode()}" '
        f'alt="{escape(title)}"><figcaption>{escape(title)}</figcaption></figure>'
        for title, values in block.pictures
    )
    caption = paragraph(block.caption, "soft") if block.caption else ""
    return f"<div class=pictures>{shown}</div>{caption}"


@html_of.register
def _(block: Plot) -> str:
    return _figure(png_of(block.draw), block.caption, f"<figcaption>{escape(block.caption)}</figcaption>")


@html_of.register
def _(block: ImageFile) -> str:
    return _figure(block.path.read_bytes(), block.title)


@html_of.register
def _(block: Findings) -> str:
    return "\n".join(map(_finding, block.findings))


@html_of.register
def _(block: Origin) -> str:
    return f"<p class=soft>{escape(block.text)}: <code>{escape(block.command)}</code></p>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of a class, if one is given."""
    return f"<p{f' class={kind}' if kind else ''}>{escape(text)}</p>"


def _figure(png: bytes, alt: str, caption: str = "") -> str:
    data = base64.b64encode(png).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}">'
    return f"<figure><div class=scroll>{image}</div>{caption}</figure>"


def _finding(finding: Finding) -> str:
    reason = paragraph(finding.reason, "soft") if finding.reason else ""
    verdict = f'<span class="mark {finding.verdict.replace(" ", "-")}">{finding.verdict}</span>'
    return (
        f"<article><p>{verdict}{escape(finding.claim)}</p>"
        f"<dl><div><dt>paper</dt><dd>{escape(finding.paper)}</dd></div>"
        f"<div><dt>ours</dt><dd>{escape(finding.ours)}</dd></div></dl>{reason}</article>"
    )
