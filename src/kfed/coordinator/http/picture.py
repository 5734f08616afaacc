"""What the page draws of a federation: its newest devices, their centers in two dimensions, clusters and distances."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from pydantic import BaseModel

from kfed._base.array import Array
from kfed.coordinator.core import Clusters, labels_if_ready
from kfed.coordinator.federation import Federation
from kfed.coordinator.store import Device, Store
from kfed.server import farthest_first
from kfed.wire import DeviceMessage, MessageBatch

N_DEVICES = 400
N_LISTED = 400
N_CENTERS = 2_000
N_BYTES = 2**24
N_FOR_PLANE = 500
EXACT_UP_TO = 100
N_PASSES = 10
MIN_PICKS, MAX_PICKS = 16, 200


class ArrivedDevice(BaseModel):
    """A device as the page lists it."""

    device_id: str
    received_at: float
    n_bytes: int
    n_centers: int
    late: bool


class PlottedCenter(BaseModel):
    """A device center on the plane of the two widest directions."""

    device_id: str
    x: float
    y: float
    cluster: int | None


class FederationPicture(BaseModel):
    """Everything that is drawn."""

    devices: list[ArrivedDevice]
    centers: list[PlottedCenter]
    clusters: list[tuple[float, float]]
    cluster_sizes: list[float]
    names: list[str]
    """What people call each cluster; empty if nothing."""
    distances: list[float]
    """Farthest-first distances of the centers shown: how far the 2nd, 3rd, ... pick is from those before it."""
    are_summaries: bool
    """Whether a device shown sent a summary; then the distances show no number of clusters."""
    arrivals: list[float]
    """When the devices shown arrived, oldest first."""
    n_shown: int


def picture_of(store: Store, federation: Federation, clusters: Clusters | None) -> FederationPicture:
    """Draw the newest devices of a federation, as many as can be drawn in about a second."""
    newest = _with_few_centers(store.newest(federation.id, N_DEVICES, N_BYTES))
    messages = [DeviceMessage.from_bytes(device.message) for device in newest]
    centers, cluster_centers = _on_one_scale(messages, clusters, federation.schema.n_features)
    cluster_centers = cluster_centers[:N_CENTERS]
    plane = _Plane.through([*centers, cluster_centers[:N_FOR_PLANE]])
    return FederationPicture(
        devices=[_listed(device, clusters) for device in newest[:N_LISTED]],
        centers=_plotted(messages, centers, clusters, plane),
        clusters=[(x, y) for x, y in plane.places(cluster_centers)],
        cluster_sizes=[] if clusters is None else clusters.cluster_sizes[:N_CENTERS].tolist(),
        names=_names(store, federation, len(cluster_centers)),
        distances=_distances(messages, centers, 0 if clusters is None else clusters.n_clusters),
        are_summaries=any(one.details is not None and one.details.is_summary for one in messages),
        arrivals=[device.received_at for device in reversed(newest)],
        n_shown=len(newest),
    )


def _names(store: Store, federation: Federation, n_clusters: int) -> list[str]:
    names = store.cluster_names.of(federation.id) if n_clusters else {}
    return [names.get(cluster, "") for cluster in range(n_clusters)]


def _with_few_centers(newest: list[Device]) -> list[Device]:
    """As many of the newest devices as have no more centers together than are drawn; one device has no more."""
    n_fitting = sum(total <= N_CENTERS for total in accumulate(device.n_centers for device in newest))
    return newest[:n_fitting]


def _listed(device: Device, clusters: Clusters | None) -> ArrivedDevice:
    return ArrivedDevice(
        device_id=device.device_id,
        received_at=device.received_at,
        n_bytes=len(device.message),
        n_centers=device.n_centers,
        late=clusters is not None and clusters.is_late(device.device_id),
    )


def _on_one_scale(
    messages: list[DeviceMessage], clusters: Clusters | None, n_features: int
) -> tuple[list[Array], Array]:
    """The centers of each message and of the clusters, on the scale on which they are compared."""
    cluster_centers = np.empty((0, n_features)) if clusters is None else clusters.cluster_centers
    if not any(message.schema.scaling == "by message" for message in messages):
        return [message.centers for message in messages], cluster_centers
    if clusters is not None and clusters.scale is not None:
        schema, scale = clusters.schema, clusters.scale
    else:
        batch = MessageBatch.of(messages)
        assert batch.scale is not None
        schema, scale, cluster_centers = batch.schema, batch.scale, np.empty((0, batch.n_features))
    cluster_centers = scale.apply(cluster_centers)
    known = [scale.apply(schema.align(message.known_centers, message.schema)) for message in messages]
    return [np.nan_to_num(own) for own in known], cluster_centers


def _plotted(
    messages: list[DeviceMessage], centers: list[Array], clusters: Clusters | None, plane: _Plane
) -> list[PlottedCenter]:
    plotted = []
    for message, own in zip(messages, centers, strict=True):
        found = labels_if_ready(clusters, message)
        labels = [None] * message.n_local_clusters if found is None else found.tolist()
        for (x, y), label in zip(plane.places(own), labels, strict=True):
            plotted.append(PlottedCenter(device_id=message.device_id, x=x, y=y, cluster=label))
    return plotted


def _distances(messages: list[DeviceMessage], own: list[Array], n_clusters: int) -> list[float]:
    """Farthest-first distances well beyond the number of clusters, to show where they drop."""
    centers = np.concatenate([part.astype(np.float64) for part in own]) if own else np.empty(0)
    if len(centers) < 2:
        return []
    heaviest = int(np.concatenate([message.counts for message in messages]).argmax())
    n_picks = min(len(centers), max(MIN_PICKS, 2 * n_clusters), MAX_PICKS)
    distances: list[float] = farthest_first(centers, n_picks, [heaviest], n_jobs=1).distances.tolist()
    return distances


class _Plane:
    """The plane of the two directions in which centers spread most; equal centers give equal pictures."""

    def __init__(self, origin: Array, axes: Array, scale: float) -> None:
        self._origin, self._axes, self._scale = origin, axes, scale

    @classmethod
    def through(cls, parts: list[Array]) -> _Plane:
        """The plane for all these centers together."""
        centers = np.concatenate([part.astype(np.float64) for part in parts])
        n_features = centers.shape[1]
        scale = float(np.abs(centers).max(initial=0)) or 1.0  # so that squares do not overflow
        centers = centers / scale
        origin = centers.mean(axis=0) if len(centers) else np.zeros(n_features)
        directions = _widest(centers - origin)
        axes = np.zeros((2, n_features))
        axes[: min(2, len(directions))] = directions[:2]
        largest = np.abs(axes).argmax(axis=1)
        signs = np.sign(axes[[0, 1], largest])
        return cls(origin, axes * np.where(signs == 0, 1, signs)[:, None], scale)

    def places(self, centers: Array) -> list[list[float]]:
        """Coordinates of centers on the plane, (n_centers, 2)."""
        places: list[list[float]] = (((centers / self._scale - self._origin) @ self._axes.T) * self._scale).tolist()
        return places


def _widest(centered: Array) -> Array:
    """The two directions in which rows spread most, (2, n_features), or fewer if there are not as many."""
    if min(centered.shape) <= EXACT_UP_TO:
        directions: Array = np.linalg.svd(centered, full_matrices=False)[2]
        return directions
    # A full decomposition would take minutes. Each pass brings the four directions nearer to the widest ones, by the
    # ratio of the spreads squared; where two spread alike, either is as good for a picture.
    basis = np.random.default_rng(0).standard_normal((centered.shape[1], 4))
    for _ in range(N_PASSES):
        basis, _ = np.linalg.qr(centered.T @ (centered @ basis))
    found: Array = np.linalg.svd(centered @ basis, full_matrices=False)[2][:2] @ basis.T
    return found
