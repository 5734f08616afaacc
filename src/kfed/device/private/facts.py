"""`PrivateFacts`: what a differentially private device says of its centers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kfed._base.array import Array, frozen
from kfed.wire import Details, FeatureSchema, Promise


@dataclass(frozen=True, eq=False)
class PrivateFacts:
    """What a differentially private device says of its centers.

    Attributes
    ----------
    noise : array of shape (n_local_clusters, 2)
        Standard deviation of the noise in every value of a center, and in its count.
    promise : Promise
    schema : FeatureSchema or None
        The agreed columns, if the points are the rows of a table.
    """

    noise: Array
    promise: Promise
    schema: FeatureSchema | None = None

    def details(self, sent: Array) -> Details:
        """What the message says of the centers that are sent."""
        return Details(noise=self.noise[sent], promise=self.promise)

    def facts(self) -> dict[str, Any]:
        """What is no array, for a file."""
        schema = None if self.schema is None else self.schema.facts()
        return {"promise": self.promise.facts(), "private_schema": schema}

    @classmethod
    def restored(cls, tensors: Mapping[str, Array], facts: Mapping[str, Any]) -> PrivateFacts | None:
        """Read them from a file; None if the device is not private."""
        if "promise" not in facts:
            return None
        schema = facts["private_schema"]
        schema = None if schema is None else FeatureSchema.restored(schema)
        return cls(frozen(tensors["noise"]), Promise.restored(facts["promise"]), schema)
