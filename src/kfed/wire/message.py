"""`DeviceMessage`: all that a device sends in a round.

On the wire it is one table in safetensors, named ``kfed1:<device id>``, with a row for each local center:

    n_features values of the center | count | sum of squares | spectral deviation

so a message costs little more than its centers, and any safetensors reader shows what is in it. It does not know the
points behind it: `LocalClustering.to_message` leaves out centers of too few points.

A message with `Details`, or about the columns of a table, is of format 2: its table is named ``kfed2:<device id>``, the
arrays of the details stand beside it under their names, and the facts hold the schema. Where the centers are rounded to
a grid, ``codes`` (or ``packed``, two to a byte) holds them, and the table has the three statistics alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from kfed._base import checks, files
from kfed._base.array import Array, Length, frozen
from kfed._base.notebook import InNotebook
from kfed.errors import InvalidInputError, MessageError, VersionError
from kfed.wire.center_table import N_STATISTICS, check_table, fits_single, tabulated
from kfed.wire.details import Details
from kfed.wire.file import KfedFile
from kfed.wire.grid import CODES, is_lost_by_center, on_grid
from kfed.wire.schema import FeatureSchema
from kfed.wire.shown import message_blocks

FORMAT, FORMAT_2 = "kfed1", "kfed2"
DIGEST_BYTES = 16

Features: TypeAlias = FeatureSchema | Iterable[str] | None


@dataclass(frozen=True, init=False, eq=False, repr=False)
class DeviceMessage(InNotebook, KfedFile):
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
    schema : FeatureSchema, optional
        The columns of a table that the features come from, instead of `feature_names`.
    details : Details, optional
        What else the device says of its centers.

    Examples
    --------
    >>> message = DeviceMessage("site7", [[0.0, 1.0], [5.0, 5.0]], counts=[30, 12])
    >>> message.n_local_clusters, message.n_features, message.n_points
    (2, 2, 42)
    >>> DeviceMessage.from_bytes(message.to_bytes()) == message
    True
    """

    _kind: ClassVar[str] = "message"
    _max_bytes: ClassVar[int] = 2**28

    device_id: str
    schema: FeatureSchema
    table: Array  # (n_local_clusters, n_features + 3), as on the wire
    details: Details | None

    def __init__(
        self,
        device_id: str,
        centers: npt.ArrayLike,
        counts: npt.ArrayLike,
        sums_of_squares: npt.ArrayLike | None = None,
        spectral_deviation: float | None = None,
        feature_names: Iterable[str] | None = None,
        *,
        schema: FeatureSchema | None = None,
        details: Details | None = None,
    ) -> None:
        table = tabulated(centers, counts, sums_of_squares, spectral_deviation)
        self._hold(device_id, table, schema or feature_names, details)

    def _hold(self, device_id: str, table: Array, schema: Features = None, details: Details | None = None) -> None:
        """Check the parts of the message and keep them."""
        set_field = object.__setattr__  # the dataclass is frozen
        set_field(self, "device_id", checks.device_id(device_id))
        check_table(table)
        table.flags.writeable = False
        set_field(self, "table", table)
        n_features = table.shape[1] - N_STATISTICS
        schema = schema if isinstance(schema, FeatureSchema) else FeatureSchema(n_features, schema)
        if schema.n_features != n_features:
            raise InvalidInputError(
                f"centers must have the {schema.n_features} features of the schema; got {n_features}"
            )
        set_field(self, "schema", schema)
        set_field(self, "details", details)
        if details is not None:
            details.check(self.centers, self.counts)
        if schema.scaling == "by message" and (details is None or details.observed is None or details.squares is None):
            raise InvalidInputError("a message in the table's units must have `observed` and `squares` of each column")

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if the device gave them."""
        return self.schema.names

    @property
    def centers(self) -> Array:
        """Local centers, (n_local_clusters, n_features)."""
        return self.table[:, :-N_STATISTICS]

    @property
    def known_centers(self) -> Array:
        """Local centers with NaN where no cell was observed, (n_local_clusters, n_features)."""
        if self.details is None or self.details.observed is None:
            return self.centers
        return np.where(self.details.observed > 0, self.centers, np.nan)

    @cached_property
    def counts(self) -> Array:
        """Points behind each center, whole numbers, or their total weight, (n_local_clusters,)."""
        counts = self.table[:, -3]
        whole = all(map(float.is_integer, counts.tolist()))
        return frozen(counts.astype(np.int64) if whole else counts)

    @property
    def sums_of_squares(self) -> Array | None:
        """Sum of squared distances of the points behind each center to it, (n_local_clusters,); None if not sent."""
        squares = self.table[:, -2]
        return squares if len(squares) and not math.isnan(squares[0]) else None

    @property
    def spectral_deviation(self) -> float | None:
        """Spectral norm of the points behind the centers minus their centers; None if not sent."""
        deviations = self.table[:, -1]
        return float(deviations[0]) if len(deviations) and not math.isnan(deviations[0]) else None

    n_local_clusters = Length("table", 0, "How many centers the message holds: at most k^(z).")

    @property
    def n_features(self) -> int:
        """Length of a center, d."""
        return int(self.table.shape[1]) - N_STATISTICS

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
        return hash((self.device_id, self.table.shape, self.n_points))

    def __repr__(self) -> str:
        return (
            f"DeviceMessage({self.device_id!r}, n_local_clusters={self.n_local_clusters}, "
            f"n_features={self.n_features}, n_points={self.n_points})"
        )

    def _shown(self) -> Iterable[Any]:
        return message_blocks(self)

    def __reduce__(self) -> tuple[Callable[[bytes], DeviceMessage], tuple[bytes]]:
        return DeviceMessage.from_bytes, (self.to_bytes(),)

    @property
    def is_format_2(self) -> bool:
        """Whether the message says more than format 1 can hold."""
        return self.details is not None or self.schema.columns is not None

    def to_bytes(self) -> bytes:
        """The message as it goes over the wire; the same message gives the same bytes."""
        if self.is_format_2:
            return self._format_2(self.details or Details())
        facts = {"feature_names": self.schema.names} if self.schema.names else None
        return files.encode_tables({f"{FORMAT}:{self.device_id}": self.table}, facts)

    def _format_2(self, details: Details) -> bytes:
        schema = self.schema.facts()
        facts = {"feature_names": self.schema.names} if schema is None and self.schema.names else {"schema": schema}
        table = self.table if details.codes is None else self.table[:, -N_STATISTICS:]
        return files.encode_tables(
            {f"{FORMAT_2}:{self.device_id}": table, **details.on_wire()}, {**facts, **details.facts()}
        )

    def quantised(self, bits: int) -> DeviceMessage:
        """Round the centers to 4, 8 or 16 bits each, in a message of its own; `rounding` says how far they may be off.

        With 4 bits, a value is rounded up or down by a draw that depends on the device's id, so that the mean of many
        devices is hardly off.
        """
        if bits not in CODES:
            raise InvalidInputError(f"bits must be 4, 8 or 16; got {bits}")
        if self.rounding is not None:
            raise InvalidInputError("the centers of this message were rounded already")
        has_units = self.schema.scaling == "by message"
        centers = self.known_centers
        rounded = on_grid(centers, bits, has_units or is_lost_by_center(centers, bits), self.device_id)
        details = replace(self.details or Details(), **rounded._asdict())
        table = np.concatenate([rounded.centers, self.table[:, -N_STATISTICS:]], axis=1)
        if not has_units and fits_single(table):  # a grid is in single precision, whatever the centers were in
            table = table.astype(np.float32)
        if details.observed is not None:
            table[:, :-N_STATISTICS][details.observed == 0] = 0
        return self.from_table(self.device_id, table, self.schema, details)

    @property
    def rounding(self) -> Array | None:
        """How far each value of a center may be off, (n_local_clusters, n_features); None if they were not rounded."""
        rounded = None if self.details is None else self.details.rounded
        return None if rounded is None else np.broadcast_to(rounded.error_bound, self.centers.shape)

    def digest(self) -> bytes:
        """BLAKE2b of the bytes, in 16 bytes. Equal messages have equal digests; collisions are infeasible."""
        return digest_of(self.to_bytes())

    @classmethod
    def _from_parts(cls, tensors: dict[str, Array], facts: Mapping[str, Any]) -> DeviceMessage:
        version, device_id, table = _main_table(tensors)
        try:
            if version == FORMAT:
                return cls.from_table(device_id, table, _names(facts.get("feature_names")))
            details = Details.restored({name: tensors[name] for name in tensors if ":" not in name}, facts)
            return cls.from_table(device_id, details.with_centers(table), _schema(facts), details)
        except (InvalidInputError, OverflowError) as error:
            raise MessageError(f"the message of {device_id[:40]!r} is not valid: {error}") from error

    @classmethod
    def from_table(
        cls, device_id: str, table: Array, schema: Features = None, details: Details | None = None
    ) -> DeviceMessage:
        """Build a message from a table, and validate it."""
        message = cls.__new__(cls)
        message._hold(device_id, table, schema, details)
        return message


def digest_of(payload: bytes) -> bytes:
    """`DeviceMessage.digest` of the message that `DeviceMessage.to_bytes` wrote as `payload`."""
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest()


def _main_table(tensors: dict[str, Array]) -> tuple[str, str, Array]:
    """The format of a message, its device id and its table."""
    name = next((name for name in tensors if ":" in name), "")
    found, _, device_id = name.partition(":")
    if not found.startswith("kfed") or (found == FORMAT and len(tensors) != 1):
        raise MessageError("this is not a device's message; expected a file that `kfed device` wrote")
    if found not in (FORMAT, FORMAT_2):
        raise VersionError(
            f"this message has format {found!r}; this version of kfed reads formats up to {FORMAT_2!r}: upgrade kfed"
        )
    table = tensors[name]
    is_table = table.ndim == 2 and N_STATISTICS < table.shape[1] + (found == FORMAT_2) <= DeviceMessage._max_bytes
    if not is_table or table.dtype not in checks.FLOATS:
        raise MessageError(f"a message must hold a table of floats; got shape {table.shape} of {table.dtype}")
    return found, device_id, table


def _schema(facts: Mapping[str, Any]) -> FeatureSchema | tuple[str, ...] | None:
    schema = facts.get("schema")
    return _names(facts.get("feature_names")) if schema is None else FeatureSchema.restored(schema)


def _names(names: Any) -> tuple[str, ...] | None:
    if names is not None and not isinstance(names, list):
        raise InvalidInputError("feature_names must be a list")
    return None if names is None else tuple(names)
