"""Names that people give to clusters; a cluster without one is called by its number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kfed._base.text import folded
from kfed.errors import InvalidInputError

_BY_NUMBER = re.compile(r"(?:cluster ?)?(\d+)")


def default_name(cluster: int) -> str:
    """What a cluster is called that has no name."""
    return f"cluster {cluster}"


def check_names(names: Mapping[int, str], known: Mapping[int, str] | None = None) -> None:
    """Raise unless each name is a word, and of one cluster alone.

    Parameters
    ----------
    names : mapping from cluster to str
    known : mapping from cluster to str, optional
        Names that clusters have already; those in `names` replace them.

    Examples
    --------
    >>> check_names({0: "young", 1: "cluster 0"})
    Traceback (most recent call last):
    ...
    kfed.errors.InvalidInputError: every cluster must have a name of its own; 'cluster 0' of cluster 1 means cluster 0
    """
    called = {**(known or {}), **names}
    for cluster, name in names.items():
        own = folded(name)
        if not own:
            raise InvalidInputError(f"the name of a cluster must not be empty; got {name!r} for cluster {cluster}")
        number = _BY_NUMBER.fullmatch(own)
        if number and int(number[1]) != cluster:
            raise InvalidInputError(
                f"every cluster must have a name of its own; {name!r} of cluster {cluster} means cluster "
                f"{int(number[1])}"
            )
        for other, theirs in called.items():
            if other != cluster and folded(theirs) == own:
                raise InvalidInputError(
                    f"every cluster must have a name of its own; {name!r} of cluster {cluster} is the same as "
                    f"{theirs!r} of cluster {other}"
                )
