"""Levels of categories that mean the same and are written in different ways on different devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

import numpy as np

from kfed._base.array import Array
from kfed._base.text import folded, plural, quoted
from kfed.wire import OTHER, Column, DeviceMessage, FeatureSchema, Notice, agreed_scale, features_by_column, respelled

MOST_SPELLINGS = 3
"""Of more levels that differ in spelling alone, the others are not shown."""

LEAST_SHARE = 1e-6
"""A level with a smaller share of the rows of a center is not there, but for rounding."""

Levels = Mapping[str, frozenset[str]]
"""The levels of one column, by device."""


def level_advice(messages: Iterable[DeviceMessage]) -> Iterator[Notice]:
    """Name columns whose levels differ in spelling alone between devices, or are not shared at all."""
    by_column: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for message in messages:
        for name, levels in _categories(message):
            by_column[name][message.device_id] = levels
    yield from level_differences(by_column)


def level_differences(by_column: Mapping[str, Levels]) -> Iterator[Notice]:
    """Like `level_advice`, of the levels of each column by device.

    Examples
    --------
    >>> [notice.code for notice in level_differences({"sex": {"north": frozenset("mf"), "south": frozenset("MF")}})]
    ['spelling']
    """
    for name, found in by_column.items():
        yield from _spelled_apart(name, found)
        yield from _not_shared(name, found)


def late_level_advice(message: DeviceMessage, others: Iterable[DeviceMessage]) -> Iterator[Notice]:
    """Name columns of a late device whose levels differ from those of the devices that were aggregated."""
    known: dict[str, set[str]] = defaultdict(set)
    for other in others:
        for name, levels in _categories(other):
            known[name] |= levels
    for name, levels in _categories(message):
        if not known[name] - {OTHER} or not levels - {OTHER}:
            continue
        differing = respelled(sorted(levels), known[name])
        if differing:
            yield Notice.about(
                [message.device_id],
                "spelling",
                f"levels of column {name!r} of {message.device_id!r} differ only in case or spaces from "
                f"{quoted(list(differing.values()), MOST_SPELLINGS)} on the other devices, and are ignored; write "
                "them as the others do",
            )
        elif not (levels & known[name]) - {OTHER}:
            yield Notice.about(
                [message.device_id],
                "no shared level",
                f"{message.device_id!r} has no level of column {name!r} in common with the other devices; if it is the "
                "same column, write its levels as the others do",
            )


def late_unknown_levels(message: DeviceMessage, known: FeatureSchema) -> Iterator[Notice]:
    """Say how many cells of a late device hold a level that no device of an aggregation has, unless all do.

    Levels that differ from known ones in spelling alone are named by `late_level_advice`. Others are not shown.
    """
    schema, levels_of = message.schema, {column.name: column.levels for column in known.columns or ()}
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        others = set(levels_of.get(column.name, ()))
        again = respelled(sorted(column.levels), others)
        is_new = np.array([level not in others and level not in again for level in column.levels], bool)
        if is_new.any() and others.intersection(column.levels) - {OTHER}:
            n_cells = round(float(_cells_of_levels(message, features)[is_new].sum()))
            hold, count = ("holds", "counts") if n_cells == 1 else ("hold", "count")
            yield Notice.about(
                [message.device_id],
                "unknown level",
                f"{plural(n_cells, 'cell')} of column {column.name!r} of {message.device_id!r} {hold} a level "
                f"unknown to the other devices, and {count} as no known level",
            )


def _cells_of_levels(message: DeviceMessage, features: slice) -> Array:
    """How many cells of a category hold each level, in the groups that were sent."""
    details = message.details
    cells = message.counts[:, None] if details is None or details.observed is None else details.observed[:, features]
    centers = (
        message.centers if message.schema.scaling != "agreed" else agreed_scale(message.schema).undo(message.centers)
    )
    return np.asarray((cells * np.nan_to_num(centers[:, features])).sum(axis=0))


def new_level_advice(column: Column, words: Sequence[str], codes: Array) -> Iterator[Notice]:
    """Say how many cells of new rows hold a level that others do not have, and whether it differs in spelling alone.

    A level that is not known is not shown: it may be that of few rows.

    Parameters
    ----------
    column : Column
        A category, with the levels of the others.
    words, codes
        As in `kfed.wire.level_features`, which says what becomes of such cells.

    Examples
    --------
    >>> ward = Column("ward", "category", ("Innere", "Kardio"))
    >>> unknown, spelling = new_level_advice(ward, ["Kardio", "innere"], np.array([0, 0, 1]))
    >>> unknown.text
    "1 cell of 'ward' holds a level that the others do not have, and counts as missing"
    >>> spelling.text
    "levels of column 'ward' differ only in case or spaces from 'Innere' of the others; write them as ..."
    """
    name, known = column.name, column.levels
    unknown = [code for code, word in enumerate(words) if word not in known]
    n_cells = int(np.isin(codes, unknown).sum())
    if not n_cells:
        return
    hold, count = ("holds", "counts") if n_cells == 1 else ("hold", "count")
    yield Notice(
        "unknown level",
        f"{plural(n_cells, 'cell')} of {name!r} {hold} a level that the others do not have, and {count} as "
        f"{repr(OTHER) if OTHER in known else 'missing'}",
    )
    differing = respelled(sorted(words), known)
    if differing:
        yield Notice(
            "spelling",
            f"levels of column {name!r} differ only in case or spaces from "
            f"{quoted(sorted(set(differing.values())))} of the others; write them as the others do",
        )
    elif not set(words) & set(known) - {OTHER}:
        yield Notice(
            "no shared level",
            f"no level of column {name!r} is one that the others have, such as {quoted(sorted(known))}; if it is the "
            "same column, write its levels as they do",
        )


def _categories(message: DeviceMessage) -> Iterator[tuple[str, frozenset[str]]]:
    """The levels of each category that the device has: an agreed schema also lists those of others."""
    schema = message.schema
    is_there = np.ones(schema.n_features, bool)
    if schema.scaling == "agreed":
        is_there = np.any(agreed_scale(schema).undo(message.centers) > LEAST_SHARE, axis=0)
    for column, features in zip(schema.columns or (), features_by_column(schema), strict=True):
        if column.levels:
            yield column.name, frozenset(compress(column.levels, is_there[features]))


def _spelled_apart(name: str, found: Levels) -> Iterator[Notice]:
    spellings: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for device_id, levels in found.items():
        for level in sorted(levels):
            spellings[folded(level)][level].append(device_id)
    several = [ways for _, ways in sorted(spellings.items()) if len(ways) > 1]
    if several:
        shown = "; ".join(
            " and ".join(f"{level!r} at {quoted(devices, 5)}" for level, devices in ways.items())
            for ways in several[:MOST_SPELLINGS]
        )
        more = f"; and {len(several) - MOST_SPELLINGS:,} more" if len(several) > MOST_SPELLINGS else ""
        told = (
            f"levels of column {name!r} differ only in case or spaces between devices, and count as "
            "different; write them in one way"
        )
        yield Notice.about_all("spelling", f"{told}: {shown}{more}", told)


def _not_shared(name: str, found: Levels) -> Iterator[Notice]:
    """Name devices that no chain of shared levels links to the others."""
    groups = _linked(found)
    if len(groups) < 2:
        return
    largest = max(groups, key=len)
    apart = sorted(device_id for group in groups if group is not largest for device_id in group)
    rest = "the other devices" if len(largest) > 1 else repr(largest[0])
    who = f"{quoted(apart, 5)} {'has' if len(apart) == 1 else 'have'} none in common with {rest}"
    if len(groups) > 2 and len(largest) == 1:
        who = "no two have one in common"
    told = f"not all devices share levels of column {name!r}; if it is the same column, write its levels in one way"
    yield Notice.about_all("no shared level", f"{told}: {who}", told)


def _linked(found: Levels) -> list[list[str]]:
    """Groups of devices that are linked by shared levels; levels that differ in spelling alone are shared."""
    leaders: dict[str, str] = {}

    def leader(word: str) -> str:
        while leaders.setdefault(word, word) != word:
            leaders[word] = leaders[leaders[word]]  # halves the path, so many devices take about linear time
            word = leaders[word]
        return word

    words = {device_id: [folded(level) for level in levels if level != OTHER] for device_id, levels in found.items()}
    for own in words.values():
        for word in own:
            leaders[leader(word)] = leader(own[0])
    groups: dict[str, list[str]] = defaultdict(list)
    for device_id, own in words.items():
        if own:
            groups[leader(own[0])].append(device_id)
    return list(groups.values())
