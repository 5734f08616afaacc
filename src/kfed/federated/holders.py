"""Fine clusters grouped by which devices hold them: for clusters that overlap in space but live on different devices.

Two kinds of data can be too alike to be told apart on a device that holds both, and still have many small clusters of
their own. Those of one kind are held by the same devices, those of another by others. So the server groups fine
clusters by their holders: it needs to know how many points of each device are in each, which k-FED's messages say.
Kinds that are always held together cannot be told apart in this way. This goes beyond the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed import _checks
from kfed.errors import InvalidInputError
from kfed.server import Aggregation

Array = npt.NDArray[Any]

N_STARTS = 20


@dataclass(frozen=True, eq=False)
class Holders:
    """Groups of fine clusters.

    Attributes
    ----------
    distances : array of shape (n_fine_clusters, n_groups)
        How much the holders of each fine cluster differ from those of each group; all that devices are told.
    masses : array of shape (n_devices, n_groups)
        Points of each device in each group.
    device_ids : tuple of str
    """

    distances: Array
    masses: Array
    device_ids: tuple[str, ...]

    @property
    def likeness(self) -> Array:
        """Cosine of the holders of each two groups, (n_groups, n_groups): near 1, they cannot be told apart."""
        unit = self.masses / np.linalg.norm(self.masses, axis=0)
        return np.asarray(unit.T @ unit)

    def groups_of(self, device_id: str, fine_clusters: Array, n_held: int) -> Array:
        """Group of each of a device's fine clusters, among the `n_held` groups that most of its points are in."""
        own = self.masses[self.device_ids.index(device_id)]
        held = np.sort(np.argsort(-own, kind="stable")[:n_held])
        return np.asarray(held[self.distances[fine_clusters][:, held].argmin(axis=1)])


def group_by_holders(fine: Aggregation, n_groups: int) -> Holders:
    """Group the clusters of an aggregation by the devices that hold them.

    Parameters
    ----------
    fine : Aggregation
        Of more clusters than groups are asked for.
    n_groups : int

    Examples
    --------
    >>> from kfed import DeviceMessage, aggregate
    >>> places = np.array([[0.0], [10.0], [20.0], [30.0]])          # devices hold the first and third, or the others
    >>> sent = [DeviceMessage(f"{i}", places[i % 2 :: 2] + i / 50, [50, 50]) for i in range(6)]
    >>> fine = aggregate(sent, n_clusters=4)
    >>> found = group_by_holders(fine, n_groups=2)
    >>> len({tuple(found.groups_of(f"{i}", np.asarray(fine.identity(f"{i}")), n_held=1)) for i in (0, 2, 4)})
    1
    """
    from sklearn.cluster import KMeans

    if _checks.positive_integer(n_groups, "n_groups") > fine.n_clusters:
        raise InvalidInputError(f"n_groups must be at most the {fine.n_clusters} fine clusters, and is {n_groups}")
    points = np.zeros((fine.n_devices, fine.n_clusters))
    np.add.at(points, (fine.center_owners, fine.center_labels), fine.center_counts)
    sizes = points.sum(axis=0)
    holders = np.sqrt(points / np.maximum(sizes, 1)).T  # (n_fine_clusters, n_devices), rows of length 1
    found = KMeans(n_groups, n_init=N_STARTS, random_state=0).fit(holders, sample_weight=np.maximum(sizes, 1))
    masses = np.stack([points[:, found.labels_ == group].sum(axis=1) for group in range(n_groups)], axis=1)
    return Holders(found.transform(holders), masses, fine.device_ids)
