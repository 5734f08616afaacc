"""Repeat some stored runs by the code of now, and compare: it tells whether results by earlier code still hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from kfed._base import checks
from kfed.experiments.code_of import fingerprint
from kfed.experiments.experiment import Experiment, Result
from kfed.experiments.outcome import ExperimentOutcome
from kfed.experiments.runner import find_or_do, stored_in


def repeat(
    experiments: Sequence[Experiment], folder: str | Path, n_runs: int, *, progress: bool | None = None
) -> Iterator[ExperimentOutcome]:
    """Repeat some runs of each experiment whose code has changed, and say in ``NAME.json`` how many came out the same.

    Runs that are repeated are stored as those of the code of now; those of other data than before are not compared.
    Yields what `stored_in` does.

    Parameters
    ----------
    experiments : sequence of Experiment
    folder : path
        What `reproduce` wrote.
    n_runs : int
        How many runs of each experiment; other ones after each change of the code.
    progress : bool, optional
        As in `reproduce`.
    """
    checks.positive_integer(n_runs, "n_runs")
    for outcome in stored_in(folder, experiments):
        if not outcome.is_current:
            outcome = _compared(outcome, Path(folder), n_runs, progress)
            outcome.write(Path(folder))
        yield outcome


def _compared(outcome: ExperimentOutcome, folder: Path, n_runs: int, progress: bool | None) -> ExperimentOutcome:
    code = fingerprint(outcome.experiment.run_one)
    earlier = _some_of(outcome.results, n_runs, code)
    runs, minutes_each = [result.axes for result in earlier], outcome.seconds / 60 / len(outcome.results)
    now, _ = find_or_do(outcome.experiment, runs, folder, outcome.seed, progress=progress, minutes_each=minutes_each)
    pairs = [(old, new) for old, new in zip(earlier, now, strict=True) if not _of_other_data(old, new)]
    n_differing = sum(old.values != new.values for old, new in pairs)
    found = {"code": code, "runs": len(pairs), "differing": n_differing}
    n_others = len(earlier) - len(pairs)
    return replace(outcome, repeated=found | ({"other_data": n_others} if n_others else {}))


def _of_other_data(one: Result, other: Result) -> bool:
    """Whether two results say which data they are of, and name different ones."""
    sources = {result.values["source"] for result in (one, other) if result.values.get("source")}
    return len(sources) > 1


def _some_of(results: Sequence[Result], n_runs: int, code: str) -> list[Result]:
    """Some results, in their order; which ones depends on the code."""
    chosen = np.random.default_rng(int(code, 16)).permutation(len(results))[:n_runs]
    return [results[i] for i in sorted(chosen)]
