"""`Round`: the whole of k-FED on one machine, from the points of the devices to their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from kfed._base import pool
from kfed._base.array import Array
from kfed.device import LocalClustering, cluster_fleet, refine_device
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, OwnRule, aggregate, aggregate_refined
from kfed.simulate.communication import Communication
from kfed.wire import DeviceMessage, Identity


@dataclass(frozen=True, eq=False)
class Round:
    """One round of k-FED: what stays on each device, what it sends, what the server finds, and what it answers.

    Attributes
    ----------
    local : dict from device id to LocalClustering
        What Algorithm 1 found on each device.
    messages : tuple of DeviceMessage
        One message up for each device, in the order of `local`.
    aggregation : Aggregation
        What Algorithm 2 found on the server.
    identities : tuple of Identity
        One answer down for each device, in the order of `local`.
    points : dict from device id to points, or None
        The points of the devices, where they are known: those of a device that sent a summary are labelled one by one.
    before : Round or None
        The first round, if this is the second; see `refined`.

    Examples
    --------
    >>> from kfed.datasets import mixture
    >>> drawn = mixture(16, 4, separation=20, points_per_cluster=50)
    >>> done = Round.run(drawn.devices, 4, 2, random_state=0)
    >>> done.aggregation.cluster_sizes, len(done.labels)
    (array([50, 50, 50, 50]), 200)
    >>> done.sent.rounds, done.sent.messages
    (1, 20)
    """

    local: Mapping[str, LocalClustering] = field(repr=False)
    messages: tuple[DeviceMessage, ...] = field(repr=False)
    aggregation: Aggregation
    identities: tuple[Identity, ...] = field(repr=False)
    points: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    before: Round | None = field(default=None, repr=False, kw_only=True)

    @classmethod
    def run(
        cls,
        devices: Mapping[str, Any],
        n_clusters: int | Literal["auto"] | None = None,
        n_local_clusters: Any = None,
        *,
        rule: str | OwnRule = "default",
        min_devices: int | None = None,
        n_jobs: int | None = None,
        rounds: int = 1,
        **options: Any,
    ) -> Round:
        """Cluster every device, send what was found, aggregate, and answer.

        Parameters
        ----------
        devices : dict from device id to points of shape (n_points, n_features)
        n_clusters : int or "auto", optional
            Number of global clusters, k; found from the messages if it is not given.
        n_local_clusters : int, "auto", or sequence of such, optional
            k^(z), one for all devices or one for each. Without it, devices send summaries.
        rule, min_devices, n_jobs
            As in `kfed.aggregate`.
        rounds : {1, 2}
            With 2, every device sends a second message; see `refined`.
        **options
            Other options of the devices, as in `cluster_devices`.
        """
        if rounds not in (1, 2):
            raise InvalidInputError(f"rounds must be 1 or 2; got {rounds}")
        local = cluster_devices(devices, n_local_clusters, n_jobs=n_jobs, **options)  # Algorithm 1, on every device
        done = cls.of(local, n_clusters, rule=rule, min_devices=min_devices, n_jobs=n_jobs)
        done = replace(done, points=devices)
        if rounds == 1:
            return done
        how = {name: options[name] for name in ("sample_weights", "min_cluster_size") if name in options}
        return done.refined(devices, n_jobs=n_jobs, **how)

    @classmethod
    def of(cls, local: Mapping[str, LocalClustering], n_clusters: int | Literal["auto"] | None, **options: Any) -> Self:
        """Run the rest of a round whose devices are clustered; `options` are those of `kfed.aggregate`."""
        messages = messages_of(local)  # up
        aggregation = aggregate(messages, n_clusters, **options)  # Algorithm 2, on the server
        identities = tuple(aggregation.identity(device_id) for device_id in local)  # down
        return cls(local, messages, aggregation, identities)

    def refined(
        self,
        devices: Mapping[str, Any],
        *,
        sample_weights: Iterable[Any] | None = None,
        n_jobs: int | None = None,
        **options: Any,
    ) -> Round:
        """Run a second round: every device counts its rows by global cluster, and says how many and where they are.

        Parameters
        ----------
        devices : dict from device id to points
            As in `run`.
        sample_weights, **options
            As they were given to `run`; see `kfed.refine_device`.
        """
        weights = [None] * len(self.local) if sample_weights is None else list(sample_weights)
        every = list(zip(self.local.items(), self.identities, weights, strict=True))

        def refine(one: tuple[tuple[str, LocalClustering], Identity, Any]) -> LocalClustering:
            (device_id, own), identity, weight = one
            return refine_device(own, identity, devices[device_id], sample_weight=weight, **options)

        local = dict(zip(self.local, pool.map_in_order(refine, every, n_jobs), strict=True))
        messages = messages_of(local)
        aggregation = aggregate_refined(self.aggregation, messages)
        return Round(local, messages, aggregation, tuple(map(aggregation.identity, local)), before=self)

    @cached_property
    def clusters(self) -> dict[str, Array]:
        """Global cluster of each local cluster, (n_local_clusters,) for each device."""
        answered = zip(self.local.items(), self.identities, strict=True)
        return {device_id: own.global_clusters(identity) for (device_id, own), identity in answered}

    @cached_property
    def labels(self) -> Array:
        """The induced clustering: labels of the points of all devices, one device after the other, (n_points,)."""
        return np.concatenate(self.device_labels())

    def device_labels(self, refine: Iterable[Any] | None = None) -> list[Array]:
        """The induced clustering of each device; with its points in `refine`, and for summaries, the refined one."""
        points = self._points_of_summaries() if refine is None else refine
        every = zip(self.local.values(), self.identities, points, strict=True)
        return [own.induced_labels(identity, refine=rows) for own, identity, rows in every]

    def _points_of_summaries(self) -> list[Any]:
        known = self.points or {}
        return [known.get(device_id) if own.is_summary else None for device_id, own in self.local.items()]

    @cached_property
    def sent(self) -> Communication:
        """What crossed the network, each message encoded as for the wire."""
        up, down = (message.to_bytes() for message in self.messages), (own.to_bytes() for own in self.identities)
        counted = Communication.of_round(up, down)
        return counted if self.before is None else self.before.sent + counted


def cluster_devices(
    devices: Mapping[str, Any],
    n_local_clusters: Any = None,
    *,
    feature_names: Iterable[str] | None = None,
    measure_deviation: bool = False,
    progress: bool | None = False,
    **options: Any,
) -> dict[str, LocalClustering]:
    """Run Algorithm 1 on every device, as `kfed.cluster_fleet` does; by default without the spectral deviation.

    Parameters
    ----------
    devices : dict from device id to points of shape (n_points, n_features)
    feature_names : sequence of str, optional
        Names of the columns of points that are plain arrays.
    n_local_clusters, measure_deviation, progress, **options
        As in `kfed.cluster_fleet`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(2, 30, 3))
    >>> local = cluster_devices({"north": rows[0], "south": rows[1]}, 2, feature_names=["age", "bmi", "dose"])
    >>> local["south"].centers.shape, local["south"].feature_names
    ((2, 3), ('age', 'bmi', 'dose'))
    """
    found = cluster_fleet(devices, n_local_clusters, measure_deviation=measure_deviation, progress=progress, **options)
    if feature_names is not None:
        names = tuple(feature_names)
        found = [replace(local, feature_names=names) for local in found]
    return dict(zip(devices, found, strict=True))


def messages_of(local: Mapping[str, LocalClustering]) -> tuple[DeviceMessage, ...]:
    """What the devices send: one message each, in their order.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(2, 30, 3))
    >>> [message.device_id for message in messages_of(cluster_devices({"north": rows[0], "south": rows[1]}, 2))]
    ['north', 'south']
    """
    return tuple(own.to_message(device_id) for device_id, own in local.items())
