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

    Runs that are repeated are stored as those of the code of now. Yields what `stored_in` does.

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
    now, _ = find_or_do(
        outcome.experiment, [result.axes for result in earlier], folder, outcome.seed, progress=progress
    )
    n_differing = sum(old.values != new.values for old, new in zip(earlier, now, strict=True))
    return replace(outcome, repeated={"code": code, "runs": len(earlier), "differing": n_differing})


def _some_of(results: Sequence[Result], n_runs: int, code: str) -> list[Result]:
    """Some results, in their order; which ones depends on the code."""
    chosen = np.random.default_rng(int(code, 16)).permutation(len(results))[:n_runs]
    return [results[i] for i in sorted(chosen)]
