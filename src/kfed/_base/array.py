"""`Array`, the one alias for NumPy arrays, and two ways to make an array read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of any dtype; a comment or docstring gives its shape where it is created."""


def readonly(array: Array) -> Array:
    """Make `array` read-only in place, and return it."""
    array.flags.writeable = False
    return array


def frozen(array: Array) -> Array:
    """Return a read-only copy in row-major order."""
    return readonly(np.array(array, order="C"))
