"""What a federation is, and its rules as pure functions: who may join, and when to aggregate."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from kfed._base import checks
from kfed.coordinator.security import matches
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.server import rule_name
from kfed.wire import FeatureSchema

MAX_FEATURES = 100_000
MAX_CENTERS = 1_024
MAX_DEVICES = 1_000_000
HEADER_BYTES = 2**16
COLUMN_BYTES = 2**12
"""For the name, kind, unit, shift and scale of a column."""
MIN_DEVICES_SHOWN = 3
"""A center of one device is that device's own, and of two, each can tell the other's from it."""
LEVELS_OF_A_COLUMN = 8
"""Features of a column that a message has room for, on average over the columns of a federation."""

NO_FEDERATION = 0
"""The id of no federation; ids begin at 1."""
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
NAME_IN_WORDS = "1 to 63 letters, digits, dots, dashes or underscores, and begin with a letter or digit"


@dataclass(frozen=True)
class Federation:
    """The terms that a federation was created with.

    Attributes
    ----------
    schema : FeatureSchema
        The features that every device must have. If it has no names, the first message with names adds them. If it
        has columns, sites agreed on it beforehand, and every message must use it as it is.
    n_clusters : int or "auto" or None
        Global clusters, k. "auto" takes the number that stands out, and aggregates nothing if none does; None takes
        the best then.
    quorum : int, optional
        Aggregate as soon as this many devices have joined.
    deadline : float, optional
        Aggregate at this time, in seconds since 1970. Without a quorum and a deadline the administrator aggregates.
    max_devices, max_centers : int
        Largest number of devices, and of centers of one device.
    max_count, max_value : float, optional
        Largest count of a center, and largest size of a coordinate, that a device may send.
    min_devices : int, optional
        Devices that every cluster must rest on, see `kfed.aggregate`.
    min_devices_shown : int
        Devices that a cluster must rest on for its center to be shown to devices; they are told their clusters in any
        case.
    max_epsilon : float, optional
        Messages must be differentially private, with at most this epsilon.
    by_column : bool
        Whether devices send tables: centers are in the units of the tables, with the spread of each column. Unless
        `schema` has columns, its names are those of columns, in any order.
    closed : bool
        Whether new devices are turned away.
    invited_only : bool
        Whether a device joins by an invitation in its name; the join token is not enough.
    rounds : int
        1, or 2 if devices are asked for a second message about the clusters, see `kfed.refine_device`.
    """

    id: int
    name: str
    schema: FeatureSchema
    n_clusters: int | Literal["auto"] | None
    rule: str
    join_token_hash: bytes
    created_at: float
    quorum: int | None = None
    deadline: float | None = None
    max_devices: int = MAX_DEVICES
    max_centers: int = MAX_CENTERS
    max_count: float | None = None
    max_value: float | None = None
    min_devices: int | None = None
    min_devices_shown: int = MIN_DEVICES_SHOWN
    max_epsilon: float | None = None
    by_column: bool = False
    closed: bool = False
    invited_only: bool = False
    rounds: int = 1

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise InvalidInputError(f"the name of a federation must be {NAME_IN_WORDS}")
        checks.positive_integer(self.schema.n_features, "n_features")
        if self.n_clusters is not None:
            checks.positive_integer_or_auto(self.n_clusters, "n_clusters")
        rule_name(self.rule)  # raises if it is not known
        if self.min_devices is not None:
            checks.positive_integer(self.min_devices, "min_devices")
        if self.rounds not in (1, 2) or (self.rounds == 2 and self.max_epsilon is not None):
            raise InvalidInputError(
                "rounds must be 1 or 2; rounds=2 cannot be combined with max_epsilon: a second message is not private"
            )
        if self.max_epsilon is not None and self.schema.scaling == "by message":
            raise InvalidInputError(
                "messages that must be private need a schema with a shift and scale of every column"
            )
        checks.positive_integer(self.min_devices_shown, "min_devices_shown")
        for name in ("deadline", "max_count", "max_value", "max_epsilon"):
            if getattr(self, name) is not None:
                checks.positive_number(getattr(self, name), name)

    @property
    def max_bytes(self) -> int:
        """Upper bound on the size of a valid message, in bytes."""
        n_features, n_columns = self.schema.n_features, len(self.schema.columns or ())
        if self.by_column or n_columns:
            n_features *= 3 * (1 if n_columns else LEVELS_OF_A_COLUMN)  # values, cells and spreads
        names = sum(6 * len(name) + 8 for name in self.schema.names or ()) or 64 * n_features
        return HEADER_BYTES + 8 * self.max_centers * (n_features + 3) + 2 * names + COLUMN_BYTES * n_columns


def have_same_terms(known: Federation, asked: Federation) -> bool:
    """Whether both were created by the same request; a device may have named the features since."""
    changing: dict[str, Any] = {"id": known.id, "created_at": known.created_at, "closed": known.closed}
    if asked.schema.names is None and asked.schema.n_features == known.schema.n_features:
        changing["schema"] = known.schema
    return known == replace(asked, **changing)


@dataclass(frozen=True)
class Tally:
    """Totals of the devices of a federation."""

    n_devices: int = 0
    n_centers: int = 0
    n_points: float = 0
    n_bytes: int = 0

    def plus(self, other: Tally, sign: int = 1) -> Tally:
        """Add a tally; subtract it with ``sign=-1``."""
        return Tally(
            self.n_devices + sign * other.n_devices,
            self.n_centers + sign * other.n_centers,
            self.n_points + sign * other.n_points,
            self.n_bytes + sign * other.n_bytes,
        )


@dataclass(frozen=True)
class Invitation:
    """The right of one device to join; `used_at` is when it did."""

    device_id: str
    token_hash: bytes
    created_at: float
    used_at: float | None = None


class Admission(Enum):
    """What happens to a message that arrives."""

    JOINED = "joined"
    REPEATED = "repeated"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    NO_RIGHT = "no right"
    CLOSED = "closed"
    FULL = "full"
    OTHER_FEATURES = "other features"
    NOT_INVITED = "not invited"
    GONE = "gone"

    @property
    def is_kept(self) -> bool:
        """Whether the message is now in the store."""
        return self in (Admission.JOINED, Admission.REPEATED, Admission.REPLACED)


def judge(
    known_message: bytes | None, message: bytes, *, replace: bool, has_secret: bool, is_deleted: bool = False
) -> Admission:
    """Decide about a message: the same bytes change nothing; others take ``replace`` and the device's secret.

    Nobody joins a federation that was deleted meanwhile. `judge_new` decides about a device that is new.
    """
    if is_deleted:
        return Admission.GONE
    if known_message is None:
        return Admission.JOINED
    if known_message == message:
        return Admission.REPEATED
    if not replace:
        return Admission.CONFLICT
    return Admission.REPLACED if has_secret else Admission.NO_RIGHT


def judge_new(federation: Federation, n_devices: int, invitation: Invitation | None, token: str | None) -> Admission:
    """Decide whether a new device may join, given the invitation for its id and the invitation token that it sent.

    An invited device needs the token of its invitation, which must be unused; nobody else can join under its id. Other
    devices may join unless the federation is for invited devices only.
    """
    if federation.closed or n_devices >= federation.max_devices:
        return Admission.CLOSED if federation.closed else Admission.FULL
    if invitation is None:
        may_join = not federation.invited_only and token is None
    else:
        may_join = invitation.used_at is None and matches(token, invitation.token_hash)
    return Admission.JOINED if may_join else Admission.NOT_INVITED


@dataclass(frozen=True, kw_only=True)
class Application:
    """A message that arrives, beside what the store holds by then; `admit` decides about it.

    Attributes
    ----------
    is_deleted : bool
        Whether its federation was deleted meanwhile.
    n_devices : int
        Devices of the federation so far.
    known_message, has_secret : bytes or None, bool
        The stored message of this device, and whether this one came with the secret of that.
    invitation, token : Invitation or None, str or None
        The invitation in the name of the device, and the invitation token it presented.
    known_names, own_names : tuple of str or None
        Feature names of the federation and of the message.
    table : FeatureSchema or None
        The columns of the message, where they have to be like those of other tables.
    other_table : callable
        Finds the columns of a table of another device, or None.
    """

    device_id: str
    federation: Federation
    is_deleted: bool
    n_devices: int
    known_message: bytes | None
    message: bytes
    replace: bool
    has_secret: bool
    invitation: Invitation | None
    token: str | None
    known_names: tuple[str, ...] | None
    own_names: tuple[str, ...] | None
    table: FeatureSchema | None
    other_table: Callable[[], FeatureSchema | None]


def admit(asked: Application) -> tuple[Admission, str]:
    """Decide about a message, and say which columns differ from those of other tables, if that is why it is refused.

    First comes whether its device may send it, then whether it has the features of the others.
    """
    how = {"replace": asked.replace, "has_secret": asked.has_secret, "is_deleted": asked.is_deleted}
    admission = judge(asked.known_message, asked.message, **how)
    if admission is Admission.JOINED:
        admission = judge_new(asked.federation, asked.n_devices, asked.invitation, asked.token)
    if admission not in (Admission.JOINED, Admission.REPLACED):
        return admission, ""
    if None not in (asked.known_names, asked.own_names) and asked.known_names != asked.own_names:
        return Admission.OTHER_FEATURES, ""
    differing = _other_columns(asked)
    return (Admission.OTHER_FEATURES, differing) if differing else (admission, "")


def _other_columns(asked: Application) -> str:
    """How the columns of a table differ from those of another that is there, beside their names."""
    other = None if asked.table is None else asked.other_table()
    if asked.table is None or other is None:
        return ""
    try:
        other.check_same(asked.table, f"federation {asked.federation.name}", repr(asked.device_id))
    except FeatureMismatchError as error:
        return str(error)
    return ""


def is_due(federation: Federation, tally: Tally, now: float) -> bool:
    """Whether the quorum or the deadline is reached, with enough centers to aggregate."""
    enough = tally.n_centers >= (federation.n_clusters if isinstance(federation.n_clusters, int) else 1)
    quorum = federation.quorum is not None and tally.n_devices >= federation.quorum
    deadline = federation.deadline is not None and now >= federation.deadline
    return enough and (quorum or deadline)


def seconds_to_wait(federation: Federation, tally: Tally, now: float) -> int:
    """Seconds until a device should ask again: more with many devices, and not before a deadline that is near."""
    crowd = 1 + tally.n_devices // 200
    if federation.quorum is None and federation.deadline is not None and federation.deadline > now:
        crowd = max(crowd, min(60, int(federation.deadline - now) + 1))
    return min(60, crowd)
