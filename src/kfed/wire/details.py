"""`Details`: what a message of format 2 holds beyond centers and counts, each only if it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from kfed._base.array import Array, frozen
from kfed.errors import InvalidInputError
from kfed.wire.grid import HALF_BYTE, OnGrid, packed, unpacked
from kfed.wire.promise import Promise

MAX_CELLS = 2**53
N_DIGITS = 32
"""Length of the fingerprint of clusters."""


@dataclass(frozen=True, eq=False)
class Details:
    """What a device says of its centers beyond the table of format 1.

    Attributes
    ----------
    observed : array of shape (n_local_clusters, n_features) or None
        How many rows behind a center had a value in a column. Where it is 0, the center is 0 and means nothing.
    squares : array of shape (n_local_clusters, n_features) or None
        Sum of squared distances of those values to the center, column by column.
    groups : array of int, shape (n_local_clusters,) or None
        The device's own group of each center. It is part of the format and read; no device of kfed writes it.
    noise : array of shape (n_local_clusters, 2) or None
        Standard deviation of the noise in every value of a center, and in its count.
    scatter : array of shape (n_rows, n_features) or None
        Rows F such that F^T F is the scatter matrix, about their mean, of all rows behind the centers.
    sketch : array of shape (n_directions, n_features) or None
        Of such an F whose rows are at right angles, the longest: in no direction beside them do the rows behind the
        centers spread more than in that of the shortest.
    grid : array of shape (2, n_features) or (2, n_local_clusters, 1), or None
        Lowest value and step of the grid that centers were rounded to, by column or by center.
    codes : array of uint8 or uint16, shape (n_local_clusters, n_features), or None
        The centers on that grid.
    kept : array of bool, shape (n_features,), or None
        Where codes have 4 bits, the columns in which a center is not zero: the others are not sent.
    n_left_out : int or None
        Rows of the device that are in no cluster that was sent; None if they are too few to be told.
    promise : Promise or None
        The privacy of the whole message.
    is_summary : bool
        Whether the centers are a fine summary of the rows, and not clusters that the device looked for.
    cluster_ids : array of int, shape (n_local_clusters,) or None
        In a second message, the global cluster whose rows on this device each center is the mean of.
    refines : str or None
        In a second message, the fingerprint of these global clusters.
    """

    observed: Array | None = None
    squares: Array | None = None
    groups: Array | None = None
    noise: Array | None = None
    scatter: Array | None = None
    sketch: Array | None = None
    grid: Array | None = None
    codes: Array | None = None
    kept: Array | None = None
    n_left_out: int | None = None
    promise: Promise | None = None
    is_summary: bool = False
    cluster_ids: Array | None = None
    refines: str | None = None

    @classmethod
    def of_device(cls, is_summary: bool, factor: Array | None, n_rows: int) -> Self | None:
        """What a device says of its centers, if anything: a factor of fewer rows than there can be is a sketch."""
        if factor is None:
            return cls(is_summary=True) if is_summary else None
        if len(factor) < min(n_rows, factor.shape[1]):
            return cls(is_summary=is_summary, sketch=factor)
        return cls(is_summary=is_summary, scatter=factor)

    def __post_init__(self) -> None:
        for name, array in self.tensors().items():
            object.__setattr__(self, name, frozen(array))  # the dataclass is frozen

    def tensors(self) -> dict[str, Array]:
        """The arrays that are there, by name."""
        return {name: array for name in TENSORS if (array := getattr(self, name)) is not None}

    def on_wire(self) -> dict[str, Array]:
        """The arrays of a file: codes of 4 bits are two to a byte there, without columns of zeros."""
        tensors = self.tensors()
        if self.codes is None or self.kept is None:
            return tensors
        pairs = dict(zip(PACKED, packed(self.codes, self.kept), strict=True))
        return {name: array for name, array in tensors.items() if name not in ("codes", "kept")} | pairs

    @property
    def is_plain_summary(self) -> bool:
        """Whether all that is said is that the centers are a summary."""
        return self.is_summary and not self.tensors() and len(self.facts()) == 1

    @property
    def rounded(self) -> OnGrid | None:
        """The centers on their grid, if they were rounded."""
        return None if self.codes is None or self.grid is None else OnGrid(self.codes, self.grid, self.kept)

    @property
    def bits(self) -> int | None:
        """How many bits a number of a center has, if they were rounded."""
        if self.codes is None:
            return None
        return 8 * self.codes.itemsize if self.kept is None else HALF_BYTE

    def facts(self) -> dict[str, Any]:
        """What is no array, for a file."""
        promise = None if self.promise is None else self.promise.facts()
        said: dict[str, Any] = {"n_left_out": self.n_left_out, "promise": promise, "refines": self.refines}
        said["is_summary"] = self.is_summary or None
        said["n_features"] = None if self.kept is None else len(self.kept)
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def restored(cls, tensors: Mapping[str, Array], facts: Mapping[str, Any]) -> Self:
        """The details of a file; `check` has to follow."""
        unknown = set(tensors) - {*TENSORS, *PACKED} | set(tensors) & {"kept"}
        if unknown:
            raise InvalidInputError(
                f"it holds {min(unknown)!r}, which this version of kfed does not know: upgrade kfed"
            )
        promise = facts.get("promise")
        return cls(
            **_unpacked(tensors, facts.get("n_features")),
            n_left_out=facts.get("n_left_out"),
            promise=None if promise is None else Promise.restored(promise),
            refines=facts.get("refines"),
            is_summary=facts.get("is_summary", False),
        )

    def with_centers(self, statistics: Array) -> Array:
        """The whole table of a message: if its centers are on a grid, a file has the statistics alone."""
        if self.rounded is None:
            return statistics
        self.rounded.check(statistics)
        centers = self.rounded.centers
        if self.observed is not None and self.observed.shape == centers.shape:
            centers[self.observed == 0] = 0
        return np.concatenate([centers, statistics], axis=1)

    def check(self, centers: Array, counts: Array) -> None:
        """Raise `InvalidInputError` unless these are details that a device may send beside these centers."""
        n_centers, n_features = centers.shape
        for name, shape in (
            ("observed", centers.shape),
            ("squares", centers.shape),
            ("groups", (n_centers,)),
            ("noise", (n_centers, 2)),
            ("codes", centers.shape),
            ("kept", (n_features,)),
            ("cluster_ids", (n_centers,)),
        ):
            array = getattr(self, name)
            if array is not None and (array.shape != shape or array.dtype.kind not in DTYPES.get(name, "f")):
                raise InvalidInputError(f"{name} must have shape {shape}; got {array.shape} of {array.dtype}")
        self._check_numbers(n_features)
        if self.groups is not None and len(self.groups) and not 0 <= self.groups.min() <= self.groups.max() < n_centers:
            raise InvalidInputError("groups must be numbers from 0 to the number of centers minus 1")
        if self.n_left_out is not None and (
            not isinstance(self.n_left_out, int) or not 0 <= self.n_left_out < MAX_CELLS
        ):
            raise InvalidInputError("n_left_out must be a whole number and not negative")
        if not isinstance(self.is_summary, bool):
            raise InvalidInputError("is_summary must be true or false")
        if self.observed is not None:
            self._check_cells(self.observed, centers, counts)
        self._check_second()

    def _check_second(self) -> None:
        """Raise unless this is a first message, or a second one with valid `cluster_ids` and `refines`."""
        if (self.cluster_ids is None) != (self.refines is None):
            raise InvalidInputError("a second message must have both cluster_ids and refines")
        if self.cluster_ids is not None and (
            len(set(self.cluster_ids.tolist())) < len(self.cluster_ids) or (self.cluster_ids < 0).any()
        ):
            raise InvalidInputError("cluster_ids must be distinct and not negative")
        if self.refines is not None and not (isinstance(self.refines, str) and len(self.refines) == N_DIGITS):
            raise InvalidInputError(f"refines must be a text of {N_DIGITS} digits")

    def _check_numbers(self, n_features: int) -> None:
        for name in ("observed", "squares", "noise"):
            array = getattr(self, name)
            if array is not None and not ((array >= 0) & (array < np.inf)).all():
                raise InvalidInputError(f"{name} must be finite and not negative")
        for name in ("scatter", "sketch"):
            rows = getattr(self, name)
            if rows is not None and (
                rows.ndim != 2 or rows.shape[1] != n_features or rows.dtype.kind != "f" or not np.isfinite(rows).all()
            ):
                raise InvalidInputError(f"{name} must be finite numbers with {n_features} columns")

    def _check_cells(self, observed: Array, centers: Array, counts: Array) -> None:
        """Raise unless no column has more cells than rows, and nothing is said of cells that are not there."""
        if not (observed <= counts[:, None] * (1 + 1e-6)).all():
            raise InvalidInputError("observed must not exceed counts")
        if centers[observed == 0].any() or (self.squares is not None and self.squares[observed == 0].any()):
            raise InvalidInputError("centers and squares must be 0 where nothing was observed")


FACTS = ("n_left_out", "promise", "refines", "is_summary")
TENSORS = tuple(field.name for field in fields(Details) if field.name not in FACTS)
DTYPES = {"groups": "iu", "codes": "iu", "cluster_ids": "iu", "kept": "b"}
SUMMARY = Details(is_summary=True)
"""Details of a plain summary, format 1 otherwise."""

PACKED = ("packed", "columns")
"""What stands for `codes` and `kept` in a file."""


def _unpacked(tensors: Mapping[str, Array], n_features: Any) -> dict[str, Array]:
    """The arrays of a file as `Details` has them."""
    own = dict(tensors)
    if not own.keys() & set(PACKED):
        return own
    if not own.keys() >= set(PACKED) or "codes" in own or type(n_features) is not int or not 0 < n_features < 2**28:
        raise InvalidInputError("packed centers must come with columns and n_features, and without codes")
    own["codes"], own["kept"] = unpacked(own.pop("packed"), own.pop("columns"), n_features)
    return own
