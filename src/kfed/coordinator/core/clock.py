"""`Clock`: the time of day for deadlines, unmoved by a system clock that jumps and is corrected."""

from __future__ import annotations

import time
from collections.abc import Callable

TOLERANCE_SECONDS = 2.0
PATIENCE_SECONDS = 60.0


class Clock:
    """Seconds since 1970, as steady as the monotonic clock.

    It follows the system clock if that is set to another time and stays there for a minute.

    Examples
    --------
    >>> wall, steady = [1000.0], [0.0]
    >>> clock = Clock(wall=lambda: wall[0], steady=lambda: steady[0])
    >>> wall[0], steady[0] = 9_000.0, 5.0   # a jump, five seconds later
    >>> clock.now()
    1005.0
    >>> steady[0] = 66.0                    # the new time stays
    >>> clock.now()
    9000.0
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()
        self._differs_since: float | None = None

    def now(self) -> float:
        """The time of day."""
        wall, steady = self._wall(), self._steady()
        if abs(wall - steady - self._offset) <= TOLERANCE_SECONDS:
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = steady
        elif steady - self._differs_since >= PATIENCE_SECONDS:
            self._offset, self._differs_since = wall - steady, None
        return steady + self._offset
