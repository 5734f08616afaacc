"""Run experiments: load finished runs, do and store the others, write a summary, a JSON file and a picture."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kfed._base import checks, figures, files, pool
from kfed._version import __version__
from kfed.datasets import locate
from kfed.errors import MissingDataError, MissingExtraError
from kfed.experiments.axes import Axes
from kfed.experiments.code_of import fingerprint
from kfed.experiments.drawing import legend_below
from kfed.experiments.experiment import Experiment, ExperimentSummary, Result
from kfed.experiments.progress import following
from kfed.experiments.store import RunStore


@dataclass(frozen=True)
class ExperimentOutcome:
    """What became of one experiment.

    Attributes
    ----------
    experiment : Experiment
    preset : str
        "quick" or "full".
    seed : int
    results : tuple of Result
        One for each run of the preset; none if it was skipped.
    summary : ExperimentSummary
        What they say.
    n_found : int
        Runs that had been done before.
    picture : path or None
        The picture, if one could be drawn.
    skipped : str
        Why nothing was done, if so.
    left_out : str
        Why some runs were not done, if so.
    code : str
        The fingerprint of the code that did the runs.
    cores : int
        How many cores there were.
    shown_from : str
        The file that it is shown from as it stands, if the code of the experiment is not at hand.
    """

    experiment: Experiment
    preset: str
    seed: int
    results: tuple[Result, ...] = field(default=(), repr=False)
    summary: ExperimentSummary = field(default=ExperimentSummary(()), repr=False)
    n_found: int = 0
    picture: Path | None = None
    skipped: str = ""
    left_out: str = ""
    code: str = ""
    cores: int = field(default_factory=pool.available_cores)
    shown_from: str = ""

    @property
    def seconds(self) -> float:
        """Total time of all runs, including stored ones; parallel runs share their time."""
        return sum(round(result.seconds, 3) for result in self.results) / min(self.experiment.side_by_side, self.cores)

    @property
    def is_current(self) -> bool:
        """Whether the code that did the runs is the code that would do them now; taken to be if it is not at hand."""
        return bool(self.shown_from) or self.code == fingerprint(self.experiment.run_one)

    @classmethod
    def stored(cls, experiment: Experiment, folder: Path) -> ExperimentOutcome | None:
        """What an earlier command left in a folder; None if nothing, other runs than there are now, or edited ones."""
        try:
            content = json.loads((folder / f"{experiment.name}.json").read_bytes())
            results = [Result(run["axes"], run["values"], run["seconds"]) for run in content["runs"]]
            known = [dict(axes) for axes in getattr(experiment, content["preset"])]
            about = {name: content[name] for name in ("seed", "left_out", "code", "cores")}
            is_sound = content["digest"] == digest_of_runs(content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if not (results and is_sound and all(result.axes in known for result in results)):
            return None
        about |= {"summary": experiment.summarize(results), "n_found": len(results), "results": tuple(results)}
        picture = folder / f"{experiment.name}.png"
        return cls(experiment, content["preset"], picture=picture if picture.exists() else None, **about)

    def to_dict(self) -> dict[str, Any]:
        """Convert to types that JSON knows."""
        about = ("name", "title", "paper", "claim", "measure", "setup_differs")
        content = {
            **{name: getattr(self.experiment, name) for name in about},
            "kfed": __version__,
            "preset": self.preset,
            "seed": self.seed,
            "skipped": self.skipped,
            "left_out": self.left_out,
            "seconds": round(self.seconds, 3),
            "cores": self.cores,
            "code": self.code,
            "picture": None if self.picture is None else self.picture.name,
            "headline": self.summary.headline,
            "findings": [asdict(finding) for finding in self.summary.findings],
            "tables": [{"title": t.title, "headings": t.headings, "rows": t.rows} for t in self.summary.tables],
            "runs": [{"axes": dict(r.axes), "values": r.values, "seconds": round(r.seconds, 3)} for r in self.results],
        }
        return content | {"digest": digest_of_runs(content)}

    def write(self, folder: Path) -> None:
        """Write ``NAME.json``, which `stored` reads."""
        path = folder / f"{self.experiment.name}.json"
        files.write(path, f"{json.dumps(self.to_dict(), indent=1)}\n".encode())


def digest_of_runs(content: Mapping[str, Any]) -> str:
    """A digest of the runs in a JSON file, and of what is said about them: it shows that they were edited."""
    measured = [content[name] for name in ("name", "preset", "seed", "left_out", "cores", "code", "runs")]
    return hashlib.blake2b(json.dumps(measured, sort_keys=True).encode(), digest_size=16).hexdigest()


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
        Gets ``NAME.json`` and ``NAME.png`` of each experiment, and ``runs/`` with every finished run.
    quick : bool
        Run the quick preset instead of the full one.
    seed : int
        Decides every random choice.
    fresh : bool
        Do finished runs again.
    skip_missing : bool
        Leave out runs whose data set is missing, and say so; else that is an error, before any work starts.
    progress : bool, optional
        Show progress: a bar on a terminal, a line now and then in a pipe. By default it is shown after a moment.

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
            outcome = replace(outcome, **_done(experiment, runs, folder, seed, fresh, progress))
        outcome.write(folder)
        yield outcome


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
    experiment: Experiment, runs: Sequence[Axes], folder: Path, seed: int, fresh: bool, progress: bool | None
) -> dict[str, Any]:
    """Find or do the runs, and say what they give: some fields of an `ExperimentOutcome`."""
    store = RunStore(folder, experiment, _seed(seed))
    found = [None if fresh else store.find(axes) for axes in runs]
    missing = [axes for axes, result in zip(runs, found, strict=True) if result is None]
    do = partial(_do, experiment.run_one, store, seed)
    with following(experiment.name, len(runs), progress, n_found=len(runs) - len(missing)) as advance:
        new = _each(do, missing, experiment)
        results = []
        for result in found:
            results.append(next(new) if result is None else result)
            if result is None:
                advance(1)
    summary, picture = experiment.summarize(results), _draw(experiment, results, folder)
    return {"results": tuple(results), "summary": summary, "n_found": len(runs) - len(missing), "picture": picture}


def _seed(seed: int) -> int:
    return seed if seed == 0 else checks.positive_integer(seed, "seed")


def _do(run_one: Callable[[Axes, int], dict[str, Any]], store: RunStore, seed: int, axes: Axes) -> Result:
    """Do one run, and store what it gave."""
    started = time.perf_counter()
    values = run_one(axes, seed)
    return store.keep(axes, values, time.perf_counter() - started)


def _each(do: Callable[[Axes], Result], runs: Sequence[Axes], experiment: Experiment) -> Iterator[Result]:
    """Do runs one after the other, or in parallel processes; yield their results in order."""
    if experiment.side_by_side == 1 or not runs:
        yield from map(do, runs)
        return
    n_processes = min(_n_processes(experiment), len(runs))
    with ProcessPoolExecutor(n_processes, get_context("spawn"), _one_thread, (experiment.package,)) as processes:
        yield from processes.map(do, runs)


def _n_processes(experiment: Experiment) -> int:
    return min(experiment.side_by_side, pool.available_cores())


def _one_thread(package: str) -> None:
    """Use one thread, since other processes use the other cores; results then do not depend on the number of cores."""
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
