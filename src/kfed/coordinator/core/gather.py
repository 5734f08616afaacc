"""Stored messages as columns, copied one at a time: a million centers take the memory of a million centers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kfed._base.array import Array
from kfed.coordinator.core.clusters import Clusters, no_digests
from kfed.wire import DeviceMessage, FeatureSchema, MessageBatch


@dataclass(frozen=True)
class Gathered:
    """Stored messages as columns, and the digest of each message."""

    messages: MessageBatch
    digests: Array  # (n_devices, 16)


def gather(sizes: Sequence[tuple[str, int, bool]], messages: Iterable[bytes], n_features: int) -> Gathered:
    """Stack stored messages as `MessageBatch.of` does, without holding more than one of them at a time.

    Parameters
    ----------
    sizes : sequence of (device_id, n_centers, is_double)
        One for each device, in any order.
    messages : iterable of bytes
        The message of each of them, in any order.
    n_features : int
        Length of a center.

    Raises
    ------
    FeatureMismatchError
        If two messages name different features.

    Examples
    --------
    >>> sent = [DeviceMessage("b", [[1.0], [2.0]], [5, 6]), DeviceMessage("a", [[3.0]], [7])]
    >>> gathered = gather([("b", 2, True), ("a", 1, True)], [message.to_bytes() for message in sent], n_features=1)
    >>> gathered.messages.device_ids, gathered.messages.centers.ravel().tolist(), gathered.messages.owners.tolist()
    (('a', 'b'), [3.0, 1.0, 2.0], [0, 1, 1])
    >>> gathered.digests[0].tobytes() == sent[1].digest()
    True
    """
    ordered = sorted(sizes)
    n_centers = np.array([size for _, size, _ in ordered], dtype=np.int64)
    is_double = np.array([double for _, _, double in ordered], dtype=bool)
    columns = _Columns([device_id for device_id, _, _ in ordered], n_centers, n_features, is_double)
    for payload in messages:
        columns.add(DeviceMessage.from_bytes(payload))
    return Gathered(columns.batch(), columns.digests)


def retraced(clusters: Clusters, messages: Iterable[tuple[int, bytes]]) -> Clusters:
    """Find the messages that clusters were made of among stored ones, up to `last_sequence`, by their digests.

    Clusters that the first version saved have no digests, and get those of the messages that their devices have now.
    A message that is not found keeps the place 0, which no stored message has.
    """
    positions = {device_id: position for position, device_id in enumerate(clusters.device_ids)}
    digests, sequences = clusters.digests.copy(), np.zeros(len(positions), np.int64)
    has_digests = digests.any()
    for sequence, payload in messages:
        message = DeviceMessage.from_bytes(payload)
        position = positions.get(message.device_id)
        if position is not None and (not has_digests or clusters.has(message)):
            digests[position], sequences[position] = _as_row(message), sequence
    return replace(clusters, digests=digests, sequences=sequences)


def _as_row(message: DeviceMessage) -> Array:
    return np.frombuffer(message.digest(), np.uint8)


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
        self._named: DeviceMessage | None = None
        self.digests = no_digests(len(device_ids))

    def add(self, message: DeviceMessage) -> None:
        """Copy one message into its rows."""
        position = self._positions[message.device_id]
        rows = slice(self._starts[position], self._starts[position + 1])
        self._centers[rows] = message.centers
        self._counts[rows] = message.counts
        self.digests[position] = _as_row(message)
        if message.sums_of_squares is not None:
            self._squares[rows] = message.sums_of_squares
        if message.spectral_deviation is not None:
            self._deviations[position] = message.spectral_deviation
        if message.feature_names is not None:
            self._is_named[position] = True
            self._named = self._named or message
            self._named.schema.check_same(message.schema, repr(self._named.device_id), repr(message.device_id))

    def batch(self) -> MessageBatch:
        """The filled columns, read-only."""
        whole = bool((self._counts == np.trunc(self._counts)).all())
        batch = MessageBatch(
            device_ids=tuple(self._positions),
            centers=self._centers,
            owners=np.repeat(np.arange(len(self._positions)), self._n_centers),
            counts=self._counts.astype(np.int64) if whole else self._counts,
            sums_of_squares=self._squares,
            spectral_deviations=self._deviations,
            is_named=self._is_named,
            is_double=self._is_double,
            schema=FeatureSchema(self._centers.shape[1]) if self._named is None else self._named.schema,
        )
        for column in vars(batch).values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
        return batch
