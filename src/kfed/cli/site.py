"""`kfed device` and `kfed label`: what a site runs, before and after the one round."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from kfed._base import files
from kfed._base.text import listed
from kfed.cli._site_options import (
    Columns,
    DeviceId,
    Float32,
    Header,
    IdColumn,
    LocalClusters,
    MinClusterSize,
    Scale,
    Seed,
    WeightColumn,
)
from kfed.cli._terminal import Force, Json, about, claim, plural, print_json, printable, say, table
from kfed.device import MIN_CLUSTER_SIZE, cluster_device
from kfed.server import Aggregation
from kfed.site import LocalFile, Table, read_scale, read_table
from kfed.wire import Identity, load


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(
        epilog="`kfed device site7.csv -k 4` writes site7.kfed and site7.local\n\n"
        "`kfed device site7.csv -k 4 --columns age,height --id-column patient --scale scale.json`\n\n"
        'where scale.json says `{"age": {"shift": 50, "scale": 12}, "height": {"shift": 170, "scale": 9}}`\n\n'
        "`kfed inspect site7.kfed`   shows what you are about to send"
    )(device)
    app.command(
        epilog="`kfed label site7.local --clusters clusters.kfed -o site7-labels.csv`\n\n"
        "`kfed label site7.local --clusters answers/site7.identity > site7-labels.csv`\n\n"
        "`kfed label site7.local --clusters clusters.kfed --refine site7.csv --scale scale.json -o labels.csv`\n\n"
        "`kfed label site7.local --clusters site7.ticket`   after `kfed join --no-wait`"
    )(label)


def device(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help="The rows of this site: .csv, .parquet or .npy.")],
    n_local_clusters: LocalClusters,
    device_id: DeviceId = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The message to send; by default it is called as the table."
        ),
    ] = None,
    columns: Columns = None,
    id_column: IdColumn = None,
    weight_column: WeightColumn = None,
    scale: Scale = None,
    min_cluster_size: MinClusterSize = MIN_CLUSTER_SIZE,
    seed: Seed = 0,
    header: Header = None,
    float32: Float32 = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster the rows of this site, and write a small file to send and another to keep.

    The message (.kfed) holds centers and counts, and no row. The local file (.local) stays here: it labels
    the rows when the answer comes.
    """
    message_path = Path(f"{data.stem}.kfed") if output is None else output
    local_path = _local_path(message_path)
    claim([message_path, local_path], inputs=[data] if scale is None else [data, scale], force=force)
    rows = read_rows(data, columns, id_column, weight_column, scale, header=header, float32=float32)
    kept = cluster(rows, n_local_clusters, data.stem if device_id is None else device_id, seed, min_cluster_size)
    payload = kept.to_message().to_bytes()
    _write_both(local_path, kept.to_bytes(), message_path, payload, force=force)
    facts = _device_facts(kept, message_path, local_path, len(payload))
    print_json(facts) if as_json else say(*_device_text(facts))


def label(
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="The .local file that this site kept.")],
    clusters: Annotated[
        Path,
        typer.Option(
            "--clusters",
            metavar="FILE",
            help="What came back: the aggregation, or the identity of this site; or a .ticket, to ask for it.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="CSV file to write; by default it goes to stdout."),
    ] = None,
    refine: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="The rows again: each may move to a better cluster that this site holds."),
    ] = None,
    scale: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --refine, the scale that the rows were clustered on.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say which shared cluster each row of this site belongs to, as CSV.

    The first column is the id column, or the number of the row, counted from 0; the second is the cluster. It
    works for a site that came too late to be aggregated, too.
    """
    given = [path for path in (local, clusters, refine, scale) if path is not None]
    claim([output] if output else [], inputs=given, force=force)
    kept: LocalFile = load(local, LocalFile)
    rows = None if refine is None else _rows(refine, kept, scale)
    answer = _ask(clusters) if clusters.suffix == ".ticket" else load(clusters, Aggregation, Identity)
    with about(local):
        labels = kept.labels(answer, None if rows is None else rows.values)
    if output is not None:
        files.write(output, labels_csv(kept, labels).encode(), overwrite=force)
    elif not as_json:
        typer.echo(labels_csv(kept, labels), nl=False)
        return
    facts = label_facts(kept, answer, labels, output)
    print_json(facts) if as_json else say(*label_text(facts))


def _ask(ticket: Path) -> Identity:
    """Ask the coordinator that a device joined for its identity."""
    from kfed.coordinator.client import CoordinatorError, Ticket

    kept = Ticket.load(ticket)
    with kept.line(patience=30) as line:
        answer = kept.client(line).identity()
    if not isinstance(answer, Identity):
        raise CoordinatorError(f"{answer.in_words}; try again later")
    return answer


def on_scale(rows: Table, scale: Path | None) -> Table:
    """Rows on the scale that the sites agreed on, if there is one."""
    if scale is None:
        return rows
    agreed = read_scale(scale)
    with about(scale):
        return rows.scaled(agreed)


def _rows(path: Path, kept: LocalFile, scale: Path | None) -> Table:
    """The rows that a local file is about."""
    names = kept.clustering.feature_names
    columns = list(names) if names else None
    return on_scale(read_table(path, columns=columns, id_column=kept.id_column), scale)


def _local_path(message_path: Path) -> Path:
    """Beside the message, with .local for .kfed."""
    name = message_path.name.removesuffix(".kfed")
    return message_path.with_name(f"{name}.local")


def read_rows(
    data: Path,
    columns: str | None,
    id_column: str | None,
    weight_column: str | None,
    scale: Path | None,
    *,
    header: bool | None,
    float32: bool,
) -> Table:
    """Read the table of a site, on the scale that was agreed on."""
    rows = read_table(
        data,
        columns=None if columns is None else next(csv.reader([columns])),
        id_column=id_column,
        weight_column=weight_column,
        header=header,
        dtype=np.float32 if float32 else None,
    )
    return on_scale(rows, scale)


def cluster(rows: Table, n_local_clusters: Any, device_id: str, seed: int, min_cluster_size: int) -> LocalFile:
    """Run Algorithm 1 on the rows of a site."""
    clustering = cluster_device(
        rows,
        n_local_clusters,
        sample_weight=rows.weights,
        random_state=seed,
        device_id=device_id,
        min_cluster_size=min_cluster_size,
    )
    return LocalFile(device_id, clustering, rows.row_ids, rows.id_column)


def _write_both(local_path: Path, kept: bytes, message_path: Path, message: bytes, *, force: bool) -> None:
    """Write the local file and the message, or leave everything as it was."""
    before = local_path.read_bytes() if local_path.exists() else None
    files.write(local_path, kept, overwrite=force, private=True)
    try:
        files.write(message_path, message, overwrite=force)
    except BaseException:
        if before is None:
            local_path.unlink(missing_ok=True)
        else:
            files.write(local_path, before, private=True)
        raise


def _device_facts(kept: LocalFile, message_path: Path, local_path: Path, n_bytes: int) -> dict[str, Any]:
    clustering = kept.clustering
    sent = ~clustering.withheld
    return {
        "device_id": kept.device_id,
        "n_rows": clustering.n_points,
        "n_features": clustering.n_features,
        "feature_names": clustering.feature_names,
        "n_centers_sent": int(sent.sum()),
        "n_withheld": int(np.count_nonzero(clustering.withheld & (clustering.counts > 0))),
        "smallest_count_sent": min(clustering.counts[sent].tolist(), default=None),
        "message": str(message_path),
        "message_bytes": n_bytes,
        "local_file": str(local_path),
    }


def _device_text(facts: dict[str, Any]) -> list[str]:
    withheld = facts["n_withheld"]
    names = f" ({listed(list(map(printable, facts['feature_names'])))})" if facts["feature_names"] else ""
    lines = [
        f"{plural(facts['n_rows'], 'row')} of {escape(repr(facts['device_id']))} with "
        f"{plural(facts['n_features'], 'feature')}{escape(names)}; {plural(facts['n_centers_sent'], 'center')} to send",
        f"  [green]send[/]  {escape(facts['message'])}  ({facts['message_bytes']:,} bytes)",
        f"  [yellow]keep[/]  {escape(facts['local_file'])}  (labels the rows when the answer comes)",
    ]
    if withheld:
        lines.insert(
            1,
            f"  {plural(withheld, 'cluster')} withheld, which would give away rows; they get labels too",
        )
    return lines


def labels_csv(kept: LocalFile, labels: Any) -> str:
    """Name each row and its cluster."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row" if kept.id_column is None else kept.id_column, "cluster"])
    writer.writerows(zip(_row_names(kept), labels.tolist(), strict=True))
    return text.getvalue()


def _row_names(kept: LocalFile) -> Any:
    return range(kept.clustering.n_points) if kept.row_ids is None else kept.row_ids


def label_facts(kept: LocalFile, answer: Aggregation | Identity, labels: Any, output: Path | None) -> dict[str, Any]:
    """Say how many rows are in which cluster."""
    facts: dict[str, Any] = {
        "device_id": kept.device_id,
        "n_rows": len(labels),
        "rows_in_cluster": np.bincount(labels, minlength=answer.n_clusters).tolist(),
    }
    if isinstance(answer, Aggregation):
        facts["late"] = kept.device_id not in answer
    if output is None:
        return facts | {"rows": list(_row_names(kept)), "labels": labels.tolist()}
    return facts | {"output": str(output)}


def label_text(facts: dict[str, Any]) -> list[Any]:
    """Put `label_facts` in words."""
    rows = [(str(cluster), f"{count:,}") for cluster, count in enumerate(facts["rows_in_cluster"]) if count]
    came_late = ", which came after the aggregation" if facts.get("late") else ""
    return [
        f"{plural(facts['n_rows'], 'row')} of {escape(repr(facts['device_id']))}{came_late}",
        table(None, ["cluster", "rows"], rows),
        f"  [green]wrote[/]  {escape(facts['output'])}",
    ]
