"""Custom server rules, by name or as a callable: what `kfed.aggregate` takes as ``rule=``.

A rule groups the device centers of a batch of messages. It gets the batch and k, and gives the cluster of each center;
what else an `Aggregation` needs is computed from that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed._base.averages import means_by_label
from kfed.errors import InvalidInputError
from kfed.server.algorithm2 import DEFAULT, RULES
from kfed.server.rules.grouping import Grouping
from kfed.wire import MessageBatch

OwnRule = Callable[[MessageBatch, int], Any]

ENTRY_POINTS = "kfed.rules"
"""The group of entry points by which a package brings rules along."""

MOST_LETTERS = 180

BUILT_IN_RULES = frozenset([DEFAULT, *RULES])
"""The rules that come with kfed, and not those that users add."""

_CALLABLES: dict[int, str] = {}
"""Names of callables by their id, which no other object gets: `RULES` keeps them alive."""


def register_rule(name: str, rule: OwnRule) -> None:
    """Register a custom rule under a name, by which `Aggregation.without` and the like find it, too.

    Parameters
    ----------
    name : str
        Any name but those of kfed's own rules. A rule of the same name is replaced.
    rule : callable
        ``rule(batch, n_clusters)`` gives the cluster of each device center, whole numbers from 0 to ``n_clusters - 1``
        of shape (n_device_centers,), or a `Grouping`. Of the batch, ``centers``, ``counts``, ``owners`` and
        ``sums_of_squares`` have one entry for each center. The same batch must give the same clusters.

    Examples
    --------
    >>> def by_first_feature(batch, n_clusters):
    ...     ranks = batch.centers[:, 0].argsort().argsort()
    ...     return ranks * n_clusters // len(ranks)
    >>> register_rule("by first feature", by_first_feature)
    >>> sent = [kfed.DeviceMessage(f"{i}", [[1.0 * i], [9.0 + i]], [5, 5]) for i in range(3)]
    >>> result = kfed.aggregate(sent, n_clusters=2, rule="by first feature")
    >>> result.rule, result.center_labels.tolist()
    ('by first feature', [0, 1, 0, 1, 0, 1])
    """
    if not isinstance(name, str) or not name.isprintable() or name in BUILT_IN_RULES | {""}:
        raise InvalidInputError(
            f"name must be printable text, and not one of {', '.join(sorted(BUILT_IN_RULES))}; got {name!r}"
        )
    if not callable(rule):
        raise InvalidInputError(f"rule must be a callable that groups device centers; got a {type(rule).__name__}")
    RULES[name] = _Checked(name, rule)


def rule_name(rule: str | OwnRule) -> str:
    """The name of a rule. A callable is registered under its own name, and a rule of an entry point at its first use.

    Two functions of the same name, made in a loop say, get two names, so that every `Aggregation` keeps the rule that
    made it. They are never forgotten: if you make thousands, register them under one name instead.
    """
    if not isinstance(rule, str) and callable(rule):
        name = _CALLABLES.get(id(rule), "")
        known = RULES.get(name)
        return name if isinstance(known, _Checked) and known.rule is rule else _named_by_itself(rule)
    if isinstance(rule, str) and rule not in BUILT_IN_RULES | RULES.keys():
        from importlib.metadata import entry_points

        for found in entry_points(group=ENTRY_POINTS, name=rule):
            register_rule(rule, found.load())
    return checks.one_of(rule, [DEFAULT, *RULES], "rule")


def _named_by_itself(rule: OwnRule) -> str:
    called = str(getattr(rule, "__qualname__", type(rule).__qualname__))[:MOST_LETTERS]
    name = f"{called} ({len(_CALLABLES) + 1})" if called in RULES else called
    register_rule(name, rule)
    _CALLABLES[id(rule)] = name
    return name


@dataclass(frozen=True)
class _Checked:
    """A rule in the form of kfed's own, with what it gives checked."""

    name: str
    rule: OwnRule

    def __call__(self, batch: MessageBatch, n_clusters: int, start: Array, n_jobs: int | None) -> Grouping:  # noqa: ARG002
        found = self.rule(batch, n_clusters)
        return found if isinstance(found, Grouping) else _grouping(self.name, found, batch, n_clusters)


def _grouping(name: str, labels: Any, batch: MessageBatch, n_clusters: int) -> Grouping:
    labels = np.asarray(labels)
    is_sound = labels.shape == (len(batch.centers),) and labels.dtype.kind in "iu"
    if not is_sound or labels.min() < 0 or labels.max() >= n_clusters:
        raise InvalidInputError(
            f"rule {name!r} must give whole numbers from 0 to {n_clusters - 1}, one for each of "
            f"{len(batch.centers)} device centers; it gave a {labels.dtype} of shape {labels.shape}"
        )
    middle = np.broadcast_to(batch.centers.mean(axis=0), (n_clusters, batch.n_features))  # of clusters without centers
    means = means_by_label(batch.centers, labels, middle, batch.counts)
    return Grouping(means.copy(), np.empty(0), labels.astype(np.intp), means)
