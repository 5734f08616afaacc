"""A report as JSON, for the page to draw: the same blocks that the terminal and HTML render."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from kfed._base.report import Block, Conclusion, GreyPictures, HeatTable, Notes, Paragraph, Report, TextTable


def report_json(report: Report) -> list[dict[str, Any]]:
    """The sections of a report.

    Examples
    --------
    >>> from kfed._base.report import Section
    >>> report_json(Report("Fruit", (Section("Prices", (Paragraph("Low."),)),)))
    [{'title': 'Prices', 'blocks': [{'kind': 'paragraph', 'text': 'Low.'}]}]
    """
    return [
        {"title": section.title, "blocks": [made for block in section.blocks if (made := _json(block))]}
        for section in report.sections
    ]


@singledispatch
def _json(block: Block) -> dict[str, Any]:  # noqa: ARG001
    return {}


@_json.register
def _(block: Conclusion) -> dict[str, Any]:
    return {"kind": "conclusion", "text": block.text, "is_good": block.is_good}


@_json.register
def _(block: Paragraph) -> dict[str, Any]:
    return {"kind": "paragraph", "text": block.text}


@_json.register
def _(block: Notes) -> dict[str, Any]:
    return {"kind": "notes", "texts": list(block.texts)}


@_json.register
def _(block: TextTable) -> dict[str, Any]:
    heats = [list(row) for row in block.heats] if isinstance(block, HeatTable) else []
    return {
        "kind": "table",
        "headings": list(block.headings),
        "rows": [list(row) for row in block.rows],
        "n_words": block.n_words,
        "heats": heats,
        "caption": block.caption if isinstance(block, HeatTable) else "",
    }


@_json.register
def _(block: GreyPictures) -> dict[str, Any]:
    pictures = [
        {"title": title, "pixels": np.rint(255 * values).astype(int).tolist()} for title, values in block.pictures
    ]
    return {"kind": "pictures", "pictures": pictures, "caption": block.caption}
