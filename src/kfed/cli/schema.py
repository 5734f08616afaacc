"""`kfed summarize` and `kfed agree`: one schema for all sites, where they prefer to agree on it before the round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed.cli._app import app
from kfed.cli._options import TABLE_HELP, Kinds, column_names
from kfed.cli._terminal import Force, Json, claim, plural, print_json, say
from kfed.site import MIN_TABLE_CLUSTER_SIZE, TableSummary, agree, read_columns, write_schema


@app.command(
    epilog="`kfed summarize site7.csv --id-column patient`   writes site7.summary, to look at and to send\n\n"
    "Only needed where all sites must use one scale; otherwise the scale travels in the messages. It is no private "
    "release: no noise is added."
)
def summarize(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="By default named like the table.")
    ] = None,
    columns: Annotated[
        Any, typer.Option(metavar="A,B,...", parser=column_names, help="Columns to use; by default all.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column that identifies the rows; it stays here.")
    ] = None,
    kinds: Kinds = None,
    min_cluster_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Levels and columns with fewer filled cells are not told.")
    ] = MIN_TABLE_CLUSTER_SIZE,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tell how many cells each column has, their mean and spread, and its levels: for `kfed agree`."""
    path = Path(f"{data.stem}.summary") if output is None else output
    claim([path], inputs=[data], force=force)
    how: dict[str, Any] = {"columns": columns, "id_column": id_column, "kinds": kinds}
    table = read_columns(data, min_cluster_size=min_cluster_size, **how)
    summary = TableSummary.of(table, min_cluster_size)
    summary.save(path, overwrite=force)
    facts: dict[str, Any] = {"summary": str(path), "columns": [one.column.facts() for one in summary.columns]}
    facts["warnings"] = [notice._asdict() for notice in table.notices]
    notes = [f"  [yellow]note[/]  {escape(notice.text)}" for notice in table.notices]
    text = f"{plural(len(summary.columns), 'column')}: counts, means and spreads, no row"
    print_json(facts) if as_json else say(text, f"  [green]send[/]  {escape(str(path))}", *notes)


@app.command(
    name="agree", epilog="`kfed agree *.summary -o schema.json`, then `kfed device site7.csv --schema schema.json`"
)
def agree_on_schema(
    files: Annotated[list[Path], typer.Argument(metavar="SUMMARY", help="The .summary files of all sites.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The schema.")] = Path("schema.json"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make one schema of the summaries of all sites: their columns, all levels, and one scale."""
    claim([output], inputs=files, force=force)
    schema = agree({path.stem: TableSummary.load(path) for path in files})
    write_schema(output, schema, overwrite=force)
    facts = {"schema": str(output), "fingerprint": schema.fingerprint, "n_features": schema.n_features}
    text = f"{plural(len(schema.columns or ()), 'column')} of {plural(len(files), 'site')}, on one scale"
    print_json(facts) if as_json else say(text, f"  wrote  {escape(str(output))}  (for `kfed device --schema`)")
