"""`ClusterResults`: what people ask of the clusters of a federation, made on one thread, and kept for each version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kfed._base import pool
from kfed._base.text import plural
from kfed.coordinator.core import Clusters, Coordinator, Live, Turns
from kfed.coordinator.federation import Federation, Tally
from kfed.coordinator.http.report_json import report_json
from kfed.coordinator.http.result_schemas import ComparisonAnswer
from kfed.coordinator.problems import ProblemError
from kfed.errors import KFedError
from kfed.insight import cluster_report, profile_csv, to_html
from kfed.server import Aggregation, ComparisonWords, KChoice, KComparison, compare_k, compare_usual, rule_for

MAX_KEPT = 8
MAX_CENTERS = 20_000
"""More device centers take too long to compare numbers of clusters by."""

MAX_RESULT_CENTERS = 1_000_000
"""A report of more device centers than that is made from a download of the store, not on the coordinator."""

LEAST_CENTERS = 3
"""Of fewer, numbers of clusters are not compared."""


class ClusterResults:
    """Aggregations, reports and comparisons of a coordinator's federations.

    All who ask for the same share it. Nothing of it is saved: it follows from what the store holds.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._turns = Turns()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kfed-results")
        self._kept: dict[Hashable, tuple[Any, Any]] = {}

    def close(self) -> None:
        """Stop making results."""
        self._turns.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def aggregation(self, live: Live) -> Aggregation:
        """The clusters with all messages that they were made of."""
        federation, clusters = _aggregated(live)
        if len(clusters.center_labels) > MAX_RESULT_CENTERS:
            raise ProblemError(409, f"a coordinator shows results of at most {MAX_RESULT_CENTERS:,} device centers")
        key = (federation.id, "aggregation")
        found: Aggregation = await self._once(
            key, clusters.version, lambda: self._coordinator.result(federation, clusters)
        )
        return found

    async def rendered(self, live: Live, kind: str) -> bytes:
        """The aggregation as bytes, its report as a page or as JSON, or its centers as CSV."""
        aggregation = await self.aggregation(live)
        names = await self.names(live)
        render = _RENDERERS[kind]
        payload: bytes = await self._run(lambda: render(aggregation, live.federation.name, names))
        return payload

    async def names(self, live: Live) -> dict[int, str]:
        """The names of clusters that are there."""
        if live.clusters is None:
            return {}
        n_clusters, store = live.clusters.n_clusters, self._coordinator.store
        found = await self._coordinator.read(store.cluster_names.of, live.federation.id)
        return {cluster: name for cluster, name in found.items() if cluster < n_clusters}

    async def comparison(self, live: Live, values: tuple[int, int] | None) -> bytes:
        """Numbers of clusters side by side: those that are asked for, or the last ones that were, or the usual ones."""
        live.check()
        tally = self._coordinator.tally(live)
        if tally.n_centers < LEAST_CENTERS:
            raise ProblemError(409, "at least three centers are needed to compare numbers of clusters")
        if tally.n_centers > MAX_CENTERS:
            raise ProblemError(
                409, f"{plural(tally.n_centers, 'center')} take too long to compare here; at most {MAX_CENTERS:,}"
            )
        key = (live.federation.id, "comparison")
        version, last = self._kept.get(key, (None, None))
        if values is None and version is not None and self._is_current(live, version):
            payload: bytes = last
            return payload
        chosen = None if live.clusters is None else live.clusters.how_many.k_choice
        if values is None and chosen is not None and chosen.comparison is not None:
            return _compared(chosen.comparison, chosen)
        asked = values or (None if version is None else version[2])
        now = (live.version, tally, asked)
        made: bytes = await self._once(key, now, lambda: self._compare(live, asked))
        return made

    def _is_current(self, live: Live, version: tuple[int, Tally, tuple[int, int] | None]) -> bool:
        """Whether a comparison may be shown again; devices that come late do not ask for another one each."""
        is_same = version[1] == self._coordinator.tally(live)
        return version[0] == live.version and (is_same or live.clusters is not None)

    def has_compared(self, live: Live) -> bool:
        """Whether somebody has asked for a comparison."""
        return (live.federation.id, "comparison") in self._kept

    def _compare(self, live: Live, values: tuple[int, int] | None) -> bytes:
        """Compare these numbers, or those that are compared where nobody gives a number, and the one in use."""
        federation, in_use = live.federation, 2 if live.clusters is None else live.clusters.n_clusters
        batch = self._coordinator.messages(federation)
        how: dict[str, Any] = {"min_devices": federation.min_devices, "n_jobs": max(1, pool.available_cores() - 1)}
        if values is None:
            return _compared(compare_usual(batch, rule_for(batch, federation.rule), also=in_use, **how))
        last = min(values[1], len(batch.centers) - 1)
        return _compared(compare_k(batch, range(min(values[0], last), last + 1), **how))

    async def _once(self, key: Hashable, version: Hashable, make: Callable[[], Any]) -> Any:
        """What was made for this version, or what is made now."""

        async def work() -> Any:
            known, kept = self._kept.get(key, (None, None))
            if known == version:
                return kept
            made = await self._run(make)
            self._kept.pop(key, None)
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = (version, made)
            return made

        known, kept = self._kept.get(key, (None, None))
        return kept if known == version else await self._turns.take((key, version), work)

    async def _run(self, make: Callable[[], Any]) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, make)
        except ProblemError:
            raise
        except KFedError as error:
            raise ProblemError(409, str(error)) from error


def _compared(found: KComparison, choice: KChoice | None = None) -> bytes:
    """A comparison in JSON; that of a choice is told in the words of the choice."""
    shown = set(ComparisonAnswer.model_fields)
    facts = {name: value for name, value in found.to_dict().items() if name in shown}
    certainty = "reliable" if found.is_sure else "none stands out" if found.recommended is None else "stands out"
    words = ComparisonWords(found)
    facts |= {"notes": list(words.notes()), "conclusion": words.conclusion().text, "certainty": certainty}
    table = words.table()
    facts["table"] = {"headings": table.headings, "rows": table.rows}
    if choice is not None:
        facts |= {"conclusion": str(choice), "certainty": choice.certainty}
    return json.dumps(facts).encode()


def _aggregated(live: Live) -> tuple[Federation, Clusters]:
    live.check()
    if live.clusters is None:
        raise ProblemError(409, f"federation {live.federation.name!r} has no clusters yet; aggregate it first")
    return live.federation, live.clusters


def _as_bytes(aggregation: Aggregation, _name: str, _names: dict[int, str]) -> bytes:
    return aggregation.to_bytes()


def _as_page(aggregation: Aggregation, name: str, names: dict[int, str]) -> bytes:
    return to_html(cluster_report(aggregation, f"The clusters of {name}", names))


def _as_table(aggregation: Aggregation, _name: str, names: dict[int, str]) -> bytes:
    return profile_csv(aggregation.profile(), names).encode()


def _as_json(aggregation: Aggregation, name: str, names: dict[int, str]) -> bytes:
    report = cluster_report(aggregation, f"The clusters of {name}", names)
    facts = {
        "sections": report_json(report),
        "names": names,
        "n_clusters": aggregation.n_clusters,
        "cluster_sizes": aggregation.cluster_sizes.tolist(),
        "notices": [notice._asdict() for notice in aggregation.notices],
        "rounds": aggregation.settings.rounds,
    }
    return json.dumps(facts).encode()


_RENDERERS = {"aggregation": _as_bytes, "report": _as_page, "centers": _as_table, "result": _as_json}
