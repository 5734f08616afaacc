"""Whether groups of devices matter to the model that they train, judged by what devices learn in a first few steps.

To first order, a step along the update of a group lowers the loss of a device by their product. So a device is at home
in its group if its own update points along that of the group's other devices rather than along that of any other group.
In groups that do not matter, that happens as often as by chance, if the groups come from one half of the rows of each
device, and the updates from the other. Only one short point a device is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kfed._base.array import Array
from kfed.federated.sketch import unit
from kfed.simulate import Communication


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
    """

    share: float
    chance: float
    n_judged: int
    communication: Communication = field(default_factory=Communication)

    @property
    def matters(self) -> bool:
        """Whether the share is nearer to one than to chance."""
        return self.share >= (1 + self.chance) / 2

    def __str__(self) -> str:
        return f"{self.share:.0%} of {self.n_judged} devices are at home in their group, by chance {self.chance:.0%}"


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
    at_home: list[list[bool]] = [[] for _ in names]
    for own, group in enumerate(groups):
        is_other = owners != owners[own]
        others = [points[is_other & (groups == number)] for number in range(len(names))]
        if len(others[group]) and sum(map(len, others)) > len(others[group]):
            means = unit(np.stack([part.sum(axis=0) for part in others]))
            products = np.where([len(part) > 0 for part in others], means @ points[own], -np.inf)
            at_home[group].append(bool(products.argmax() == group))
    shares = [float(np.mean(own)) for own in at_home if own]
    if len(shares) < 2:
        return None
    return GroupWorth(float(np.mean(shares)), 1 / len(names), sum(map(len, at_home)), communication or Communication())
