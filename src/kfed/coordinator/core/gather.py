"""Stored messages as columns, one at a time: a million centers take the memory of a million centers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kfed._base.array import Array
from kfed.wire import DeviceMessage, FeatureSchema, MessageBatch


def gather(sizes: Sequence[tuple[str, int, bool]], messages: Iterable[bytes], n_features: int) -> MessageBatch:
    """Stack stored messages: what `MessageBatch.of` gives, without holding a message for longer than it takes to copy.

    Parameters
    ----------
    sizes : sequence of (device_id, n_centers, is_double)
        What is to come, in any order.
    messages : iterable of bytes
        One message for each of them, in any order.
    n_features : int
        Length of a center.

    Examples
    --------
    >>> sent = [DeviceMessage("b", [[1.0], [2.0]], [5, 6]), DeviceMessage("a", [[3.0]], [7])]
    >>> gathering = gather([("b", 2, True), ("a", 1, True)], [message.to_bytes() for message in sent], n_features=1)
    >>> gathering.device_ids, gathering.centers.ravel().tolist(), gathering.owners.tolist()
    (('a', 'b'), [3.0, 1.0, 2.0], [0, 1, 1])
    """
    ordered = sorted(sizes)
    n_centers = np.array([size for _, size, _ in ordered], dtype=np.int64)
    is_double = np.array([double for _, _, double in ordered], dtype=bool)
    columns = _Columns([device_id for device_id, _, _ in ordered], n_centers, n_features, is_double)
    for payload in messages:
        columns.add(DeviceMessage.from_bytes(payload))
    return columns.gathered()


class _Columns:
    """The columns while they are being filled."""

    def __init__(self, device_ids: list[str], n_centers: Array, n_features: int, is_double: Array) -> None:
        self._positions = {device_id: position for position, device_id in enumerate(device_ids)}
        self._starts = np.concatenate([[0], np.cumsum(n_centers)]).tolist()
        total = self._starts[-1]
        self._n_centers, self._is_double = n_centers, is_double
        self._centers = np.empty((total, n_features), np.float64 if is_double.any() else np.float32)
        self._counts = np.empty(total)
        self._squares = np.full(total, np.nan)
        self._deviations = np.full(len(device_ids), np.nan)
        self._is_named = np.zeros(len(device_ids), bool)
        self._names: tuple[str, ...] | None = None

    def add(self, message: DeviceMessage) -> None:
        """Copy what one message says to its place."""
        position = self._positions[message.device_id]
        rows = slice(self._starts[position], self._starts[position + 1])
        self._centers[rows] = message.centers
        self._counts[rows] = message.counts
        if message.sums_of_squares is not None:
            self._squares[rows] = message.sums_of_squares
        if message.spectral_deviation is not None:
            self._deviations[position] = message.spectral_deviation
        if message.feature_names is not None:
            self._is_named[position], self._names = True, message.feature_names

    def gathered(self) -> MessageBatch:
        """The columns, for good."""
        whole = bool((self._counts == np.trunc(self._counts)).all())
        gathering = MessageBatch(
            device_ids=tuple(self._positions),
            centers=self._centers,
            owners=np.repeat(np.arange(len(self._positions)), self._n_centers),
            counts=self._counts.astype(np.int64) if whole else self._counts,
            sums_of_squares=self._squares,
            spectral_deviations=self._deviations,
            is_named=self._is_named,
            is_double=self._is_double,
            schema=FeatureSchema(self._centers.shape[1], self._names),
        )
        for column in vars(gathering).values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
        return gathering
