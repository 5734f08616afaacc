"""How values look in a notebook, and as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kfed._base.report import Block, Paragraph
from kfed.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas


class InNotebook:
    """Shown in a notebook as the blocks of a report; by default, the text of the value."""

    def _shown(self) -> Iterable[Block]:
        return [Paragraph(str(self))]

    def _repr_html_(self) -> str:
        from kfed._base.html import for_notebook

        return for_notebook(type(self).__name__, self._shown())


def data_frame(columns: Mapping[str, Sequence[Any]], index: str | Sequence[str]) -> pandas.DataFrame:
    """A data frame with some of its columns as the index. Raises `MissingExtraError` without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("data frames need pandas: pip install pandas") from error
    return pandas.DataFrame(columns).set_index(index)
