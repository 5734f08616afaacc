"""How far an experiment is: a bar on a terminal, and in a pipe or a log a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kfed._base.progress import progress_bar

SECONDS_BETWEEN_LINES = 20.0


@contextmanager
def following(name: str, n_runs: int, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each advance; nothing is shown if `show` is False."""
    if show is False or sys.stderr.isatty():
        with progress_bar(name, n_runs, show) as advance:
            yield advance
        return
    started = last = time.monotonic()
    done = 0

    def line(steps: int) -> None:
        nonlocal done, last
        done += steps
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            left = (n_runs - done) * (now - started) / done
            sys.stderr.write(f"{name}: {done} of {n_runs} runs after {now - started:.0f} s, about {left:.0f} s left\n")
            sys.stderr.flush()
            last = now

    yield line
