"""Handwritten digits: scikit-learn's small ones, MNIST, and MNIST with its writers (from QMNIST)."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Literal

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.datasets.sources import digits_files, locate
from kfed.datasets.table import Dataset
from kfed.errors import CorruptFileError

Split = Literal["train", "test"]

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MNIST_PREFIX = {"train": "train", "test": "t10k"}
_WRITER_COLUMN = 2


def digits() -> Dataset:
    """The 1,797 images of 8 x 8 pixels in [0, 1] that come with scikit-learn; no download needed.

    Examples
    --------
    >>> digits().points.shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    points, classes = load_digits(return_X_y=True)
    return Dataset("digits", (points / 16).astype(np.float32), classes)


def mnist(split: Split = "train") -> Dataset:
    """MNIST: 60,000 images of digits to train with and 10,000 to test with, 28 x 28 pixels in [0, 1], ink is 1.

    Examples
    --------
    >>> data = mnist("test")
    >>> data.points.shape, data.points.max(), data.classes[:3]
    ((10000, 784), np.float32(1.0), array([7, 2, 1]))
    """
    prefix = _MNIST_PREFIX[checks.one_of(split, list(_MNIST_PREFIX), "split")]
    files = locate("mnist")
    images = read_idx(files[f"{prefix}-images-idx3-ubyte.gz"])
    points = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
    return Dataset("MNIST", points, read_idx(files[f"{prefix}-labels-idx1-ubyte.gz"]).astype(np.int64))


def mnist_by_writer(split: Split = "train") -> Dataset:
    """MNIST, owned by who wrote it: 539 writers to train with and 297 to test with.

    Examples
    --------
    >>> data = mnist_by_writer("test")
    >>> len(set(data.owners.tolist()))
    297
    """
    images = mnist(split)
    table = read_idx(locate("mnist-writers")[f"qmnist-{split}-labels-idx2-int.gz"])  # (n_digits, 8)
    writers = table[: images.n_points, _WRITER_COLUMN].astype(np.int64)
    return Dataset("MNIST by writer", images.points, images.classes, writers)


def digits_by_writer() -> Dataset:
    """Digits with their writers: those of FEMNIST where it is at hand, otherwise of MNIST; its name says which.

    The digits of both come from NIST's Special Database 19.

    Examples
    --------
    With LEAF's files of two writers in the folder that ``KFED_DATA`` names:

    >>> data = digits_by_writer()
    >>> data.name, data.points.shape, sorted(set(data.owners.tolist()))
    ('FEMNIST', (3, 784), ['f0001', 'f0002'])
    """
    from kfed.datasets.leaf import femnist

    return mnist_by_writer() if "mnist" in digits_files() else femnist(n_classes=10)


def read_idx(path: Path) -> Array:
    """Read an array from a file in the IDX format, packed with gzip or not."""
    raw = path.read_bytes()
    try:
        payload = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        dtype, n_axes = np.dtype(_IDX_TYPES[payload[2]]), payload[3]
        shape = np.frombuffer(payload, ">u4", n_axes, offset=4)
        return (
            np.frombuffer(payload, dtype, offset=4 + 4 * n_axes).reshape(shape.tolist()).astype(dtype.newbyteorder("="))
        )
    except (OSError, EOFError, KeyError, IndexError, ValueError, zlib.error) as error:
        raise CorruptFileError(f"{path} is not a valid IDX file ({error}); replace it by the published file") from error
