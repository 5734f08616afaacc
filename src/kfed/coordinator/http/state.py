"""`FederationState`: a federation as it is now, in JSON: its terms, its devices, and what was found."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kfed.coordinator.core import Coordinator, Live
from kfed.coordinator.federation import Federation, Tally
from kfed.coordinator.http.terms import AgreedSchema, feature_terms

Certainty = Annotated[
    Literal["reliable", "stands out", "none stands out"],
    Field(description="How sure the number of clusters is; one that just stands out is not reliable"),
]


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
    cluster_names: Annotated[
        dict[int, str] | None, Field(description="Names that people gave clusters; null where they were not looked up")
    ] = None
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
                "n_clusters_asked": clusters.how_many.asked,
                "cluster_sizes": clusters.cluster_sizes.tolist(),
                "n_aggregated": len(clusters.members),
                "reason": clusters.how_many.reason,
                "certainty": None if (choice := clusters.how_many.k_choice) is None else choice.certainty,
                "answered_by": clusters.rule or None,
            }
        now = {name: getattr(live, name) for name in ("state", "version", "last_change", "changed_at")}
        now["remark"] = live.remark_among(tally.n_devices)
        notices = [NoticeAnswer(code=notice.code, text=notice.text) for notice in live.notices]
        return cls(**names, **vars(tally), **found, **now, notices=notices)


def shown(coordinator: Coordinator, live: Live) -> FederationState:
    """A federation as it is now."""
    n_second = coordinator.store.second.count(live.federation.id, live.version)
    return FederationState.of(live, coordinator.tally(live), n_second)


_FROM_FEDERATION = set(FederationState.model_fields) & set(Federation.__dataclass_fields__)
