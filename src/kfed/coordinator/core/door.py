"""What is checked when a message arrives, and what a device is told that is turned away."""

from __future__ import annotations

from dataclasses import dataclass

from kfed.coordinator.federation import Admission, Federation, check_message, names_to_keep
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.security import hashed
from kfed.coordinator.store import Arrival, Receipt
from kfed.errors import InvalidInputError, MessageError
from kfed.wire import DeviceMessage

REFUSALS = {
    Admission.CONFLICT: (409, "this device has sent another message before; add ?replace=true to replace it"),
    Admission.NO_RIGHT: (
        403,
        "only the device itself may replace its message; send the device secret that came with the first message",
    ),
    Admission.CLOSED: (409, "this federation is closed to new devices"),
    Admission.FULL: (409, "this federation is full; ask its administrator"),
    Admission.OTHER_FEATURES: (422, "this message has other features than this federation"),
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


def read_message(federation: Federation, device_id: str, payload: bytes) -> DeviceMessage:
    """Read the message of a device. Raises unless it may send this to this federation."""
    try:
        message = DeviceMessage.from_bytes(payload)
        check_message(federation, device_id, message)
    except (MessageError, InvalidInputError) as error:
        raise ProblemError(422, str(error)) from error
    return message


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
    )


def check_admission(receipt: Receipt, federation: Federation, message: DeviceMessage) -> None:
    """Raise the reason why a message was not kept; that of other features says which ones differ."""
    if receipt.admission is Admission.OTHER_FEATURES:
        read_message(federation, message.device_id, message.to_bytes())
    if not receipt.admission.is_kept:
        raise ProblemError(*REFUSALS[receipt.admission])
