"""Checkpoints of a run: parameters and history as safetensors, with the settings that a resumed run must match."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kfed._base import files, text
from kfed.errors import InvalidInputError, MessageError
from kfed.federated._fingerprint import differences
from kfed.federated._server import from_arrays, to_arrays
from kfed.simulate import Communication

if TYPE_CHECKING:
    from kfed.federated.engine import Progress, RoundRecord

KIND, VERSION = "training checkpoint", 2
"""Version 1 said less of the run that it is of."""


def save(path: str | os.PathLike[str], progress: Progress, fingerprint: dict[str, Any]) -> None:
    """Write a checkpoint atomically."""
    arrays = {f"model.{name}": values.cpu().numpy() for name, values in progress.stack.parameters.items()}
    arrays |= to_arrays(progress.server)
    arrays["history"] = np.frombuffer(json.dumps([asdict(record) for record in progress.history]).encode(), np.uint8)
    files.write(
        path, files.encode(arrays, {"kind": KIND, "version": VERSION, "run": fingerprint, "stopped": progress.stopped})
    )


def resumed(path: str | os.PathLike[str], progress: Progress, fingerprint: dict[str, Any]) -> Progress:
    """Return the progress of a checkpoint; `progress` itself if there is no such file yet."""
    if not Path(path).exists():
        return progress
    return files.naming(path, lambda: _decoded(path, progress, fingerprint))


def _decoded(path: str | os.PathLike[str], progress: Progress, fingerprint: dict[str, Any]) -> Progress:
    arrays, facts = files.decode(files.read(path))
    files.check_kind(facts, KIND, 1 if facts.get("version") == 1 else VERSION)
    differing = differences(json.loads(json.dumps(fingerprint)), facts["run"])
    if differing:
        raise InvalidInputError(
            f"the checkpoint {os.fspath(path)} is of a run with other {text.listed(differing)}; delete it to start "
            "again, or use another file"
        )
    try:
        parameters = {name: torch.tensor(arrays[f"model.{name}"]) for name in progress.stack.parameters}
        history = tuple(map(_record, json.loads(arrays["history"].tobytes())))
    except (KeyError, TypeError, ValueError) as error:
        raise MessageError(f"this {KIND} is corrupt: {error}") from error
    stack = progress.stack.with_parameters(parameters).to(progress.stack.device)
    return type(progress)(stack, history, from_arrays(arrays), bool(facts.get("stopped")))


def _record(facts: dict[str, Any]) -> RoundRecord:
    from kfed.federated.engine import RoundRecord

    return RoundRecord(
        facts["round"],
        tuple(facts["devices"]),
        tuple(facts["models"]),
        facts["loss"],
        Communication(**facts["communication"]),
        facts["observed"],
    )
