"""What earlier commands left in a folder: what stays there, what a page can show again, and why it leaves some out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from kfed._base.report import VERDICTS, Finding, TextTable
from kfed.errors import InvalidInputError
from kfed.experiments.experiment import Experiment, ExperimentSummary, Result
from kfed.experiments.outcome import ExperimentOutcome, digest_of_runs, processes_of
from kfed.experiments.registry import EXPERIMENTS

ABOUT = ("name", "title", "paper", "claim", "measure", "setup_differs")


def with_earlier(outcomes: Sequence[ExperimentOutcome], folder: Path) -> list[ExperimentOutcome]:
    """Add what earlier commands left in the folder, all in the order of the registry; experiments of one's own last.

    Those of one's own are shown as their files have them: the code that would summarize them again is not at hand.
    """
    new = {outcome.experiment.name: outcome for outcome in outcomes}
    own = {name: outcome.experiment for name, outcome in new.items()}
    shown = {name: _shown(new.get(name), about, folder) for name, about in (EXPERIMENTS | own).items()}
    others = (_as_written(path) for path in _files(folder) if path.stem not in shown)
    return [outcome for outcome in (*shown.values(), *others) if outcome]


def _shown(new: ExperimentOutcome | None, experiment: Experiment, folder: Path) -> ExperimentOutcome | None:
    """What a page shows of an experiment: what its file holds, with the new outcome if that was written."""
    if new is not None and not new.not_written:
        return new
    return ExperimentOutcome.stored(experiment, folder) or new


def why_kept(folder: Path, outcome: ExperimentOutcome) -> str:
    """Why the file of an experiment is not to be replaced by an outcome of now; empty if it is.

    It stays where it has results and there are none now, where it has the full preset and these are quick, and where it
    has runs that are left out now.
    """
    path = folder / f"{outcome.experiment.name}.json"
    content = _content(path)
    if content is None or not content["runs"]:
        return ""
    if outcome.skipped:
        return f"{path} keeps its results"
    stored = ExperimentOutcome.stored(outcome.experiment, folder)
    if stored is None or not _holds_more(stored, outcome):
        return ""
    elsewhere = f"to write the {len(outcome.results)} of now, name another folder with -o"
    return f"{path} keeps its {len(stored.results)} runs of the {stored.preset} preset; {elsewhere}"


def _holds_more(stored: ExperimentOutcome, new: ExperimentOutcome) -> bool:
    if stored.preset != new.preset:
        return stored.preset == "full"
    return bool(new.left_out) and len(stored.results) > len(new.results)


def left_out_of(outcomes: Collection[ExperimentOutcome], folder: Path) -> dict[str, str]:
    """The files of experiments in a folder that are not among some outcomes, and why they cannot be shown."""
    shown = {outcome.experiment.name for outcome in outcomes}
    return {path.name: why for path in _files(folder) if path.stem not in shown and (why := _fault(path))}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _content(path: Path) -> dict[str, Any] | None:
    """What a file holds; None if it is not readable as JSON, or not of an experiment."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and {"name", "runs", "findings"} <= content.keys() else None


def _is_sound(content: dict[str, Any]) -> bool:
    try:
        return bool(content["digest"] == digest_of_runs(content))
    except (KeyError, TypeError):
        return False


def _fault(path: Path) -> str:
    """Why a file cannot be shown; empty if it is not of an experiment."""
    content = _content(path)
    if content is None:
        return "it cannot be read" if path.stem in EXPERIMENTS else ""
    if not _is_sound(content):
        return "its digest does not fit its runs, so it was edited or damaged"
    if not content["runs"]:
        return f"it was skipped: {content.get('skipped') or 'no reason given'}"
    return "its runs are not those of this version" if path.stem in EXPERIMENTS else "it is incomplete"


def _as_written(path: Path) -> ExperimentOutcome | None:
    """What a file says, without the code of its experiment; None if it is not sound, or has nothing to show."""
    content = _content(path)
    if content is None or not _is_sound(content) or not content["runs"] or content["name"] != path.stem:
        return None
    picture = path.with_suffix(".png")
    try:
        return ExperimentOutcome(
            _experiment(content),
            content["preset"],
            content["seed"],
            results=tuple(Result(run["axes"], run["values"], run["seconds"]) for run in content["runs"]),
            summary=ExperimentSummary(tuple(_findings(content)), tuple(_tables(content)), str(content["headline"])),
            n_found=len(content["runs"]),
            picture=picture if picture.exists() else None,
            left_out=content["left_out"],
            code=content["code"],
            cores=content["cores"],
            processes=processes_of(content),
            shown_from=path.name,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _experiment(content: dict[str, Any]) -> Experiment:
    about: dict[str, Any] = {name: str(content[name]) for name in ABOUT}
    steps: dict[str, Any] = dict.fromkeys(("run_one", "summarize", "plot"), _not_at_hand)
    return Experiment(quick=(), full=(), **steps, **about)


def _findings(content: dict[str, Any]) -> Iterator[Finding]:
    for one in content["findings"]:
        if one["verdict"] not in VERDICTS:
            raise ValueError
        yield Finding(**one)


def _tables(content: dict[str, Any]) -> Iterator[TextTable]:
    for one in content["tables"]:
        yield TextTable(one["title"], tuple(one["headings"]), tuple(map(tuple, one["rows"])))


def _not_at_hand(*_: Any) -> Any:
    raise InvalidInputError("the code of this experiment is not at hand: name its Python file")
