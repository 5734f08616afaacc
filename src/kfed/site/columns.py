"""`ColumnChoice`: which columns of a table are used, and for what; checked in the same way for every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfed._base.text import quoted
from kfed.errors import InvalidInputError


@dataclass(frozen=True)
class ColumnChoice:
    """The columns to cluster, the id column and the weight column of one file."""

    features: tuple[str, ...]
    id_column: str | None
    weight_column: str | None
    path: str

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        columns: Sequence[str] | None,
        id_column: str | None,
        weight_column: str | None,
        path: str,
    ) -> ColumnChoice:
        """Choose among the `names` of a file; by default every column that is neither id nor weight is clustered."""
        others = [name for name in (id_column, weight_column) if name is not None]
        features = [name for name in names if name not in others] if columns is None else list(columns)
        choice = cls(tuple(features), id_column, weight_column, path)
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

    def _check(self, chosen: Sequence[str], names: Sequence[str]) -> None:
        """Raise unless every chosen column is there, has a name, and is chosen once."""
        check_known(chosen, names, self.path)
        repeated = _repeated(names)
        if repeated and repeated != [""]:
            raise InvalidInputError(
                f"{self.path}: column names must be distinct; {quoted(repeated)} "
                f"{_verb(repeated, 'occurs', 'occur')} twice. Rename one of them"
            )
        chosen_again = _repeated(chosen)
        if chosen_again:
            raise InvalidInputError(
                f"{self.path}: a column can be used only once; {quoted(chosen_again)} "
                f"{_verb(chosen_again, 'is', 'are')} chosen twice"
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
                f"{self.path}: {quoted(names)} {_verb(names, 'is', 'are')} text; only numbers can be clustered. Choose "
                "columns of numbers with --columns, and name the column that identifies the rows with --id-column"
            )


def check_known(chosen: Sequence[str], names: Sequence[str], path: str) -> None:
    """Raise unless all chosen columns are in the file."""
    unknown = [name for name in chosen if name not in names]
    if unknown:
        missing = _verb(unknown, "is no column", "are no columns")
        raise InvalidInputError(f"{path}: there {missing} {quoted(unknown)}; the columns are {quoted(names)}")


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
