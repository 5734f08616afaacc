"""The mixtures of Gaussians of the paper's section 4.1: groups of sqrt(k) components, m0 devices for each group."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt

import numpy as np

from kfed._base import checks, geometry
from kfed._base.array import Array, Length, frozen
from kfed.errors import InvalidInputError

LAYOUTS = ("equidistant", "random")


@dataclass(frozen=True, eq=False)
class Mixture:
    """Points of a mixture of Gaussians of unit variance, spread over devices. Made by `mixture`.

    Attributes
    ----------
    points : tuple of arrays of shape (n_points, n_features)
        The points of each device.
    targets : tuple of arrays of int, shape (n_points,)
        The component that each point was drawn from.
    means : array of shape (n_clusters, n_features)
        The means of the clusters, mu(T_r): of their points, not only of the distributions that they were drawn from.
    separation : float
        The least distance of two means, in standard deviations of a component along one axis.
    required_separation : float
        The distance that the main theorem asks of active pairs here, for c = 1: sqrt(m0) (Delta_r + Delta_s).

    Examples
    --------
    >>> drawn = mixture(16, 4, separation=20, points_per_cluster=50)
    >>> drawn.n_clusters, drawn.n_local_clusters, len(drawn.devices)
    (4, 2, 10)
    >>> drawn.points[0].shape, np.unique(drawn.targets[0]).tolist()
    ((20, 16), [0, 1])
    """

    points: tuple[Array, ...] = field(repr=False)
    targets: tuple[Array, ...] = field(repr=False)
    means: Array = field(repr=False)
    separation: float
    required_separation: float

    n_clusters = Length("means", 0, "Components, k.")

    @property
    def n_local_clusters(self) -> int:
        """Components on each device, k' = sqrt(k)."""
        return isqrt(self.n_clusters)

    @property
    def device_ids(self) -> tuple[str, ...]:
        """A name for each device."""
        return tuple(f"device-{device:04d}" for device in range(len(self.points)))

    @property
    def devices(self) -> dict[str, Array]:
        """The points of each device, by its name."""
        return dict(zip(self.device_ids, self.points, strict=True))


def mixture(
    n_features: int,
    n_clusters: int,
    *,
    devices_per_group: int = 5,
    points_per_cluster: int = 500,
    required_ratio: float | None = None,
    separation: float | None = None,
    layout: str = "equidistant",
    seed: int = 0,
) -> Mixture:
    """Draw the data of Table 1.

    Components are in sqrt(k) groups G_i of sqrt(k). The points of a group go to m0 devices, each of which gets one part
    in m0 of every component of the group: k' = sqrt(k), and pairs within a group are the active ones.

    Parameters
    ----------
    n_features : int
        d.
    n_clusters : int
        k, a square.
    devices_per_group : int
        m0.
    points_per_cluster : int
        n_r, a multiple of m0; the paper's poly(dk).
    required_ratio : float, optional
        c: all pairs of means are as far apart as the main theorem asks of active pairs,
        c sqrt(m0) (Delta_r + Delta_s) with Delta_r = k' norm(A - C) / sqrt(n_r).
    separation : float, optional
        The distance of the means instead, in standard deviations. Give one of the two.
    layout : {"equidistant", "random"}
        All pairs of means this far apart (which takes k <= d), or random means, scaled so that the two nearest are.
    seed : int

    Returns
    -------
    Mixture

    Examples
    --------
    >>> drawn = mixture(20, 16, separation=20, points_per_cluster=50)
    >>> len(drawn.points), drawn.points[0].shape, drawn.n_local_clusters, round(drawn.separation, 6)
    (20, (40, 20), 4, 20.0)
    """
    n_features = checks.positive_integer(n_features, "n_features")
    n_clusters = checks.positive_integer(n_clusters, "n_clusters")
    checks.one_of(layout, LAYOUTS, "layout")
    _check(n_features, n_clusters, devices_per_group, points_per_cluster, required_ratio, separation, layout)
    rng = np.random.default_rng(seed)
    targets = _targets(n_clusters, devices_per_group, points_per_cluster)
    labels = np.concatenate(targets)
    noise = rng.standard_normal((n_clusters * points_per_cluster, n_features))
    residuals = noise - _means(noise, labels, n_clusters)[labels]  # A - C
    spectral = np.sqrt(np.linalg.eigvalsh(residuals.T @ residuals)[-1])
    required = np.sqrt(devices_per_group) * 2 * isqrt(n_clusters) * spectral / np.sqrt(points_per_cluster)
    if required_ratio is not None:
        separation = required_ratio * required
    means = separation * _unit_means(n_clusters, n_features, layout, rng)
    ends = np.cumsum([len(own) for own in targets])[:-1]
    return Mixture(
        points=tuple(np.split(means[labels] + residuals, ends)),
        targets=tuple(targets),
        means=frozen(means),
        separation=float(separation),  # type: ignore[arg-type]
        required_separation=float(required),
    )


def _check(
    n_features: int,
    n_clusters: int,
    devices_per_group: int,
    points_per_cluster: int,
    required_ratio: float | None,
    separation: float | None,
    layout: str,
) -> None:
    checks.positive_integer(devices_per_group, "devices_per_group")
    checks.positive_integer(points_per_cluster, "points_per_cluster")
    if isqrt(n_clusters) ** 2 != n_clusters:
        raise InvalidInputError(f"n_clusters must be a square number, for groups of sqrt(k) clusters; got {n_clusters}")
    if points_per_cluster % devices_per_group:
        raise InvalidInputError(
            f"points_per_cluster must be a multiple of the {devices_per_group} devices that share a cluster; "
            f"got {points_per_cluster}"
        )
    if (required_ratio is None) == (separation is None):
        raise InvalidInputError("give one of required_ratio (c) and separation (in standard deviations), not both")
    for name, value in (("required_ratio", required_ratio), ("separation", separation)):
        if value is not None:
            checks.positive_number(value, name)
    if layout == "equidistant" and n_clusters > n_features:
        raise InvalidInputError(
            f"equidistant means need at least as many features as clusters, {n_clusters}; got {n_features}; "
            "use layout='random'"
        )


def _targets(n_clusters: int, devices_per_group: int, points_per_cluster: int) -> list[Array]:
    """The component of each point, device by device."""
    size, share = isqrt(n_clusters), points_per_cluster // devices_per_group
    groups = np.arange(n_clusters).reshape(size, size)
    return [np.repeat(group, share) for group in groups for _ in range(devices_per_group)]


def _means(points: Array, labels: Array, n_clusters: int) -> Array:
    sums = np.zeros((n_clusters, points.shape[1]))
    np.add.at(sums, labels, points)
    return np.asarray(sums / np.bincount(labels, minlength=n_clusters)[:, None])


def _unit_means(n_clusters: int, n_features: int, layout: str, rng: np.random.Generator) -> Array:
    """Means whose least distance is 1, (n_clusters, n_features)."""
    if n_clusters == 1:
        return np.zeros((1, n_features))
    drawn = rng.standard_normal((n_features, n_clusters))
    if layout == "equidistant":
        return np.asarray(np.linalg.qr(drawn)[0].T / np.sqrt(2))
    apart = np.sqrt(geometry.squared_distances(drawn.T, drawn.T))
    return np.asarray(drawn.T / apart[np.triu_indices(n_clusters, 1)].min())
