"""`DeviceMessage`: the only thing that leaves a device.

On the wire it is one table in safetensors, named ``kfed1:<device id>``, with a row for each local center:

    n_features values of the center | count | sum of squares | spectral deviation

so a message costs little more than its centers, and any safetensors reader shows what is in it. It does not know the
points behind it: `LocalClustering.to_message` leaves out centers of too few points.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kfed._base import checks, files
from kfed._base.array import Array, Length, frozen
from kfed.errors import InvalidInputError, MessageError, VersionError
from kfed.wire.file import KfedFile
from kfed.wire.schema import FeatureSchema

FORMAT = "kfed1"
MAX_COUNT = 2**53
MAX_VALUE = 1e100
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-37, 1e37
N_STATISTICS = 3
DIGEST_BYTES = 16


@dataclass(frozen=True, init=False, eq=False, repr=False)
class DeviceMessage(KfedFile):
    """What one device sends to the server: its local centers Theta^(z), and how many points are behind each.

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
        Spectral norm of the matrix of those points minus their centers. With more than 32 features it may be an upper
        estimate, at most 4 % too high.
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

    KIND: ClassVar[str] = "message"
    MAX_BYTES: ClassVar[int] = 2**28

    device_id: str
    schema: FeatureSchema
    _table: Array  # (n_local_clusters, n_features + 3), as on the wire

    def __init__(
        self,
        device_id: str,
        centers: npt.ArrayLike,
        counts: npt.ArrayLike,
        sums_of_squares: npt.ArrayLike | None = None,
        spectral_deviation: float | None = None,
        feature_names: Iterable[str] | None = None,
    ) -> None:
        self._hold(device_id, _tabulated(centers, counts, sums_of_squares, spectral_deviation), feature_names)

    def _hold(self, device_id: str, table: Array, feature_names: Iterable[str] | None) -> None:
        """Check the parts of the message and keep them."""
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "device_id", checks.device_id(device_id))
        _check_table(table)
        table.flags.writeable = False
        set_field(self, "_table", table)
        set_field(self, "schema", FeatureSchema(table.shape[1] - N_STATISTICS, feature_names))

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if the device gave them."""
        return self.schema.names

    @property
    def centers(self) -> Array:
        """Local centers, (n_local_clusters, n_features)."""
        return self._table[:, :-N_STATISTICS]

    @cached_property
    def counts(self) -> Array:
        """Points behind each center, whole numbers, or their total weight, (n_local_clusters,)."""
        counts = self._table[:, -3]
        whole = all(map(float.is_integer, counts.tolist()))
        return frozen(counts.astype(np.int64) if whole else counts)

    @property
    def sums_of_squares(self) -> Array | None:
        """Sum of squared distances of the points behind each center to it, (n_local_clusters,); None if not sent."""
        squares = self._table[:, -2]
        return squares if len(squares) and not math.isnan(squares[0]) else None

    @property
    def spectral_deviation(self) -> float | None:
        """Spectral norm of the points behind the centers minus their centers; None if not sent."""
        deviations = self._table[:, -1]
        return float(deviations[0]) if len(deviations) and not math.isnan(deviations[0]) else None

    n_local_clusters = Length("_table", 0, "How many centers the message holds: at most k^(z).")

    @property
    def n_features(self) -> int:
        """Length of a center, d."""
        return int(self._table.shape[1]) - N_STATISTICS

    @property
    def n_points(self) -> int | float:
        """Points (or weight) behind all centers of the message."""
        total: int | float = sum(self.counts.tolist())  # which, unlike numpy's, does not overflow
        return total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMessage):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.device_id, self._table.shape, self.n_points))

    def __repr__(self) -> str:
        return (
            f"DeviceMessage({self.device_id!r}, n_local_clusters={self.n_local_clusters}, "
            f"n_features={self.n_features}, n_points={self.n_points})"
        )

    def __reduce__(self) -> tuple[Callable[[bytes], DeviceMessage], tuple[bytes]]:
        return DeviceMessage.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """The message as it goes over the wire; the same message gives the same bytes."""
        facts = {"feature_names": self.schema.names} if self.schema.names else None
        return files.encode_table(f"{FORMAT}:{self.device_id}", self._table, facts)

    def digest(self) -> bytes:
        """BLAKE2b of the bytes, in 16 bytes: the same for equal messages, and for no others that anyone could find."""
        return hashlib.blake2b(self.to_bytes(), digest_size=DIGEST_BYTES).digest()

    @classmethod
    def from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> DeviceMessage:
        """Like `from_bytes`, of bytes that were decoded already."""
        device_id, table = _only_table(tensors)
        message = cls.__new__(cls)
        try:
            message._hold(device_id, table, _names(facts.get("feature_names")))
        except InvalidInputError as error:
            raise MessageError(f"the message of {device_id[:40]!r} is not valid: {error}") from error
        return message


def _tabulated(centers: Any, counts: Any, sums_of_squares: Any, spectral_deviation: Any) -> Array:
    """The arguments as one table: in single precision if the centers are and nothing is lost by it."""
    centers = checks.as_array(centers, "centers")
    if centers.ndim != 2 or centers.shape[1] < 1 or centers.dtype.kind not in "fiu":
        raise InvalidInputError(
            "centers must be numbers with two axes (local clusters, features); "
            f"got shape {centers.shape} and dtype {centers.dtype}"
        )
    n_centers, n_features = centers.shape
    table = np.full((n_centers, n_features + N_STATISTICS), np.nan)
    table[:, :-N_STATISTICS] = centers
    table[:, -3] = _statistic(counts, n_centers, "counts")
    if sums_of_squares is not None:
        table[:, -2] = _statistic(sums_of_squares, n_centers, "sums_of_squares")
    if spectral_deviation is not None:
        table[:, -1] = _statistic([spectral_deviation], 1, "spectral_deviation")
    return table.astype(np.float32) if centers.dtype == np.float32 and _fits_single(table) else table


def _statistic(values: Any, length: int, name: str) -> Array:
    """One number for each center; not NaN, which marks a missing value in the table."""
    array = checks.as_array(values, name, np.float64)
    if array.shape != (length,):
        raise InvalidInputError(f"{name} must have one value for each of {length} centers; got shape {array.shape}")
    if np.isnan(array).any():
        raise InvalidInputError(f"{name} must be finite and not negative")
    return array


def _fits_single(table: Array) -> bool:
    """Whether single precision holds every count exactly and no value overflows."""
    counts = table[:, -3]
    in_range = counts.max(initial=0) <= 2**24 and counts.min(initial=1) >= SMALLEST_SINGLE
    return bool(in_range and np.nanmax(np.abs(table), initial=0) <= LARGEST_SINGLE)


def _check_table(table: Array) -> None:
    """Raise unless a table, wherever it came from, is one that a device may send."""
    if not float(np.vdot(table, table)) <= MAX_VALUE:  # else no center is larger, as most often
        _check_centers(table[:, :-N_STATISTICS])
    counts, sums_of_squares, deviations = table[:, -N_STATISTICS:].T.tolist()
    if not all(0 < count <= MAX_COUNT for count in counts):
        raise InvalidInputError("counts must be greater than zero and at most 2^53")
    _check_statistic(sums_of_squares, "sums_of_squares")
    _check_statistic(deviations, "spectral_deviation")
    if deviations and not math.isnan(deviations[0]) and deviations.count(deviations[0]) != len(deviations):
        raise InvalidInputError("spectral_deviation must be the same in every row")


def _check_centers(centers: Array) -> None:
    if not (float(centers.max(initial=0)) <= MAX_VALUE and float(centers.min(initial=0)) >= -MAX_VALUE):
        raise InvalidInputError(f"centers must be finite and at most {MAX_VALUE:g} in size")


def _check_statistic(numbers: list[float], name: str) -> None:
    """Raise unless the numbers are all missing, or all finite and not negative."""
    if not all(0 <= number < math.inf for number in numbers) and not all(map(math.isnan, numbers)):
        raise InvalidInputError(f"{name} must be finite and not negative")


def _only_table(tensors: dict[str, Array]) -> tuple[str, Array]:
    """The device id and the table of a message."""
    name = next(iter(tensors), "")
    found, _, device_id = name.partition(":")
    if len(tensors) != 1 or not found.startswith("kfed"):
        raise MessageError("this is not a device's message; expected a file that `kfed device` wrote")
    if found != FORMAT:
        raise VersionError(f"this message has format {found!r}; this version of kfed reads {FORMAT!r}: upgrade kfed")
    table = tensors[name]
    is_table = table.ndim == 2 and N_STATISTICS < table.shape[1] <= DeviceMessage.MAX_BYTES
    if not is_table or table.dtype not in checks.FLOATS:
        raise MessageError(f"a message must hold a table of floats; got shape {table.shape} of {table.dtype}")
    return device_id, table


def _names(names: Any) -> tuple[str, ...] | None:
    if names is not None and not isinstance(names, list):
        raise InvalidInputError("feature_names must be a list")
    return None if names is None else tuple(names)
