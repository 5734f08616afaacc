"""A message that arrives: it is read, compared with the terms of its federation, and made an arrival for the store.

Whether it is kept is decided by `kfed.coordinator.federation.admit`; why it was not is said here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural
from kfed.coordinator.core.clusters import Clusters
from kfed.coordinator.federation import Admission, Federation
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Arrival, Receipt
from kfed.errors import InvalidInputError, MessageError
from kfed.wire import DeviceMessage, FeatureSchema, check_promise, column_difference

REFUSALS = {
    Admission.CONFLICT: (409, "this device has sent another message before; to replace it, use kfed join --replace"),
    Admission.NO_RIGHT: (
        403,
        "only the device itself may replace its message; send the device secret that came with the first message",
    ),
    Admission.CLOSED: (409, "this federation is closed to new devices"),
    Admission.FULL: (409, "this federation is full; ask its administrator"),
    Admission.OTHER_FEATURES: (422, "the features of this message differ from those of the federation"),
    Admission.NOT_INVITED: (
        403,
        "this device joins by its own invitation, which works once; ask the administrator for one",
    ),
    Admission.GONE: (404, "this federation was deleted"),
}


@dataclass(frozen=True)
class Proofs:
    """What a device sends beside its message.

    Attributes
    ----------
    secret : str, optional
        Its device secret.
    replace : bool
        Whether the message replaces the one before.
    invitation : str, optional
        The token of its invitation, if it came by one and not by the join token.
    """

    secret: str | None = None
    replace: bool = False
    invitation: str | None = None


@dataclass(frozen=True)
class Accepted:
    """A message that is on disk."""

    message: DeviceMessage
    receipt: Receipt


def read_message(
    federation: Federation, device_id: str, payload: bytes, clusters: Clusters | None = None
) -> DeviceMessage:
    """Read the message of a device. Raises unless it may send this to this federation, which may have clusters."""
    try:
        message = DeviceMessage.from_bytes(payload)
        check_message(federation, device_id, message)
        if clusters is not None and clusters.is_late(device_id):
            clusters.schema.check_same(message.schema, f"federation {federation.name}", repr(device_id))
    except (MessageError, InvalidInputError) as error:
        raise ProblemError(422, str(error)) from error
    return message


def check_message(federation: Federation, device_id: str, message: DeviceMessage) -> None:
    """Raise unless this device may send this message to this federation."""
    if message.device_id != device_id:
        raise InvalidInputError(f"the URL names {device_id!r}; the message is from {message.device_id!r}")
    _check_features(federation, message.schema, device_id)
    if message.n_local_clusters > federation.max_centers:
        raise InvalidInputError(
            f"a device may send at most {plural(federation.max_centers, 'center')}; got {message.n_local_clusters:,}; "
            "look for fewer local clusters"
        )
    _check_size("count of a center", message.counts, federation.max_count)
    _check_size("value of a center", message.centers, federation.max_value)
    if federation.max_epsilon is not None:
        promise = None if message.details is None else message.details.promise
        check_promise(promise, federation.max_epsilon, repr(device_id))


def _check_features(federation: Federation, own: FeatureSchema, device_id: str) -> None:
    party = f"federation {federation.name}"
    if federation.schema.columns is not None:
        federation.schema.check_agreed(own, party, repr(device_id))
        return
    if not federation.by_column:
        if own.scaling == "by message":
            raise InvalidInputError(f"{party} takes numbers as they are; add --as-is, or --scale with a scale for all")
        federation.schema.check_same(own, party, repr(device_id))
        return
    if own.scaling != "by message":
        raise InvalidInputError(f"{party} takes tables with the spread of each column; leave out --as-is and --scale")
    names, known = names_in_order(own), federation.schema.names
    differing = "" if known is None else column_difference(known, names, party, repr(device_id))
    if differing:
        raise InvalidInputError(f"{party} and {device_id!r} must have the same columns; {differing}")
    if len(names) != federation.schema.n_features:
        raise InvalidInputError(
            f"{party} has {plural(federation.schema.n_features, 'column')}; {device_id!r} has {len(names):,}"
        )


def names_in_order(schema: FeatureSchema) -> tuple[str, ...]:
    """Names of the columns of a table, sorted."""
    return tuple(sorted(column.name for column in schema.columns or ()))


def names_to_keep(federation: Federation, message: DeviceMessage) -> tuple[str, ...] | None:
    """The feature names that a federation keeps when this message joins; for tables, the names of the columns."""
    if not federation.by_column:
        return message.feature_names
    return federation.schema.names or names_in_order(message.schema)


def _check_size(what: str, values: Array, limit: float | None) -> None:
    if limit is not None and np.abs(values).max(initial=0) > limit:
        raise InvalidInputError(f"a {what} may be at most {limit:,g} in this federation; this message has a larger one")


def arrival_of(federation: Federation, message: DeviceMessage, proofs: Proofs, now: float) -> Arrival:
    """A message on its way into the store, encoded again by kfed, whatever bytes the sender used."""
    return Arrival(
        federation=federation,
        device_id=message.device_id,
        message=message.to_bytes(),
        secret=proofs.secret,
        secret_hash=None if proofs.secret is None else hashed(proofs.secret),
        replace=proofs.replace,
        invitation=proofs.invitation,
        n_centers=message.n_local_clusters,
        n_points=message.n_points,
        is_double=message.centers.dtype.itemsize == 8,
        received_at=now,
        feature_names=names_to_keep(federation, message),
        table=None if federation.schema.columns or not message.schema.columns else message.schema,
    )


def check_admission(receipt: Receipt, federation: Federation, message: DeviceMessage) -> None:
    """Raise the reason why a message was not kept; that of other features says which ones differ."""
    if receipt.reason:
        raise ProblemError(422, receipt.reason)
    if receipt.admission is Admission.OTHER_FEATURES:
        read_message(federation, message.device_id, message.to_bytes())
    if not receipt.admission.is_kept:
        raise ProblemError(*REFUSALS[receipt.admission])
