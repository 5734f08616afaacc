"""Models in a file: parameters, which device has which model, and what it takes to let late devices in.

What is code stays in code: whoever reads the file gives the model factory, and the loss and features if they are not
the usual ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from kfed._base import files
from kfed._base.array import Array
from kfed.errors import InvalidInputError, MessageError
from kfed.federated._checkpoint import record_of, records_of
from kfed.federated._local import LocalSteps
from kfed.federated._routes import ByNearestCenter, OneEach, Route
from kfed.federated._stack import Loss, Parameters, Stack
from kfed.federated._updates import FirstUpdate
from kfed.federated._ways import ByPoint, ByRows, ByUpdate, Features, Way, flattened
from kfed.federated.groups import Door
from kfed.server import Aggregation
from kfed.simulate import Communication

KIND, VERSION = "federated models", 1

Arrays = dict[str, Array]


def write_models(path: str | os.PathLike[str], models: Any, facts: Mapping[str, Any], door: Door | None = None) -> None:
    """Write models of any method; the file may be read by its owner alone, as it knows centers of devices."""
    arrays = _tensors("model", models._stack.parameters) | _route_arrays(models._route, models.device_ids)
    arrays["history"] = records_of(models.history)
    about = {
        **facts,
        "method": models.method,
        "devices": list(models.device_ids),
        "communication": vars(models.communication),
        "route": type(models._route).__name__,
        "way": None,
    }
    if door is not None:
        arrays["aggregation"] = np.frombuffer(door.aggregation.to_bytes(), np.uint8)
        about["way"], of_way = _way_parts(door.way)
        arrays |= of_way
    payload = files.encode(arrays, {"kind": KIND, "version": VERSION, "models": about})
    files.write(path, payload, private=True)


class ModelsFile:
    """A file of models that was read; code that it needs is given."""

    def __init__(self, path: str | os.PathLike[str], form: Stack, loss: Loss, features: Features | None) -> None:
        self.arrays, facts = files.naming(path, lambda: files.decode(files.read(path)))
        files.naming(path, lambda: files.check_kind(facts, KIND, VERSION))
        self.facts: dict[str, Any] = facts["models"]
        self._form, self._loss, self._features = form, loss, features or flattened
        self.stack = self._stack("model")

    def fields(self) -> dict[str, Any]:
        """What all kinds of models have."""
        return {
            "method": self.facts["method"],
            "_stack": self.stack,
            "_route": self._route(),
            "_loss": self._loss,
            "device_ids": tuple(self.facts["devices"]),
            "history": tuple(map(record_of, json.loads(self.arrays["history"].tobytes()))),
            "communication": Communication(**self.facts["communication"]),
        }

    def door(self) -> Door | None:
        """What lets late devices in."""
        about = self.facts["way"]
        if about is None:
            return None
        return Door(self._way(about), Aggregation.from_bytes(self.arrays["aggregation"].tobytes()))

    def _stack(self, place: str) -> Stack:
        try:
            parameters = {name: torch.tensor(self.arrays[f"{place}.{name}"]) for name in self._form.parameters}
        except KeyError as error:
            raise InvalidInputError(
                f"model_factory must make the model that was saved; {error} is not in it"
            ) from error
        expected = {name: values.shape[1:] for name, values in self._form.parameters.items()}
        if {name: values.shape[1:] for name, values in parameters.items()} != expected:
            raise InvalidInputError(
                "model_factory must make the model that was saved; its parameters have other shapes"
            )
        return self._form.with_parameters(parameters)

    def _route(self) -> Route:
        devices, models = self.facts["devices"], self.arrays["route.models"]
        if self.facts["route"] == OneEach.__name__:
            return OneEach(dict(zip(devices, models.tolist(), strict=True)))
        cuts = np.cumsum(self.arrays["route.sizes"])[:-1]
        centers = dict(zip(devices, np.split(self.arrays["route.centers"], cuts), strict=True))
        return ByNearestCenter(centers, dict(zip(devices, np.split(models, cuts), strict=True)), self._features)

    def _way(self, about: dict[str, Any]) -> Way:
        least = about["min_cluster_size"]
        if about["name"] == ByRows.name:
            return ByRows(self._features, about["n_local_clusters"], least, about["seed"])
        if about["name"] == ByPoint.name:
            return ByPoint(self._features, least)
        if about["name"] == ByUpdate.name:
            steps = LocalSteps(about["n_steps"], about["rate"], about["clip_norm"], self._loss, "auto", about["seed"])
            return ByUpdate(FirstUpdate(self._stack("origin"), steps, about["batch_size"]), least)
        raise MessageError(f"this file of {KIND} groups devices in a way that this kfed does not know")


def _tensors(place: str, parameters: Parameters) -> Arrays:
    return {f"{place}.{name}": values.numpy() for name, values in parameters.items()}


def _route_arrays(route: Route, device_ids: tuple[str, ...]) -> Arrays:
    if isinstance(route, OneEach):
        return {"route.models": np.array([route.models[name] for name in device_ids])}
    if not isinstance(route, ByNearestCenter):
        raise InvalidInputError("models of a round in progress cannot be saved; save what `fit` returns")
    models, centers = [route.models[name] for name in device_ids], [route.centers[name] for name in device_ids]
    return {
        "route.models": np.concatenate(models),
        "route.sizes": np.array([len(own) for own in models]),
        "route.centers": np.concatenate(centers),
    }


def _way_parts(way: Way) -> tuple[dict[str, Any], Arrays]:
    """What is needed to describe a late device as the others were."""
    about: dict[str, Any] = {"name": way.name}
    if isinstance(way, ByRows):
        alike = way.n_local_clusters
        foreseen = alike if isinstance(alike, int | str) else way.for_one_more()
        return about | {
            "min_cluster_size": way.min_cluster_size,
            "n_local_clusters": foreseen,
            "seed": way.seed,
        }, {}
    if isinstance(way, ByPoint):
        return about | {"min_cluster_size": way.min_cluster_size}, {}
    assert isinstance(way, ByUpdate)
    steps = way.first.steps
    about |= {"min_cluster_size": way.min_cluster_size, "n_steps": steps.n_steps, "rate": steps.learning_rate}
    about |= {"clip_norm": steps.clip_norm, "seed": steps.seed, "batch_size": way.first.batch_size}
    return about, _tensors("origin", way.first.origin.parameters)
