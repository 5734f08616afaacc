"""Tasks on a Dask cluster: one for each partition, with an error that says what to do if workers or memory run out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kfed._base.progress import progress_bar
from kfed.errors import EngineError, MissingExtraError

try:
    import dask
    import dask.dataframe as dd
    from distributed import CancelledError, Client, KilledWorker, get_client
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError
except ImportError as error:  # pragma: no cover
    raise MissingExtraError("kfed.adapters.dask needs Dask: pip install 'kfed[dask]'") from error

__all__ = ["Client", "active_client", "check_memory", "dask", "dd", "pinned", "run_on_parts"]

_LOST = (CancelledError, FutureCancelledError, CommClosedError, TimeoutError)

COPIES = 7.0
"""How many times its own size a partition takes while it is moved and clustered, measured: it is sorted, converted."""


def active_client() -> Client | None:
    """The client that is in use, or None."""
    try:
        return get_client()
    except ValueError:  # there is none
        return None


def pinned(frame: Any) -> Any:
    """Fix the partitions of a frame, so that nothing done with it later changes them.

    Dask fuses the reading of narrow columns, so that a frame and a selection of its columns may have different
    partitions. A graph that is built already is taken as it is.
    """
    planned = frame.optimize()
    graph, keys = dict(planned.__dask_graph__()), planned.__dask_keys__()
    return dd.from_graph(graph, planned._meta, planned.divisions, keys, "kfed-rows")


def run_on_parts(
    function: Any, parts: Sequence[Any], client: Client | None, description: str, *arguments: Any
) -> Iterator[Any]:
    """Yield ``function(part, *arguments)`` in the order of the parts, each computed where the part lies."""
    shared = [dask.delayed(argument) for argument in arguments]
    tasks = [dask.delayed(function, pure=False)(part, *shared) for part in parts]
    alone = (task.compute(scheduler="synchronous") for task in tasks)
    with progress_bar(description, len(tasks)) as advance:
        for result in alone if client is None else _gathered(client, tasks, description):
            yield result
            advance(1)


def _gathered(client: Client, tasks: list[Any], description: str) -> Iterable[Any]:
    """Results of a cluster one by one, each forgotten there when it is here. A worker that is lost is replaced."""
    done = 0
    try:
        futures = client.compute(tasks)
        while futures:
            yield futures.pop(0).result()
            done += 1
    except KilledWorker as error:
        limit = memory_limit(client)
        why = f" (each may use {limit / 1e6:,.0f} MB)" if limit else ""
        raise EngineError(
            f"{description}: a partition ended every worker that took it, after {done} of {len(tasks)} partitions; "
            f"most likely it does not fit into their memory{why}: use smaller partitions, fewer columns, or more memory"
        ) from error
    except _LOST as error:
        raise EngineError(
            f"lost the Dask cluster {client} after {done} of {len(tasks)} partitions ({type(error).__name__}); nothing "
            "was written: start a cluster and run it again"
        ) from error


def memory_limit(client: Client | None) -> int:
    """Bytes that every worker may use; 0 if there is no limit."""
    workers = {} if client is None else client.scheduler_info(n_workers=-1)["workers"]
    return min((int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")), default=0)


def check_memory(client: Client | None, what: str, n_rows: int, n_bytes: float) -> None:
    """Raise if rows that must be together do not fit into a worker."""
    limit = memory_limit(client)
    if limit and COPIES * n_bytes > limit:
        raise EngineError(
            f"{what} has {n_rows:,} rows of about {n_bytes / 1e6:,.0f} MB, which take up to {COPIES:g} times as much "
            f"while they are clustered; each worker may use {limit / 1e6:,.0f} MB: give workers more memory "
            "(memory_limit), select the columns that you need first, or cluster a sample of its rows"
        )
