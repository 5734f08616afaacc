"""`kfed inspect`: what is in a kfed file, in plain words, for the person who is asked to send it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from kfed._base.array import Array
from kfed.cli._terminal import Json, about, plural, print_json, printable, say, table
from kfed.errors import InvalidInputError
from kfed.server import Aggregation
from kfed.site import LocalFile, read_scale, unscaled
from kfed.wire import DeviceMessage, Identity, load

FEW_ROWS = 3


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(
        epilog="`kfed inspect site7.kfed`\n\n`kfed inspect site7.kfed --centers`\n\n"
        "`kfed inspect clusters.kfed --centers --scale scale.json`   in the units of the tables"
    )(inspect)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A message, local file, aggregation or identity.")],
    centers: Annotated[bool, typer.Option("--centers", help="Show the centers, too.")] = False,
    scale: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON with the agreed shift and scale, to show centers in the former units."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what is in a file, what is not, and who may have it."""
    if scale is not None and not centers:
        raise InvalidInputError("--scale is for the centers; add --centers to see them")
    found = describe(load(file, DeviceMessage, Aggregation, Identity, LocalFile))
    if scale is not None:
        found = _in_units(found, scale)
    facts = {"file": str(file), "bytes": file.stat().st_size, **found.facts}
    if as_json:
        print_json(facts | {"centers": found.centers.tolist()} if centers else facts)
        return
    say(f"[bold]{escape(str(file))}[/] ({facts['bytes']:,} bytes) is {escape(found.title)}")
    say("", "It holds:", *(f"  - {escape(line)}" for line in found.holds))
    say("", "It does not hold:", *(f"  - {escape(line)}" for line in found.lacks))
    say(*(f"\n[bold red]Beware:[/] {escape(line)}" for line in found.warnings))
    if centers:
        say("", _centers_table(found))


@dataclass(frozen=True)
class Description:
    """What a file is, in words and in facts."""

    title: str
    holds: list[str]
    lacks: list[str]
    warnings: list[str]
    facts: dict[str, Any]
    centers: Array  # (n_centers, n_features)
    names: tuple[str, ...] | None = None


@singledispatch
def describe(document: Any) -> Description:
    """Describe what `kfed.files.load` gave."""
    raise NotImplementedError(type(document).__name__)


@describe.register
def _(message: DeviceMessage) -> Description:
    counts = message.counts.tolist()
    holds = [
        f"the name of the device: {message.device_id!r}",
        f"{_centers(message.centers)}: each is the average of a group of rows",
    ]
    if counts:
        holds.append(f"how many rows each group has: {sum(counts):,} in all, {min(counts):,} in the smallest")
    if message.sums_of_squares is not None:
        holds.append("how far the rows of each group lie from their center: one sum of squares a group")
    if message.spectral_deviation is not None:
        holds.append("how far all rows lie from their centers: one number, the largest singular value")
    if message.feature_names is not None:
        holds.append(f"the names of the columns: {_listed(message.feature_names)}")
    lacks = [
        "any row",
        "ids of rows, or which row is in which group",
        "groups that the device withheld as too small",
    ]
    return Description(
        f"the message of device {message.device_id!r}: this, and nothing else, leaves it",
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
        },
        message.centers,
        message.feature_names,
    )


@describe.register
def _(kept: LocalFile) -> Description:
    clustering = kept.clustering
    n_withheld = int(np.count_nonzero(clustering.withheld & (clustering.counts > 0)))
    holds = [
        f"the name of the device: {kept.device_id!r}",
        f"which group each of {plural(clustering.n_points, 'row')} is in",
        f"{_centers(clustering.centers)} and their counts, {n_withheld} of them withheld from the message",
    ]
    if kept.row_ids is not None:
        holds.append(f"the ids of the rows, from column {kept.id_column!r}")
    if clustering.feature_names is not None:
        holds.append(f"the names of the columns: {_listed(clustering.feature_names)}")
    return Description(
        f"the local file of device {kept.device_id!r}: it stays there, to label its rows later",
        holds,
        ["the rows themselves"],
        ["do not send this file: the center of a withheld group can be a row"] if n_withheld else [],
        {
            "kind": "local file",
            "device_id": kept.device_id,
            "n_rows": clustering.n_points,
            "n_centers": clustering.n_local_clusters,
            "n_withheld": n_withheld,
            "n_features": clustering.n_features,
            "counts": clustering.counts.tolist(),
            "id_column": kept.id_column,
            "feature_names": clustering.feature_names,
        },
        clustering.centers,
        clustering.feature_names,
    )


@describe.register
def _(identity: Identity) -> Description:
    return Description(
        f"the answer to device {identity.device_id!r}, and for it alone",
        [
            f"the name of the device: {identity.device_id!r}",
            f"which shared cluster each of {plural(len(identity), 'group')} that it sent is in",
            f"{_centers(identity.cluster_centers)}, those of the shared clusters",
        ],
        [
            "any row",
            "names or counts of other devices",
            "their centers, but for a cluster that only one of them has",
        ],
        [],
        {
            "kind": "identity",
            "device_id": identity.device_id,
            "n_clusters": identity.n_clusters,
            "n_features": identity.n_features,
            "cluster_ids": identity.cluster_ids.tolist(),
        },
        identity.cluster_centers,
    )


@describe.register
def _(result: Aggregation) -> Description:
    holds = [
        f"{_centers(result.cluster_centers)}, those of the shared clusters",
        f"the names of {plural(result.messages.n_devices, 'device')}: {_listed(result.messages.device_ids)}",
        f"everything that they sent: {_centers(result.messages.centers)} with their counts",
    ]
    if result.schema.names is not None:
        holds.append(f"the names of the columns: {_listed(result.schema.names)}")
    return Description(
        f"an aggregation in {plural(result.n_clusters, 'cluster')} (rule: {result.rule})",
        holds,
        ["any row"],
        [
            "who has this file sees the centers of every device; "
            "`kfed aggregate --identities` makes answers without them"
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
    )


def _centers(centers: Array) -> str:
    n_centers, n_features = centers.shape
    return f"{plural(n_centers, 'center')} of {plural(n_features, 'number')} ({centers.dtype})"


def _listed(names: tuple[str, ...], limit: int = 20) -> str:
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(map(printable, names[:limit])) + more


def _warnings(counts: list[float]) -> list[str]:
    if counts and min(counts) < 2:
        return ["there is a group of one row, and its center is that row; do not send this file"]
    if counts and min(counts) < FEW_ROWS:
        return ["there is a group of two rows, whose average says much about each"]
    return []


def _in_units(found: Description, scale: Path) -> Description:
    """The same, with centers as they were before the rows were put on a scale."""
    names = found.names or [str(position) for position in range(found.centers.shape[1])]
    agreed = read_scale(scale)
    with about(scale):
        return replace(found, centers=unscaled(found.centers, names, agreed))


def _centers_table(found: Description) -> Table:
    """Give each feature a line and each center a column."""
    n_centers, n_features = found.centers.shape
    names = found.names or [f"feature {position}" for position in range(n_features)]
    lines = [
        (escape(printable(name)), *(f"{value:.6g}" for value in column.tolist()))
        for name, column in zip(names, found.centers.T, strict=True)
    ]
    return table("Centers", ["", *map(str, range(n_centers))], lines)
