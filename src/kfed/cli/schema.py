"""`kfed summarize` and `kfed agree`: one schema for all sites, where they prefer to agree on it before the round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from kfed.cli._app import app
from kfed.cli._options import TABLE_HELP, Exclude, Kinds, Missing, Sheet, split_names
from kfed.cli._terminal import Force, Json, claim, flag, option, plural, print_json, say
from kfed.device import POOLED
from kfed.errors import InvalidInputError
from kfed.site import (
    MIN_TABLE_CLUSTER_SIZE,
    TableSummary,
    agree,
    levels_that_differ,
    read_columns,
    table_stem,
    units_that_differ,
    write_schema,
)
from kfed.wire import Notice


@app.command(
    epilog="`kfed summarize site7.csv --id-column patient`   writes site7.summary, to look at and to send\n\n"
    "Only needed where all sites must use one scale; otherwise the scale travels in the messages. A summary is not "
    "differentially private: no noise is added."
)
def summarize(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    output: Annotated[
        Path | None, option("FILE", "The summary to send; by default named like the table.", "-o", "--output")
    ] = None,
    columns: Annotated[Any, option("A,B,...", "Columns to use; by default all of them.", parser=split_names)] = None,
    exclude: Exclude = None,
    id_column: Annotated[str | None, option("NAME", "Column that identifies the rows; it stays here.")] = None,
    kinds: Kinds = None,
    header: Annotated[
        bool | None, flag("--header/--no-header", "Whether a CSV or Excel file begins with the names of its columns.")
    ] = None,
    sheet: Sheet = None,
    min_cluster_size: Annotated[
        int, option("N", "Levels and columns with fewer filled cells are left out.", min=1)
    ] = MIN_TABLE_CLUSTER_SIZE,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a summary for `kfed agree`: the levels of each column, and the number, mean and spread of its cells."""
    path = Path(f"{table_stem(data)}.summary") if output is None else output
    claim([path], inputs=[data], force=force)
    how: dict[str, Any] = {"columns": columns, "exclude": exclude, "id_column": id_column}
    how |= {"header": header, "sheet": sheet}
    table = read_columns(data, min_cluster_size=min_cluster_size, kinds=kinds, **how)
    summary = TableSummary.of(table, min_cluster_size)
    summary.save(path, overwrite=force)
    facts: dict[str, Any] = {"summary": str(path), "columns": [one.column.facts() for one in summary.columns]}
    facts["warnings"] = [notice._asdict() for notice in table.notices]
    n_told = sum(one.count > 0 for one in summary.columns)
    text = f"{plural(len(summary.columns), 'column')}: {_told(n_told, len(summary.columns), POOLED * min_cluster_size)}"
    print_json(facts) if as_json else say(text, f"  [green]send[/]  {escape(str(path))}", *_notes(table.notices))


def _told(n_told: int, n_columns: int, least: int) -> str:
    """What a summary says, and why it does not say more."""
    names = f"name and kind only (fewer than {least} filled rows or ids, too few distinct values, or one dominates)"
    if n_told == 0:
        return f"{names}: no count, mean or spread is told"
    others = f"; {plural(n_columns - n_told, 'other')}: {names}" if n_told < n_columns else ""
    return f"counts, means and spreads{f' of {n_told}' if others else ''}, no row{others}"


@app.command(
    name="agree", epilog="`kfed agree *.summary -o schema.json`, then `kfed device site7.csv --schema schema.json`"
)
def agree_on_schema(
    files: Annotated[list[Path], typer.Argument(metavar="SUMMARY", help="The .summary files of all sites.")],
    output: Annotated[Path, option("FILE", "The schema.", "-o", "--output")] = Path("schema.json"),
    missing: Missing = "observed",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Combine site summaries into one schema: the columns, all levels, and one scale."""
    claim([output], inputs=files, force=force)
    summaries = {name: TableSummary.load(path) for name, path in _sites(files).items()}
    schema, notices = agree(summaries, missing), [*units_that_differ(summaries), *levels_that_differ(summaries)]
    write_schema(output, schema, from_rows=True, overwrite=force)
    facts: dict[str, Any] = {"schema": str(output), "fingerprint": schema.fingerprint, "n_features": schema.n_features}
    facts["warnings"] = [notice._asdict() for notice in notices]
    text = f"{plural(len(schema.columns or ()), 'column')} of {plural(len(files), 'site')}, on one scale"
    wrote = f"  wrote  {escape(str(output))}  (for `kfed device --schema`)"
    print_json(facts) if as_json else say(text, wrote, *_notes(notices))


def _sites(files: Sequence[Path]) -> dict[str, Path]:
    """Files by the names of their sites: with their folders, where files of two sites are called the same."""
    several = [path for path, count in Counter(path.resolve() for path in files).items() if count > 1]
    if several:
        raise InvalidInputError(f"{several[0]}: each summary must be given once; this one is given twice")
    are_distinct = len({path.stem for path in files}) == len(files)
    return {path.stem if are_distinct else str(path.with_suffix("")): path for path in files}


def _notes(notices: Iterable[Notice]) -> list[str]:
    return [f"  [yellow]note[/]  {escape(notice.text)}" for notice in notices]
