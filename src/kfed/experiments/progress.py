"""How far an experiment is: a bar on a terminal, and in a pipe or a log a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kfed._base.progress import progress_bar

SECONDS_BETWEEN_LINES = 20.0


@contextmanager
def following(name: str, n_runs: int, show: bool | None = None, *, n_found: int = 0) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each advance; nothing is shown if `show` is False.

    Of `n_runs`, `n_found` were done before. They took no time now, so they do not count for the time that is left.
    """
    if show is False or sys.stderr.isatty():
        with progress_bar(name if n_found == 0 else f"{name} ({n_found} found)", n_runs - n_found, show) as advance:
            yield advance
        return
    started = last = time.monotonic()
    done = 0

    def line(steps: int) -> None:
        nonlocal done, last
        done += steps
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            left = (n_runs - n_found - done) * (now - started) / done
            runs = f"{n_runs} runs ({n_found} found)" if n_found else f"{n_runs} runs"
            times = f"after {now - started:.0f} s, about {left:.0f} s left"
            sys.stderr.write(f"{name}: {n_found + done} of {runs} {times}\n")
            sys.stderr.flush()
            last = now

    yield line
