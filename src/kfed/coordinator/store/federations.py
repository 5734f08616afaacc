"""Federations as rows of the store. A row that cannot be read disables its federation, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from kfed.coordinator.federation import Federation
from kfed.coordinator.store.schema import federations
from kfed.wire import FeatureSchema

_STORED: dict[Any, int | None] = {"auto": None, None: 0}
"""What stands in the store for a number of clusters that is to be found; "auto" has always been null."""
_READ = {stored: n_clusters for n_clusters, stored in _STORED.items()}


@dataclass(frozen=True)
class Damaged:
    """A federation that cannot be read, and why."""

    id: int
    name: str
    reason: str


def row_of(federation: Federation) -> dict[str, Any]:
    """The row of a federation."""
    values = vars(federation).copy()
    schema: FeatureSchema = values.pop("schema")
    values["n_features"] = schema.n_features
    values["agreed_schema"] = schema.facts()
    values["feature_names"] = None if schema.names is None else list(schema.names)
    values["n_clusters"] = _STORED.get(federation.n_clusters, federation.n_clusters)
    return values


def federation_of(row: Any) -> Federation:
    """The federation of a row."""
    values = dict(row)
    plain, agreed = (values.pop("n_features"), values.pop("feature_names")), values.pop("agreed_schema")
    schema = FeatureSchema(*plain) if agreed is None else FeatureSchema.restored(agreed)
    values["n_clusters"] = _READ.get(row["n_clusters"], row["n_clusters"])
    return Federation(schema=schema, **values)


def read_federations(connection: Connection) -> tuple[list[Federation], list[Damaged]]:
    """All federations in the order they were created, and those that cannot be read."""
    found, damaged = [], []
    names = connection.execute(select(federations.c.id, federations.c.name).order_by(federations.c.id)).all()
    for number, name in names:
        row = connection.execute(select(federations).where(federations.c.id == number))
        try:
            found.append(federation_of(row.mappings().one()))
        except Exception as error:  # whatever is wrong with this row, the others are served
            damaged.append(Damaged(number, str(name), f"its terms cannot be read: {error}"))
    return found, damaged
