"""A progress bar for long work: shown on a terminal after a moment, and not in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 1.0


@contextmanager
def progress_bar(description: str, total: int, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each advance; show the bar if `show`, or on a terminal if that is None."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=Console(stderr=True), transient=True)
    task = display.add_task(description, total=total)
    started, shown = time.monotonic(), False

    def advance(steps: int) -> None:
        nonlocal shown
        if not shown and (show or time.monotonic() - started > PATIENCE_SECONDS):
            display.start()
            shown = True
        display.update(task, advance=steps)

    try:
        yield advance
    finally:
        if shown:
            display.stop()
