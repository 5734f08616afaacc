"""What each kind of kfed file holds and what it does not, in words and in facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from kfed._base.array import Array
from kfed._base.text import listed
from kfed.cli._privacy import NOT_PROMISED, cost_of, cost_text, in_a_sentence
from kfed.cli._sent_in_words import DEVIATION, columns_in_words, scale_facts, sent_in_words
from kfed.cli._terminal import plural, printable
from kfed.server import Aggregation, ClusterModel
from kfed.site import LocalFile
from kfed.wire import DeviceMessage, FeatureSchema, Identity, Promise

FEW_ROWS = 5


@dataclass(frozen=True)
class Description:
    """What a file holds, in words and in facts."""

    title: str
    holds: list[str]
    lacks: list[str]
    warnings: list[str]
    facts: dict[str, Any]
    centers: Array  # (n_centers, n_features)
    names: tuple[str, ...] | None = None
    dates: frozenset[str] = frozenset()  # names of features that are days since 1970
    is_told: Array | None = None  # (n_centers, n_features), where the file says nothing of some
    not_promised: tuple[str, ...] = ()  # what a promise of privacy does not cover


@singledispatch
def description_of(document: Any) -> Description:
    """Describe a value that was read from a file."""
    raise NotImplementedError(type(document).__name__)


@description_of.register
def _(message: DeviceMessage) -> Description:
    counts = message.counts.tolist()
    holds = [
        f"the name of the device: {message.device_id!r}",
        f"{_centers(message.centers)}: each is the average of a group of rows",
    ]
    if counts:
        holds.append(f"how many rows each group has: {sum(counts):,} in all, {min(counts):,} in the smallest")
    if message.sums_of_squares is not None:
        holds.append("how spread out each group is (sum of squares; small groups send a shared one)")
    if message.spectral_deviation is not None:
        holds.append(f"how far all rows are from their centers: {DEVIATION}")
    holds += _columns_in_words(message)
    lacks = [
        "any row as such; the mean of a few rows does say something about each of them",
        "ids of rows, or the group of any row",
        "groups that the device withheld as too small",
        *_hidden(message),
    ]
    found = Description(
        _title(message),
        holds,
        lacks,
        _warnings(counts),
        {
            "kind": "message",
            "device_id": message.device_id,
            "n_centers": message.n_local_clusters,
            "n_features": message.n_features,
            "dtype": str(message.centers.dtype),
            "counts": counts,
            "smallest_count": min(counts, default=None),
            "feature_names": message.feature_names,
            "schema": message.schema.facts(),
            "fingerprint": message.schema.fingerprint,
            "n_rows_left_out": None if message.details is None else message.details.n_left_out,
            "rounding": None if message.rounding is None else float(message.rounding.max(initial=0)),
            "refines": None if message.details is None else message.details.refines,
        },
        message.centers,
        message.feature_names,
        _dates(message.schema),
        None if message.details is None or message.details.observed is None else message.details.observed > 0,
    )
    promise = None if message.details is None else message.details.promise
    return found if promise is None else _private(found, message, promise)


def _title(message: DeviceMessage) -> str:
    if message.details is not None and message.details.refines is not None:
        return f"the second message of device {message.device_id!r}, about shared clusters that it was told"
    return f"the message of device {message.device_id!r}"


def _private(found: Description, message: DeviceMessage, promise: Promise) -> Description:
    """The same of a private message: everything in it that depends on the rows is noisy."""
    cost = cost_of(message)
    holds = [
        found.holds[0],
        f"{_centers(message.centers)}: each is the average of a group of rows, with noise",
        *cost_text(cost),
        "about how many rows each group has, with noise",
        *_columns_in_words(message),
        in_a_sentence(promise),
    ]
    lacks = ["anything else that depends on the rows", *_hidden(message)]
    facts = promise.facts() | cost | {"promise": in_a_sentence(promise), "not_promised": NOT_PROMISED}
    told = found.facts | {"privacy": facts}
    return replace(found, holds=holds, lacks=lacks, warnings=[], facts=told, not_promised=tuple(NOT_PROMISED))


def _hidden(message: DeviceMessage) -> Iterator[str]:
    """Averages that a message does not tell."""
    details = message.details
    hidden = 0 if details is None or details.observed is None else int((details.observed == 0).sum())
    if hidden:
        yield f"{plural(hidden, 'average')} with too few filled cells behind {'it' if hidden == 1 else 'them'}"


def _columns_in_words(message: DeviceMessage) -> Iterator[str]:
    """What a message says of its columns."""
    details = message.details
    yield from columns_in_words(message.schema)
    if details is None:
        return
    if details.observed is not None and details.squares is not None:
        yield "of each column and group, how many cells were filled, and how far they are from the center on average"
    if details.scatter is not None:
        yield "how all rows together spread in every direction: their scatter, as --moments asked for"
    if details.sketch is not None:
        directions = plural(len(details.sketch), "direction")
        yield f"how all rows together spread in the {directions} of most spread, as --moments asked for"
    if message.rounding is not None:
        most = float(message.rounding.max(initial=0))
        yield f"each center rounded to {details.bits} bits a number: it may be off by {most:.2g} at most"
    if details.cluster_ids is not None:
        yield f"the shared cluster of each group ({plural(len(details.cluster_ids), 'group')}): a second message"
    if details.n_left_out:
        yield f"how many rows are in none of these groups: {details.n_left_out:,}"


@description_of.register
def _(kept: LocalFile) -> Description:
    clustering = kept.clustering
    n_withheld = kept.n_withheld
    holds = [
        f"the name of the device: {kept.device_id!r}",
        f"the group of each row ({plural(clustering.n_points, 'row')})",
        f"{_centers(clustering.centers[clustering.counts > 0])} with their counts, {n_withheld} of them withheld from "
        "the message",
    ]
    if kept.row_ids is not None:
        holds.append(f"the ids of the rows, from column {kept.id_column!r}")
    if clustering.feature_names is not None:
        holds.append(f"the names of the columns: {_listed(clustering.feature_names)}")
    return Description(
        f"the local file of device {kept.device_id!r}: it stays there, and labels the rows later",
        holds,
        ["the rows themselves"],
        ["do not send this file: the center of a withheld group can be a row"] if n_withheld else [],
        {
            "kind": "local file",
            "device_id": kept.device_id,
            "n_rows": clustering.n_points,
            "n_centers": int(np.count_nonzero(clustering.counts)),
            "n_withheld": n_withheld,
            "n_features": clustering.n_features,
            "counts": clustering.counts.tolist(),
            "id_column": kept.id_column,
            "feature_names": clustering.feature_names,
        },
        clustering.centers,
        clustering.feature_names,
        frozenset() if clustering.columns is None else _dates(clustering.columns.schema),
        None if clustering.columns is None else clustering.columns.observed > 0,
    )


@description_of.register
def _(identity: Identity) -> Description:
    return Description(
        f"the answer to device {identity.device_id!r}, meant for it alone",
        [
            f"the name of the device: {identity.device_id!r}",
            f"the shared cluster of each group that it sent ({plural(len(identity), 'group')})",
            f"{_centers(identity.cluster_centers[identity.shown])}, those of the shared clusters",
            *([] if identity.cluster_shares is None else ["about which share of all rows each of these clusters has"]),
            *columns_in_words(identity.schema, identity.scale),
        ],
        [
            "any row",
            "names or counts of other devices, or which of them has a level",
            "their centers, except where a cluster comes from one device alone",
            *_not_shown(identity),
        ],
        [],
        {
            "kind": "identity",
            "device_id": identity.device_id,
            "n_clusters": identity.n_clusters,
            "n_features": identity.n_features,
            "cluster_ids": identity.cluster_ids.tolist(),
            "cluster_shares": None if identity.cluster_shares is None else identity.cluster_shares.tolist(),
            "shown": identity.shown.tolist(),
            **scale_facts(identity.schema, identity.scale),
        },
        identity.cluster_centers,
        None if identity.schema is None else identity.schema.names,
        _dates(identity.schema),
    )


def _not_shown(identity: Identity) -> list[str]:
    n_hidden = int((~identity.shown).sum())
    return [f"{plural(n_hidden, 'center')} of clusters with too few devices behind them"] if n_hidden else []


@description_of.register
def _(model: ClusterModel) -> Description:
    holds = [f"{_centers(model.cluster_centers)}, those of the shared clusters", "how many rows each has"]
    return Description(
        f"a model of {plural(model.n_clusters, 'cluster')}, for labelling rows",
        [*holds, *columns_in_words(model.schema, model.scale)],
        ["any row", "names, counts or centers of devices, except where a cluster comes from one device alone"],
        [],
        {
            "kind": "model",
            "n_clusters": model.n_clusters,
            "cluster_sizes": model.cluster_sizes.tolist(),
            **scale_facts(model.schema, model.scale),
        },
        model.cluster_centers,
        model.schema.names,
        _dates(model.schema),
    )


@description_of.register
def _(result: Aggregation) -> Description:
    holds = [
        f"{_centers(result.cluster_centers)}, those of the shared clusters",
        f"the names of {plural(result.messages.n_devices, 'device')}: {_listed(result.messages.device_ids)}",
        f"everything that they sent: {_centers(result.messages.centers)} with their counts",
        *sent_in_words(result.messages),
    ]
    if result.schema.names is not None:
        holds.append(f"the names of the columns: {_listed(result.schema.names)}")
    return Description(
        f"an aggregation in {plural(result.n_clusters, 'cluster')} (rule: {result.rule})",
        holds,
        ["any row"],
        [
            "whoever has this file sees the centers of every device; "
            "`kfed aggregate --identities` writes answers without them"
        ],
        {
            "kind": "aggregation",
            "rule": result.rule,
            "n_clusters": result.n_clusters,
            "n_devices": result.messages.n_devices,
            "n_device_centers": len(result.messages.centers),
            "n_features": result.schema.n_features,
            "cluster_sizes": result.cluster_sizes.tolist(),
            "device_ids": result.messages.device_ids,
            "feature_names": result.schema.names,
        },
        result.cluster_centers,
        result.schema.names,
        _dates(result.schema),
    )


def _dates(schema: FeatureSchema | None) -> frozenset[str]:
    """The columns whose values are days since 1970; on an agreed scale they are not."""
    columns = () if schema is None or schema.scaling == "agreed" else schema.columns or ()
    return frozenset(column.name for column in columns if column.kind == "date")


def _centers(centers: Array) -> str:
    n_centers, n_features = centers.shape
    return f"{plural(n_centers, 'center')} of {plural(n_features, 'number')} ({centers.dtype})"


def _listed(names: tuple[str, ...]) -> str:
    return listed(list(map(printable, names)), limit=20)


def _warnings(counts: list[float]) -> list[str]:
    if counts and min(counts) < 2:
        return ["a group has one row, so its center is that row; do not send this file"]
    if counts and min(counts) < FEW_ROWS:
        return [f"a group has {int(min(counts))} rows, so its center says much about each of them"]
    return []
