"""A `LocalFile` as it lies in a file: its parts, and what is checked when they come back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import files
from kfed._base.array import Array
from kfed.device import LocalClustering
from kfed.errors import InvalidInputError
from kfed.wire import from_parts, to_parts

if TYPE_CHECKING:
    from kfed.site.kept import LocalFile

_RARE = ("weight_column", "header", "sheet", "min_cluster_size", "bits", "refined")
"""Facts that a file has only where they are known; files from before they were kept lack them."""


def parts(kept: LocalFile) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the facts of a file."""
    tensors, clustering = to_parts(kept.clustering)
    if kept.row_ids is not None:
        tensors["row_ids"] = np.frombuffer(json.dumps(list(kept.row_ids)).encode(), np.uint8)
    facts = {"clustering": clustering, "device_id": kept.device_id, "id_column": kept.id_column}
    rare = {name: value for name in _RARE if (value := getattr(kept, name)) is not None}
    return tensors, facts | rare


def restored_fields(tensors: dict[str, Array], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the `LocalFile` with these parts. Raises if they are not valid."""
    row_ids = json.loads(tensors["row_ids"].tobytes()) if "row_ids" in tensors else None
    if row_ids is not None and not (isinstance(row_ids, list) and all(isinstance(i, str) for i in row_ids)):
        raise InvalidInputError("its row ids must be strings")
    clustering = from_parts(LocalClustering, tensors, facts["clustering"])
    always = {"device_id": facts["device_id"], "clustering": clustering, "id_column": facts["id_column"]}
    return {**always, "row_ids": row_ids, **{name: facts[name] for name in _RARE if name in facts}}


def as_version_2(tensors: dict[str, Array], facts: Mapping[str, Any]) -> tuple[dict[str, Array], Mapping[str, Any]]:
    """Convert parts of version 1, which held the clustering as a file in the file, to version 2; keep all others."""
    if facts.get("version") != 1 or "clustering" not in tensors:
        return tensors, facts
    inner, clustering = files.decode(tensors["clustering"].tobytes())
    return {**tensors, **inner}, {**facts, "version": 2, "clustering": clustering}
