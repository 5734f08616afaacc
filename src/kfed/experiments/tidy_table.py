"""The runs of an experiment as one tidy table."""

from __future__ import annotations

from collections.abc import Iterable

from kfed.experiments.experiment import Result
from kfed.results import ResultTable


def tidy(results: Iterable[Result]) -> ResultTable:
    """One row for each run, one column for each axis and each number that was measured, and ``seconds``.

    Lists and dicts of numbers are left out; they are in the JSON file of the experiment.

    Examples
    --------
    >>> tidy([Result({"k": 4, "run": 0}, {"ari": 0.9, "costs": [3.0, 2.0]}, seconds=0.5)]).rows
    [{'k': 4, 'run': 0, 'ari': 0.9, 'seconds': 0.5}]
    """
    return ResultTable(
        [
            {**result.axes, **{k: v for k, v in result.values.items() if not isinstance(v, list | dict)}}
            | {"seconds": result.seconds}
            for result in results
        ]
    )
