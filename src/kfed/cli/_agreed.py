"""`kfed join` by the schema or the columns of a federation: nobody hands them around, no option contradicts them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from kfed._base.text import quoted, verb
from kfed.cli._options import SiteOptions
from kfed.cli._terminal import note, plural
from kfed.errors import InvalidInputError
from kfed.site import LocalFile, check_agreed, kind_option, open_table, read_schema
from kfed.wire import FeatureSchema, Notice, respelled

MOST_NAMED = 20


def by_schema_of(federation: str, agreed: FeatureSchema, site: SiteOptions) -> SiteOptions:
    """The options of a site with the schema of its federation. Raises `InvalidInputError` if they say otherwise."""
    names = [column.name for column in agreed.columns or ()]
    said = {"schema": site.schema, "scale": site.scale, "columns": site.columns, "as_is": site.as_is}
    check_agreed(agreed, f"the schema of federation {federation}", kinds=site.kinds, missing=site.missing, **said)
    scale = "on an agreed scale" if agreed.scaling == "agreed" else "each with its spread"
    note(f"by the schema of {federation}: {plural(len(names), 'column')} {scale}: {quoted(names, MOST_NAMED)}")
    return replace(site, schema=agreed, scale=None, columns=None, as_is=None)


def about_fetched_scale(federation: str, agreed: FeatureSchema | None, site: SiteOptions) -> list[Notice]:
    """Say of a private release that whoever made the schema of its federation knows where its scale is from."""
    if agreed is None or site.epsilon is None:
        return []
    text = (
        f"the scale is that of federation {federation}: if `kfed agree` computed it from rows, the promise is about "
        "the message alone, and not about what this scale tells of the rows; ask whoever created the federation"
    )
    return [Notice("scale from rows", text)]


def by_columns_of(federation: str, names: Sequence[str], site: SiteOptions, data: Path, *, as_is: bool) -> SiteOptions:
    """The options of a site that take the columns of its federation, and no other.

    Of a table they are taken by leaving out all others, so that an identifier among them is still found.

    Raises `InvalidInputError` if the table lacks one of them, or an option says otherwise.
    """
    reader = open_table(data, site.header, site.sheet)
    if not reader.has_header or (as_is and site.schema is not None):  # no names to compare, or names of levels
        return site
    _check_held(federation, names, reader.names, data)
    own = {name for name in (site.id_column, site.weight_column) if name is not None}
    _check_not_taken(federation, names, site)
    said = site.columns if site.schema is None else [column.name for column in read_schema(site.schema).columns or ()]
    if said is not None:
        _check_said(federation, names, said, "--columns" if site.schema is None else "--schema")
    others = [name for name in dict.fromkeys(reader.names) if name not in {*names, *own}]
    if others:
        note(
            f"by the columns of {federation}: {quoted(names, MOST_NAMED)}; left out of {data}: "
            f"{quoted([name or '(no name)' for name in others], MOST_NAMED)}"
        )
    return replace(site, columns=list(names), exclude=None) if as_is else replace(site, exclude=others or None)


def _check_not_taken(federation: str, names: Sequence[str], site: SiteOptions) -> None:
    """Raise if an option uses a column of the federation for something else, or leaves it out."""
    ids, weights = [site.id_column], [site.weight_column]
    for option, named in {"--exclude": site.exclude or (), "--id-column": ids, "--weight-column": weights}.items():
        taken = [name for name in names if name in named]
        if taken:
            raise InvalidInputError(
                f"federation {federation} clusters by {quoted(taken)}, so {option} must not name "
                f"{verb(len(taken), 'it', 'them')}; change {option}, or do not join"
            )


def check_identifiers(federation: str, names: Collection[str], kept: LocalFile) -> None:
    """Raise if a column of the federation was left out at this site, since it looks like an identifier."""
    schema, features = _schema_of(kept), kept.clustering.feature_names
    own = [] if schema is None else [column.name for column in schema.columns or ()]
    gone = [] if features is None else [name for name in names if name not in {*own, *features}]
    if gone:
        by_column = "--by-column " if schema is None else ""
        raise InvalidInputError(
            f"federation {federation} clusters by {quoted(gone)}, which {verb(len(gone), 'looks', 'look')} like "
            f"{verb(len(gone), 'an identifier', 'identifiers')} at this site; nothing was sent. If "
            f"{verb(len(gone), 'it is not, state its kind', 'they are not, state their kinds')}, for example "
            f"{by_column}{kind_option(gone[0], 'number')}"
        )


def _schema_of(kept: LocalFile) -> FeatureSchema | None:
    """What the columns are, if numbers were not taken as they are."""
    columns, private = kept.clustering.columns, kept.clustering.private
    return columns.schema if columns is not None else None if private is None else private.schema


def _check_held(federation: str, names: Sequence[str], own: Sequence[str], data: Path) -> None:
    missing = [name for name in names if name not in own]
    again = {known: mine for mine, known in respelled(own, missing).items()}
    if again:
        raise InvalidInputError(
            f"{data}: {quoted(list(again.values()))} must be spelled as in federation {federation}: "
            f"{quoted(list(again))}; nothing was sent"
        )
    if missing:
        raise InvalidInputError(
            f"{data}: federation {federation} clusters by {quoted(missing)}, which this table does not have; its "
            f"columns are {quoted(own)}. Nothing was sent"
        )


def _check_said(federation: str, names: Collection[str], said: Collection[str], option: str) -> None:
    if sorted(said) != sorted(names):
        differing = sorted(set(said) ^ set(names))
        raise InvalidInputError(
            f"federation {federation} clusters by {quoted(sorted(names))}, and {option} differs in "
            f"{quoted(differing)}; leave out {option}. Nothing was sent"
        )
