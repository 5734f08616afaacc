"""Errors for tables without a column to cluster by, or with two of one name: they say what became of the columns."""

from __future__ import annotations

from collections.abc import Sequence

from kfed._base.text import exclusion, plural, quoted, verb
from kfed.errors import InvalidInputError
from kfed.site.kinds.cells import Cells
from kfed.wire import Column


def check_some_left(columns: Sequence[Column], cells: Sequence[Cells], min_cluster_size: int, where: str) -> None:
    """Raise unless one of the `columns` that were made of all these cells has something to cluster by."""
    kept = {column.name for column in columns}
    left_out = [own.name for own in cells if own.name not in kept and not own.is_missing.all()]
    is_empty = all(column.kind == "empty" for column in columns)
    if is_empty and left_out:
        raise InvalidInputError(
            f"{where}: a table must have a column to cluster by; {quoted(left_out)} "
            f"{verb(len(left_out), 'looks like an identifier', 'look like identifiers')}, and no other column has a "
            f"filled cell. If {verb(len(left_out), 'it is none, name it', 'they are none, name them')} with --columns"
        )
    if is_empty:
        raise InvalidInputError(
            f"{where}: a table must have at least one column with a filled cell to cluster by; this one has none. "
            "Leave this site out"
        )
    if not any(column.features for column in columns):
        raise InvalidInputError(
            f"{where}: a table must have a column to cluster with numbers, or with levels that at least "
            f"{plural(min_cluster_size, 'row')} have; this one has none. If this is a title page, use the file or "
            "sheet with the rows"
        )


def check_features_differ(columns: Sequence[Column], where: str) -> None:
    """Raise if a level of one column has the name of another column: 'F' of 'sex', beside a column 'sex=F'."""
    owners: dict[str, str] = {}
    for column in columns:
        for feature in column.features:
            if feature in owners:
                both = quoted([owners[feature], column.name])
                raise InvalidInputError(
                    f"{where}: features must have distinct names; columns {both} both have one called {feature!r}. "
                    f"Rename one of them at every site, or leave it out: {exclusion([column.name])}"
                )
            owners[feature] = column.name
