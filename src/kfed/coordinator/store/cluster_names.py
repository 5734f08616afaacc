"""`ClusterNames`: what people call the clusters of a federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from kfed.coordinator.store.schema import cluster_names

NamesCheck = Callable[[Mapping[int, str], Mapping[int, str]], None]
"""Raises if new names do not fit each other, or those that are there already."""


class ClusterNames:
    """The names of clusters of all federations in a store; a cluster keeps its name while it keeps its number."""

    def __init__(self, writing: Callable[[], AbstractContextManager[Connection]], read: Callable[[Any], Any]) -> None:
        self._writing, self._read = writing, read

    def of(self, federation_id: int) -> dict[int, str]:
        """The names of clusters that have one, by number."""
        query = select(cluster_names.c.cluster, cluster_names.c.name).where(_is(federation_id))
        return {row[0]: row[1] for row in self._read(query.order_by(cluster_names.c.cluster))}

    def set(self, federation_id: int, names: Mapping[int, str], check: NamesCheck) -> None:
        """Name clusters; an empty name takes the name away, and others stay as they are.

        Whatever `check` raises about the new names and those that stay is raised; then nothing is changed.
        """
        with self._writing() as connection:
            stay = {cluster: name for cluster, name in self.of(federation_id).items() if cluster not in names}
            check({cluster: name for cluster, name in names.items() if name}, stay)
            for cluster, name in names.items():
                connection.execute(delete(cluster_names).where(_is(federation_id), cluster_names.c.cluster == cluster))
                if name:
                    values = {"federation_id": federation_id, "cluster": cluster, "name": name}
                    connection.execute(insert(cluster_names).values(values))


def _is(federation_id: int) -> Any:
    return cluster_names.c.federation_id == federation_id
