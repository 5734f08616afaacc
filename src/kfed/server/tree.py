"""Algorithm 2 by way of regions: each aggregates a few devices, and counts as one device on the next level.

    messages ──> regions of fan_in devices ──> regions of fan_in regions ──> ... ──> one aggregation

Messages are read one by one and dropped once their region is aggregated, so memory is bounded by `fan_in`, whatever the
number of devices. No data point is seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from kfed._base import checks
from kfed.errors import InvalidInputError, TooFewCentersError
from kfed.server.aggregation import Aggregation, aggregate_batch
from kfed.server.algorithm2 import DEFAULT, RULES, rule_for
from kfed.server.rules.own import OwnRule, rule_name
from kfed.wire import DeviceMessage, MessageBatch

FAN_IN = 1_000

Keep = Callable[[str, Aggregation], object]


def aggregate_tree(
    messages: Iterable[DeviceMessage],
    n_clusters: int,
    *,
    fan_in: int = FAN_IN,
    rule: str | OwnRule = DEFAULT,
    min_devices: int | None = None,
    keep: Keep | None = None,
    n_jobs: int | None = None,
) -> Aggregation:
    """Group the device centers of any number of messages, with at most `fan_in` messages in memory at each level.

    Parameters
    ----------
    messages : iterable of DeviceMessage
        One message a device, read once. Devices that follow each other share a region, so the order matters, unless
        clusters are far apart. The same message twice counts once within a region, and twice across regions.
    n_clusters : int
        Number of global clusters, k; also of each region that has more centers than that.
    fan_in : int
        Devices of a region, regions of the next, and so on; at least 2.
    rule : {"default", "paper", "pooled", "robust"}, the name of a custom rule, or a callable
        As in `kfed.aggregate`, where the first region decides what the default is. Above the level of devices,
        ``"regions"`` takes the place of ``"paper"``.
    min_devices : int, optional
        With the robust rule, devices that every cluster of a region of devices must rest on; centers of fewer are set
        aside there, and nothing is said of them further up. A region may then have fewer clusters. A cluster of which
        each region has fewer devices is not found, however many there are in all. The last region of devices may have
        up to twice `fan_in`.
    keep : callable, optional
        Called as ``keep(name, region)`` with each region before it is forgotten, from the leaves up: what it takes to
        answer every device by `Aggregation.relay` instead of by its nearest center.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Returns
    -------
    Aggregation
        The last level, which is ``kfed.aggregate(messages, n_clusters)`` if there are at most `fan_in` messages. Else
        its `device_ids` are regions, its `certificate` and `warnings` are about them, and a device is answered by
        `Aggregation.assign`, which needs its message again, or by `Aggregation.relay` down from the last level.

    Raises
    ------
    TooFewCentersError
        If there are fewer than `n_clusters` device centers, or fewer distinct ones in several regions; also if a device
        whose own centers coincide leaves its region fewer clusters than that.

    Notes
    -----
    If clusters are so far apart that farthest-first traversal finds one center of each, every region does, too: devices
    get the same clusters as from `kfed.aggregate`. Counts, means and sums of squares of the points of a region are
    exact at every level, but for centers that were set aside. With the paper's rule, cluster centers are the means of
    all points where `kfed.aggregate` has those of all device centers: the same if all device centers have equally many
    points. How far answers differ on data that is not separated is measured in ``docs/explanation-scale.md``.

    Examples
    --------
    >>> places = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]
    >>> sent = (DeviceMessage(f"{i:03}", [places[i % 3], places[(i + 1) % 3]], [10, 10]) for i in range(600))
    >>> result = aggregate_tree(sent, n_clusters=3, fan_in=20)
    >>> result.cluster_sizes
    array([4000, 4000, 4000])
    >>> result.messages.device_ids
    ('region 1.0', 'region 1.1')
    """
    n_clusters = checks.positive_integer(n_clusters, "n_clusters")
    rule = checks.one_of(rule_name(rule), [DEFAULT, *(name for name in RULES if name != "regions")], "rule")
    if checks.positive_integer(fan_in, "fan_in") < 2:
        raise InvalidInputError("fan_in must be at least 2; got 1")
    if (
        min_devices is not None
        and checks.positive_integer(min_devices, "min_devices") > 1
        and rule in (DEFAULT, "paper")
    ):
        raise InvalidInputError(
            "in a tree, min_devices needs rule='robust': by the paper's rule, a stray center shifts a mean that its "
            "region sends"
        )
    tree = _Tree(n_clusters, fan_in, rule, min_devices, keep, n_jobs)
    first = None
    for message in messages:
        first = first or _checked(message)
        first.schema.check_same(_checked(message).schema, repr(first.device_id), repr(message.device_id))
        tree.add(0, message)
    return tree.root()


def _checked(message: DeviceMessage) -> DeviceMessage:
    if not isinstance(message, DeviceMessage):
        raise InvalidInputError(f"messages must be DeviceMessages; got a {type(message).__name__}")
    return message


class _Tree:
    """The regions that are being filled, one a level: devices at level 0, their regions at level 1, and so on."""

    def __init__(
        self, n_clusters: int, fan_in: int, rule: str, min_devices: int | None, keep: Keep | None, n_jobs: int | None
    ) -> None:
        self._n_clusters, self._fan_in, self._rule, self._n_jobs = n_clusters, fan_in, rule, n_jobs
        self._min_devices = min_devices
        self._keep = keep or (lambda *_: None)
        self._levels: list[list[DeviceMessage]] = [[]]
        self._held: list[DeviceMessage] = []
        """With `min_devices`, the last full region: what comes after it may be too few devices for a region."""
        self._names = [count()]

    def add(self, level: int, message: DeviceMessage) -> None:
        """Take a message; a full region is closed when the next message comes."""
        if len(self._levels[level]) == self._fan_in:
            full, self._levels[level] = self._levels[level], []
            if level == 0 and self._min_devices:
                full, self._held = self._held, full
            self._close(level, full)
        self._levels[level].append(message)

    def root(self) -> Aggregation:
        """Close every region, from the leaves up, and aggregate what is left at the last level."""
        self._levels[0] = self._held + self._levels[0]
        level = 0
        while level < len(self._levels) - 1:
            self._close(level, self._levels[level])
            level += 1
        return self._aggregated(level, MessageBatch.of(self._levels[level]), self._n_clusters)

    def _close(self, level: int, messages: list[DeviceMessage]) -> None:
        """Aggregate a region, and pass its message on."""
        if not messages:
            return
        name = f"region {level}.{next(self._names[level])}"
        if level + 1 == len(self._levels):
            self._levels.append([])
            self._names.append(count())
        self.add(level + 1, self._summary(name, level, MessageBatch.of(messages)))

    def _summary(self, name: str, level: int, batch: MessageBatch) -> DeviceMessage:
        """The message of a region: at most `n_clusters` centers, and none if its devices sent none."""
        region = self._region(level, batch)
        if region is None:
            return DeviceMessage(name, batch.centers[:0], [], feature_names=batch.schema.names)
        self._keep(name, region)
        return region.to_message(name)

    def _region(self, level: int, batch: MessageBatch) -> Aggregation | None:
        """A region with as many clusters as rest on enough devices, by bisection; None if it has none."""
        too_many, found = min(self._n_clusters, len(batch.centers)) + 1, None
        fewest, n_clusters = 0, too_many - 1
        while too_many - fewest > 1:
            try:
                found, fewest = self._aggregated(level, batch, n_clusters), n_clusters
            except TooFewCentersError:
                if level or (self._min_devices or 1) == 1:
                    raise
                too_many = n_clusters
            n_clusters = (fewest + too_many) // 2
        return found

    def _aggregated(self, level: int, batch: MessageBatch, n_clusters: int) -> Aggregation:
        self._rule = rule_for(batch, self._rule)
        rule = "regions" if level and self._rule == "paper" else self._rule
        return aggregate_batch(
            batch, n_clusters, rule, None, self._n_jobs, 1 if level and self._min_devices else self._min_devices
        )
