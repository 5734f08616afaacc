"""`MessageBatch`: the messages of many devices as columns, which is what Algorithm 2 starts from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice

import numpy as np

from kfed._base.array import Array, Length, readonly
from kfed.errors import DuplicateDeviceError, InvalidInputError, UnknownDeviceError
from kfed.wire.batch_details import BatchDetails
from kfed.wire.bulk import Tables, has_details, messages_in, read_tables, tables_of
from kfed.wire.center_table import N_STATISTICS
from kfed.wire.details import SUMMARY
from kfed.wire.message import DeviceMessage
from kfed.wire.scale import CommonScale
from kfed.wire.schema import FeatureSchema

MESSAGES_AT_A_TIME = 10_000


@dataclass(frozen=True)
class MessageBatch:
    """The device centers of all messages, stacked; the order in which messages came does not matter."""

    device_ids: tuple[str, ...]  # sorted
    centers: Array  # (n_device_centers, n_features)
    owners: Array  # (n_device_centers,) positions in device_ids
    counts: Array  # (n_device_centers,)
    sums_of_squares: Array  # (n_device_centers,), NaN where a device did not say
    spectral_deviations: Array  # (n_devices,), NaN where a device did not say
    is_named: Array  # (n_devices,) whether the device named its features
    is_double: Array  # (n_devices,) whether the device sent double precision
    schema: FeatureSchema
    details: BatchDetails | None = None  # if a message has them
    is_summary: Array | None = None  # (n_devices,) whether the device sent a summary; None if none did
    known_scale: CommonScale | None = None  # where it is not found anew, since a file says it

    @classmethod
    def of(cls, messages: Iterable[DeviceMessage]) -> MessageBatch:
        """Stack messages. The same message twice counts once; two that differ under one id are an error."""
        by_id: dict[str, DeviceMessage] = {}
        for message in messages:
            if not isinstance(message, DeviceMessage):
                raise InvalidInputError(f"messages must be DeviceMessages; got a {type(message).__name__}")
            if by_id.setdefault(message.device_id, message) != message:
                raise DuplicateDeviceError(
                    f"two different messages came from device {message.device_id!r}; keep the one that is meant, "
                    "or give one of the devices another id"
                )
        if not by_id:
            raise InvalidInputError("messages must hold at least one message; got none")
        ordered = [by_id[device_id] for device_id in sorted(by_id)]
        named = FeatureSchema.check_all({message.device_id: message.schema for message in ordered})
        schema = named.merged([message.schema for message in ordered])
        batch = cls._of_tables(tables_of(ordered, schema), schema)
        return replace(batch, details=BatchDetails.of(ordered, schema)) if any(map(has_details, ordered)) else batch

    @classmethod
    def of_bytes(cls, payloads: Iterable[bytes]) -> MessageBatch:
        """Read, check and stack many messages at once: what `of` gives for the same messages, several times as fast.

        Examples
        --------
        >>> sent = [kfed.DeviceMessage("b", [[1.0], [2.0]], [5, 6]), kfed.DeviceMessage("a", [[3.0]], [7])]
        >>> batch = MessageBatch.of_bytes(message.to_bytes() for message in sent)
        >>> batch.device_ids, batch.centers.ravel().tolist(), batch.owners.tolist()
        (('a', 'b'), [3.0, 1.0, 2.0], [0, 1, 1])
        """
        tables: list[Tables] = []
        others: list[DeviceMessage] = []
        stream = iter(payloads)
        while chunk := list(islice(stream, MESSAGES_AT_A_TIME)):  # so that all bytes need not fit into memory
            more_tables, more_others = read_tables(chunk)
            tables, others = tables + more_tables, others + more_others
        ids = {device_id for table in tables for device_id in table.device_ids}
        names = {own.names for table in tables for own in table.said if own.names is not None}
        widths = {table.rows.shape[1] for table in tables}
        if len(ids) < sum(len(table.device_ids) for table in tables) or len(widths) != 1 or len(names) > 1 or others:
            return cls.of(chain(chain.from_iterable(map(messages_in, tables)), others))
        return cls._of_tables(tables, FeatureSchema(widths.pop() - N_STATISTICS, next(iter(names), None)))

    @classmethod
    def _of_tables(cls, tables: list[Tables], schema: FeatureSchema) -> MessageBatch:
        """Stack tables of one width, each message once, in the order of their ids. Empties `tables`."""
        ids = [device_id for table in tables for device_id in table.device_ids]
        order = np.array(sorted(range(len(ids)), key=ids.__getitem__))
        sizes = np.array([size for table in tables for size in table.n_centers])
        is_double = np.repeat([table.rows.itemsize == 8 for table in tables], [len(table.said) for table in tables])
        first = np.empty(len(ids), np.int64)  # where the rows of each message go
        first[order] = np.cumsum(sizes[order]) - sizes[order]
        places = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        centers = np.empty((len(places), schema.n_features), np.float64 if is_double.any() else np.float32)
        statistics = np.empty((len(places), N_STATISTICS))
        is_named = np.array([own.names is not None for table in tables for own in table.said])
        is_summary = np.array([own.is_summary for table in tables for own in table.said])
        rest = np.split(places, np.cumsum([len(table.rows) for table in tables])[:-1])
        while tables:  # each is let go of once it is copied, so that all centers are not there twice
            rows, own = tables.pop().rows, rest.pop()
            centers[own], statistics[own] = rows[:, :-N_STATISTICS], rows[:, -N_STATISTICS:]
        deviations = np.full(len(ids), np.nan)
        deviations[sizes > 0] = statistics[first[sizes > 0], 2]
        return cls(
            device_ids=tuple(ids[i] for i in order),
            centers=readonly(centers),
            owners=readonly(np.repeat(np.arange(len(ids)), sizes[order])),
            counts=_counts(statistics[:, 0]),
            sums_of_squares=readonly(statistics[:, 1].copy()),
            spectral_deviations=readonly(deviations[order]),
            is_named=readonly(is_named[order]),
            is_double=readonly(is_double[order]),
            schema=schema,
            is_summary=_any(is_summary[order]),
        )

    n_features = Length("centers", 1, "Length of a center, d.")

    @cached_property
    def scale(self) -> CommonScale | None:
        """The scale on which devices are compared, if they sent the units of their tables."""
        if self.details is None or self.schema.scaling != "by message":
            return None
        if self.known_scale is not None:
            return self.known_scale
        said = (self.centers, self.details.observed, self.details.squares, self.owners)
        return CommonScale.pooled(self.schema, *said)

    @cached_property
    def rescaled(self) -> MessageBatch:
        """These messages on the common scale; themselves if they are on one already.

        Where nothing was observed, a center is at the mean of all. The spectral deviation on this scale is not known.
        """
        if self.details is None or self.scale is None:
            return self
        is_there, squares = self.details.observed > 0, self.details.squares / self.scale.scale**2
        rounding = self.details.rounding
        rounding = None if rounding is None else readonly(rounding / self.scale.scale)
        return replace(
            self,
            centers=readonly(np.where(is_there, self.scale.apply(self.centers), 0)),
            sums_of_squares=readonly(squares.sum(axis=1)),
            spectral_deviations=readonly(np.full(self.n_devices, np.nan)),
            details=replace(self.details, squares=readonly(squares), rounding=rounding),
            known_scale=CommonScale.none(self.n_features),
        )

    @property
    def n_devices(self) -> int:
        """Number of devices, Z."""
        return len(self.device_ids)

    def __contains__(self, device_id: object) -> bool:
        return self._place(device_id) is not None

    def position(self, device_id: str) -> int:
        """Where a device stands in `device_ids`."""
        position = self._place(device_id)
        if position is None:
            raise UnknownDeviceError(
                f"device {device_id!r} is not among the devices that were aggregated: check its name"
            )
        return position

    def _place(self, device_id: object) -> int | None:
        if not isinstance(device_id, str):
            return None
        position = bisect_left(self.device_ids, device_id)
        is_there = position < len(self.device_ids) and self.device_ids[position] == device_id
        return position if is_there else None

    def rows_of(self, device_id: str) -> slice:
        """The rows of a device's centers."""
        return self.centers_of(self.position(device_id))

    def centers_of(self, position: int) -> slice:
        """The rows of the centers of the device at a position."""
        first, last = np.searchsorted(self.owners, [position, position + 1])
        return slice(int(first), int(last))

    def message(self, device_id: str) -> DeviceMessage:
        """What one device sent."""
        position = self.position(device_id)
        if self.details is not None:
            return self.details.messages[position]
        rows = self.centers_of(position)
        squares, deviation = self.sums_of_squares[rows], self.spectral_deviations[position]
        return DeviceMessage(
            device_id,
            self.centers[rows].astype(np.float64 if self.is_double[position] else np.float32),
            self.counts[rows],
            None if np.isnan(squares).any() else squares,
            None if np.isnan(deviation) else float(deviation),
            self.schema.names if self.is_named[position] else None,
            details=SUMMARY if self.is_summary is not None and self.is_summary[position] else None,
        )

    def without(self, device_id: str) -> MessageBatch:
        """The batch that this device never joined."""
        position = self.position(device_id)
        if len(self.device_ids) == 1:
            raise InvalidInputError(f"{device_id!r} is the only device; without it there is nothing to aggregate")
        if self.details is not None:
            return MessageBatch.of(one for one in self.details.messages if one.device_id != device_id)
        others = np.delete(np.arange(len(self.device_ids)), position)
        kept = self.owners != position
        owners = self.owners[kept]
        dtype = np.float64 if self.is_double[others].any() else np.float32
        return MessageBatch(
            device_ids=self.device_ids[:position] + self.device_ids[position + 1 :],
            centers=readonly(self.centers[kept].astype(dtype)),
            owners=readonly(owners - (owners > position)),
            counts=_counts(self.counts[kept]),
            sums_of_squares=readonly(self.sums_of_squares[kept]),
            spectral_deviations=readonly(self.spectral_deviations[others]),
            is_named=readonly(self.is_named[others]),
            is_double=readonly(self.is_double[others]),
            schema=self.schema if self.is_named[others].any() else FeatureSchema(self.n_features),
            is_summary=None if self.is_summary is None else _any(self.is_summary[others]),
        )


def _any(flags: Array) -> Array | None:
    return readonly(flags) if flags.any() else None


def _counts(counts: Array) -> Array:
    """Counts as whole numbers, or in double precision if one of them is not whole."""
    whole = (counts == np.trunc(counts)).all()
    return readonly(counts.astype(np.int64 if whole else np.float64))
