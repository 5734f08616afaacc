"""`BatchDetails`: what messages of format 2 say of their centers, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array, readonly
from kfed.wire.details import Details
from kfed.wire.message import DeviceMessage
from kfed.wire.scale import features_by_column
from kfed.wire.schema import FeatureSchema


@dataclass(frozen=True)
class BatchDetails:
    """The details of many messages, with the features of all of them; a message of format 1 has the plainest ones.

    Attributes
    ----------
    messages : tuple of DeviceMessage
        The messages themselves, sorted by their ids.
    observed, squares : arrays of shape (n_device_centers, n_features)
        As in `Details`; squares are NaN for devices that did not say.
    noise : array of shape (n_device_centers, 2)
    rounding : array of shape (n_device_centers, n_features) or None
        How far each value of a center may be off, if a device rounded its centers.
    """

    messages: tuple[DeviceMessage, ...]
    observed: Array
    squares: Array
    noise: Array
    rounding: Array | None = None

    @classmethod
    def of(cls, messages: Sequence[DeviceMessage], schema: FeatureSchema) -> BatchDetails:
        """Stack the details of messages that are sorted by their ids, with the features of `schema`."""
        said = [message.details or Details() for message in messages]
        pairs = list(zip(messages, said, strict=True))
        return cls(
            tuple(messages),
            readonly(np.concatenate([_observed(message, details, schema) for message, details in pairs])),
            readonly(np.concatenate([_squares(message, details, schema) for message, details in pairs])),
            readonly(np.concatenate([_or(details.noise, np.zeros((len(m.centers), 2))) for m, details in pairs])),
            _rounding(messages, schema),
        )


def _or(array: Array | None, otherwise: Array) -> Array:
    return otherwise if array is None else array


def _observed(message: DeviceMessage, details: Details, schema: FeatureSchema) -> Array:
    """Observed cells; a level that a device does not have was looked for in as many rows as the levels that it has."""
    counts = np.broadcast_to(message.counts[:, None], message.centers.shape)
    own = _or(details.observed, counts).astype(np.float64)
    if schema.columns is None or message.schema.columns is None or message.schema.names == schema.names:
        return own
    names = [column.name for column in message.schema.columns or ()]
    columns = dict(zip(names, features_by_column(message.schema), strict=True))
    observed = np.empty((len(own), schema.n_features))
    for column, features in zip(schema.columns, features_by_column(schema), strict=True):
        known = own[:, columns[column.name]]
        observed[:, features] = known.max(axis=1, keepdims=True) if known.size else 0
    return observed


def _squares(message: DeviceMessage, details: Details, schema: FeatureSchema) -> Array:
    if details.squares is None:
        return np.full((len(message.centers), schema.n_features), np.nan)
    squares = details.squares.astype(np.float64)
    return squares if schema.columns is None else schema.align(squares, message.schema)


def _rounding(messages: Sequence[DeviceMessage], schema: FeatureSchema) -> Array | None:
    if all(message.rounding is None for message in messages):
        return None
    each = ((message, _or(message.rounding, np.zeros(message.centers.shape))) for message in messages)
    return readonly(np.concatenate([schema.align(own, message.schema) for message, own in each]))
