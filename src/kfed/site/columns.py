"""`ColumnChoice`: which columns of a table are used, and for what; checked in the same way for every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfed._base.identifier_names import is_index_name
from kfed._base.text import accents_joined, exclusion, plural, quoted, verb
from kfed.errors import InvalidInputError
from kfed.wire import Notice


@dataclass(frozen=True)
class ColumnChoice:
    """The columns to cluster, the id column and the weight column of one file."""

    features: tuple[str, ...]
    id_column: str | None
    weight_column: str | None
    path: str
    row_names: tuple[str, ...] = ()
    """Columns with names of rows, which are left out unless a user named them."""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        columns: Sequence[str] | None,
        id_column: str | None,
        weight_column: str | None,
        path: str,
        exclude: Sequence[str] | None = None,
    ) -> ColumnChoice:
        """Choose among the `names` of a file.

        By default every column is clustered that is neither id nor weight, is not excluded, and does not hold names of
        rows.
        """
        _check_lists(columns=columns, exclude=exclude)
        id_column, weight_column = (name and accents_joined(name) for name in (id_column, weight_column))
        columns = None if columns is None else list(map(accents_joined, columns))
        others = [name for name in (id_column, weight_column) if name is not None]
        gone = [] if exclude is None else list(map(accents_joined, exclude))
        _check_excluded(gone, names, columns or (), path)
        row_names = [name for name in row_names_in(names) if columns is None and name not in (*others, *gone)]
        left = [name for name in names if name not in (*others, *gone, *row_names)]
        features = left if columns is None else columns
        choice = cls(tuple(features), id_column, weight_column, path, tuple(row_names))
        choice._check([*features, *others], names)
        return choice

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that must hold numbers."""
        return self.features if self.weight_column is None else (*self.features, self.weight_column)

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that is read."""
        return self.numeric if self.id_column is None else (*self.numeric, self.id_column)

    @property
    def ids(self) -> tuple[str, ...]:
        """The id column, if there is one."""
        return () if self.id_column is None else (self.id_column,)

    def notices(self) -> list[Notice]:
        """Columns that are left out."""
        texts = [
            f"column {name!r} is taken for names of rows"
            if name
            else "the first column has no name: it is taken for names of rows"
            for name in self.row_names
        ]
        return [Notice("identifier", f"{text} and is left out") for text in texts]

    def _check(self, chosen: Sequence[str], names: Sequence[str]) -> None:
        """Raise unless every chosen column is there, has a name, and is chosen once."""
        check_known(chosen, names, self.path)
        repeated = _repeated(names)
        if repeated and repeated != [""]:
            raise InvalidInputError(
                f"{self.path}: column names must be distinct; {quoted(repeated)} "
                f"{verb(len(repeated), 'occurs', 'occur')} twice. Rename one of them"
            )
        chosen_again = _repeated(chosen)
        if "" in chosen_again:
            raise InvalidInputError(
                f"{self.path}: every column must have a name; {names.count('')} of {plural(len(names), 'column')} "
                f"{verb(names.count(''), 'has', 'have')} none. Name every column, and remove lines above the names"
            )
        if chosen_again:
            raise InvalidInputError(
                f"{self.path}: a column can be used only once; {quoted(chosen_again)} "
                f"{verb(len(chosen_again), 'is', 'are')} chosen twice"
            )
        if "" in self.features:
            raise InvalidInputError(
                f"{self.path}: column {names.index('')} (counted from 0) has no name; name it, or choose the other "
                "columns with --columns"
            )
        if not self.features:
            raise InvalidInputError(f"{self.path}: a table must have at least one column to cluster; this one has none")

    def refuse_text(self, names: Sequence[str]) -> None:
        """Raise if there are columns without any number in them."""
        if names:
            raise InvalidInputError(
                f"{self.path}: {quoted(names)} {verb(len(names), 'is', 'are')} text, and only numbers are taken here. "
                f"Leave out text with {exclusion(names)}, and name the column that identifies the rows with --id-column"
            )


def row_names_in(names: Sequence[str]) -> list[str]:
    """Columns that R and pandas write for the names of rows: a first one without a name, or what pandas makes of it.

    Examples
    --------
    >>> row_names_in(["", "age"]), row_names_in(["Unnamed: 0", "age"]), row_names_in(["age", ""])
    ([''], ['Unnamed: 0'], [])
    """
    is_first_alone = [position for position, name in enumerate(names) if not name] == [0]
    return [*([""] if is_first_alone else []), *filter(is_index_name, names)]


def check_known(chosen: Sequence[str], names: Sequence[str], path: str) -> None:
    """Raise unless all chosen columns are in the file."""
    unknown = [name for name in chosen if name not in names]
    if unknown:
        missing = verb(len(unknown), "is no column", "are no columns")
        raise InvalidInputError(f"{path}: there {missing} {quoted(unknown)}; the columns are {quoted(names)}")


def _check_lists(**chosen: Sequence[str] | None) -> None:
    """Raise if names of columns are a single word, whose letters would be taken for names."""
    for what, names in chosen.items():
        if isinstance(names, str):
            raise InvalidInputError(f"{what} must be a list of names; got {names!r}: pass [{names!r}]")


def _check_excluded(exclude: Sequence[str], names: Sequence[str], columns: Sequence[str], path: str) -> None:
    """Raise if a column to leave out is not there, or is asked for elsewhere."""
    check_known(exclude, names, path)
    both = [name for name in exclude if name in columns]
    if both:
        raise InvalidInputError(
            f"{path}: {quoted(both)} cannot be left out (--exclude), since --columns or the schema names "
            f"{verb(len(both), 'it', 'them')}"
        )


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
