"""`Registry`: the federations that a coordinator shows, as its store has them."""

from __future__ import annotations

from collections.abc import Mapping

from kfed.coordinator.core.clusters import Clusters, in_words
from kfed.coordinator.core.live import Live, unreadable
from kfed.coordinator.federation import Federation
from kfed.coordinator.store import Contents, SavedClustering


class Registry:
    """Federations by name."""

    def __init__(self) -> None:
        self._lives: dict[str, Live] = {}
        self._n_restored = 0

    def all(self) -> list[Live]:
        """All federations, in the order they were created."""
        return list(self._lives.values())

    def find(self, name: str) -> Live | None:
        """The federation of this name, or None."""
        return self._lives.get(name)

    def add(self, federation: Federation) -> Live:
        """Show a new federation."""
        live = self._lives[federation.name] = Live(federation, changed_at=federation.created_at)
        return live

    def discard(self, live: Live) -> None:
        """Show a federation no longer."""
        self._lives.pop(live.federation.name, None)

    def unread(self, contents: Contents) -> list[SavedClustering]:
        """The clusterings that are not shown yet, which have to be read before `show`."""
        versions = {live.federation.id: live.version for live in self._known(contents).values()}
        return [saved for saved in contents.clusterings if versions.get(saved.federation_id) != saved.version]

    def show(self, contents: Contents, clusters: Mapping[int, Clusters | Exception | None]) -> None:
        """Show what the store holds, and nothing else; devices may have gone since its clusters were made.

        `clusters` are those of `unread`, by federation, or why they cannot be read.
        """
        before = self._known(contents)
        self._lives, self._n_restored = {}, contents.n_restored
        for federation in contents.federations:
            live = before.get(federation.name)
            if live is None or live.federation.id != federation.id:
                live = Live(federation, changed_at=federation.created_at)
            live.federation = federation
            self._lives[federation.name] = live
        by_id = {live.federation.id: live for live in self.all()}
        for saved in contents.clusterings:
            if saved.federation_id in by_id:
                live = by_id[saved.federation_id]
                live.is_unsettled = True
                if saved.version != live.version:
                    _show_clusters(live, saved, clusters[saved.federation_id])
        for damaged in contents.damaged:
            live = unreadable(damaged)
            self._lives[live.federation.name] = live

    def _known(self, contents: Contents) -> dict[str, Live]:
        """What is shown now, unless a backup was restored since."""
        return self._lives if contents.n_restored == self._n_restored else {}


def _show_clusters(live: Live, saved: SavedClustering, clusters: Clusters | Exception | None) -> None:
    if isinstance(clusters, Exception):
        live.version = saved.version
        live.disable(
            f"its clusters cannot be read ({clusters}); the administrator can aggregate anew", can_be_mended=True
        )
    else:
        live.publish(clusters, saved.version, saved.remark or "")
        if clusters is not None:
            how = "refined by second messages" if clusters.rounds > 1 else "aggregated"
            live.last_change, live.changed_at = f"{how}: {in_words(clusters)}", clusters.made_at
