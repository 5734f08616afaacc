"""`DeviceMessage`: the only thing that leaves a device.

On the wire it is one table in safetensors, named ``kfed1:<device id>``, with a row for each local center:

    n_features values of the center | count | sum of squares | spectral deviation

so a message costs little more than its centers, and any safetensors reader shows what is in it. A message does not know
the points it came from: that no center is the mean of too few of them is seen to by `LocalClustering.to_message`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kfed import _checks, _files
from kfed.errors import InvalidInputError, MessageError, VersionError

Array = npt.NDArray[Any]

FORMAT = "kfed1"
MAX_BYTES = 2**28
MAX_COUNT = 2**53
MAX_VALUE = 1e100
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-37, 1e37
N_STATISTICS = 3


@dataclass(frozen=True, eq=False)
class DeviceMessage:
    """What one device says to the server: its local centers Theta^(z), and how many points each speaks for.

    Parameters
    ----------
    device_id : str
        The name of the device, z in the paper.
    centers : array of shape (n_local_clusters, n_features)
        Local cluster centers; float32 and float64 are kept. There may be none.
    counts : array of shape (n_local_clusters,)
        Points (or total weight) behind each center.
    sums_of_squares : array of shape (n_local_clusters,), optional
        Sum of squared distances of those points to the center.
    spectral_deviation : float, optional
        Spectral norm of the matrix of those points minus their centers.
    feature_names : sequence of str, optional
        What the columns are called.

    Examples
    --------
    >>> message = DeviceMessage("site7", [[0.0, 1.0], [5.0, 5.0]], counts=[30, 12])
    >>> message.n_local_clusters, message.n_features, message.n_points
    (2, 2, 42)
    >>> DeviceMessage.from_bytes(message.to_bytes()) == message
    True
    """

    device_id: str
    centers: Array
    counts: Array
    sums_of_squares: Array | None = None
    spectral_deviation: float | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "device_id", _checks.device_id(self.device_id))
        centers = _checks.as_array(self.centers, "centers")
        if centers.ndim != 2 or centers.shape[1] < 1 or centers.dtype.kind not in "fiu":
            raise InvalidInputError(
                "centers must be numbers with two axes (local clusters, features), "
                f"and have shape {centers.shape} and dtype {centers.dtype}"
            )
        counts = _statistic(self.counts, len(centers), "counts")
        if not all(0 < count <= MAX_COUNT for count in counts):
            raise InvalidInputError("counts must be greater than zero and at most 2^53, and some are not")
        squares = _optional(self.sums_of_squares, len(centers), "sums_of_squares")
        deviation = _optional(self.spectral_deviation, None, "spectral_deviation")
        largest = max(float(centers.max(initial=0)), -float(centers.min(initial=0)))
        if not largest <= MAX_VALUE:
            raise InvalidInputError(f"centers must be finite and at most {MAX_VALUE:g} in size, and some are not")
        small = max(counts, default=0) <= 2**24 and min(counts, default=1) >= SMALLEST_SINGLE
        small = small and max([largest, *squares, *deviation]) <= LARGEST_SINGLE
        dtype = np.float32 if centers.dtype == np.float32 and small else np.float64
        set_field(self, "centers", _frozen(centers, dtype))
        rounded = _frozen(counts, dtype)
        whole = all(count.is_integer() for count in rounded.tolist())
        set_field(self, "counts", _frozen(rounded, np.int64) if whole else rounded)
        set_field(self, "sums_of_squares", _frozen(squares, dtype) if squares else None)
        set_field(self, "spectral_deviation", float(dtype(deviation[0])) if deviation and counts else None)
        set_field(self, "feature_names", _checks.feature_names(self.feature_names, self.n_features))

    @property
    def n_local_clusters(self) -> int:
        """How many centers the message holds: at most k^(z)."""
        return int(self.centers.shape[0])

    @property
    def n_features(self) -> int:
        """Length of a center, d."""
        return int(self.centers.shape[1])

    @property
    def n_points(self) -> int | float:
        """Points (or weight) that the message speaks for."""
        total: int | float = self.counts.sum().item()
        return total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMessage):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.device_id, self.centers.shape, self.n_points))

    def to_bytes(self) -> bytes:
        """The message as it goes over the wire; the same message gives the same bytes."""
        table = np.empty((self.n_local_clusters, self.n_features + N_STATISTICS), self.centers.dtype)
        table[:, :-N_STATISTICS] = self.centers
        table[:, -3] = self.counts
        table[:, -2] = np.nan if self.sums_of_squares is None else self.sums_of_squares
        table[:, -1] = np.nan if self.spectral_deviation is None else self.spectral_deviation
        facts = {"feature_names": self.feature_names} if self.feature_names else None
        return _files.encode({f"{FORMAT}:{self.device_id}": table}, facts)

    @classmethod
    def from_bytes(cls, payload: bytes) -> DeviceMessage:
        """Read a message, trusting nothing in it. Raises `MessageError` if it is not sound."""
        if len(payload) > MAX_BYTES:
            raise MessageError(f"a message has at most {MAX_BYTES:,} bytes, and this has {len(payload):,}")
        tensors, facts = _files.decode(payload)
        device_id, table = _only_table(tensors)
        counts, squares, deviations = zip(*table[:, -N_STATISTICS:].tolist(), strict=True) if len(table) else ((),) * 3
        try:
            return cls(
                device_id,
                table[:, :-N_STATISTICS],
                cast(Array, counts),
                None if all(map(math.isnan, squares)) else cast(Array, squares),
                None if all(map(math.isnan, deviations)) else _common(deviations),
                _names(facts.get("feature_names")),
            )
        except InvalidInputError as error:
            raise MessageError(f"the message of {device_id[:40]!r} is not sound: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the message to a file, whole or not at all."""
        _files.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DeviceMessage:
        """Read a message from a file; an error names the file."""
        return _files.naming(path, lambda: cls.from_bytes(_files.read(path, MAX_BYTES)))


def _optional(values: Any, length: int | None, name: str) -> list[float]:
    """A statistic that may be missing; of `length` None, one number."""
    if values is None:
        return []
    return _statistic([values], 1, name) if length is None else _statistic(values, length, name)


def _statistic(values: Any, length: int, name: str) -> list[float]:
    """One finite number for each center, none of them negative."""
    array = _checks.as_array(values, name, np.float64)
    if array.shape != (length,):
        raise InvalidInputError(f"{name} must have one value for each of {length} centers, and has shape {array.shape}")
    numbers: list[float] = array.tolist()
    if not all(0 <= number < math.inf for number in numbers):
        raise InvalidInputError(f"{name} must be finite and not negative, and some are not")
    return numbers


def _frozen(values: Any, dtype: npt.DTypeLike) -> Array:
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def _common(values: tuple[float, ...]) -> float:
    """The one number that stands in every row."""
    if any(value != values[0] for value in values):
        raise InvalidInputError("spectral_deviation must be the same in every row, and is not")
    return values[0]


def _only_table(tensors: dict[str, Array]) -> tuple[str, Array]:
    """The device id and the table of a message."""
    name = next(iter(tensors), "")
    found, _, device_id = name.partition(":")
    if len(tensors) != 1 or not found.startswith("kfed"):
        raise MessageError("this is not the message of a kfed device; give a file that `kfed device` wrote")
    if found != FORMAT:
        raise VersionError(f"this message has format {found!r}, and this kfed reads {FORMAT!r}; upgrade kfed")
    table = tensors[name]
    if table.ndim != 2 or table.shape[1] <= N_STATISTICS or table.dtype not in (np.float32, np.float64):
        raise MessageError(f"a message must hold a table of floats, and this has {table.shape} of {table.dtype}")
    return device_id, table


def _names(names: Any) -> tuple[str, ...] | None:
    if names is not None and not isinstance(names, list):
        raise InvalidInputError("feature_names must be a list, and are not")
    return None if names is None else tuple(names)
