"""Columns and levels that only one of two parties has, and those that differ only in spelling."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kfed._base.identifier_names import names_rows
from kfed._base.text import exclusion, folded, quoted, verb

MOST_NAMED = 5


def respelled(own: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Map words to known ones from which they differ only in case or spaces.

    Examples
    --------
    >>> respelled(["AGE ", "bmi", "dose"], ["age", "bmi"])
    {'AGE ': 'age'}
    """
    by_fold = {folded(word): word for word in sorted(known)}
    return {word: by_fold[folded(word)] for word in own if word not in known and folded(word) in by_fold}


def column_difference(known: Collection[str], own: Collection[str], ours: str, theirs: str) -> str:
    """Say which columns one of two parties lacks, and what to do; nothing if both have the same.

    Parameters
    ----------
    known, own : collections of str
        The columns that `ours` has, and those that `theirs` has.
    ours, theirs : str
        What to call the two.

    Examples
    --------
    >>> column_difference(["age", "bmi"], ["age"], "the others", "'south'")
    "'bmi' of the others is missing at 'south': add it there, or leave it out everywhere"
    >>> column_difference(["age"], ["age", "ward"], "others", "'south'")
    "'ward' of 'south' is unknown to others: leave it out there, for example with `kfed device ... --exclude ward`"
    >>> column_difference(["age"], ["AGE"], "the others", "'south'")
    "'AGE' of 'south' differs from 'age' of the others only in case or spaces: rename it"
    """
    names = {name: other for name, other in respelled(sorted(own), known).items() if other not in own}
    missing = sorted(set(known) - set(own) - set(names.values()))
    identifiers = list(filter(names_rows, missing))
    others = [name for name in missing if name not in identifiers]
    extra = sorted(set(own) - set(known) - names.keys())
    look, them = (
        verb(len(identifiers), "looks like an identifier", "look like identifiers"),
        verb(len(others), "it", "them"),
    )
    said = {
        _about_spelling(names, ours, theirs): names,
        f"{_are(identifiers, ours)} missing at {theirs} and {look}: {_leave(identifiers, 'everywhere')}": identifiers,
        f"{_are(others, ours)} missing at {theirs}: add {them} there, or leave {them} out everywhere": others,
        f"{_are(extra, theirs)} unknown to {ours}: {_leave(extra, 'there')}": extra,
    }
    return "; ".join(words for words, about in said.items() if about)


def _about_spelling(names: Mapping[str, str], ours: str, theirs: str) -> str:
    own, known = (quoted(list(words), MOST_NAMED) for words in (names, names.values()))
    differ, them = verb(len(names), "differs", "differ"), verb(len(names), "it", "them")
    return f"{own} of {theirs} {differ} from {known} of {ours} only in case or spaces: rename {them}"


def _leave(names: list[str], where: str) -> str:
    return f"leave {verb(len(names), 'it', 'them')} out {where}, for example with `kfed device ... {exclusion(names)}`"


def _are(names: list[str], party: str) -> str:
    return f"{quoted(names, MOST_NAMED)} of {party} {verb(len(names), 'is', 'are')}"
