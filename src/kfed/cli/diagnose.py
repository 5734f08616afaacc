"""`kfed diagnose`: how far clusters can be relied upon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from kfed._base import files
from kfed._base.text import quoted
from kfed.cli._app import app
from kfed.cli._options import Exclude, split_names
from kfed.cli._report import sections_on_terminal
from kfed.cli._terminal import Force, Json, about, claim, option, print_json, printable, say
from kfed.errors import FeatureMismatchError, InvalidInputError
from kfed.insight import Diagnosis, diagnose_data
from kfed.insight import diagnose as diagnose_aggregation
from kfed.separation import separation_report
from kfed.server import Aggregation
from kfed.site import Table, open_table, read_column, read_table, table_stem
from kfed.wire import load


@app.command(
    epilog="`kfed diagnose clusters.kfed`   from what the sites sent; no row is needed\n\n"
    "`kfed diagnose clusters.kfed --html diagnosis.html`   with pictures, for a browser\n\n"
    "`kfed diagnose --data site1.csv --labels site1-labels.csv --data site2.csv --labels site2-labels.csv`\n\n"
    "`kfed diagnose --data all.csv --labels truth.csv --device-column site --json`"
)
def diagnose(
    clusters: Annotated[
        Path | None, typer.Argument(metavar="[CLUSTERS]", help="An aggregation, from `kfed aggregate`.")
    ] = None,
    data: Annotated[
        list[Path] | None, option("TABLE", "A table of rows, judged with --labels; repeat for each device.")
    ] = None,
    labels: Annotated[
        list[Path] | None, option("TABLE", "The cluster of each row: the last column, as `kfed label` writes it.")
    ] = None,
    device_column: Annotated[str | None, option("NAME", "Column of the one --data file that names the device.")] = None,
    columns: Annotated[Any, option("A,B,...", "Columns of --data to use; by default all.", parser=split_names)] = None,
    exclude: Exclude = None,
    id_column: Annotated[
        str | None, option("NAME", "Column of --data with row identifiers; not used as a feature.")
    ] = None,
    scale: Annotated[Path | None, option("FILE", "JSON with the agreed shift and scale of each column.")] = None,
    required_ratio: Annotated[
        float, option("C", "The constant c of the main theorem; its proofs need 100.", "--required-ratio", "-c")
    ] = 100.0,
    page: Annotated[Path | None, option("FILE", "Also write a page with pictures.", "--html")] = None,
    plot: Annotated[Path | None, option("FILE", "Also draw the pictures (.png, .svg or .pdf).")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Judge how far clusters can be relied upon: how far apart and how stable they are, and what to look at.

    An aggregation is judged by what the sites sent; the conditions of the paper's theorem come last. Rows with labels
    are judged by these conditions, measured on the rows themselves.
    """
    given = [path for path in (clusters, *(data or []), *(labels or []), scale) if path is not None]
    outputs = [path for path in (page, plot) if path is not None]
    if outputs:
        _check_pictures(plot)
    claim(outputs, inputs=given, force=force)
    if clusters is not None and not data and not labels:
        aggregation = load(clusters, Aggregation)
        with about(clusters):
            found = diagnose_aggregation(aggregation, required_ratio)
    elif data and labels and clusters is None:
        found = _of_data(data, labels, device_column, columns, exclude, id_column, scale, required_ratio)
    else:
        raise InvalidInputError(
            "give either one file that `kfed aggregate` wrote, or tables with --data and as many with --labels"
        )
    title = f"Diagnosis of {given[0].name}"
    if page is not None:
        files.write(page, found.to_html(title), overwrite=force)
    if plot is not None:
        from kfed._base.figures import save_figure

        save_figure(found.figure(), plot)
    if as_json:
        print_json({"verdict": found.verdict, "is_guaranteed": found.is_guaranteed} | found.details)
    else:
        say(*sections_on_terminal(found.report(title)))
        say(*(f"  [green]wrote[/]  {escape(str(path))}" for path in outputs))


def _check_pictures(plot: Path | None) -> None:
    """Raise before the work starts if pictures cannot be drawn."""
    from kfed._base.figures import check_format, require_matplotlib

    if plot is not None:
        check_format(plot)
    require_matplotlib()


def _of_data(
    data: list[Path],
    labels: list[Path],
    device_column: str | None,
    columns: list[str] | None,
    exclude: list[str] | None,
    id_column: str | None,
    scale: Path | None,
    required_ratio: float,
) -> Diagnosis:
    """Read pairs of tables and labels: one pair for each device, or one pair with a column that names the devices."""
    if len(data) != len(labels):
        raise InvalidInputError(f"give one --labels for each --data; got {len(labels)} for {len(data)}")
    if device_column is not None and len(data) > 1:
        raise InvalidInputError("--device-column needs exactly one --data, with the rows of all devices")
    named: Any = None if device_column is None else read_column(data[0], device_column)
    if columns is None and device_column is not None:
        exclude = list(dict.fromkeys([*(exclude or ()), device_column]))
    reading: dict[str, Any] = {"columns": columns, "exclude": exclude, "id_column": id_column, "scale": scale}
    tables = [read_table(path, **reading) for path in data]
    for path, rows in zip(data, tables, strict=True):
        if rows.names != tables[0].names:
            raise FeatureMismatchError(f"{path}: the columns must be those of {data[0]}; got {quoted(rows.names)}")
    target = np.concatenate([_labels(*each) for each in zip(labels, tables, data, strict=True)])
    target = target.astype(int) if all(map(str.isdecimal, target)) else target
    stems = [table_stem(path) for path in data]
    names = list(map(printable, stems if len(set(stems)) == len(data) else map(str, data)))
    devices = np.repeat(names, list(map(len, tables))) if named is None else np.array(named)
    points = np.concatenate([rows.values for rows in tables])
    return diagnose_data(separation_report(points, target, devices, required_ratio=required_ratio))


def _labels(path: Path, rows: Table, data: Path) -> Any:
    """Read one label for each row, in the order of the rows."""
    labels = np.array(read_column(path))
    if len(labels) != len(rows):
        raise InvalidInputError(
            f"{path}: there must be one label for each row of {data}; got {len(labels):,} labels for {len(rows):,} rows"
        )
    named_too = rows.id_column is not None and rows.id_column in open_table(path).names
    if named_too and read_column(path, rows.id_column) != rows.row_ids:
        raise InvalidInputError(f"{path}: {rows.id_column!r} must name the rows of {data}, in the same order")
    return labels
