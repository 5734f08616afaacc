"""Whether tables of several devices have the same columns, and which devices differ from most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from kfed._base.text import quoted, verb
from kfed.errors import FeatureMismatchError
from kfed.wire.column_names import column_difference

if TYPE_CHECKING:
    from kfed.wire.columns import Column
    from kfed.wire.schema import FeatureSchema

_WRITTEN = {
    "date": "write its dates as 2026-01-31, or use --kinds {name}=date",
    "flag": "write yes or no in the same way; if it holds something else, use --kinds {name}=category at every site",
}
"""What to do where a column holds these on another device."""


_SCALED = {"agreed": "uses an agreed scale", "by message": "sends its own", None: "uses none"}


def check_columns(own: FeatureSchema, other: FeatureSchema, ours: str, theirs: str) -> None:
    """Raise unless two tables have the same columns, in any order."""
    our_columns = {column.name: column for column in own.columns or ()}
    their_columns = {column.name: column for column in other.columns or ()}
    said = column_difference(our_columns, their_columns, ours, theirs)
    if said:
        raise FeatureMismatchError(f"all devices must have the same columns; {said}")
    if own.scaling != other.scaling:
        said = f"{ours} {_SCALED[own.scaling]}; {theirs} {_SCALED[other.scaling]}"
        raise FeatureMismatchError(
            f"all devices must use one scale; {said}: use the agreed schema on all devices or on none"
        )
    differing = {name: what for name in our_columns if (what := _other(our_columns[name], their_columns[name]))}
    if not differing:
        return
    (name, what), *others = differing.items()
    mine, yours = getattr(our_columns[name], what), getattr(their_columns[name], what)
    remedy = _remedy(name, (mine, ours), (yours, theirs)) if what == "kind" else ""
    remedy = "use the same schema at every site" if what in ("shift", "scale") else remedy
    also = [other for other, _ in others]
    also_text = f". {quoted(also)} {verb(len(also), 'differs', 'differ')}, too" if also else ""
    raise FeatureMismatchError(
        f"column {name!r} must have the same {what} on all devices; it is {mine!r} at {ours} and {yours!r} at "
        f"{theirs}{remedy and f': {remedy}'}{also_text}"
    )


def _other(mine: Column, yours: Column) -> str:
    """In what two columns differ that must not; nothing if they do not."""
    for what in ("kind", "unit", "shift", "scale"):
        own, other = getattr(mine, what), getattr(yours, what)
        may_differ = (what == "unit" and None in (own, other)) or (what == "kind" and _are_one(own, other))
        if own != other and not may_differ:
            return what
    return ""


def _remedy(name: str, mine: tuple[str, str], yours: tuple[str, str]) -> str:
    """What to do about a column of two kinds, each with the party that has it."""
    for kind, write in _WRITTEN.items():
        others = [party for found, party in (mine, yours) if found != kind]
        if len(others) == 1:
            return f"at {others[0]}, {write.format(name=name)}"
    return f"set its kind at every site, for example --kinds {name}=category"


def compare_names(schemas: Mapping[str, FeatureSchema]) -> None:
    """Raise if some tables have other columns than most; nothing is said of features without columns."""
    _compare_with_most(
        schemas,
        {
            device_id: frozenset(column.name for column in own.columns)
            for device_id, own in schemas.items()
            if own.columns is not None
        },
    )


def compare_kinds(schemas: Mapping[str, FeatureSchema]) -> None:
    """Raise if a column is of another kind in some tables than in most of those in which it is not empty."""
    kinds: dict[str, dict[str, Hashable]] = defaultdict(dict)
    for device_id, own in schemas.items():
        for column in own.columns or ():
            if column.kind != "empty":
                kinds[column.name][device_id] = "number" if column.kind == "flag" else column.kind
    for found in kinds.values():
        _compare_with_most(schemas, found)


def _compare_with_most(schemas: Mapping[str, FeatureSchema], found: Mapping[str, Hashable]) -> None:
    """Raise if something was not found alike on all devices, and say where it is unlike on most."""
    if len(set(found.values())) < 2:
        return
    (usual, n_usual), *_ = Counter(found.values()).most_common()
    odd = next(one for one in found.values() if one != usual)
    theirs = [device_id for device_id, one in found.items() if one == odd]
    model = next(device_id for device_id, one in found.items() if one == usual)
    ours = "the others" if n_usual + len(theirs) == len(found) else "most devices"
    check_columns(
        schemas[model], schemas[theirs[0]], ours if 2 * n_usual > len(found) else repr(model), quoted(theirs, 5)
    )


def _are_one(mine: str, yours: str) -> bool:
    """Whether columns of two kinds can be compared: an empty one with any, and yes or no with 1 or 0."""
    return "empty" in (mine, yours) or {mine, yours} <= {"flag", "number"}
