"""Which columns of a table are used, and for what: judged once, for every kind of file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfed.errors import InvalidInputError


@dataclass(frozen=True)
class Choice:
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
    ) -> Choice:
        """Choose among `names`, or say what is wrong with the choice."""
        apart = [name for name in (id_column, weight_column) if name is not None]
        features = [name for name in names if name not in apart] if columns is None else list(columns)
        unknown = [name for name in [*features, *apart] if name not in names]
        if unknown:
            raise InvalidInputError(f"{path}: there is no column {shown(unknown)}; the columns are {shown(names)}")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice and twice != [""]:
            raise InvalidInputError(f"{path}: column names must be distinct, and {shown(twice)} stands there twice")
        used_twice = sorted({name for name in [*features, *apart] if [*features, *apart].count(name) > 1})
        if used_twice:
            raise InvalidInputError(f"{path}: a column can be used once, and {shown(used_twice)} is chosen twice")
        if "" in features:
            raise InvalidInputError(
                f"{path}: every column must have a name, and column {names.index('')} (counted from 0) has "
                "none; name it, or choose the others with --columns"
            )
        if not features:
            raise InvalidInputError(f"{path}: there must be at least one column to cluster, and there is none")
        return cls(tuple(features), id_column, weight_column, path)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that must hold numbers."""
        return self.features if self.weight_column is None else (*self.features, self.weight_column)

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that is read."""
        return self.numeric if self.id_column is None else (*self.numeric, self.id_column)

    def refuse_text(self, names: Sequence[str]) -> None:
        """Raise if there are columns without a number in them."""
        if names:
            raise InvalidInputError(
                f"{self.path}: every column to cluster must hold numbers, and {shown(names)} does not; "
                "choose others with --columns, or name the one that says which row this is with --id-column"
            )


def shown(names: Sequence[str], limit: int = 8) -> str:
    """Quote a few names for a sentence."""
    text = ", ".join(map(repr, names[:limit]))
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
