"""A switch that is on within a block, for this thread or task alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


@contextmanager
def true_within(switch: ContextVar[bool]) -> Iterator[None]:
    """Turn a switch on within; afterwards it is as it was."""
    before = switch.set(True)
    try:
        yield
    finally:
        switch.reset(before)
