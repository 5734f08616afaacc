"""Tables of a page that fit on paper: long headings of many columns are shortened, and wide tables cut into parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kfed._base.report import Block, HeatTable, TextTable

MOST_ACROSS, FEW_ACROSS, MOST_OF_HEADING = 12, 6, 24
"""So many numbers fit beside each other on paper, and so many under whole headings, which are broken into lines; where
there are more, a heading has at most so many characters."""


def on_paper(block: Block) -> Iterator[Block]:
    """A block, or a table cut into several of about the same width, each with the words of its rows.

    Examples
    --------
    >>> names = tuple(map(str, range(20)))
    >>> parts = on_paper(HeatTable("ages", ("column", *names), (("age", *names),), heats=((0.0,) * 20,)))
    >>> [part.rows[0][:2] for part in parts]
    [('age', '0'), ('age', '10')]
    """
    if isinstance(block, TextTable) and len(block.headings) - block.n_words > FEW_ACROSS:
        words, numbers = block.headings[: block.n_words], block.headings[block.n_words :]
        block = replace(block, headings=(*words, *_shortened(numbers)))
    if isinstance(block, HeatTable):
        yield from _parts(block)
    else:
        yield block


def _parts(block: HeatTable) -> Iterator[HeatTable]:
    numbers = np.arange(block.n_words, len(block.headings))
    parts = np.array_split(numbers, max(1, -(-len(numbers) // MOST_ACROSS)))
    for part in parts:
        columns = [*range(block.n_words), *part.tolist()]
        yield replace(
            block,
            headings=tuple(block.headings[at] for at in columns),
            rows=tuple(tuple(row[at] for at in columns) for row in block.rows),
            heats=tuple(tuple(row[at - block.n_words] for at in part) for row in block.heats),
            caption=block.caption if part is parts[-1] else "",
        )


def _shortened(headings: Sequence[str]) -> list[str]:
    """The headings, shortened where they still differ from each other then.

    Examples
    --------
    >>> _shortened(["a long name of a first cluster", "a very long name of cluster 1", "a very long name of cluster 2"])
    ['a long name of a first…', 'a very long name of cluster 1', 'a very long name of cluster 2']
    """
    short = [text if len(text) <= MOST_OF_HEADING else f"{text[: MOST_OF_HEADING - 1].rstrip()}…" for text in headings]
    counts = Counter(short)
    return [one if counts[one] == 1 else text for one, text in zip(short, headings, strict=True)]
