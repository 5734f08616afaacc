"""Run experiments: load finished runs, do and store the others, write a summary, a JSON file and a picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from kfed._base import checks, figures, pool
from kfed.datasets import locate
from kfed.errors import MissingDataError, MissingExtraError
from kfed.experiments.axes import Axes
from kfed.experiments.code_of import fingerprint
from kfed.experiments.drawing import legend_below
from kfed.experiments.earlier import why_kept
from kfed.experiments.experiment import Experiment, Result
from kfed.experiments.outcome import ExperimentOutcome
from kfed.experiments.progress import following
from kfed.experiments.store import RunStore


def reproduce(
    experiments: Sequence[Experiment],
    folder: str | Path,
    *,
    quick: bool = False,
    seed: int = 0,
    fresh: bool = False,
    skip_missing: bool = True,
    progress: bool | None = None,
) -> Iterator[ExperimentOutcome]:
    """Run experiments one after the other, into a folder.

    Parameters
    ----------
    experiments : sequence of Experiment
    folder : path
        Gets ``NAME.json`` and ``NAME.png`` of each experiment, and ``runs/`` with every finished run. Results that
        are there stay if there is less now: nothing, the quick preset, or fewer runs as data are missing.
    quick : bool
        Run the quick preset instead of the full one.
    seed : int
        Decides every random choice.
    fresh : bool
        Do finished runs again.
    skip_missing : bool
        Leave out runs whose data set is missing, and say so; else that is an error, before any work starts.
    progress : bool, optional
        Show progress: a bar on a terminal, lines in a pipe. By default the bar is shown after a moment.

    Yields
    ------
    ExperimentOutcome
        As each experiment ends.
    """
    folder, preset = Path(folder), "quick" if quick else "full"
    missing = _missing({name for experiment in experiments for name in experiment.data_sets}, progress)
    needed = set().union(*(set(experiment.data_sets) - set(experiment.optional) for experiment in experiments))
    if missing.keys() & needed and not skip_missing:
        raise MissingDataError("; ".join(missing[name] for name in sorted(missing.keys() & needed)))
    folder.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        runs, why = _possible_runs(experiment, preset, missing)
        outcome = ExperimentOutcome(experiment, preset, seed, code=fingerprint(experiment.run_one))
        outcome = replace(outcome, skipped="" if runs else why, left_out=why if runs else "")
        if runs:
            outcome = replace(outcome, **_done(outcome, runs, folder, fresh, progress))
        yield _written(outcome, folder)


def stored_in(folder: str | Path, experiments: Sequence[Experiment]) -> Iterator[ExperimentOutcome]:
    """Summarize and draw again what earlier commands left in a folder, without running anything.

    ``NAME.json`` gets the summary of now; its runs, and the code that did them, stay as they are.
    """
    for experiment in experiments:
        outcome = ExperimentOutcome.stored(experiment, Path(folder))
        if outcome is not None:
            picture = _draw(experiment, list(outcome.results), Path(folder)) or outcome.picture
            outcome = replace(outcome, picture=picture)
            outcome.write(Path(folder))
            yield outcome


def _missing(names: Iterable[str], progress: bool | None) -> dict[str, str]:
    """Say which data sets are missing and cannot be downloaded, and why."""
    reasons = {}
    for name in sorted(names):
        try:
            locate(name, progress=progress)
        except MissingDataError as error:
            reasons[name] = str(error)
    return reasons


def _possible_runs(experiment: Experiment, preset: str, missing: Mapping[str, str]) -> tuple[list[Axes], str]:
    """Select the runs of a preset that can be done here; say why others cannot."""
    if experiment.package and find_spec(experiment.package) is None:
        return [], f"it needs {experiment.package}: pip install 'kfed[federated]'"
    why = "; ".join(missing[name] for name in experiment.data_sets if name in missing)
    return [axes for axes in getattr(experiment, preset) if missing.keys().isdisjoint(experiment.needs(axes))], why


def _done(
    outcome: ExperimentOutcome, runs: Sequence[Axes], folder: Path, fresh: bool, progress: bool | None
) -> dict[str, Any]:
    """Find or do the runs, and say what they give: some fields of an `ExperimentOutcome`."""
    experiment, preset = outcome.experiment, outcome.preset
    stated = experiment.minutes[preset == "full"] if experiment.minutes else 0.0
    minutes_each = stated / len(getattr(experiment, preset))
    results, n_found = find_or_do(
        experiment, runs, folder, outcome.seed, fresh=fresh, progress=progress, minutes_each=minutes_each
    )
    return {"results": tuple(results), "summary": experiment.summarize(results), "n_found": n_found}


def _written(outcome: ExperimentOutcome, folder: Path) -> ExperimentOutcome:
    """Draw an outcome and write its file, unless the folder has more; then say so."""
    if kept := why_kept(folder, outcome):
        return replace(outcome, not_written=kept)
    if outcome.results:
        outcome = replace(outcome, picture=_draw(outcome.experiment, list(outcome.results), folder))
    outcome.write(folder)
    return outcome


def find_or_do(
    experiment: Experiment,
    runs: Sequence[Axes],
    folder: Path,
    seed: int,
    *,
    fresh: bool = False,
    progress: bool | None = None,
    minutes_each: float = 0.0,
) -> tuple[list[Result], int]:
    """The results of some runs, in order, and how many of them this code had done before.

    How many minutes a run takes, if that is known, is only for telling.
    """
    store = RunStore(folder, experiment, _seed(seed))
    found = [None if fresh else store.find(axes) for axes in runs]
    missing = [axes for axes, result in zip(runs, found, strict=True) if result is None]
    do = partial(_do, experiment.run_one, store, seed)
    n_found, minutes = len(runs) - len(missing), minutes_each * len(missing)
    with following(experiment.name, len(runs), progress, n_found=n_found, minutes=minutes) as advance:
        new = _each(do, missing, experiment)
        results = []
        for result in found:
            results.append(next(new) if result is None else result)
            if result is None:
                advance(1)
    return results, n_found


def _seed(seed: int) -> int:
    return seed if seed == 0 else checks.positive_integer(seed, "seed")


def _do(run_one: Callable[[Axes, int], dict[str, Any]], store: RunStore, seed: int, axes: Axes) -> Result:
    """Do one run, and store what it gave."""
    started = time.perf_counter()
    with _one_thread():
        values = run_one(axes, seed)
    return store.keep(axes, values, time.perf_counter() - started)


def _each(do: Callable[[Axes], Result], runs: Sequence[Axes], experiment: Experiment) -> Iterator[Result]:
    """Do runs one after the other, or in parallel processes; yield their results in order."""
    if experiment.side_by_side == 1 or not runs:
        yield from map(do, runs)
        return
    n_processes = min(_n_processes(experiment), len(runs))
    with ProcessPoolExecutor(n_processes, get_context("spawn"), _one_torch_thread, (experiment.package,)) as processes:
        yield from processes.map(do, runs)


def _n_processes(experiment: Experiment) -> int:
    return min(experiment.side_by_side, pool.available_cores())


def _one_thread() -> threadpool_limits:
    """Let NumPy, SciPy and scikit-learn use one thread inside: sums over several round differently.

    What a run gives then does not depend on the number of cores. Threads of kfed's own pool never change a result.
    """
    import sklearn.cluster  # noqa: F401  its libraries can be limited only once they are loaded

    return threadpool_limits(1)


def _one_torch_thread(package: str) -> None:
    """Let PyTorch, if it trains here, use one thread, since other processes use the other cores."""
    if package == "torch":
        import torch

        torch.set_num_threads(1)


def _draw(experiment: Experiment, results: list[Result], folder: Path) -> Path | None:
    """Draw the picture, if matplotlib is installed."""
    try:
        figure = figures.new_figure(*experiment.figure_size)
    except MissingExtraError:
        return None
    experiment.plot(results, figure)
    if experiment.legend:
        legend_below(figure, **experiment.legend)
    path = folder / f"{experiment.name}.png"
    figures.save_figure(figure, path)
    return path
