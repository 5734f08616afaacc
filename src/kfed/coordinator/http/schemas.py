"""Requests and responses in JSON; FastAPI writes the OpenAPI document from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from kfed._base.checks import MAX_NAME_LENGTH
from kfed.coordinator.federation import MAX_CENTERS, MAX_DEVICES, MAX_FEATURES, MIN_DEVICES_SHOWN, NAME_PATTERN
from kfed.coordinator.http.state import FederationState, NoticeAnswer
from kfed.coordinator.http.terms import AgreedSchema, FeatureName
from kfed.errors import InvalidInputError
from kfed.server import BUILT_IN_RULES
from kfed.wire import MAX_COUNT, MAX_VALUE, FeatureSchema

Count = Annotated[StrictInt, Field(ge=1)]
NumberOfClusters = Annotated[StrictInt, Field(ge=1, le=100_000)]
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
RULES_IN_WORDS = " or ".join(", ".join(sorted(BUILT_IN_RULES)).rsplit(", ", 1))
DeviceName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=r"^[^\x00-\x1f\x7f]*$")]

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
            description=f"{RULES_IN_WORDS}; or one that a package at the coordinator brings",
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
