"""LEAF's FEMNIST and Shakespeare (Caldas et al., 2018), from its own JSON files or from TFF's archives.

A folder holds JSON files with ``users``, ``num_samples`` and ``user_data``: for each user ``x``, a list of samples, and
``y``, their labels. kfed looks for them in ``femnist/train``, ``femnist/test``, ``shakespeare/train`` and so on.
FEMNIST is also read from ``tff/emnist_all.sqlite.lzma``. Both are read in a stream: one file or writer at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.datasets import tff
from kfed.datasets.images import Split
from kfed.datasets.sources import SOURCES, at_hand, leaf_files, locate, missing
from kfed.datasets.table import Dataset
from kfed.datasets.text import character_features
from kfed.errors import CorruptFileError


def femnist(split: Split = "train", *, n_classes: int | None = None, n_writers: int | None = None) -> Dataset:
    """FEMNIST: 28 x 28 pixels in [0, 1] with ink as 1, as in MNIST (LEAF's files have ink as 0); owners are writers.

    Parameters
    ----------
    split : {"train", "test"}
    n_classes : int, optional
        Keep the first classes only; the first ten are the digits.
    n_writers : int, optional
        Stop after so many writers. Only what is kept is ever in memory, beside one file of LEAF's or one writer.

    Examples
    --------
    With LEAF's files of two writers in the folder that ``KFED_DATA`` names:

    >>> femnist("train").classes, femnist("train", n_classes=10).classes
    (array([ 3, 40,  5,  7]), array([3, 5, 7]))
    """
    points, classes, owners = [], [], []
    most = None if n_writers is None else checks.positive_integer(n_writers, "n_writers")
    for writer, pixels, own in islice(stream_femnist(split), most):
        kept = slice(None) if n_classes is None else own < n_classes
        points.append(pixels[kept])
        classes.append(own[kept])
        owners += [writer] * len(points[-1])
        if points[-1].shape[1] != points[0].shape[1]:
            raise CorruptFileError(f"images of FEMNIST must have one size; those of {writer} have another")
    if not owners:
        raise CorruptFileError(f"FEMNIST's {split} split has no images of the classes that are asked for")
    return Dataset("FEMNIST", np.concatenate(points), np.concatenate(classes), np.asarray(owners))


def stream_femnist(split: Split = "train") -> Iterator[tuple[str, Array, Array]]:
    """Yield each writer of FEMNIST with pixels, (n_points, 784), and classes, (n_points,).

    Examples
    --------
    With LEAF's files of two writers in the folder that ``KFED_DATA`` names:

    >>> [(writer, pixels.shape) for writer, pixels, classes in stream_femnist("train")]
    [('f0001', (2, 784)), ('f0002', (2, 784))]
    """
    found = leaf_files("femnist", checks.one_of(split, ("train", "test"), "split"))
    if not found and at_hand("tff-femnist"):
        archive = locate("tff-femnist")[SOURCES["tff-femnist"][0].name]
        for writer, records in tff.clients(archive, f"all_{split}"):
            pixels, labels = ([record.get(name, []) for record in records] for name in ("pixels", "label"))
            yield writer, *_images(pixels, [label for own in labels for label in own], archive)
        return
    for path in found or _missing_files("femnist", split):
        for writer, x, y in read_users(path):
            if x:
                yield writer, *_images(x, y, path)


def _images(pixels: list[Any], labels: list[Any], path: Path) -> tuple[Array, Array]:
    """Images with ink as 1, (n_points, n_pixels), and their classes, (n_points,)."""
    try:
        images, classes = np.float32(1) - np.asarray(pixels, np.float32), np.asarray(labels, np.int64)
    except (TypeError, ValueError) as error:
        raise CorruptFileError(f"{path} has images that are not numbers, or of different sizes") from error
    if images.ndim != 2 or classes.shape != (len(images),):
        raise CorruptFileError(f"{path} must have a list of pixels and one label for each image")
    return images, classes


def leaf_shakespeare(split: Split = "train", *, n_features: int = 4096) -> Dataset:
    """Shakespeare: pieces of text as hashed character n-grams (sparse); owners are roles, classes the next letter.

    Examples
    --------
    With LEAF's files of two roles in the folder that ``KFED_DATA`` names:

    >>> data = leaf_shakespeare("train", n_features=64)
    >>> data.points.shape, data.classes.tolist(), data.owners.tolist()
    ((3, 64), ['t', 'r', 'u'], ['HAMLET', 'HAMLET', 'ROMEO'])
    """
    samples, classes, owners = _read_all("shakespeare", split)
    points = character_features(samples, n_features=n_features)
    return Dataset("Shakespeare (LEAF)", points, np.asarray(classes), np.asarray(owners))


def _read_all(name: str, split: Split) -> tuple[list[Any], list[Any], list[str]]:
    """Read the samples, labels and users of all files, row by row."""
    samples, classes, owners = [], [], []
    for path in leaf_files(name, checks.one_of(split, ("train", "test"), "split")) or _missing_files(name, split):
        for user, x, y in read_users(path):
            samples += x
            classes += y
            owners += [user] * len(x)
    return samples, classes, owners


def _missing_files(name: str, split: str) -> list[Path]:
    put = f"what LEAF's data/{name}/preprocess.sh makes (leaf.cmu.edu) as {name}/{split}/*.json"
    if name == "femnist":
        file = SOURCES["tff-femnist"][0]
        put += f", or {file.urls[0]} ({file.n_bytes:,} bytes; 4.7 GB unpacked) as {file.folder}/{file.name},"
    raise missing(f"LEAF's {name}", put, " and is not downloaded unasked")


def read_users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield each user of a JSON file with its samples and their labels."""
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
