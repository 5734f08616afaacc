"""Text as points: windows of text, and hashed counts of their character n-grams or shares of their letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array

NGRAM_LENGTHS = (2, 3)
MARKS = "abcdefghijklmnopqrstuvwxyz ,.;:!?'-"


def windows(text: str, length: int) -> list[str]:
    """Cut a text into pieces of equal length; a shorter rest is left out.

    Examples
    --------
    >>> windows("to be or not", 5)
    ['to be', ' or n']
    """
    length = checks.positive_integer(length, "length")
    return [text[start : start + length] for start in range(0, len(text) - length + 1, length)]


def character_features(texts: Sequence[str], *, n_features: int = 4096) -> Any:
    """Hashed counts of the character n-grams of each text, as a sparse matrix with rows of length 1.

    Nothing is learned from the texts, so devices need not agree on a vocabulary first.

    Parameters
    ----------
    texts : sequence of str
    n_features : int
        Columns that n-grams are hashed to.

    Returns
    -------
    sparse matrix of float32, shape (n_texts, n_features)

    Examples
    --------
    >>> character_features(["to be", "or not"], n_features=64).shape
    (2, 64)
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        analyzer="char",
        ngram_range=NGRAM_LENGTHS,
        n_features=checks.positive_integer(n_features, "n_features"),
        alternate_sign=False,
        dtype=np.float32,
    )
    return hashing.transform(texts)


def letter_features(texts: Sequence[str]) -> Array:
    """Square roots of the shares of letters and marks in each text: style rather than matter.

    Rows have length 1, and their distances are Hellinger's. Nothing is learned from the texts.

    Parameters
    ----------
    texts : sequence of str

    Returns
    -------
    array of float32, shape (n_texts, 35)

    Examples
    --------
    >>> letter_features(["aab b"])[0, :2].round(3)
    array([0.632, 0.632], dtype=float32)
    """
    counts = np.array([[text.lower().count(mark) for mark in MARKS] for text in texts], np.float32)
    return np.asarray(np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)))
