"""The door of the server: `read_messages` reads files, `aggregate` and `choose_n_clusters` check, stack and warn."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from kfed._base import checks
from kfed._base.callers import level_outside
from kfed._base.files import reason_of
from kfed.errors import AggregationWarning, DuplicateDeviceError, InvalidInputError, MessageError
from kfed.server.aggregation import Aggregation, aggregate_batch
from kfed.server.algorithm2 import DEFAULT
from kfed.server.k.auto import choose_k
from kfed.server.k.choice import KChoice
from kfed.server.model import ClusterModel
from kfed.server.rules.own import OwnRule, rule_name
from kfed.wire import DeviceMessage, MessageBatch, check_promise, load

RESULTS = {Aggregation: "this is an aggregation", ClusterModel: "this is a model"}
"""Files that a server writes beside the messages that it reads."""


@dataclass(frozen=True)
class Inbox:
    """The messages of several files.

    Attributes
    ----------
    messages : tuple of DeviceMessage
        One for each device.
    paths : tuple of path
        The file that each message came from.
    repeated : tuple of path
        Files that hold the same message as another file.
    skipped : tuple of (path, reason)
        Files that could not be used.
    """

    messages: tuple[DeviceMessage, ...]
    paths: tuple[str | os.PathLike[str], ...]
    repeated: tuple[str | os.PathLike[str], ...]
    skipped: tuple[tuple[str | os.PathLike[str], str], ...]


def read_messages(
    paths: Iterable[str | os.PathLike[str]], *, skip_bad: bool = False, max_epsilon: float | None = None
) -> Inbox:
    """Read one message from each file; the same message twice counts once.

    Aggregations and models among messages, such as the clusters of an earlier run, are left out and reported.

    Parameters
    ----------
    paths : iterable of path
        The files.
    skip_bad : bool
        Leave out, and report, files that are not sound messages. Two sound files that contradict each other
        are still an error: only a person knows which is meant.
    max_epsilon : float, optional
        A message that does not promise differential privacy with this epsilon, or less, is not sound.
    """
    found: dict[str, tuple[DeviceMessage, str | os.PathLike[str]]] = {}
    repeated, skipped, results = [], [], []
    for path in paths:
        try:
            message = _message_or_result(path)
            if not isinstance(message, DeviceMessage):
                results.append((path, f"{path}: {RESULTS[type(message)]}, not a message"))
                continue
            if max_epsilon is not None:
                promise = None if message.details is None else message.details.promise
                check_promise(promise, max_epsilon, repr(message.device_id))
        except (MessageError, InvalidInputError, OSError) as error:
            if not skip_bad:
                raise
            skipped.append((path, reason_of(error)))
            continue
        first, first_path = found.setdefault(message.device_id, (message, path))
        if first != message:
            raise DuplicateDeviceError(
                f"{first_path} and {path} are two different messages from device {message.device_id!r}; "
                "keep the one that is meant, or give one of the devices another id"
            )
        if first is not message:
            repeated.append(path)
    if results and not found and not skip_bad:
        load(results[0][0], DeviceMessage)  # says what was expected instead
    messages, used = zip(*found.values(), strict=True) if found else ((), ())
    return Inbox(messages, used, tuple(repeated), (*skipped, *results))


def _message_or_result(path: str | os.PathLike[str]) -> Any:
    """A message, or what was found from messages; an error says that only messages are expected."""
    try:
        return load(path, DeviceMessage, *RESULTS)
    except MessageError:
        return load(path, DeviceMessage)


def aggregate(
    messages: Iterable[DeviceMessage] | MessageBatch,
    n_clusters: int | Literal["auto"] | None = None,
    *,
    rule: str | OwnRule = DEFAULT,
    first_device: str | None = None,
    min_devices: int | None = None,
    n_jobs: int | None = None,
) -> Aggregation:
    """Group the device centers of all messages into `n_clusters` global clusters.

    Parameters
    ----------
    messages : iterable of DeviceMessage
        One message a device, in any order: the answer depends on the set of messages alone. Or a `MessageBatch`, which
        holds the same as columns, for messages too many to be held as objects.
    n_clusters : int or "auto", optional
        Number of global clusters, k. Without it, or with ``"auto"``, it is the number that `choose_n_clusters` finds;
        where that is in doubt, values of k are compared, and the one that stands out is taken, or the best of them. The
        answer says how, in `k_choice`.
    rule : {"default", "paper", "pooled", "robust", "regions"}, the name of a custom rule, or a callable
        By default ``"pooled"`` if a device sent a summary (`cluster_device` without a number), and else ``"paper"``.
        ``"paper"`` is Algorithm 2: farthest-first traversal from one device's centers, then one round of Lloyd.
        ``"pooled"`` is weighted k-means on all centers, where centers of rows from several clusters weigh less: on
        summaries it comes close to k-means on the rows of all devices. On separated data it gives the paper's answer.
        ``"robust"`` weighs centers by their counts, sets tiny stray ones aside, tries several seedings and runs Lloyd
        to convergence; on clean separated data it gives the paper's answer.
        ``"regions"`` is for messages of aggregations (`Aggregation.to_message`), see `kfed.aggregate_tree`: it starts
        from one center, since a region may send several of one cluster, and weighs means by counts.
        Custom rules: see `kfed.server.register_rule`.
    first_device : str, optional
        The device whose centers the traversal starts from (step 2: "pick any z"). By default the one with
        the most points among those with at most `n_clusters` centers; the first id of several.
    min_devices : int, optional
        Devices that every cluster must rest on. Centers of fewer devices than that choose no cluster, devices that are
        much heavier than the others weigh less, and a warning names the devices whose centers were set aside. With
        t + 1, no t devices make a cluster of their own, whatever they send. By default it is 1; with the robust
        and the pooled rule 2 if at least 30 devices sent centers, since among so many a cluster of a single device
        cannot be told from a fault.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the answer.

    Returns
    -------
    Aggregation

    Raises
    ------
    TooFewCentersError
        If there are fewer than `n_clusters` device centers, or fewer clusters that rest on `min_devices` devices.

    Warns
    -----
    AggregationWarning
        If clusters rest on a single center, if centers were set aside, if devices are too alike for the paper's
        corollary, or if a number of clusters was found that does not stand out or could not be cross-checked;
        `Aggregation.notices` has each with its code.

    References
    ----------
    Dennis, Li and Smith, "Heterogeneity for the Win: One-Shot Federated Clustering", ICML 2021, Algorithm 2.

    Examples
    --------
    >>> one = DeviceMessage("a", [[0.0, 0.0], [9.0, 0.0]], [10, 10])
    >>> two = DeviceMessage("b", [[9.1, 0.1], [0.0, 9.0]], [20, 5])
    >>> result = aggregate([one, two], n_clusters=3)
    >>> np.asarray(result.identity("a")), np.asarray(result.identity("b"))
    (array([2, 0]), array([0, 1]))
    >>> result.cluster_sizes
    array([30,  5, 10])
    """
    n_clusters = "auto" if n_clusters is None else checks.positive_integer_or_auto(n_clusters, "n_clusters")
    rule = rule_name(rule)
    batch = messages if isinstance(messages, MessageBatch) else MessageBatch.of(messages)
    _check_first(batch)
    result = aggregate_batch(batch, n_clusters, rule, first_device, n_jobs, _min_devices(min_devices))
    if result.notices:
        codes = ", ".join(notice.code for notice in result.notices)
        text = "; ".join(notice.text for notice in result.notices)
        warnings.warn(AggregationWarning(text, codes), stacklevel=level_outside())
    return result


def _check_first(batch: MessageBatch) -> None:
    """Raise if there is a second message, which says nothing without the clusters that it is about."""
    for message in batch.details.messages if batch.details else ():
        if message.details is not None and message.details.refines is not None:
            raise InvalidInputError(
                f"the message of {message.device_id!r} is a second message; pass the clusters that it refines, too, to "
                "kfed.aggregate_refined or `kfed aggregate`"
            )


def _min_devices(min_devices: int | None) -> int | None:
    return None if min_devices is None else checks.positive_integer(min_devices, "min_devices")


def choose_n_clusters(
    messages: Iterable[DeviceMessage] | MessageBatch, *, min_devices: int | None = None, n_jobs: int | None = None
) -> KChoice:
    """Find the number of global clusters, k, that the device centers show, and say how clearly they do.

    If clusters are as far apart as the paper asks, farthest-first distances of the centers drop after the k-th pick.
    Centers of few points, and those of several clusters in one, are set aside before. Beside the drop, two rules name
    a number: how many centers lie farther apart than centers of one cluster can, and where the Calinski-Harabasz index
    of all points is largest. The number is reliable if two of the three agree, and no cluster could be part of another;
    or if all centers lie as near as those of one cluster. Otherwise the reason says what is in doubt.

    Parameters
    ----------
    messages : iterable of DeviceMessage
        One message a device, in any order, or a `MessageBatch`. Those without `sums_of_squares` say little about k.
    min_devices : int, optional
        Devices that every cluster must rest on, by default 2 if at least 30 devices sent centers, and else 1.
    n_jobs : int, optional
        As in `aggregate`.

    Returns
    -------
    KChoice

    Examples
    --------
    >>> places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    >>> sent = [DeviceMessage(f"{i}", places + i / 10, [20] * 3, [40.0] * 3) for i in range(3)]
    >>> choose_n_clusters(sent).n_clusters
    3
    """
    batch = messages if isinstance(messages, MessageBatch) else MessageBatch.of(messages)
    return choose_k(batch.rescaled, n_jobs, _min_devices(min_devices))
