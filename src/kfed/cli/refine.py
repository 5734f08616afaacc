"""`kfed refine`: a second message, for clusters as good as if all rows had been in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed._base import files
from kfed.cli._app import app
from kfed.cli._options import TABLE_HELP, Bits
from kfed.cli._terminal import Force, Json, about, about_table, claim, option, plural, print_json, say
from kfed.server import Aggregation
from kfed.site import LocalFile, clustered_rows, refine_file
from kfed.wire import Identity, load


@app.command(
    epilog="`kfed refine site7.local --data site7.csv --clusters clusters.kfed` writes site7.refined\n\n"
    "`kfed aggregate *.refined --clusters clusters.kfed -o better.kfed`   at the server\n\n"
    "`kfed label site7.refined.local --clusters better.kfed`   at every site"
)
def refine(
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="The .local file that this site kept.")],
    data: Annotated[Path, option("TABLE", TABLE_HELP)],
    clusters: Annotated[
        Path, option("FILE", "The file you received: the aggregation, or the identity of this site.", "--clusters")
    ],
    output: Annotated[
        Path | None, option("FILE", "The message to send; by default LOCAL with the ending .refined.", "-o", "--output")
    ] = None,
    scale: Annotated[Path | None, option("FILE", "The scale file that the rows were clustered with, if any.")] = None,
    bits: Bits = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Count the rows of this site by shared cluster, for a second message that makes the clusters better.

    It holds the mean and the size of each shared cluster at this site, over the same rows as the first message. Rows
    change their cluster only in groups of at least the --min-cluster-size of the first message, so subtracting the
    messages reveals no smaller group. Sites that send none keep their first message.
    """
    message_path = local.with_suffix(".refined") if output is None else output
    second_path = message_path.with_name(f"{message_path.name}.local")
    inputs = [path for path in (local, data, clusters, scale) if path is not None]
    claim([message_path, second_path], inputs=inputs, force=force)
    before: LocalFile = load(local, LocalFile)
    with about_table(data):
        clustered_rows(before, data, scale)
    with about(local):
        kept, second = refine_file(before, data, load(clusters, Aggregation, Identity), scale=scale, bits=bits)
    files.write(local, kept.to_bytes(), private=True)
    n_bytes = second.save_with_message(second_path, message_path, overwrite=force)
    facts = _facts(second) | {"message": str(message_path), "message_bytes": n_bytes, "local_file": str(second_path)}
    print_json(facts) if as_json else say(*_text(facts))


def _facts(second: LocalFile) -> dict[str, Any]:
    message = second.to_message()
    return {
        "device_id": second.device_id,
        "n_rows": message.n_points,
        "n_centers_sent": message.n_local_clusters,
        "n_clusters": second.clustering.n_local_clusters,
        "counts": message.counts.tolist(),
    }


def _text(facts: dict[str, Any]) -> list[str]:
    return [
        f"{plural(facts['n_rows'], 'row')} of {escape(repr(facts['device_id']))} in "
        f"{facts['n_centers_sent']:,} of {plural(facts['n_clusters'], 'shared cluster')}",
        f"  [green]send[/]  {escape(facts['message'])}  ({facts['message_bytes']:,} bytes)",
        f"  [yellow]keep[/]  {escape(facts['local_file'])}  (labels the rows when the refined clusters come)",
    ]
