"""Files in the layout of LEAF (Caldas et al., 2018): FEMNIST and Shakespeare, made by LEAF's own scripts.

A folder holds JSON files with ``users``, ``num_samples`` and ``user_data``: for each user ``x``, a list of samples, and
``y``, their labels. kfed looks for them in ``femnist/train``, ``femnist/test``, ``shakespeare/train`` and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kfed._base import checks
from kfed.datasets.images import Split
from kfed.datasets.sources import data_folders, missing
from kfed.datasets.table import Dataset
from kfed.datasets.text import character_features
from kfed.errors import CorruptFileError


def femnist(split: Split = "train") -> Dataset:
    """FEMNIST: 28 x 28 pixels in [0, 1] with ink as 1, as in MNIST (LEAF's files have ink as 0); owners are writers."""
    samples, classes, owners = _read_all("femnist", split)
    points = np.float32(1) - np.asarray(samples, np.float32)
    return Dataset("FEMNIST", points, np.asarray(classes), np.asarray(owners))


def leaf_shakespeare(split: Split = "train", *, n_features: int = 4096) -> Dataset:
    """Shakespeare: pieces of text as hashed character n-grams (sparse); owners are roles, classes the next letter."""
    samples, classes, owners = _read_all("shakespeare", split)
    points = character_features(samples, n_features=n_features)
    return Dataset("Shakespeare (LEAF)", points, np.asarray(classes), np.asarray(owners))


def _read_all(name: str, split: Split) -> tuple[list[Any], list[Any], list[str]]:
    """Read the samples, labels and users of all files, row by row."""
    samples, classes, owners = [], [], []
    for path in _files_of(name, checks.one_of(split, ("train", "test"), "split")):
        for user, x, y in _users(path):
            samples += x
            classes += y
            owners += [user] * len(x)
    return samples, classes, owners


def _files_of(name: str, split: str) -> list[Path]:
    for folder in data_folders():
        found = sorted((folder / name / split).glob("*.json"))
        if found:
            return found
    put = f"what LEAF's data/{name}/preprocess.sh makes (leaf.cmu.edu) as {name}/{split}/*.json"
    raise missing(f"LEAF's {name}", put, " and cannot be downloaded automatically")


def _users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    try:
        content = json.loads(path.read_bytes())
        for user, n_samples in zip(content["users"], content["num_samples"], strict=True):
            x, y = content["user_data"][user]["x"], content["user_data"][user]["y"]
            if not len(x) == len(y) == n_samples:
                raise ValueError(f"num_samples of a user must be {len(x)}, the number of both x and y")
            yield user, x, y
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(
            f"{path} is not in LEAF's layout ({error}); make it again with LEAF's scripts"
        ) from error
