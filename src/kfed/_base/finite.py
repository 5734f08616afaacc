"""Whether what came out of JSON is a finite number."""

from __future__ import annotations

import sys
from typing import Any


def is_finite_number(value: Any) -> bool:
    """Whether this is a finite float, or a whole number that is one: JSON may hold 10**400, which is not.

    Examples
    --------
    >>> [is_finite_number(value) for value in (2, 0.5, 10**400, float("nan"), float("inf"), True, "2")]
    [True, True, False, False, False, False, False]
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max
