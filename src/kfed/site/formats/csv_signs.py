"""Signs in the numbers of a CSV file, where its first lines leave them open: 5,13 far below shows a decimal comma."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kfed._base.arrow import arrow
from kfed._base.cell_words import ABSENT_WORDS, is_missing_word
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.thousands import Signs, is_grouped, is_open

_WITH_A_SIGN = r"^\s*[-+\x{2212}]?\d*[.,][\d.,]*\d\s*$"


def with_fractions(columns: Mapping[str, Any]) -> list[str]:
    """Columns of Arrow in which it found decimals: it does not tell how these were written."""
    floats = (name for name, column in columns.items() if arrow().types.is_floating(column.type))
    return [name for name in floats if _has_fractions(columns[name].to_numpy())]


def _has_fractions(numbers: Any) -> bool:
    known = numbers[np.isfinite(numbers)]
    return bool((known != np.rint(known)).any())


def signed_words(columns: Mapping[str, Any]) -> Counter[str]:
    """How often each number with a point or a comma occurs in the columns of text."""
    from pyarrow import compute

    counts: Counter[str] = Counter()
    for column in columns.values():
        if arrow().types.is_string(column.type):
            found = compute.value_counts(column.filter(compute.match_substring_regex(column, _WITH_A_SIGN)))
            for word, count in zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True):
                counts[word.strip()] += count
    return counts


def must_be_seen(cells: Cells, first: Sequence[str], signs: Signs) -> bool:
    """Whether the text of a column that Arrow took for numbers must be looked at.

    That is so if it may hold thousands, or nothing but a word that counts as missing.

    Parameters
    ----------
    first : sequence of str
        The first cells of the column, as they are written.
    signs : Signs
        Those of the table.
    """
    if cells.kind != "number" or cells.numbers is None or cells.only_word:
        return False
    words = [word for word in first if not is_missing_word(word)]
    if not is_open(words, signs.decimal):
        return False
    if cells.is_missing.all():
        return not ABSENT_WORDS.issuperset(map(str.lower, first))
    known = np.abs(cells.numbers[~np.isnan(cells.numbers)])
    is_whole = known == np.rint(known)
    has_groups = is_grouped(words, signs.decimal) or not is_whole.all()
    return has_groups and (not signs.is_certain or bool((is_whole & (known >= 100) & (known < 1000)).any()))
