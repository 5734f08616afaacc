"""Requests and responses in JSON about the clusters of a federation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

from kfed.coordinator.http.state import Certainty, NoticeAnswer

ClusterName = Annotated[str, StringConstraints(strip_whitespace=True, max_length=60, pattern=r"^[^\x00-\x1f\x7f]*$")]
ClusterNumber = Annotated[int, Field(ge=0, lt=100_000)]


class KRange(BaseModel):
    """Numbers of clusters to compare."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"first": 2, "last": 12}]})

    first: Annotated[StrictInt, Field(ge=1, le=200)] = 2
    last: Annotated[StrictInt, Field(ge=1, le=200)] = 12


class ComparisonTable(BaseModel):
    """Cells of text; a star marks the number that stands out."""

    headings: list[str]
    rows: list[list[str]]


class ComparisonAnswer(BaseModel):
    """Numbers of clusters side by side; lists have an entry for each."""

    n_devices: Annotated[int, Field(description="Devices whose messages were compared; others may have come since")]
    n_clusters: list[int]
    recommended: Annotated[int | None, Field(description="The number that stands out, if one does")]
    best: Annotated[int, Field(description="The recommended number, or the one that comes nearest to it")]
    conclusion: str
    certainty: Certainty
    costs: list[float]
    explained: Annotated[list[float], Field(description="Share of the variance that clusters explain")]
    silhouettes: list[float]
    silhouettes_of_one_cloud: list[float]
    calinski_harabasz: list[float | None]
    stability: Annotated[
        list[list[float | None]],
        Field(description="Agreement without some devices: mean, and the range of nine in ten"),
    ]
    weakest: Annotated[list[float | None], Field(description="How often the weakest cluster comes back")]
    notes: list[str]
    table: Annotated[ComparisonTable, Field(description="The same as `kfed aggregate -k 2-12` prints it")]


class SectionAnswer(BaseModel):
    """A part of a report: paragraphs, notes, tables and pictures."""

    title: str
    blocks: list[dict[str, Any]]


class ResultAnswer(BaseModel):
    """What the clusters are."""

    sections: list[SectionAnswer]
    names: dict[int, str]
    n_clusters: int
    cluster_sizes: list[float]
    notices: Annotated[list[NoticeAnswer], Field(description="What to look at before relying on the clusters")]
    rounds: int


class NewNames(BaseModel):
    """Names of clusters by their numbers."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"names": {"0": "young"}}]})

    names: Annotated[dict[ClusterNumber, ClusterName], Field(max_length=1_000)]


class RightsAnswer(BaseModel):
    """The token is the admin token."""

    admin: Literal[True] = True
