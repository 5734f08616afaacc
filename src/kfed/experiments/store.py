"""Results of finished runs, one small JSON file each, so that an interruption loses nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kfed._base import files, text
from kfed.experiments.code_of import fingerprint
from kfed.experiments.experiment import Axes, Experiment, Result


class RunStore:
    """The finished runs of one experiment under one seed, in a folder.

    A run is found again if its axes, the seed, the code behind it and the data sets that it reads are the same.

    Parameters
    ----------
    folder : path
        Made when the first run is stored.
    experiment : Experiment
    seed : int
        The seed of all runs.
    """

    def __init__(self, folder: Path, experiment: Experiment, seed: int) -> None:
        self._folder = folder / "runs" / experiment.name
        self._about = {"experiment": experiment.name, "seed": seed, "code": fingerprint(experiment.run_one)}
        every = (*experiment.quick, *experiment.full)
        self._data = {_named(axes): sorted(experiment.needs(axes)) for axes in every}

    def _about_run(self, axes: Axes) -> dict[str, Any]:
        return {**self._about, "data": self._data.get(_named(axes), [])}

    def find(self, axes: Axes) -> Result | None:
        """Find the result of a run; None if there is none, or its file is damaged."""
        try:
            content = json.loads(self._path(axes).read_bytes())
            if content["about"] == self._about_run(axes) and content["axes"] == dict(axes):
                return Result(axes, content["values"], content["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def keep(self, axes: Axes, values: dict[str, Any], seconds: float) -> Result:
        """Store the result of a run atomically, and return it as `find` would."""
        content = {"about": self._about_run(axes), "axes": dict(axes), "values": text.plain(values), "seconds": seconds}
        self._folder.mkdir(parents=True, exist_ok=True)
        files.write(self._path(axes), f"{json.dumps(content, indent=1)}\n".encode())
        return Result(axes, content["values"], seconds)

    def _path(self, axes: Axes) -> Path:
        key = json.dumps([self._about_run(axes), dict(axes)], sort_keys=True)
        return self._folder / f"{hashlib.blake2b(key.encode(), digest_size=10).hexdigest()}.json"


def _named(axes: Axes) -> str:
    return json.dumps(dict(axes), sort_keys=True)
