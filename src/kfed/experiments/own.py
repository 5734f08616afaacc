"""An experiment of one's own, from a Python file: ``kfed reproduce path/to/my_experiment.py``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from kfed.errors import InvalidInputError
from kfed.experiments.experiment import Experiment


def load_experiment(path: str | Path) -> Experiment:
    """Run a Python file, and give the experiment that it calls ``EXPERIMENT``.

    The file's folder is on the path of imports, as if the file were run: it may import its neighbours, and the
    processes of an experiment with `side_by_side` find it by its name.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInputError(f"{path}: no such file")
    found = getattr(_module(path), "EXPERIMENT", None)
    if not isinstance(found, Experiment):
        what = "nothing of that name" if found is None else f"a {type(found).__name__}"
        raise InvalidInputError(f"{path}: the file must define EXPERIMENT, a kfed.experiments.Experiment; got {what}")
    return found


def _module(path: Path) -> Any:
    name, folder = path.stem, str(path.resolve().parent)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path.resolve()):
        raise InvalidInputError(f"{path}: a module {name!r} is imported already; give the file another name")
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
