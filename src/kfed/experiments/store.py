"""Results of finished runs, one small JSON file each, so that an interruption loses nothing."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from kfed._base import files, text
from kfed.datasets.sources import leaf_files
from kfed.experiments.axes import Axes
from kfed.experiments.code_of import fingerprint
from kfed.experiments.experiment import Experiment, Result


class RunStore:
    """The finished runs of one experiment under one seed, in a folder.

    A run is found again if its axes, the seed, the code behind it and the data sets that it reads are the same. Data
    sets with fixed files go by their names; files that LEAF's scripts made, by their content.

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
        self._data = {_named(axes): _data_of(experiment, axes) for axes in every}

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


def _data_of(experiment: Experiment, axes: Axes) -> list[Any]:
    leaf = [part for name in experiment.run_reads(axes) for part in _leaf_parts(name)]
    return [*sorted(experiment.needs(axes)), *leaf]


def _leaf_parts(name: str) -> list[list[Any]]:
    """Name, size and digest of each file of LEAF's that is read; none if there is none."""
    found = (path for split in ("train", "test") for path in leaf_files(name, split))
    return [[f"{name}/{path.parent.name}/{path.name}", *_contents(path, path.stat().st_mtime_ns)] for path in found]


@lru_cache(maxsize=1024)
def _contents(path: Path, changed: int) -> tuple[int, str]:  # noqa: ARG001
    """Size and digest of a file; read again if it changed."""
    with path.open("rb") as stream:
        return path.stat().st_size, hashlib.file_digest(stream, "blake2b").hexdigest()[:20]


def _named(axes: Axes) -> str:
    return json.dumps(dict(axes), sort_keys=True)
