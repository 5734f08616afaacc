"""Whether groups of devices matter to the model that they train.

Before training, they are judged by what devices learn in a first few steps (`worth_of`). To first order, a step along
the update of a group lowers the loss of a device by their product. So a device is at home in its group if its own
update points along that of the group's other devices rather than along that of any other group. In groups that do not
matter, that happens as often as by chance, if the groups come from one half of the rows of each device, and the updates
from the other. Only one short point a device is sent.

After a trial of some rounds, they are judged by the losses of all groups' models on held-out rows
(`GroupWorth.by_losses`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed.errors import AggregationWarning, InvalidInputError
from kfed.federated.sketch import unit
from kfed.server import choose_n_clusters
from kfed.simulate import Communication
from kfed.wire import DeviceMessage, MessageBatch

MAX_JUDGED, JUDGED_IN_A_GROUP = 40, 8
"""Devices that are asked whether groups matter: so many, or so many for each group."""


@dataclass(frozen=True)
class GroupWorth:
    """How far groups matter to the model.

    Attributes
    ----------
    share : float
        Share of the devices that are at home in their group: a mean over groups of the share in each.
    chance : float
        What groups that do not matter would have: one over the number of groups.
    n_judged : int
        Number of devices, or parts of devices, that were judged.
    communication : Communication
        What was sent to find out, if it was not sent for the groups anyway.

    Examples
    --------
    >>> losses = [[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.5, 0.6]]  # of each device, with the models of both groups
    >>> worth = GroupWorth.by_losses(losses, [0, 0, 1, 1])
    >>> print(worth)
    75% of 4 devices fit their own group best; by chance it would be 50%
    >>> worth.matters
    True
    """

    share: float
    chance: float
    n_judged: int
    communication: Communication = field(default_factory=Communication)

    @classmethod
    def by_losses(cls, losses: Any, groups: Any, communication: Communication | None = None) -> GroupWorth:
        """Judge groups that were trained for a while: a device is at home if its group's model is the best for it.

        Parameters
        ----------
        losses : array of shape (n_devices, n_groups)
            Loss of each group's model on rows of each device that were not trained on. One that is not a finite number
            counts as the worst.
        groups : array of int, shape (n_devices,)
            Column of each device's own group.
        communication : Communication, optional
            What was sent to find out.
        """
        table, own = np.asarray(losses, np.float64), np.asarray(groups)
        if table.ndim != 2 or own.shape != table.shape[:1] or not len(own):
            raise InvalidInputError("losses must have one row for each device in groups, and one column for each group")
        if own.dtype.kind not in "iu" or own.min() < 0 or own.max() >= table.shape[1]:
            raise InvalidInputError(f"groups must be whole numbers from 0 to {table.shape[1] - 1}, columns of losses")
        at_home = np.where(np.isfinite(table), table, np.inf).argmin(axis=1) == own
        shares = [float(at_home[own == group].mean()) for group in np.unique(own)]
        return cls(float(np.mean(shares)), 1 / table.shape[1], len(own), communication or Communication())

    @property
    def matters(self) -> bool:
        """Whether the share is nearer to one than to chance."""
        return self.share >= (1 + self.chance) / 2

    def __str__(self) -> str:
        return (
            f"{self.share:.0%} of {self.n_judged} devices fit their own group best; "
            f"by chance it would be {self.chance:.0%}"
        )


def worth_of(
    points: Array, groups: Array, owners: Array, communication: Communication | None = None
) -> GroupWorth | None:
    """Judge groups by updates that they were not found from; None if no two groups can be judged.

    Parameters
    ----------
    points : array of shape (n_shares, n_features)
        Updates, of devices or of parts of them.
    groups, owners : arrays of int, shape (n_shares,)
        Group and device of each. A group of one device cannot be judged.
    """
    names, groups = np.unique(groups, return_inverse=True)
    points = points - points.mean(axis=0)  # what all groups learn says nothing about any of them
    counts = np.bincount(groups, minlength=len(names))
    sums = np.zeros((len(names), points.shape[1]))
    np.add.at(sums, groups, points)
    at_home: list[list[bool]] = [[] for _ in names]
    for own in np.split(np.argsort(owners, kind="stable"), np.flatnonzero(np.diff(np.sort(owners))) + 1):
        others, n_others = sums.copy(), counts - np.bincount(groups[own], minlength=len(names))
        np.subtract.at(others, groups[own], points[own])
        products = np.where(n_others[:, None] > 0, unit(others) @ points[own].T, -np.inf)  # (n_groups, n_own)
        if np.count_nonzero(n_others) > 1:
            for group, best in zip(groups[own], products.argmax(axis=0), strict=True):
                if n_others[group]:
                    at_home[group].append(bool(best == group))
    shares = [float(np.mean(own)) for own in at_home if own]
    if len(shares) < 2:
        return None
    return GroupWorth(float(np.mean(shares)), 1 / len(names), sum(map(len, at_home)), communication or Communication())


def n_judged_of(n_groups: int) -> int:
    """How many devices are asked at most."""
    return max(MAX_JUDGED, JUDGED_IN_A_GROUP * n_groups)


def coincide(messages: Iterable[DeviceMessage] | MessageBatch) -> bool:
    """Whether all device centers lie as near to each other as those of one cluster."""
    choice = choose_n_clusters(messages)
    return choice.is_reliable and choice.n_clusters == 1


def useless(groups: str, worth: GroupWorth | None, are_one: bool, remedy: str) -> AggregationWarning:
    """Say that groups do not matter, why, and what to do; `are_one` if their centers coincide."""
    why = [str(worth)] if worth else []
    why += ["all their centers coincide"] if are_one else []
    return AggregationWarning(
        f"{groups} do not matter to this model: {'; '.join(why)}. {remedy}, or if_useless='merge' to train one model "
        "for all",
        "groups-do-not-matter",
    )
