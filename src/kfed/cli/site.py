"""`kfed device` and `kfed label`: what a site runs, before and after the one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from kfed._base.files import write
from kfed._base.text import listed
from kfed.cli._app import app
from kfed.cli._labels import about_hidden, about_hidden_centers, label_facts, tell_labels, tell_of, write_new_labels
from kfed.cli._options import TABLE_HELP, Sheet, SiteOptions, with_option_groups
from kfed.cli._privacy import private_facts, private_text
from kfed.cli._second import not_sent
from kfed.cli._terminal import (
    Force,
    Json,
    about,
    about_table,
    claim,
    csv_path,
    flag,
    note,
    option,
    plural,
    print_json,
    printable,
    say,
)
from kfed.errors import InvalidInputError
from kfed.server import Aggregation, ClusterModel, late_advice
from kfed.site import (
    Ledger,
    LocalFile,
    cluster_file,
    clustered_rows,
    is_table_name,
    label_rows,
    release_file,
    rows_if_there,
    table_stem,
    tables_beside,
)
from kfed.wire import Identity, Notice, load

RefineScale = Annotated[
    Path | None, option("FILE", "With --refine or new rows: the scale file that the rows were clustered with.")
]


@app.command(
    epilog="`kfed device site7.csv` writes site7.kfed and site7.local\n\n"
    "`kfed device site7.csv -k 4`   if it is known that this site has four groups of rows\n\n"
    "`kfed device site7.csv -k 4 --columns age,height --id-column patient --scale scale.json`\n\n"
    'where scale.json says `{"age": {"shift": 50, "scale": 12}, "height": {"shift": 170, "scale": 9}}`\n\n'
    "`kfed device site7.csv -k 4 --scale scale.json --epsilon 1 --budget 2`   differentially private\n\n"
    "`kfed inspect site7.kfed`   shows what you are about to send"
)
@with_option_groups
def device(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    site: SiteOptions,
    output: Annotated[
        Path | None, option("FILE", "The message to send; by default named like the table.", "-o", "--output")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster the rows of this site; write a small file to send and a file to keep.

    The message (.kfed) holds the mean, the size and the spread of groups of rows. Unless --min-cluster-size is 1, it
    contains no single row. The local file (.local) stays here: it labels the rows when the answer comes.
    """
    message_path = Path(f"{table_stem(data)}.kfed") if output is None else output
    local_path = message_path.with_name(f"{message_path.name.removesuffix('.kfed')}.local")
    claim([message_path, local_path], inputs=[data] if site.scale is None else [data, site.scale], force=force)
    how = site.how(data)
    kept = cluster_file(data, **how) if site.epsilon is None else release_file(data, budget=site.budget, **how)
    n_bytes = kept.save_with_message(local_path, message_path, overwrite=force)
    is_limited = site.max_bytes is not None and site.epsilon is None
    limited = _about_limit(data, how, kept) if is_limited else []
    facts = _device_facts(kept, Ledger.beside(data), limited) | {
        "message": str(message_path),
        "message_bytes": n_bytes,
        "local_file": str(local_path),
    }
    print_json(facts) if as_json else say(*_device_text(facts))


@app.command(
    epilog="`kfed label site7.local --clusters clusters.kfed -o site7-labels.csv`\n\n"
    "`kfed label site7.local --clusters answers/site7.identity > site7-labels.csv`\n\n"
    "`kfed label site7.local --clusters clusters.kfed --refine site7.csv --scale scale.json -o labels.csv`\n\n"
    "`kfed label site7.local --clusters site7.ticket`   after `kfed join --no-wait`\n\n"
    "`kfed label new.csv --clusters site7.ticket`   rows that came later, by the clusters that the site was told\n\n"
    "`kfed label new.csv --clusters clusters.kfed --append --distances -o labelled.csv`   rows that came later"
)
def label(
    local: Annotated[
        Path, typer.Argument(metavar="LOCAL|TABLE", help="The .local file that this site kept, or a table of new rows.")
    ],
    clusters: Annotated[
        Path,
        option(
            "FILE",
            "The file you received: the aggregation or the identity of this site; or the .ticket from `kfed join`, to "
            "fetch the identity. New rows can also be labelled by a model from `kfed export`.",
            "--clusters",
        ),
    ],
    output: Annotated[
        Path | None,
        option("FILE", "CSV file to write; by default the labels are printed.", "-o", "--output", parser=csv_path),
    ] = None,
    refine: Annotated[
        Path | None,
        option(
            "TABLE",
            "The table that was clustered: each row may then move to a better cluster among those of this site. If "
            "`kfed device` had no -k, a table beside LOCAL with the same name (site7.csv for site7.local) is taken.",
        ),
    ] = None,
    scale: RefineScale = None,
    append: Annotated[
        bool, flag("--append", "Write all columns of the new rows, and the cluster as the last one.")
    ] = False,
    with_distances: Annotated[
        bool, flag("--distances", "Also write how far each new row is from its cluster, and from the next nearest.")
    ] = False,
    id_column: Annotated[str | None, option("NAME", "Column that identifies the new rows.")] = None,
    header: Annotated[
        bool | None, flag("--header/--no-header", "Whether the new rows begin with the names of the columns.")
    ] = None,
    sheet: Sheet = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the shared cluster of each row, as CSV.

    The first column is the id column, or the number of the row, counted from 0; the second is the cluster. A site
    that came too late to be aggregated can label its rows, too. Rows that were never clustered get the nearest
    cluster.
    """
    given = [path for path in (local, clusters, refine, scale) if path is not None]
    claim([output] if output else [], inputs=given, force=force)
    if is_table_name(local):
        if refine is not None:
            raise InvalidInputError("--refine is for a .local file; new rows get the nearest cluster anyway")
        found = _ask(clusters) if _is_ticket(clusters) else load(clusters, Aggregation, ClusterModel, Identity)
        hidden = about_hidden_centers(found)
        rows = label_rows(local, found, id_column=id_column, scale=scale, header=header, sheet=sheet)
        rows = replace(rows, notices=(*hidden, *rows.notices))
        text = (
            rows.appended_csv(header=header, with_distances=with_distances)
            if append
            else rows.labels_csv(with_distances=with_distances)
        )
        write_new_labels(rows, text, output, with_distances=with_distances, force=force, as_json=as_json)
        return
    if append or with_distances or id_column or sheet or header is not None:
        raise InvalidInputError(
            "--append, --distances, --id-column, --header and --sheet are for a table of new rows; got a .local file"
        )
    kept: LocalFile = load(local, LocalFile)
    if refine is None:
        again, by_group = rows_if_there(kept, tables_beside(local), scale)
    else:
        with about_table(refine):
            again, by_group = clustered_rows(kept, refine, scale), []
    answer = _ask(clusters) if _is_ticket(clusters) else load(clusters, Aggregation, Identity)
    with about(local):
        labels = kept.labels(answer, again)
    notices = [*by_group, *about_hidden(kept, answer, again, None)]
    if isinstance(answer, Aggregation) and kept.device_id not in answer:
        notices += late_advice(answer, answer.messages, kept.to_message())
    if not as_json:
        tell_of(notices)
    if output is not None:
        write(output, kept.labels_csv(labels).encode(), overwrite=force, private=True)
        tell_labels(kept, answer, labels, output, notices, as_json=as_json)
    elif as_json:
        each = {"rows": list(kept.row_names), "labels": labels.tolist()}
        print_json(label_facts(kept, answer, labels) | each | {"warnings": [notice._asdict() for notice in notices]})
    else:
        typer.echo(kept.labels_csv(labels), nl=False)


def _is_ticket(path: Path) -> bool:
    return path.suffix == ".ticket"


def _ask(path: Path) -> Identity:
    """Ask the coordinator that a device joined for its identity."""
    from kfed.coordinator.client import CoordinatorError, Ticket

    ticket = Ticket.load(path)
    with ticket.line(patience=30, tell=note) as line:
        client = ticket.client(line)
        answer = client.identity()
    tell_of(client.notices)
    tell_of(not_sent(client, path))
    if not isinstance(answer, Identity):
        raise CoordinatorError(f"{answer.in_words}; try again later")
    return answer


def _about_limit(data: Path, how: dict[str, Any], kept: LocalFile) -> list[Notice]:
    """Say what --max-bytes took away, beside the summary without it."""
    message, whole = kept.to_message(), cluster_file(data, **how | {"max_bytes": None, "warn": False})
    n_sent, n_whole = len(message.centers), int((~whole.clustering.withheld).sum())
    bits = None if message.details is None or message.rounding is None else message.details.bits
    lost = [f"{n_sent:,} of the {plural(n_whole, 'center')} that it has without it"] if n_sent < n_whole else []
    lost += [f"numbers rounded to {bits} bits"] if bits is not None and how["bits"] is None else []
    text = f"to stay within --max-bytes {how['max_bytes']:,}, the summary has {' and '.join(lost)}; fewer centers, or "
    return [Notice("max bytes", f"{text}rounded ones, tell less of the groups at this site")] if lost else []


def _device_facts(kept: LocalFile, ledger: Ledger, notices: Sequence[Notice]) -> dict[str, Any]:
    clustering = kept.clustering
    sent = ~clustering.withheld
    private: dict[str, Any] = {}
    if clustering.private is not None:
        private["privacy"] = private_facts(kept.to_message(), clustering.private.promise, ledger)
    return {
        **private,
        "device_id": kept.device_id,
        "n_rows": clustering.n_points,
        "n_features": clustering.n_features,
        "feature_names": clustering.feature_names,
        "n_centers_sent": int(sent.sum()),
        "n_withheld": kept.n_withheld,
        "smallest_count_sent": min(clustering.counts[sent].tolist(), default=None),
        "scatter_bytes": 0 if clustering.scatter is None else clustering.scatter.nbytes,
        "n_rows_left_out": int(np.count_nonzero(clustering.withheld[clustering.labels])),
        "warnings": [notice._asdict() for notice in (*kept.notices, *notices)],
    }


def _device_text(facts: dict[str, Any]) -> list[str]:
    withheld = facts["n_withheld"]
    names = f" ({listed(list(map(printable, facts['feature_names'])))})" if facts["feature_names"] else ""
    scatter = f", {facts['scatter_bytes']:,} of them for the scatter (--moments)" if facts["scatter_bytes"] else ""
    lines = [
        f"{plural(facts['n_rows'], 'row')} of {escape(repr(facts['device_id']))} with "
        f"{plural(facts['n_features'], 'feature')}{escape(names)}; {plural(facts['n_centers_sent'], 'center')} to send",
        f"  [green]send[/]  {escape(facts['message'])}  ({facts['message_bytes']:,} bytes{scatter})",
        f"  [yellow]keep[/]  {escape(facts['local_file'])}  (labels the rows when the answer comes)",
    ]
    if withheld and all(warning["code"] != "rows left out" for warning in facts["warnings"]):
        lines.insert(
            1,
            f"  {plural(withheld, 'cluster')} of {plural(facts['n_rows_left_out'], 'row')} withheld, as too small or "
            "too close to a single row; the rows get labels all the same",
        )
    lines[1:1] = [f"  {escape(line)}" for line in private_text(facts["privacy"])] if "privacy" in facts else []
    return [*lines, *(f"  [yellow]note[/]  {escape(warning['text'])}" for warning in facts["warnings"])]
