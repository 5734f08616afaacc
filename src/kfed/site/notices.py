"""What a user should know about a table before its message leaves: how it was read and clustered, what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import numpy as np

from kfed._base.array import Array
from kfed._base.text import plural, quoted, verb
from kfed.device import POOLED, LocalClustering, column_of_all, rows_not_sent
from kfed.server import new_level_advice
from kfed.site.formats.reader import TableReader
from kfed.site.kinds.cells import Cells
from kfed.site.kinds.doubtful_cells import are_compact_dates, far_rows, n_nines, n_stand_ins
from kfed.site.kinds.flags import are_flags_in_words
from kfed.site.kinds.kind_option import kind_option
from kfed.site.kinds.kinds import PLAINLY, constant_notice
from kfed.site.owners import about_ids
from kfed.site.table import Table
from kfed.wire import FeatureSchema, Notice, features_by_column

_STILL = "The rows can still be labelled from the other sites' clusters, if their centers are shown"


def about_reading(reader: TableReader, cells: Sequence[Cells]) -> Iterator[Notice]:
    """Sheets and lines that were skipped; columns of numbers that are taken as text or could be read in another way."""
    if reader.other_sheets:
        others = f"{quoted(reader.other_sheets)} {verb(len(reader.other_sheets), 'is', 'are')} not"
        yield Notice("sheets", f"sheet {reader.sheet!r} is read, and {others}; to use another, name it with --sheet")
    if reader.n_titles:
        lines, are = plural(reader.n_titles, "line"), verb(reader.n_titles, "is", "are")
        yield Notice("title", f"{lines} above the names of the columns {are} skipped, as a title")
    yield from _no_header(reader, cells)
    for own in cells:
        if own.odd_row is not None:
            yield Notice(
                "numbers as text",
                f"column {own.name!r} is taken as a category, though most of its cells hold a number or a date that is "
                "not read as one: with a unit, a month in letters or no day, with day and month in either order, or "
                "with a comma that separates thousands or decimals (first in "
                f"{reader.where(own.odd_row)}); {PLAINLY}",
            )
        if own.other_rows:
            yield Notice("neither yes nor no", _other_cells(reader, own))
        if own.in_doubt:
            yield Notice("thousands", _sign_in_doubt(own))


def _no_header(reader: TableReader, cells: Sequence[Cells]) -> Iterator[Notice]:
    """Say that the first line seems to be a row, if names of columns are found among the cells below them."""
    found = [own.name for own in cells if reader.may_lack_header and own.could_hold(own.name)]
    if len(found) > 1:
        yield Notice(
            "no header?",
            f"{plural(len(found), 'column')} have their own name among their cells, so the first line may be a row, "
            "and names of columns are sent; if the file has no line of names, use --no-header",
        )


def _other_cells(reader: TableReader, cells: Cells) -> str:
    n_rows = len(cells.other_rows)
    says, counts = verb(n_rows, "says", "say"), verb(n_rows, "it counts", "they count")
    return (
        f"column {cells.name!r} is taken as yes or no, though {plural(n_rows, 'cell')} "
        f"({reader.places(cells.other_rows)}) {says} something else; {counts} as missing. If that is wrong, use "
        f"{kind_option(cells.name, 'category')} at every site"
    )


def _sign_in_doubt(cells: Cells) -> str:
    sign, signs = cells.in_doubt, "points" if cells.in_doubt == "." else "commas"
    if cells.are_thousands:
        return (
            f"{signs} in column {cells.name!r} are taken to separate thousands: 1{sign}234 is 1234; if they are "
            f"decimal {signs}, write one more decimal, as 1{sign}2340"
        )
    return (
        f"{signs} in column {cells.name!r} are taken as decimal {signs}, though they may separate thousands; if they "
        f"do, write 1234 instead of 1{sign}234"
    )


def about_cells(reader: TableReader, cells: Sequence[Cells], named: Collection[str] = ()) -> Iterator[Notice]:
    """Levels that may mean the same; numbers that may be codes, mistakes or, unless they are `named`, dates."""
    for own in cells:
        if own.numbers is not None:
            yield from _about_numbers(reader, own, own.numbers, is_named=own.name in named)
        elif len({text.lower() for text in own.texts}) < len(own.texts):
            yield Notice("spelling", f"some levels of column {own.name!r} differ only in case, and count as different")
        elif len(own.texts) > 1 and are_flags_in_words(own.texts):
            yield Notice(
                "spelling",
                f"column {own.name!r} has more than one word for yes or for no, so it is taken as a category; use "
                f"{kind_option(own.name, 'flag')} if it is a yes/no column",
            )


def _about_numbers(reader: TableReader, cells: Cells, numbers: Array, *, is_named: bool) -> Iterator[Notice]:
    is_date = cells.kind == "date" and not cells.is_missing.all()
    if n_codes := n_stand_ins(numbers) if is_date else n_nines(numbers):
        code = "the date of a missing value (such as 9999-12-31)" if is_date else "a missing-value code (such as 999)"
        yield Notice(
            "nines",
            f"{plural(n_codes, 'cell')} of column {cells.name!r} {verb(n_codes, 'looks', 'look')} like {code}, far "
            "from all others; if so, leave missing cells empty",
        )
    elif far := far_rows(numbers):
        yield Notice(
            "far cell",
            f"{plural(len(far), 'cell')} of column {cells.name!r} ({reader.places(far)}) {verb(len(far), 'is', 'are')} "
            "extremely far from all others, which can spoil the clusters of all rows; correct or clear any mistakes",
        )
    if cells.kind == "number" and not is_named and are_compact_dates(numbers):
        yield Notice(
            "dates as numbers",
            f"column {cells.name!r} is read as numbers that look like dates (20260131), so that distances between them "
            f"are wrong; use {kind_option(cells.name, 'date')}",
        )


def about_zeros(cells: Sequence[Cells], named: Collection[str]) -> Iterator[Notice]:
    """Columns of numbers with leading zeros, which may be codes; a user has said what those are that are `named`."""
    for own in cells:
        if own.has_zeros and own.kind == "number" and own.name not in named:
            yield Notice(
                "leading zeros",
                f"column {own.name!r} is taken as numbers, though some have leading zeros, as codes do: 003 is 3. If "
                f"they are codes, use {kind_option(own.name, 'category')} at every site",
            )


def about_missing(cells: Sequence[Cells]) -> Iterator[Notice]:
    """How many cells count as missing, in columns that have something in some cells."""
    filled = [own for own in cells if own.only_word or not own.is_missing.all()]
    counts = {own.name: int(np.count_nonzero(own.is_missing)) for own in filled}
    total, n_cells = sum(counts.values()), sum(len(own) for own in cells if own.name in counts)
    if total:
        most = max(counts, key=counts.__getitem__)
        share = f", {counts[most]:,} of them in column {most!r}" if 2 * counts[most] > total > counts[most] else ""
        share = f", all in column {most!r}" if counts[most] == total > 1 else share
        yield Notice(
            "missing cells",
            f"{total:,} of {plural(n_cells, 'cell')} {'counts' if total == 1 else 'count'} as missing{share}",
        )


def about_levels(cells: Sequence[Cells], schema: FeatureSchema) -> Iterator[Notice]:
    """Cells with a level that a schema does not have."""
    categories = {column.name: column for column in schema.columns or () if column.kind == "category"}
    for own in cells:
        if own.name in categories and own.codes is not None:
            yield from new_level_advice(categories[own.name], own.texts, own.codes)


def about_clustering(
    table: Table, clustering: LocalClustering, n_local_clusters: int | Literal["auto"] | None, min_cluster_size: int
) -> Iterator[Notice]:
    """Constant and dominant columns, rows that do not count, too many clusters or steps, rows not sent."""
    yield from _constant(table) if table.schema is not None else _of_plain_numbers(table)
    yield from _not_counted(table, clustering)
    yield from _too_many(n_local_clusters, len(table), min_cluster_size)
    yield from _mute(table, clustering, n_local_clusters, min_cluster_size)
    if clustering.private is None and not clustering.withheld.all():
        yield from rows_not_sent(clustering, min_cluster_size, was_asked=n_local_clusters is not None)
    if table.schema is None and clustering.private is None:
        yield from column_of_all(table.values, clustering.labels, table.columns)
    if not clustering.converged and not clustering.is_summary and clustering.private is None:
        yield Notice(
            "not converged",
            f"clustering stopped after {plural(clustering.n_iterations, 'step')}, while some rows still changed their "
            "cluster: another number of clusters may suit them better",
        )


def _constant(table: Table) -> Iterator[Notice]:
    """Columns of one value, where a schema was agreed on; without one, they were named when the table was read."""
    if table.schema is None or table.schema.scaling != "agreed":
        return
    for column, features in zip(table.schema.columns or (), features_by_column(table.schema), strict=True):
        cells = table.values[:, features]
        known = cells[~np.isnan(cells).any(axis=1)]
        if cells.shape[1] and len(known) and bool((known == known[0]).all()):
            yield constant_notice(column.name, is_filled=len(known) == len(cells))


def _of_plain_numbers(table: Table) -> Iterator[Notice]:
    """Columns of one value, and ids of several rows, where numbers are taken as they are."""
    parts = (table.values[:100], table.values)  # the first rows tell it of most columns
    constant = [
        name
        for position, name in enumerate(table.columns or ())
        if all(bool((part[:, position] == part[0, position]).all()) for part in parts)
    ]
    if len(constant) == 1:
        yield constant_notice(constant[0], is_filled=True)
    elif constant:
        yield Notice(
            "constant",
            f"columns {quoted(constant, 3)} are each the same in every row here and add nothing to distances between "
            "rows of this site",
        )
    yield from about_ids(table.row_ids or ())


def _not_counted(table: Table, clustering: LocalClustering) -> Iterator[Notice]:
    """Say how many rows are not counted, and why; where rows are weighted or private, counts do not tell."""
    if table.schema is None or table.weights is not None or clustering.private is not None:
        return
    n_rows = len(table) - int(clustering.counts.sum())
    if n_rows:
        rows = f"{plural(n_rows, 'row')} {verb(n_rows, 'has', 'have')}"
        why = "too few filled cells to be counted,"
        if table.schema.missing == "drop":
            why = f"a missing cell and {verb(n_rows, 'is', 'are')} not counted (--missing drop),"
        yield Notice("few cells", f"{rows} {why} but will still get labels")


def _mute(table: Table, clustering: LocalClustering, asked: object, min_cluster_size: int) -> Iterator[Notice]:
    """Say that nothing is sent, and why: clusters that are too small, or a table too small to tell a spread."""
    if clustering.private is not None or not clustering.withheld.all():
        return
    needed, n_owners, of = POOLED * min_cluster_size, len(table), "rows"
    if table.row_ids is not None:
        n_owners, of = len(set(table.row_ids)), f"ids in {table.id_column!r}"
    has = f", and there {verb(n_owners, 'is', 'are')} {n_owners:,}" if table.row_ids is not None else ""
    is_cut_too_fine = isinstance(asked, int) and asked * min_cluster_size > n_owners >= needed
    if table.schema is None or is_cut_too_fine:
        yield Notice(
            "nothing sent",
            "nothing can be sent: every cluster is mostly one row, has a center that equals a row, or has fewer than "
            f"{min_cluster_size} different {of} behind it{has}. {_STILL}. To send any, ask for fewer clusters or "
            "lower --min-cluster-size",
        )
    else:
        others = "" if table.schema.scaling == "agreed" else " or pass --scale with a scale that all sites agreed on"
        yield Notice(
            "nothing sent",
            f"nothing can be sent: this needs about {needed} different {of}{has}; most cells must be filled. {_STILL}. "
            f"To send with fewer, lower --min-cluster-size{others}",
        )


def _too_many(n_local_clusters: int | Literal["auto"] | None, n_rows: int, min_cluster_size: int) -> Iterator[Notice]:
    if isinstance(n_local_clusters, int) and n_local_clusters * min_cluster_size > max(n_rows, min_cluster_size):
        yield Notice(
            "many clusters",
            f"{plural(n_rows, 'row')} {verb(n_rows, 'is', 'are')} too few for {n_local_clusters:,} clusters of "
            f"{min_cluster_size} rows; ask for at most {max(1, n_rows // min_cluster_size):,}",
        )
