"""Yes and no as words in the cells of a column, also where a few of its cells say something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kfed._base.cell_words import FLAGS, flag_in

MOSTLY = 0.95
"""The share of cells from which on a column of yes and no is one, though other cells say neither."""

FEWEST = 20
"""In fewer cells, one that says something else is no exception."""

_TRUTHS, _DIGITS = {"true": 1, "false": 0}, {"1": 1, "0": 0}
"""Databases write them in one column, and Arrow reads both."""

_T_OR_F = {"t", "f"}


def flags_among(counts: Mapping[str, int]) -> dict[str, float] | None:
    """Map words for yes to 1 and words for no to 0, if a column holds hardly anything else; otherwise None.

    Parameters
    ----------
    counts : mapping from word to int
        How many cells hold each word; missing cells left out.

    Examples
    --------
    >>> flags_among({"Yes": 1, "no": 2}), flags_among({"n": 3}), flags_among({"F": 3})
    ({'Yes': 1.0, 'no': 0.0}, {'n': 0.0}, None)
    >>> flags_among({"yes": 80, "no": 119, "former": 1}), flags_among({"no": 199, "severe": 1})
    ({'yes': 1.0, 'no': 0.0}, None)
    >>> flags_among({"true": 1, "0": 8}), flags_among({"1": 3, "0": 8})
    ({'true': 1.0, '0': 0.0}, None)
    """
    if any(word.lower() in _TRUTHS for word in counts) and all(word.lower() in _TRUTHS | _DIGITS for word in counts):
        return {word: float((_TRUTHS | _DIGITS)[word.lower()]) for word in counts}
    for pair in FLAGS:
        values = {word: float(pair[word.lower()]) for word in counts if word.lower() in pair}
        said = {word.lower() for word in values}
        are_all = bool(values) and len(values) == len(counts) and (said == pair.keys() or not said <= _T_OR_F)
        if are_all or (said == pair.keys() and _are_nearly_all(values, counts)):
            return values
    return None


def _are_nearly_all(words: Iterable[str], counts: Mapping[str, int]) -> bool:
    n_cells = sum(counts[word] for word in words)
    return n_cells >= FEWEST and n_cells >= MOSTLY * sum(counts.values())


def are_flags_in_words(words: Iterable[str]) -> bool:
    """Whether all words say yes or no, in whatever language, and not as numbers."""
    return all(any(word.lower() in pair for pair in FLAGS) for word in words)


def flags_in(words: Sequence[str]) -> list[float]:
    """1 for each word that means yes and 0 for each that means no; NaN for any other."""
    return [flag_in(word) for word in words]
