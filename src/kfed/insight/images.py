"""Features that are the pixels of an image, and the mean image of each cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from kfed._base.array import Array
from kfed._base.report import GreyPictures
from kfed.errors import InvalidInputError
from kfed.server import Profile

LEAST_SIDE = 4
"""Fewer pixels in a row or a column are no image that one would know."""

_PIXEL = re.compile(r"(?P<word>pixel|px|)[ _-]?(?P<first>\d+)(?:[ _x-](?P<second>\d+))?", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class ImageLayout:
    """Which feature is which pixel.

    Attributes
    ----------
    features : array of int, shape (height, width)
        The feature that each pixel is.
    is_sure : bool
        Whether somebody said that this is an image, or the names do, so that nobody needs the columns as a table.
    """

    features: Array
    is_sure: bool

    @classmethod
    def of(cls, given: tuple[int, int] | None, profile: Profile) -> ImageLayout | None:
        """The layout that is given, row by row, or that names tell; None if the features are no image."""
        n_features = len(profile.names)
        if given is None:
            return _told_by(profile.names)
        if given[0] * given[1] != n_features:
            raise InvalidInputError(
                f"an image of {given[0]}x{given[1]} has {given[0] * given[1]} pixels; got {n_features} features"
            )
        return cls(np.arange(n_features).reshape(given), is_sure=True)

    def pictures(self, profile: Profile, titles: Sequence[str]) -> GreyPictures:
        """The mean of each cluster as an image."""
        means = np.nan_to_num(profile.means)
        low, high = float(means.min()), float(means.max())
        pictures = ((means - low) / max(high - low, 1e-300))[:, self.features]
        caption = "The mean of all rows of each cluster, as an image."
        return GreyPictures(tuple(zip(titles, pictures, strict=True)), caption)


def _told_by(names: Sequence[str]) -> ImageLayout | None:
    """The layout by names such as pixel0, pixel1, ..., px_1, ..., pixel_0_0, pixel_0_1, ... or 1x1, 1x2, ...

    Every pixel must be there, once. Names of two numbers tell the row and the column, and names of one number count the
    pixels of a square. Names such as p1 tell nothing: they may be anything.
    """
    found = [_PIXEL.fullmatch(name) for name in names]
    if not all(found):
        return None
    words = {one["word"].lower() for one in found if one}
    places = [(int(one["first"]), int(one["second"] or -1)) for one in found if one]
    has_rows = places[0][1] >= 0
    if len(words) > 1 or len({second < 0 for _, second in places}) > 1 or (not has_rows and "" in words):
        return None
    layout = _grid(places) if has_rows else _square([first for first, _ in places])
    return None if layout is None or min(layout.shape) < LEAST_SIDE else ImageLayout(layout, words == {"pixel"})


def _square(numbers: Sequence[int]) -> Array | None:
    """The order of pixels that are counted from 0 or 1, as a square."""
    side, first = isqrt(len(numbers)), min(numbers)
    is_whole = side * side == len(numbers) and sorted(numbers) == list(range(first, first + len(numbers)))
    return np.argsort(numbers).reshape(side, side) if is_whole and first <= 1 else None


def _grid(places: Sequence[tuple[int, int]]) -> Array | None:
    """The order of pixels whose rows and columns are counted from 0 or 1."""
    (top, left), (bottom, right) = np.min(places, axis=0), np.max(places, axis=0)
    height, width = int(bottom - top + 1), int(right - left + 1)
    is_whole = len(set(places)) == len(places) == height * width and max(top, left) <= 1
    order = sorted(range(len(places)), key=lambda feature: places[feature])
    return np.array(order).reshape(height, width) if is_whole else None
