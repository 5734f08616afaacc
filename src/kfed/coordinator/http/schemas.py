"""Requests and responses in JSON; FastAPI writes the OpenAPI document from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from kfed._base.checks import MAX_NAME_LENGTH
from kfed.coordinator.core import Coordinator, Live
from kfed.coordinator.federation import MAX_CENTERS, MAX_DEVICES, MAX_FEATURES, MIN_DEVICES_SHOWN, Federation, Tally
from kfed.coordinator.http.terms import AgreedSchema, FeatureName, feature_terms
from kfed.errors import InvalidInputError
from kfed.wire import MAX_COUNT, MAX_VALUE, FeatureSchema

Count = Annotated[StrictInt, Field(ge=1)]
NumberOfClusters = Annotated[StrictInt, Field(ge=1, le=100_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
DeviceName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=r"^[^\x00-\x1f\x7f]*$")]


Certainty = Annotated[
    Literal["reliable", "stands out", "none stands out"],
    Field(description="How sure the number of clusters is; one that just stands out is not certain"),
]

EXAMPLE: dict[str, Any] = {
    "name": "clinics",
    "n_features": 4,
    "feature_names": ["age", "bmi", "systolic", "glucose"],
    "by_column": True,
    "quorum": 3,
}


class NewFederation(BaseModel):
    """The terms of a new federation."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    name: Name
    n_features: Annotated[StrictInt, Field(ge=1, le=MAX_FEATURES)] | None = None
    feature_names: Annotated[list[FeatureName], Field(max_length=MAX_FEATURES)] | None = None
    agreed_schema: Annotated[
        AgreedSchema | None, Field(description="Instead of n_features, feature_names and by_column: all about columns")
    ] = None
    n_clusters: Annotated[
        NumberOfClusters | Literal["auto"] | None,
        Field(description="null: the best number is found; auto: only if one stands out, and people choose otherwise"),
    ] = None
    rule: Annotated[
        str,
        Field(
            max_length=20,
            description="default, paper, pooled, robust or regions; or one that a package at the coordinator brings",
        ),
    ] = "default"
    quorum: Annotated[StrictInt, Field(ge=1, le=MAX_DEVICES)] | None = None
    deadline: Annotated[float, Field(gt=0, lt=1e11, description="Seconds since 1970")] | None = None
    max_devices: Annotated[StrictInt, Field(ge=1, le=MAX_DEVICES)] = MAX_DEVICES
    max_centers: Annotated[StrictInt, Field(ge=1, le=MAX_CENTERS)] = MAX_CENTERS
    max_count: Annotated[float, Field(gt=0, le=MAX_COUNT, description="Largest count of a center")] | None = None
    max_value: Annotated[float, Field(gt=0, le=MAX_VALUE, description="Largest size of a coordinate")] | None = None
    min_devices: (
        Annotated[StrictInt, Field(ge=1, le=MAX_DEVICES, description="Devices that every cluster must rest on")] | None
    ) = None
    min_devices_shown: Annotated[
        StrictInt,
        Field(ge=1, le=MAX_DEVICES, description="Devices that a cluster must rest on for devices to see its center"),
    ] = MIN_DEVICES_SHOWN
    max_epsilon: (
        Annotated[float, Field(gt=0, le=100, description="Largest epsilon of a message, which must be private")] | None
    ) = None
    by_column: Annotated[
        StrictBool, Field(description="Whether devices send tables, in their units and with the spread of each column")
    ] = False
    invited_only: Annotated[
        StrictBool, Field(description="Whether devices join by invitations alone, and not by the join token")
    ] = False

    rounds: Annotated[
        Literal[1, 2], Field(description="2 if devices are asked for a second message about the clusters")
    ] = 1

    def terms(self) -> dict[str, Any]:
        """The arguments of a `Federation`."""
        terms = self.model_dump(exclude={"n_features", "feature_names", "agreed_schema"})
        if (self.n_features is None) == (self.agreed_schema is None):
            raise InvalidInputError("a federation must have either n_features or an agreed_schema")
        if self.agreed_schema is None:
            return {**terms, "schema": FeatureSchema(self.n_features or 0, self.feature_names)}
        if self.feature_names is not None or self.by_column:
            raise InvalidInputError("an agreed_schema names the columns; leave out feature_names and by_column")
        schema = self.agreed_schema.schema_of_tables()
        return {**terms, "schema": schema, "by_column": schema.scaling == "by message"}


class NoticeAnswer(BaseModel):
    """Something to look at."""

    code: Annotated[str, Field(description="For programs; it stays the same however the words change")]
    text: str


class FederationState(BaseModel):
    """A federation as it is now."""

    name: str
    state: Annotated[
        Literal["gathering", "aggregated", "damaged"], Field(description="damaged: it is not served; remark says why")
    ]
    closed: bool
    n_features: int
    feature_names: list[str] | None
    agreed_schema: AgreedSchema | None
    n_clusters: int | Literal["auto"] | None
    rule: str
    quorum: int | None
    deadline: float | None
    max_devices: int
    max_centers: int
    max_count: float | None
    max_value: float | None
    min_devices: int | None
    min_devices_shown: int
    max_epsilon: float | None
    by_column: bool
    invited_only: bool
    rounds: int
    round: Annotated[int, Field(description="Rounds behind the clusters: 2 once second messages refined them")]
    n_second: Annotated[int, Field(description="Devices that have sent a second message about these clusters")]
    created_at: float
    n_devices: int
    n_centers: int
    n_points: float
    n_bytes: int
    version: Annotated[int, Field(description="Number of clusterings so far")]
    n_clusters_found: int | None
    n_clusters_asked: Annotated[int | None, Field(description="What was asked for instead of n_clusters")]
    cluster_sizes: list[float] | None
    n_aggregated: int
    reason: Annotated[str, Field(description="How k was chosen, if nobody gave it")]
    certainty: Certainty | None
    answered_by: Annotated[str | None, Field(description="The rule that made the clusters: what default stands for")]
    notices: Annotated[list[NoticeAnswer], Field(description="What to look at before relying on the clusters")]
    remark: Annotated[str, Field(description="Why the last attempt to aggregate failed, or what is damaged")]
    last_change: str
    changed_at: float

    @classmethod
    def of(cls, live: Live, tally: Tally, n_second: int = 0) -> FederationState:
        """Describe a federation, given the totals of its devices."""
        clusters = live.clusters
        names = {name: getattr(live.federation, name) for name in _FROM_FEDERATION} | feature_terms(live.federation)
        found: dict[str, Any] = {"n_clusters_found": None, "cluster_sizes": None, "n_aggregated": 0, "reason": ""}
        found |= {"certainty": None, "answered_by": None, "n_clusters_asked": None}
        found |= {"round": 0 if clusters is None else clusters.rounds, "n_second": n_second}
        if clusters is not None:
            found |= {
                "n_clusters_found": clusters.n_clusters,
                "n_clusters_asked": clusters.asked,
                "cluster_sizes": clusters.cluster_sizes.tolist(),
                "n_aggregated": len(clusters.device_ids),
                "reason": clusters.reason,
                "certainty": None if clusters.k_choice is None else clusters.k_choice.certainty,
                "answered_by": clusters.rule or None,
            }
        now = {name: getattr(live, name) for name in ("state", "version", "remark", "last_change", "changed_at")}
        notices = [NoticeAnswer(code=notice.code, text=notice.text) for notice in live.notices]
        return cls(**names, **vars(tally), **found, **now, notices=notices)


def shown(coordinator: Coordinator, live: Live) -> FederationState:
    """A federation as it is now."""
    n_second = coordinator.store.second.count(live.federation.id, live.version)
    return FederationState.of(live, coordinator.tally(live), n_second)


_FROM_FEDERATION = set(FederationState.model_fields) & set(Federation.__dataclass_fields__)


class CreatedFederation(BaseModel):
    """A new federation and its join token, which is shown only once."""

    federation: FederationState
    join_token: str


class NewJoinToken(BaseModel):
    """A new join token, which is shown only once."""

    name: str
    join_token: str


class DeletedFederation(BaseModel):
    """A federation that was deleted."""

    name: str
    deleted: Literal[True] = True


class NewInvitation(BaseModel):
    """Whom to invite."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"device_id": "north"}]})

    device_id: DeviceName


class CreatedInvitation(BaseModel):
    """An invitation and its token, which is shown only once."""

    device_id: str
    created_at: float
    token: str


class InvitationState(BaseModel):
    """An invitation as it is now."""

    device_id: str
    created_at: float
    used_at: Annotated[float | None, Field(description="When the device joined by it, in seconds since 1970")]


class RevokedInvitation(BaseModel):
    """An invitation that was revoked."""

    device_id: str
    revoked: Literal[True] = True


class Reaggregation(BaseModel):
    """How to aggregate."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"n_clusters": 4}]})

    n_clusters: Annotated[
        NumberOfClusters | None, Field(description="Number of clusters, if other than the federation's own")
    ] = None


class IdentityAnswer(BaseModel):
    """Which global cluster each center of a device is in."""

    device_id: str
    state: Literal["aggregated"]
    version: int
    round: int
    n_clusters: int
    answered_by: Annotated[str | None, Field(description="The rule that made the clusters")]
    found: Annotated[str, Field(description="How the number of clusters was found, if nobody gave it")]
    cluster_ids: list[int]
    cluster_shares: Annotated[
        list[float] | None,
        Field(description="The share of each cluster of the rows of all whose centers are shown; 0 for others"),
    ]
    notices: Annotated[list[NoticeAnswer], Field(description="What to look at, of all devices or of this one")]
    cluster_centers: Annotated[
        list[list[float] | None],
        Field(description="null where the cluster rests on fewer devices than the federation asks for to show it"),
    ]


class GatheringAnswer(BaseModel):
    """The message is stored; there are no clusters for it yet."""

    device_id: str
    state: Literal["gathering"]
    n_devices: int
    quorum: int | None
    deadline: float | None
    remark: str


class SecondAnswer(BaseModel):
    """The second message is on disk."""

    device_id: str
    round: Annotated[int, Field(description="2 once the clusters are refined")]
    n_second: Annotated[int, Field(description="Devices that have sent a second message about these clusters")]
    n_devices: Annotated[int, Field(description="Devices that the clusters were made of")]


class RemovedAnswer(BaseModel):
    """A device that was removed."""

    device_id: str
    state: Literal["gathering", "aggregated", "damaged"]
    version: int


class ProblemAnswer(BaseModel):
    """Why a request failed (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
