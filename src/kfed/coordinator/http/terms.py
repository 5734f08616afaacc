"""What messages to a federation must hold, in JSON: the schema that its sites agreed on, and the answer to a device."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kfed._base.checks import MAX_NAME_LENGTH
from kfed.coordinator.federation import MAX_FEATURES, Federation
from kfed.errors import InvalidInputError
from kfed.wire import MAX_LEVELS, FeatureSchema

FeatureName = Annotated[str, Field(max_length=MAX_NAME_LENGTH, pattern=r"^[^\x00-\x1f\x7f]*$")]
Number = Annotated[float, Field(allow_inf_nan=False)]


class AgreedColumn(BaseModel):
    """A column, as all sites have it."""

    model_config = ConfigDict(extra="forbid")

    name: FeatureName
    kind: Literal["number", "category", "flag", "date", "empty"] = "number"
    levels: Annotated[list[FeatureName], Field(max_length=MAX_LEVELS)] = []
    unit: FeatureName | None = None
    shift: Number | None = None
    scale: Number | None = None


class AgreedSchema(BaseModel):
    """The columns of all sites, with their levels and their scale, as `kfed agree` writes them."""

    model_config = ConfigDict(extra="forbid")

    columns: Annotated[list[AgreedColumn], Field(min_length=1, max_length=MAX_FEATURES)]
    scaling: Annotated[
        Literal["agreed", "by message"] | None,
        Field(description="agreed: by shift and scale, which every column has; by message: by the spreads sent"),
    ] = None
    missing: Literal["observed", "drop", "mean"] = "observed"

    def schema_of_tables(self) -> FeatureSchema:
        """The same as features. Raises `InvalidInputError` if it contradicts itself."""
        schema = FeatureSchema.restored(self.model_dump(exclude_none=True))
        if not 1 <= schema.n_features <= MAX_FEATURES:
            raise InvalidInputError(f"a schema must have 1 to {MAX_FEATURES:,} features; got {schema.n_features:,}")
        return schema


def feature_terms(federation: Federation) -> dict[str, Any]:
    """The features of a federation; of tables, its columns."""
    schema = federation.schema
    facts, names = schema.facts(), schema.names
    if schema.columns is not None:
        names = tuple(column.name for column in schema.columns)
    return {
        "n_features": schema.n_features if names is None else len(names),
        "feature_names": None if names is None else list(names),
        "agreed_schema": None if facts is None else AgreedSchema.model_validate(facts),
    }


class TermsAnswer(BaseModel):
    """What a message to a federation must hold."""

    by_column: Annotated[bool, Field(description="Whether devices send tables, with the spread of each column")]
    n_features: int
    feature_names: list[str] | None
    agreed_schema: Annotated[
        AgreedSchema | None, Field(description="What every message must use, if sites agreed on a schema beforehand")
    ]
    min_devices_shown: Annotated[
        int, Field(description="Devices that a cluster must rest on for its center to be in the answers to devices")
    ]
    rounds: Annotated[int, Field(description="2 if a second message about the clusters is asked for")]
    max_epsilon: Annotated[float | None, Field(description="Largest epsilon of a message, which must be private")]
    closed: Annotated[bool, Field(description="Whether new devices are turned away")]

    @classmethod
    def of(cls, federation: Federation) -> TermsAnswer:
        """What messages to this federation must hold."""
        names = ("by_column", "min_devices_shown", "rounds", "max_epsilon", "closed")
        return cls(**feature_terms(federation), **{name: getattr(federation, name) for name in names})
