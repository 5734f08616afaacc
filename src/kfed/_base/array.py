"""`Array`, the one alias for NumPy arrays, and what makes an array read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of any dtype; its shape stands where it is born."""


def readonly(array: Array) -> Array:
    """Make `array` itself read-only, and return it."""
    array.flags.writeable = False
    return array


def frozen(array: Array) -> Array:
    """Return a read-only copy in row-major order."""
    return readonly(np.array(array, order="C"))
