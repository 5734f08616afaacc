"""What Algorithm 2 starts from, the messages of many devices as columns, and what it ends with, their grouping."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _checks
from kfed.errors import DuplicateDeviceError, InvalidInputError, UnknownDeviceError
from kfed.message import DeviceMessage

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Gathering:
    """Device centers of all devices, stacked. The order in which messages came leaves no trace."""

    device_ids: tuple[str, ...]  # sorted
    centers: Array  # (n_device_centers, n_features)
    owners: Array  # (n_device_centers,) positions in device_ids
    counts: Array  # (n_device_centers,)
    sums_of_squares: Array  # (n_device_centers,), NaN where a device did not say
    spectral_deviations: Array  # (n_devices,), NaN where a device did not say
    is_named: Array  # (n_devices,) whether the device named its features
    is_double: Array  # (n_devices,) whether the device speaks in double precision
    feature_names: tuple[str, ...] | None

    @classmethod
    def of(cls, messages: Iterable[DeviceMessage]) -> Gathering:
        """Stack messages. The same message twice counts once; two that differ under one id are an error."""
        by_id: dict[str, DeviceMessage] = {}
        for message in messages:
            if not isinstance(message, DeviceMessage):
                raise InvalidInputError(f"messages must be DeviceMessages, and one is a {type(message).__name__}")
            if by_id.setdefault(message.device_id, message) != message:
                raise DuplicateDeviceError(
                    f"two different messages came from device {message.device_id!r}; keep the one that is meant, "
                    "or give one of the devices another id"
                )
        if not by_id:
            raise InvalidInputError("there must be at least one message, and there is none")
        ordered = [by_id[device_id] for device_id in sorted(by_id)]
        named = next((message for message in ordered if message.feature_names is not None), ordered[0])
        for message in ordered:
            _checks.same_features(named, message)
        sizes = [message.n_local_clusters for message in ordered]
        return cls(
            device_ids=tuple(message.device_id for message in ordered),
            centers=_readonly(np.concatenate([message.centers for message in ordered])),
            owners=_readonly(np.repeat(np.arange(len(ordered)), sizes)),
            counts=_counts(np.concatenate([message.counts for message in ordered])),
            sums_of_squares=_readonly(np.concatenate([_squares(message) for message in ordered]).astype(np.float64)),
            spectral_deviations=_readonly(np.array([_deviation(message) for message in ordered])),
            is_named=_readonly(np.array([message.feature_names is not None for message in ordered])),
            is_double=_readonly(np.array([message.centers.dtype == np.float64 for message in ordered])),
            feature_names=named.feature_names,
        )

    @property
    def n_features(self) -> int:
        """Length of a center, d."""
        return int(self.centers.shape[1])

    def position(self, device_id: str) -> int:
        """Where a device stands in `device_ids`."""
        position = bisect_left(self.device_ids, str(device_id))
        if position == len(self.device_ids) or self.device_ids[position] != device_id:
            raise UnknownDeviceError(
                f"device {device_id!r} is not among the {len(self.device_ids)} devices that were aggregated; "
                "assign its message instead"
            )
        return position

    def centers_of(self, position: int) -> slice:
        """The rows of one device's centers."""
        first, last = np.searchsorted(self.owners, [position, position + 1])
        return slice(int(first), int(last))

    def message(self, device_id: str) -> DeviceMessage:
        """What one device said."""
        position = self.position(device_id)
        rows = self.centers_of(position)
        squares, deviation = self.sums_of_squares[rows], self.spectral_deviations[position]
        return DeviceMessage(
            device_id,
            self.centers[rows].astype(np.float64 if self.is_double[position] else np.float32),
            self.counts[rows],
            None if np.isnan(squares).any() else squares,
            None if np.isnan(deviation) else float(deviation),
            self.feature_names if self.is_named[position] else None,
        )

    def without(self, device_id: str) -> Gathering:
        """The gathering that this device never joined."""
        position = self.position(device_id)
        if len(self.device_ids) == 1:
            raise InvalidInputError(f"{device_id!r} is the only device; without it there is nothing to aggregate")
        others = np.delete(np.arange(len(self.device_ids)), position)
        kept = self.owners != position
        owners = self.owners[kept]
        dtype = np.float64 if self.is_double[others].any() else np.float32
        return Gathering(
            device_ids=self.device_ids[:position] + self.device_ids[position + 1 :],
            centers=_readonly(self.centers[kept].astype(dtype)),
            owners=_readonly(owners - (owners > position)),
            counts=_counts(self.counts[kept]),
            sums_of_squares=_readonly(self.sums_of_squares[kept]),
            spectral_deviations=_readonly(self.spectral_deviations[others]),
            is_named=_readonly(self.is_named[others]),
            is_double=_readonly(self.is_double[others]),
            feature_names=self.feature_names if self.is_named[others].any() else None,
        )


@dataclass(frozen=True)
class Grouping:
    """What a rule answers."""

    initial_centers: Array  # M: (n_clusters, n_features)
    traversal: Array  # farthest-first distances, (n_clusters - n_start,)
    center_labels: Array  # tau: (n_device_centers,)
    cluster_centers: Array  # mu(tau): (n_clusters, n_features)


def _readonly(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _counts(counts: Array) -> Array:
    """Counts as whole numbers, or in double precision if one of them is not whole."""
    whole = (counts == np.trunc(counts)).all()
    return _readonly(counts.astype(np.int64 if whole else np.float64))


def _squares(message: DeviceMessage) -> Array:
    if message.sums_of_squares is None:
        return np.full(message.n_local_clusters, np.nan)
    return message.sums_of_squares


def _deviation(message: DeviceMessage) -> float:
    return np.nan if message.spectral_deviation is None else message.spectral_deviation
