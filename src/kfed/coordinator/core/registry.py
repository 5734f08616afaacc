"""`Registry`: the federations that a coordinator shows, as its store has them."""

from __future__ import annotations

from collections.abc import Callable

from kfed.coordinator.core.clusters import Clusters, in_words
from kfed.coordinator.core.live import Live, unreadable
from kfed.coordinator.federation import Federation
from kfed.coordinator.problems import ProblemError
from kfed.coordinator.store import Contents, SavedClustering


class Registry:
    """Federations by name. `load` reads the clusters of a federation from what was saved of them."""

    def __init__(self, load: Callable[[int, bytes], Clusters]) -> None:
        self._load = load
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
        """Stop showing a federation."""
        self._lives.pop(live.federation.name, None)

    def show(self, contents: Contents) -> None:
        """Show what the store holds, and nothing else; devices may have gone since its clusters were made."""
        before = self._lives if contents.n_restored == self._n_restored else {}
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
                self._show_clusters(by_id[saved.federation_id], saved)
        for damaged in contents.damaged:
            live = unreadable(damaged)
            self._lives[live.federation.name] = live

    def _show_clusters(self, live: Live, saved: SavedClustering) -> None:
        live.is_unsettled = True
        if saved.version == live.version:
            return
        try:
            clusters = None if saved.payload is None else self._load(saved.federation_id, saved.payload)
        except ProblemError:
            raise
        except Exception as error:  # whatever is wrong with these clusters, other federations are served
            live.version = saved.version
            live.disable(
                f"its clusters cannot be read ({error}); the administrator can aggregate again", can_be_mended=True
            )
            return
        live.publish(clusters, saved.version, saved.remark or "")
        if clusters is not None:
            how = "refined by second messages" if clusters.rounds > 1 else "aggregated"
            live.last_change, live.changed_at = f"{how}: {in_words(clusters)}", clusters.made_at
