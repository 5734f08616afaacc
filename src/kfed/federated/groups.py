"""Groups of devices, or of their rows, each of which is to train a model: found in one round of k-FED, or given."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from kfed._base import checks, text
from kfed._base.array import Array
from kfed.device import MIN_CLUSTER_SIZE, LocalClustering
from kfed.errors import AggregationWarning, InvalidInputError, TooFewCentersError
from kfed.federated._fleet import Fleet, fleet_of_rows, halves_of
from kfed.federated._plans import ByLabel
from kfed.federated._routes import ByNearestCenter, OneEach, Route
from kfed.federated._updates import FirstUpdate
from kfed.federated._ways import ByPoint, ByRows, ByUpdate, Features, Way, flattened, gives_one_point
from kfed.federated.worth import GroupWorth, coincide, n_judged_of, useless, worth_of
from kfed.server import Aggregation
from kfed.simulate import Communication, Round

Clusters = Mapping[str, int] | Sequence[int]


@dataclass(frozen=True, eq=False)
class Door:
    """Lets late devices in: they describe themselves as the others did, and get the nearest groups."""

    way: Way
    aggregation: Aggregation

    def let_in(self, route: Route, fleet: Fleet) -> Route:
        """Return the route with the one device of this fleet."""
        (name, local), *_ = self.way.local(fleet).items()
        clusters = local.global_clusters(self.aggregation.assign(local.to_message(name)))
        if isinstance(route, OneEach):
            return route.plus(name, int(clusters[0]))
        assert isinstance(route, ByNearestCenter)
        return route.plus(name, *_held(local, clusters))


@dataclass(frozen=True, eq=False)
class Clustering(Round):
    """One round of k-FED over a fleet, and the way of later rows to its clusters."""

    way: Way = field(repr=False)

    @property
    def communication(self) -> Communication:
        """What the round sent."""
        return self.sent

    @cached_property
    def routing(self) -> Route:
        """The rule that sends rows to clusters: by their device, or by its nearest local center."""
        if not isinstance(self.way, ByRows):
            return OneEach({name: int(self.clusters[name][0]) for name in self.local})
        held = {name: _held(local, self.clusters[name]) for name, local in self.local.items()}
        centers, clusters = ({name: pair[column] for name, pair in held.items()} for column in (0, 1))
        return ByNearestCenter(centers, clusters, self.way.features)

    def route(self, device_id: str, inputs: torch.Tensor) -> Array:
        """Global cluster of each row, (n_rows,)."""
        return self.routing(device_id, inputs)


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row of a fleet, how it was found, and how far the groups matter.

    Attributes
    ----------
    by : str
        What devices were grouped by: "inputs", "features", "updates", or "given".
    labels : array of int, shape (n_rows,)
    clustering : Clustering or None
        The round that found them; None if they were given.
    worth : GroupWorth or None
        Whether they matter to the model; None if that was not asked, or cannot be told.
    sent : Communication
        All that was sent to find and to judge them.
    """

    by: str
    labels: Array
    route: Route
    clustering: Clustering | None
    worth: GroupWorth | None
    sent: Communication

    @property
    def are_useless(self) -> bool:
        """Whether groups do not matter to the model or, if that is not known, whether all centers coincide."""
        return self.coincide if self.worth is None else not self.worth.matters

    @cached_property
    def coincide(self) -> bool:
        """Whether all device centers lie as near to each other as those of one cluster."""
        if self.clustering is None or self.clustering.way.is_whole:
            return False
        return coincide(self.clustering.messages)

    @property
    def door(self) -> Door | None:
        """What lets late devices in; None if the groups were given."""
        if self.clustering is None:
            return None
        return Door(self.clustering.way, self.clustering.aggregation)

    def merged(self, fleet: Fleet) -> Groups:
        """Return one group of all."""
        route = OneEach(dict.fromkeys(fleet.device_ids, 0))
        return replace(self, labels=np.zeros_like(self.labels), route=route)

    @property
    def complaint(self) -> AggregationWarning:
        """What to say of groups that are useless."""
        others = "" if self.by == "updates" else "by='updates', by='auto', "
        return useless(f"the groups found by {self.by}", self.worth, self.coincide, f"Use {others}fit_global")


@dataclass(frozen=True, eq=False)
class Search:
    """How to look for groups: data, number of groups, and what each device may say of itself."""

    fleet: Fleet
    n_clusters: int
    first: FirstUpdate
    is_judged: bool
    rule: str | None = None
    n_local_clusters: Any = 1
    features: Features | None = None
    min_cluster_size: int = MIN_CLUSTER_SIZE

    def groups(self, by: Literal["inputs", "updates", "auto"]) -> Groups:
        """Find groups by inputs or features, by first updates, or by the one of these that matters more."""
        checks.one_of(by, ["inputs", "updates", "auto"], "by")
        if by == "inputs" or self.n_clusters == 1:
            return self.by_inputs()
        if by == "updates":
            return self.by_updates(self.first.halves(self.fleet))
        return replace(self, is_judged=True)._the_better()

    def _the_better(self) -> Groups:
        """Groups by inputs or by updates, whichever matter more; both are judged by what one model down tells."""
        halves = self.first.halves(self.fleet)
        with warnings.catch_warnings(record=True) as about_inputs:
            warnings.simplefilter("always", AggregationWarning)
            ours = self.by_inputs(has_model=True)
        theirs = self.by_updates(halves)
        best = max((ours, theirs), key=lambda groups: groups.worth.share if groups.worth else 0.0)
        for one in about_inputs if best is ours else ():  # nobody needs to know of groups that were not taken
            warnings.warn(one.message, stacklevel=3)
        return replace(best, sent=ours.sent + theirs.sent)

    def by_inputs(self, has_model: bool = False) -> Groups:
        """Find groups from the inputs of devices, or from features; `has_model` if they were sent one anyway."""
        way: Way
        if self.features is not None and gives_one_point(self.fleet, self.features):
            way = ByPoint(self.features, self.min_cluster_size)
        else:
            features, seed = self.features or flattened, self.first.steps.seed
            way = ByRows(features, self.n_local_clusters, self.min_cluster_size, seed)
        default = "robust" if way.is_whole or has_model else "paper"
        found = self._clustering(way, way.local(self.fleet), default)
        worth = self._tried(way, self.rule or default, has_model) if self.is_judged else None
        return self._groups(found, worth, found.sent + worth.communication if worth else found.sent)

    def by_updates(self, halves: tuple[Array, Array]) -> Groups:
        """Find groups from the first updates of devices.

        They are judged as others are: groups found from one half of each device, by what its other half learned.
        """
        way = ByUpdate(self.first, self.min_cluster_size)
        found = self._clustering(way, way.local_of(self.fleet, *halves))
        n_devices, worth = self.fleet.n_devices, None
        if self.is_judged and self.n_clusters > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AggregationWarning)
                part = self._clustering(way, way.local_of(self.fleet, halves[0]))
            labels = part.labels[self.fleet.starts[:-1]]
            worth = worth_of(halves[1], labels, np.arange(n_devices))
        return self._groups(found, worth, found.sent + self.first.sent(n_devices, 2 * n_devices))

    def given(self, clusters: Clusters) -> Groups:
        """Take groups as they are given, one for each device."""
        models = _checked(clusters, self.fleet, self.n_clusters)
        labels = np.repeat([models[name] for name in self.fleet.device_ids], self.fleet.sizes)
        devices = self._some_devices()
        rows = {device: self.fleet.rows(device) for device in devices.tolist()}
        taken = np.isin(self.fleet.owners, devices)
        worth = self._judged(fleet_of_rows(self.fleet, rows), labels[taken]) if self.is_judged else None
        return Groups("given", labels, OneEach(models), None, worth, worth.communication if worth else Communication())

    def _clustering(self, way: Way, local: dict[str, LocalClustering], default: str = "robust") -> Clustering:
        _check_sent(local, self.n_clusters, self.min_cluster_size)
        return _clustering(way, local, self.n_clusters, self.rule or default)

    def _groups(self, found: Clustering, worth: GroupWorth | None, sent: Communication) -> Groups:
        return Groups(found.way.name, found.labels, found.routing, found, worth, sent)

    def _some_devices(self) -> Array:
        most = n_judged_of(self.n_clusters)
        rng = np.random.default_rng(self.first.steps.seed)
        return np.sort(rng.choice(self.fleet.n_devices, min(self.fleet.n_devices, most), replace=False))

    def _tried(self, way: Way, rule: str, has_model: bool) -> GroupWorth | None:
        """Group some devices by one half of their rows, and judge these groups by the other half."""
        one, other = halves_of(self.fleet, self._some_devices().tolist(), self.first.steps.seed)
        local = way.local(one)
        if sum(int(np.count_nonzero(~own.withheld)) for own in local.values()) < self.n_clusters:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AggregationWarning)
            found = _clustering(way, local, self.n_clusters, rule)
        labels = [found.route(name, other.inputs_of(i)) for i, name in enumerate(other.device_ids)]
        return self._judged(other, np.concatenate(labels), has_model, found.sent)

    def _judged(
        self, fleet: Fleet, labels: Array, has_model: bool = False, sent: Communication | None = None
    ) -> GroupWorth | None:
        """Ask these devices, for each of their groups, in which direction its rows would move the model."""
        shares = ByLabel(fleet, labels).shares(self.first.origin, np.arange(fleet.n_devices), self.first.batch_size)
        groups, owners = (np.array([getattr(share, name) for share in shares]) for name in ("model", "device"))
        asked = self.first.sent(0 if has_model else fleet.n_devices, len(shares), rounds=1)
        points = self.first.points(fleet, shares)
        return worth_of(points, groups, owners, asked + (sent or Communication()))


def _clustering(way: Way, local: Mapping[str, LocalClustering], n_clusters: int, rule: str) -> Clustering:
    done = Round.of(local, n_clusters, rule=rule)
    return Clustering(done.local, done.messages, done.aggregation, done.identities, way)


def cluster_once(
    fleet: Fleet,
    n_clusters: int,
    n_local_clusters: Any = 1,
    rule: str = "paper",
    seed: int = 0,
    features: Features | None = None,
) -> Clustering:
    """Run one round of k-FED over the rows of a fleet."""
    way = ByRows(features or flattened, n_local_clusters, MIN_CLUSTER_SIZE, seed)
    return _clustering(way, way.local(fleet), n_clusters, rule)


def _held(local: LocalClustering, clusters: Array) -> tuple[Array, Array]:
    """Centers of the local clusters that hold rows, and their global clusters."""
    held = np.flatnonzero(local.counts > 0)
    return local.centers[held], clusters[held]


def _check_sent(local: Mapping[str, LocalClustering], n_clusters: int, min_cluster_size: int) -> None:
    """Raise if too few centers are left because devices withhold those of few rows."""
    n_sent = sum(int(np.count_nonzero(~own.withheld)) for own in local.values())
    silent = [name for name, own in local.items() if own.withheld.all()]
    if n_sent < n_clusters and silent:
        raise TooFewCentersError(
            f"n_clusters must be at most the number of device centers; got {n_clusters}, but {n_sent} were sent: "
            f"{text.plural(len(silent), 'device')} ({text.quoted(silent, 3)}) sent none, since no local cluster there "
            f"has min_cluster_size={min_cluster_size} different rows. Use n_local_clusters=1, features that describe a "
            "device by one row, by='updates', or a lower min_cluster_size, which lets single rows be seen"
        )


def _checked(clusters: Clusters, fleet: Fleet, n_clusters: int) -> dict[str, int]:
    given = clusters if isinstance(clusters, Mapping) else dict(zip(fleet.device_ids, clusters, strict=False))
    if set(given) != set(fleet.device_ids) or len(clusters) != fleet.n_devices:
        raise InvalidInputError(f"clusters must have one entry for each of {text.plural(fleet.n_devices, 'device')}")
    found = {name: int(given[name]) for name in fleet.device_ids}
    if min(found.values()) < 0 or max(found.values()) >= n_clusters:
        raise InvalidInputError(f"clusters must be whole numbers from 0 to {n_clusters - 1}, n_clusters - 1")
    return found
