"""`Members`: the messages that clusters were made of, one of each device."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kfed._base.array import Array
from kfed.wire import DeviceMessage


@dataclass(frozen=True, eq=False)
class Members:
    """The messages that were aggregated; none of their centers is kept.

    Attributes
    ----------
    device_ids : tuple of str
        The devices that were aggregated, sorted.
    digests : array of shape (n_devices, 16)
        Digest of the message that each device was aggregated with; zeros where it is not known.
    sequences : array of shape (n_devices,)
        Place of each of these messages in the order of arrivals, which no other message ever gets; 0 where it is not
        known.
    last_sequence : int
        The last place in the order of arrivals that was aggregated.
    """

    device_ids: tuple[str, ...]
    digests: Array
    sequences: Array
    last_sequence: int

    def __len__(self) -> int:
        return len(self.device_ids)

    def position(self, device_id: str) -> int | None:
        """Where a device stands among `device_ids`, or None if it was not aggregated."""
        position = bisect_left(self.device_ids, device_id)
        is_there = position < len(self) and self.device_ids[position] == device_id
        return position if is_there else None

    def has(self, message: DeviceMessage) -> bool:
        """Whether the device of this id was aggregated with this very message."""
        position = self.position(message.device_id)
        return position is not None and self.digests[position].tobytes() == message.digest()

    def among(self, sequences: Mapping[str, int]) -> set[int]:
        """Places of the aggregated messages that are still stored, given the stored place of each device."""
        of_device = zip(self.device_ids, self.sequences.tolist(), strict=True)
        return {sequence for device_id, sequence in of_device if sequences.get(device_id) == sequence}

    def retraced(self, messages: Iterable[tuple[int, bytes]]) -> Members:
        """The same with the place of each message, found among stored ones by their digests.

        Clusters that the first version saved have no digests, and get those of the messages that their devices have
        now. A message that is not found keeps the place 0, which no stored message has.
        """
        digests, sequences = self.digests.copy(), np.zeros(len(self), np.int64)
        has_digests = digests.any()
        for sequence, payload in messages:
            message = DeviceMessage.from_bytes(payload)
            position = self.position(message.device_id)
            if position is not None and (not has_digests or self.has(message)):
                digests[position], sequences[position] = np.frombuffer(message.digest(), np.uint8), sequence
        return replace(self, digests=digests, sequences=sequences)
