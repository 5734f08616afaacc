"""Worker threads with one BLAS thread each; results never depend on the number of workers.

NumPy releases the interpreter's lock inside its kernels, so threads are enough, and they share memory. Work is cut
into blocks whose size does not depend on the number of workers, and results come back in the order of the blocks.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None = None
) -> Iterator[Result]:
    """Yield ``function(item)`` in the order of `items`, computed by `n_jobs` threads (default: one per core)."""
    n_workers = 1 if _this_thread.is_worker else min(n_jobs or available_cores(), len(items))
    with one_blas_thread():
        if n_workers <= 1:
            yield from map(function, items)
        else:
            yield from _executor(n_workers).map(function, items)


@functools.cache
def _executor(n_workers: int) -> ThreadPoolExecutor:
    """A pool that is kept, since starting threads takes as long as a small task."""
    return ThreadPoolExecutor(n_workers, thread_name_prefix="kfed", initializer=_this_thread.become_worker)


class _ThreadRole(threading.local):
    """Whether this thread is a worker of the pool: a worker runs its maps inline, to avoid a deadlock."""

    is_worker = False

    def become_worker(self) -> None:
        """Mark this thread as a worker."""
        self.is_worker = True


_this_thread = _ThreadRole()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.cache_clear)  # a forked child has none of the threads


def blocks(n_rows: int, rows_per_block: int) -> list[slice]:
    """Slices that cover ``range(n_rows)`` in order."""
    return [slice(start, min(start + rows_per_block, n_rows)) for start in range(0, n_rows, rows_per_block)]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any caller is inside; the last one to leave restores the limit."""
    _blas.enter()
    try:
        yield
    finally:
        _blas.leave()


class _BlasLimit:
    """A limit that several threads share, counted like a lock that can be entered more than once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                limits = ((library, library.get_num_threads()) for library in _blas_libraries())
                self._before = [(library, limit) for library, limit in limits if limit != 1]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for library, limit in self._before:
                    library.set_num_threads(limit)


@functools.cache
def _blas_libraries() -> list[Any]:
    """The libraries themselves: `ThreadpoolController.limit` takes twenty microseconds to come and go."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_blas = _BlasLimit()


def consume(results: Iterable[object]) -> None:
    """Exhaust an iterator, for its side effects."""
    for _ in results:
        pass
