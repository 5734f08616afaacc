"""What became of an experiment, and the JSON file that holds it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kfed._base import files, pool
from kfed._version import __version__
from kfed.experiments.code_of import fingerprint
from kfed.experiments.experiment import Experiment, ExperimentSummary, Result


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
    processes : int, optional
        How many runs shared their time; by default as many as the experiment does side by side on these cores.
    not_written : str
        Why it is not what ``NAME.json`` holds, if so: the file keeps more than this.
    shown_from : str
        The file that it is shown from as it stands, if the code of the experiment is not at hand.
    repeated : dict
        Runs that another code repeated: its fingerprint as "code", how many as "runs", and in how many of these it
        measured something else as "differing"; as "other_data" how many more it did on other data, if any.
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
    processes: int | None = None
    not_written: str = ""
    shown_from: str = ""
    repeated: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Total time of all runs, including stored ones; parallel runs share their time."""
        processes = self.processes or min(self.experiment.side_by_side, self.cores)
        return sum(round(result.seconds, 3) for result in self.results) / processes

    @property
    def is_current(self) -> bool:
        """Whether the code that did the runs is the code that would do them now; taken to be if it is not at hand."""
        return bool(self.shown_from) or self.code == fingerprint(self.experiment.run_one)

    @property
    def repeated_now(self) -> Mapping[str, Any]:
        """`repeated`, if it was the code of now that repeated runs."""
        return self.repeated if self.repeated.get("code") == fingerprint(self.experiment.run_one) else {}

    @classmethod
    def stored(cls, experiment: Experiment, folder: Path) -> ExperimentOutcome | None:
        """What an earlier command left in a folder; None if nothing, other runs than there are now, or edited ones."""
        try:
            content = json.loads((folder / f"{experiment.name}.json").read_bytes())
            results = [Result(run["axes"], run["values"], run["seconds"]) for run in content["runs"]]
            known = [dict(axes) for axes in getattr(experiment, content["preset"])]
            about = {name: content[name] for name in ("seed", "left_out", "code", "cores")}
            about |= {"repeated": content.get("repeated", {}), "processes": processes_of(content)}
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
            **({"repeated": dict(self.repeated)} if self.repeated else {}),
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


def processes_of(content: Mapping[str, Any]) -> int:
    """How many runs shared their time, by a JSON file: the experiment may do more or fewer side by side since."""
    total = sum(run["seconds"] for run in content["runs"])
    return max(1, round(total / content["seconds"])) if content["seconds"] > 0 else 1


def digest_of_runs(content: Mapping[str, Any]) -> str:
    """A digest of the runs in a JSON file, and of what is said about them: it shows that they were edited."""
    measured = [content[name] for name in ("name", "preset", "seed", "left_out", "cores", "code", "runs")]
    measured += [content["repeated"]] if "repeated" in content else []
    return hashlib.blake2b(json.dumps(measured, sort_keys=True).encode(), digest_size=16).hexdigest()
