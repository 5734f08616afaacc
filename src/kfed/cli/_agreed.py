"""`kfed join` by the schema of a federation: nobody hands it around, and no option of a site contradicts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kfed._base.text import quoted
from kfed.cli._options import SiteOptions
from kfed.cli._terminal import note, plural
from kfed.errors import InvalidInputError
from kfed.site import read_schema
from kfed.wire import FeatureSchema

MOST_NAMED = 20


def by_schema_of(federation: str, agreed: FeatureSchema, site: SiteOptions) -> SiteOptions:
    """The options of a site with the schema of its federation. Raises `InvalidInputError` if they say otherwise."""
    names = [column.name for column in agreed.columns or ()]
    for option, contradicts in {
        "--schema": site.schema is not None and _differs(agreed, site.schema),
        "--scale": site.scale is not None and _differs(agreed, site.scale),
        "--columns": site.columns is not None and sorted(site.columns) != sorted(names),
        "--as-is": site.as_is is True,
        "--kinds": site.kinds is not None,
    }.items():
        if contradicts:
            raise InvalidInputError(
                f"federation {federation} has a schema, which says the columns, their kinds and their scale, and "
                f"{option} says something else; leave out {option}"
            )
    scale = "on an agreed scale" if agreed.scaling == "agreed" else "each with its spread"
    note(f"by the schema of {federation}: {plural(len(names), 'column')} {scale}: {quoted(names, MOST_NAMED)}")
    return replace(site, schema=agreed, scale=None, columns=None, as_is=None)


def _differs(agreed: FeatureSchema, path: Path) -> bool:
    return read_schema(path) != agreed
