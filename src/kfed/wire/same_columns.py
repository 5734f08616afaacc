"""Whether tables of several devices have the same columns, and which devices differ from most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from kfed._base.text import quoted
from kfed.errors import FeatureMismatchError
from kfed.wire.column_names import column_difference

if TYPE_CHECKING:
    from kfed.wire.schema import FeatureSchema

_WRITTEN = {
    "date": "write its dates as 2026-01-31, or say that it holds dates (--kinds {name}=date)",
    "flag": "write yes or no in the same way; if it holds something else, say so at both (--kinds {name}=category)",
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
    for name, column in our_columns.items():
        their = their_columns[name]
        for what in ("kind", "unit", "shift", "scale"):
            mine, yours = getattr(column, what), getattr(their, what)
            may_differ = (what == "unit" and None in (mine, yours)) or (what == "kind" and _are_one(mine, yours))
            if mine != yours and not may_differ:
                remedy = f": {_remedy(name, (mine, ours), (yours, theirs))}" if what == "kind" else ""
                raise FeatureMismatchError(
                    f"column {name!r} must have the same {what} on all devices; it is {mine!r} at {ours} and {yours!r} "
                    f"at {theirs}{remedy}"
                )


def _remedy(name: str, mine: tuple[str, str], yours: tuple[str, str]) -> str:
    """What to do about a column of two kinds, each with the party that has it."""
    for kind, write in _WRITTEN.items():
        others = [party for found, party in (mine, yours) if found != kind]
        if len(others) == 1:
            return f"at {others[0]}, {write.format(name=name)}"
    return f"say what it is at both, such as --kinds {name}=category"


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
