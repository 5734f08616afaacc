"""Many messages read at once: each header is parsed alone, and all tables are checked together.

What `DeviceMessage.from_bytes` accepts is accepted, and what it refuses is refused in its words: a message that is not
in the plain form that `DeviceMessage.to_bytes` writes, or that does not pass, is handed to it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError
from kfed.wire.center_table import MAX_COUNT, MAX_VALUE, N_STATISTICS
from kfed.wire.details import SUMMARY
from kfed.wire.message import FORMAT, FORMAT_2, DeviceMessage
from kfed.wire.schema import FeatureSchema

_PREFIXES = (f"{FORMAT}:", f"{FORMAT_2}:")
_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}


class Said(NamedTuple):
    """What a message says beside its table."""

    names: tuple[str, ...] | None
    is_summary: bool

    @classmethod
    def of(cls, message: DeviceMessage) -> Said:
        """What this message says."""
        return cls(message.feature_names, message.details is not None and message.details.is_summary)


class Tables(NamedTuple):
    """Messages without details that have centers of one length and precision, stacked."""

    device_ids: list[str]
    n_centers: list[int]
    said: list[Said]
    rows: Array  # (n_device_centers, n_features + 3), as on the wire


def read_tables(payloads: Iterable[bytes]) -> tuple[list[Tables], list[DeviceMessage]]:
    """Read and check messages; those of one form come together, in their order, those with details by themselves."""
    forms: dict[tuple[np.dtype[Any], int], list[tuple[str, int, Said, bytes, bytes]]]
    forms, others = defaultdict(list), []
    known: dict[tuple[str, str], Said] = {}
    for payload in payloads:
        parsed = _parsed(payload, known)
        if isinstance(parsed, DeviceMessage):
            others.append(parsed)
        else:
            forms[parsed[0]].append(parsed[1])
    return [_stacked(form, messages) for form, messages in forms.items()], others


def has_details(message: DeviceMessage) -> bool:
    """Whether a message says more than its table, the names of its features, and that it is a summary."""
    is_plain = message.details is None or message.details.is_plain_summary
    return not is_plain or message.schema.columns is not None


def tables_of(messages: Sequence[DeviceMessage], schema: FeatureSchema) -> list[Tables]:
    """The tables of messages with the features of one schema: one for each precision."""
    found = []
    for itemsize in (4, 8):
        own = [message for message in messages if message.table.itemsize == itemsize]
        if own:
            ids, sizes = [message.device_id for message in own], [message.n_local_clusters for message in own]
            rows = np.concatenate([_aligned(message, schema) for message in own])
            said = [
                Said(message.feature_names, bool(message.details and message.details.is_summary)) for message in own
            ]
            found.append(Tables(ids, sizes, said, rows))
    return found


def _aligned(message: DeviceMessage, schema: FeatureSchema) -> Array:
    """The table of a message with the features of `schema`, in their order."""
    table = message.table
    if message.schema.names == schema.names:
        return table
    return np.concatenate([schema.align(table[:, :-N_STATISTICS], message.schema), table[:, -N_STATISTICS:]], axis=1)


def messages_in(tables: Tables) -> Iterator[DeviceMessage]:
    """The messages in tables."""
    rows = np.split(tables.rows, np.cumsum(tables.n_centers)[:-1])
    names, details = [own.names for own in tables.said], [SUMMARY if own.is_summary else None for own in tables.said]
    return map(DeviceMessage.from_table, tables.device_ids, rows, names, details)


def _parsed(payload: bytes, known: dict[tuple[str, str], Said]) -> Any:
    """The form of a message, and its id, number of centers, what it says, values and bytes; or one with details."""
    try:
        start = 8 + int.from_bytes(payload[:8], "little")
        entries = json.loads(payload[8:start])
        facts = entries.pop("__metadata__", None)
        ((name, entry),) = entries.items()
        dtype, (n_centers, n_columns), (first, last) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        prefix = name[: len(_PREFIXES[0])]
        is_plain = (
            prefix in _PREFIXES
            and first == 0
            and last == n_centers * n_columns * dtype.itemsize == len(payload) - start
            and n_columns > N_STATISTICS
            and len(payload) <= DeviceMessage._max_bytes
        )
        said = None if not is_plain else _said(prefix, facts, n_columns - N_STATISTICS, known)
        if said is not None:
            device_id = checks.device_id(name[len(prefix) :])
            return (dtype, n_columns), (device_id, n_centers, said, payload[start:], payload)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        pass
    message = DeviceMessage.from_bytes(payload)  # raises, or it is sound and written in another way
    return message if has_details(message) else _parsed(message.to_bytes(), known)


def _said(prefix: str, facts: Any, n_features: int, known: dict[tuple[str, str], Said]) -> Said | None:
    """What a message says beside its table, or None if that is more than `Said` holds; the same text is read once."""
    text = "{}" if facts is None else facts["kfed"]
    if (prefix, text) not in known:
        read = json.loads(text)
        is_summary = prefix != _PREFIXES[0]
        others = {name for name, value in read.items() if value is not None} - {"feature_names", "is_summary"}
        if is_summary and (others or read.get("is_summary") is not True):
            return None
        known[prefix, text] = Said(checks.feature_names(read.get("feature_names"), n_features), is_summary)
    said = known[prefix, text]
    if said.names is not None and len(said.names) != n_features:
        raise InvalidInputError(f"feature_names must name {n_features} features; got {len(said.names)}")
    return said


def _stacked(form: tuple[np.dtype[Any], int], messages: list[Any]) -> Tables:
    dtype, n_columns = form
    device_ids, n_centers, said, values, payloads = map(list, zip(*messages, strict=True))
    rows = np.frombuffer(b"".join(values), dtype).reshape(-1, n_columns)
    if not _are_sound(rows, np.array(n_centers)):
        for payload in payloads:
            DeviceMessage.from_bytes(payload)  # the first at fault is named
    return Tables(device_ids, n_centers, said, rows)


def _are_sound(rows: Array, n_centers: Array) -> bool:
    """Whether stacked tables are ones that devices may send, as `DeviceMessage` checks each."""
    centers, (counts, squares, deviations) = rows[:, :-N_STATISTICS], rows[:, -N_STATISTICS:].T
    first = np.repeat(np.cumsum(n_centers) - n_centers, n_centers)  # the first row of each row's message
    with np.errstate(over="ignore", invalid="ignore"):
        are_centers = bool((np.abs(centers) <= MAX_VALUE).all())
        are_counts = bool(((counts > 0) & (counts <= MAX_COUNT)).all())
    same = (deviations == deviations[first]) | np.isnan(deviations)
    return are_centers and are_counts and bool(same.all()) and all(_are_said(s, first) for s in (squares, deviations))


def _are_said(statistic: Array, first: Array) -> bool:
    """Whether a statistic is finite and not negative in all rows of a message, or missing in all."""
    is_missing = np.isnan(statistic)
    is_valid = (statistic >= 0) & (statistic < np.inf)
    return bool((is_missing | is_valid).all() and (is_missing == is_missing[first]).all())
