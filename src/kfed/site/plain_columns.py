"""`without_identifiers`: columns that tell rows or people apart, in a table whose numbers are taken as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kfed._base.text import quoted, verb
from kfed.errors import InvalidInputError
from kfed.site.columns import ColumnChoice
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.identifiers import about_identifier, about_numbers
from kfed.site.kinds.kind_option import kind_option
from kfed.wire import Notice


def without_identifiers(
    choice: ColumnChoice, cells: Mapping[str, Cells], known: Collection[str], why_kept: str
) -> tuple[ColumnChoice, list[Notice]]:
    """Leave out columns that identify rows or people, and say so, as where every column has a scale of its own.

    Parameters
    ----------
    choice, cells : ColumnChoice and mapping from column to Cells
    known : collection of str
        Columns that are kept whatever they hold; of those that look like identifiers, that is said.
    why_kept : str
        Why they are.
    """
    sound = [name for name in choice.features if not cells[name].bad_rows]  # others are refused later
    found = {name: _looks(cells[name], choice) for name in sound}
    gone = {name: notice for name, notice in found.items() if notice is not None and name not in known}
    kept = [name for name in choice.features if name not in gone]
    if not kept:
        raise InvalidInputError(
            f"{choice.path}: a table must have a column to cluster by; {quoted(list(gone))} "
            f"{verb(len(gone), 'looks like an identifier', 'look like identifiers')}. If "
            f"{verb(len(gone), 'it is none, name it', 'they are none, name them')} with --columns"
        )
    notices = list(gone.values())
    for name in filter(found.__contains__, kept):
        notices += about_numbers(cells[name]) if found[name] is None else [_kept(name, why_kept)]
    return replace(choice, features=tuple(kept)), notices


def _looks(cells: Cells, choice: ColumnChoice) -> Notice | None:
    keep = "name it with --columns to keep it"
    if cells.kind == "text":
        keep = f"--by-column with {kind_option(cells.name, 'category')} keeps it"
    return about_identifier(cells, has_ids=choice.id_column is not None, keep=keep)


def _kept(name: str, why: str) -> Notice:
    return Notice("possible identifier", f"column {name!r} looks like an identifier, and is kept, since {why}")
