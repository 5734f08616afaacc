"""What an aggregation holds of the messages that devices sent, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfed._base.text import listed
from kfed.cli._terminal import plural, printable
from kfed.wire import Column, Details, MessageBatch

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


def _details_in_words(said: list[Details]) -> Iterator[str]:
    if any(own.squares is not None for own in said):
        yield "of each of these centers and each column, how many cells were filled, and how far they spread"
    if any(own.scatter is not None or own.sketch is not None for own in said):
        yield "of devices that sent it (--moments), how all rows together spread"
    untold = [own.n_left_out for own in said if own.n_left_out]
    if untold:
        yield f"how many rows devices did not speak for: {sum(untold):,} at {plural(len(untold), 'device')}"
    promises = [own.promise.epsilon for own in said if own.promise is not None]
    if promises:
        yield f"the promise of privacy of {plural(len(promises), 'device')}, with epsilon up to {max(promises):g}"


def _levels(column: Column) -> str:
    return f"{printable(column.name)} ({listed(list(map(printable, column.levels)), limit=20)})"
