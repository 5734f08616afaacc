"""Options beside an agreed schema: those that contradict it are refused, so that none is ignored in silence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kfed._base.text import accents_joined
from kfed.errors import InvalidInputError
from kfed.site.schema_file import is_from_rows, read_schema
from kfed.wire import FeatureSchema, Notice

SCALE_FROM_ROWS = (
    "its scale was computed from rows, without noise, by `kfed agree`: the promise is about the message alone, and not "
    "about what this scale tells of the rows. Better write a schema of numbers that were known beforehand"
)

SchemaOrFile = str | os.PathLike[str] | FeatureSchema


def agreed_schema(schema: SchemaOrFile | None, **said: Any) -> FeatureSchema | None:
    """A schema, read from its file if it is in one. Raises if it contradicts what is `said`, see `check_agreed`."""
    agreed = schema if schema is None or isinstance(schema, FeatureSchema) else read_schema(schema)
    check_agreed(agreed, **said)
    return agreed


def about_scale(schema: SchemaOrFile | None, privacy: Any) -> list[Notice]:
    """Say of a private release if its scale is not public, since it was computed from rows without noise."""
    if privacy is None or schema is None or isinstance(schema, FeatureSchema) or not is_from_rows(schema):
        return []
    return [Notice("scale from rows", f"{schema}: {SCALE_FROM_ROWS}")]


def check_agreed(
    agreed: FeatureSchema | None,
    said_by: str = "--schema",
    *,
    schema: SchemaOrFile | None = None,
    scale: SchemaOrFile | None = None,
    columns: Sequence[str] | None = None,
    as_is: bool | None = None,
    kinds: Mapping[str, str] | None = None,
    missing: str = "observed",
) -> None:
    """Raise if one of these options of `cluster_file` contradicts the schema that was agreed on.

    Examples
    --------
    >>> check_agreed(FeatureSchema.of_columns([], "agreed"), as_is=True)
    Traceback (most recent call last):
    kfed.errors.InvalidInputError: --schema fixes columns, kinds, scale and missing cells; leave out --as-is
    """
    if agreed is None:
        return
    names = sorted(column.name for column in agreed.columns or ())
    for option, contradicts in {
        "--schema": schema is not None and agreed_schema(schema) != agreed,
        "--scale": scale is not None and agreed_schema(scale) != agreed,
        "--columns": columns is not None and sorted(map(accents_joined, columns)) != names,
        "--as-is": as_is is True,
        "--kinds": bool(kinds),
        "--missing": missing not in ("observed", agreed.missing),
    }.items():
        if contradicts:
            other = ", or agree on a schema of these columns alone" if option == "--columns" else ""
            raise InvalidInputError(
                f"{said_by} fixes columns, kinds, scale and missing cells; leave out {option}{other}"
            )
