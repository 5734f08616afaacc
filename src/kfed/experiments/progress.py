"""How far an experiment is: a bar on a terminal; in a pipe or a log a line before its runs, and more as they end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kfed._base.progress import progress_bar
from kfed._base.text import plural

SECONDS_BETWEEN_LINES = 20.0


@contextmanager
def following(
    name: str, n_runs: int, show: bool | None = None, *, n_found: int = 0, minutes: float = 0.0
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each advance; nothing is shown if `show` is False.

    Of `n_runs`, `n_found` were done before. They took no time now, so they do not count for the time that is left.
    The others are said to take about so many minutes; 0 if that is not known.
    """
    if show is False or sys.stderr.isatty():
        with progress_bar(name if n_found == 0 else f"{name} ({n_found} found)", n_runs - n_found, show) as advance:
            yield advance
        return
    runs = f"{plural(n_runs, 'run')} ({n_found} found)" if n_found else plural(n_runs, "run")
    if n_found < n_runs:
        _say(f"{name}: {runs}{_about(minutes)}")
    started = last = time.monotonic()
    done = 0

    def line(steps: int) -> None:
        nonlocal done, last
        done += steps
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            left = (n_runs - n_found - done) * (now - started) / done
            _say(f"{name}: {n_found + done} of {runs} after {now - started:.0f} s, about {left:.0f} s left")
            last = now

    yield line


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _about(minutes: float) -> str:
    """Say how long runs take, if that is known.

    Examples
    --------
    >>> _about(0.5), _about(12.3), _about(0)
    (', about 30 s', ', about 12 min', '')
    """
    if not minutes:
        return ""
    return f", about {60 * minutes:.0f} s" if minutes < 1 else f", about {minutes:.0f} min"
