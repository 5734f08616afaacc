"""`Array`, the alias for NumPy arrays; lengths of arrays as attributes; and ways to make arrays read-only."""

from __future__ import annotations

from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of any dtype; a comment or docstring gives its shape where it is created."""


class Length:
    """A read-only attribute: the length of one axis of an array attribute.

    Examples
    --------
    >>> class Table:
    ...     n_rows = Length("values", 0, "Number of rows.")
    ...     values = np.zeros((5, 2))
    >>> Table().n_rows
    5
    """

    def __init__(self, array: str, axis: int, about: str) -> None:
        self._array, self._axis, self.__doc__ = array, axis, about

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> int: ...
    def __get__(self, instance: object | None, owner: type) -> Self | int:
        return self if instance is None else int(getattr(instance, self._array).shape[self._axis])

    def __set__(self, instance: object, value: object) -> None:
        raise AttributeError("the length of an array cannot be set")


def readonly(array: Array) -> Array:
    """Make `array` read-only in place, and return it."""
    array.flags.writeable = False
    return array


def readonly_fields(instance: object) -> None:
    """Make every array that is an attribute of `instance` read-only, in place."""
    for value in vars(instance).values():
        if isinstance(value, np.ndarray):
            readonly(value)


def frozen(array: Array) -> Array:
    """Return a read-only copy in row-major order."""
    return readonly(np.array(array, order="C"))
