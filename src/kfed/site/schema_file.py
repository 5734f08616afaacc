"""The schema that all sites agreed on, in a file: which columns there are, of which kind, and their scale."""

from __future__ import annotations

import json
import os
from pathlib import Path

from kfed._base import files
from kfed.errors import InvalidInputError
from kfed.site.scale import read_scale
from kfed.wire import Column, FeatureSchema

_SOURCE, _ROWS = "computed_from", "rows"


def read_schema(path: str | os.PathLike[str]) -> FeatureSchema:
    """Read a schema from `write_schema`, or a scale file, which has only columns of numbers."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: a schema must be JSON; this file is not") from error
    if isinstance(content, dict) and isinstance(content.get("columns"), list):
        try:
            return FeatureSchema.restored(content)
        except (InvalidInputError, TypeError) as error:
            raise InvalidInputError(f"{path}: this is not a schema: {error}") from error
    scale = read_scale(path)
    columns = [Column(name, shift=float(shift), scale=float(by)) for name, (shift, by) in scale.items()]
    return FeatureSchema.of_columns(columns, "agreed")


def is_from_rows(path: str | os.PathLike[str]) -> bool:
    """Whether a schema says that its scale was computed from rows, as that of `kfed agree` does."""
    content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    return isinstance(content, dict) and content.get(_SOURCE) == _ROWS


def write_schema(
    path: str | os.PathLike[str], schema: FeatureSchema, *, from_rows: bool = False, overwrite: bool = False
) -> None:
    """Write a schema for all sites; `from_rows` notes in it that its scale was computed from rows."""
    facts = {_SOURCE: _ROWS, **(schema.facts() or {})} if from_rows else schema.facts()
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    files.write(path, f"{text}\n".encode(), overwrite=overwrite)
