"""What files hold of what devices sent, in plain words: their messages, their columns and the scale of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kfed._base.text import listed
from kfed.cli._terminal import plural, printable
from kfed.wire import Column, CommonScale, Details, FeatureSchema, MessageBatch

DEVIATION = "one number, the largest singular value or up to 4 % above it"


def sent_in_words(messages: MessageBatch) -> Iterator[str]:
    """What the messages say beside centers and counts, each only if one of them does."""
    if not np.isnan(messages.sums_of_squares).all():
        yield "of each of these centers, how far its rows are from it: a sum of squares"
    if not np.isnan(messages.spectral_deviations).all():
        yield f"of devices, how far all rows are from their centers: {DEVIATION}"
    levels = [_levels(column) for column in messages.schema.columns or () if column.levels]
    if levels:
        yield f"the levels of categories that devices named: {listed(levels, limit=20)}"
    details = () if messages.details is None else messages.details.messages
    yield from _details_in_words([message.details for message in details if message.details is not None])


def columns_in_words(schema: FeatureSchema | None, scale: CommonScale | None = None) -> Iterator[str]:
    """What is said of columns: their names, kinds and levels, and the scale on which distances are measured."""
    if schema is not None and schema.columns is not None:
        columns = [printable(_column_in_words(column)) for column in schema.columns]
        yield f"what the columns are: {listed(columns, limit=20)}"
    elif schema is not None and schema.names is not None:
        yield f"the names of the columns: {listed(list(map(printable, schema.names)), limit=20)}"
    if scale is not None:
        yield "the mean and the spread of each column over the rows of all devices"
    elif schema is not None and schema.scaling == "agreed":
        yield "the shift and the scale of each column that all sites agreed on"


def scale_facts(schema: FeatureSchema | None, scale: CommonScale | None) -> dict[str, Any]:
    """The names of features, the schema and the scale, for `--json`."""
    return {
        "feature_names": None if schema is None else schema.names,
        "schema": None if schema is None else schema.facts(),
        "scale": None if scale is None else {"shift": scale.shift.tolist(), "scale": scale.scale.tolist()},
    }


def _column_in_words(column: Column) -> str:
    if column.kind == "number":
        return column.name
    return f"{column.name} ({column.kind}{': ' + ', '.join(column.levels) if column.levels else ''})"


def _details_in_words(said: list[Details]) -> Iterator[str]:
    if any(own.squares is not None for own in said):
        yield "of each of these centers and each column, how many cells were filled, and how far they spread"
    if any(own.scatter is not None or own.sketch is not None for own in said):
        yield "of devices that sent it (--moments), how all rows together spread"
    untold = [own.n_left_out for own in said if own.n_left_out]
    if untold:
        yield f"how many rows are in none of these groups: {sum(untold):,} at {plural(len(untold), 'device')}"
    promises = [own.promise.epsilon for own in said if own.promise is not None]
    if promises:
        yield f"the promise of privacy of {plural(len(promises), 'device')}, with epsilon up to {max(promises):g}"


def _levels(column: Column) -> str:
    return f"{printable(column.name)} ({listed(list(map(printable, column.levels)), limit=20)})"
