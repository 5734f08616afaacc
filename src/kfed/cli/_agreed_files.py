"""What summaries of tables and agreed schemas hold, for `kfed inspect`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from kfed._base.text import listed
from kfed.cli._descriptions import Description, description_of
from kfed.cli._terminal import plural, printable
from kfed.site import TableSummary, read_schema
from kfed.wire import Column, FeatureSchema


def agreed_file(path: Path) -> TableSummary | FeatureSchema | None:
    """The summary or the schema in a file, or None if it holds neither."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("columns"), list):
        return None
    return TableSummary.load(path) if "kind" in content else read_schema(path)


@description_of.register
def _(summary: TableSummary) -> Description:
    columns = [one.column for one in summary.columns]
    n_told = sum(one.count > 0 for one in summary.columns)
    holds = [_named(columns), f"the number, mean and variance of the cells of {plural(n_told, 'column')}"]
    levels = sum(len(column.levels) for column in columns)
    holds += [f"the names of {plural(levels, 'level')} of categories"] if levels else []
    return Description(
        "a summary of a table, for `kfed agree`",
        holds,
        ["any row or id", "the name of the site: it is that of the file"],
        [],
        {"kind": "table summary", "n_told": n_told, **_facts(columns)},
        np.empty((0, sum(len(column.features) for column in columns))),
    )


@description_of.register
def _(schema: FeatureSchema) -> Description:
    columns = schema.columns or ()
    return Description(
        "a schema that sites agreed on, for `kfed device --schema`",
        [_named(columns), "their levels, and one shift and scale for each"],
        ["any row or id, or what a single site has"],
        [],
        {"kind": "schema", "fingerprint": schema.fingerprint, "missing": schema.missing, **_facts(columns)},
        np.empty((0, schema.n_features)),
    )


def _named(columns: Iterable[Column]) -> str:
    words = [f"{printable(column.name)} ({column.kind})" for column in columns]
    return f"{plural(len(words), 'column')}: {listed(words)}"


def _facts(columns: Iterable[Column]) -> dict[str, object]:
    return {"columns": [column.facts() for column in columns]}
