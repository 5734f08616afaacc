"""Names that people give to clusters; a cluster without one is called by its number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kfed._base.text import folded
from kfed.errors import InvalidInputError

_BY_NUMBER = re.compile(r"cluster ?(\d+)")


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
    kfed.errors.InvalidInputError: every cluster must have a name of its own; 'cluster 0' is what cluster 0 is called
    """
    all_names = {cluster: folded(name) for cluster, name in {**(known or {}), **names}.items()}
    for cluster, name in names.items():
        said = all_names[cluster]
        if not said:
            raise InvalidInputError(f"the name of a cluster must not be empty; got {name!r} for cluster {cluster}")
        number = _BY_NUMBER.fullmatch(said)
        if number and int(number[1]) != cluster:
            raise InvalidInputError(
                f"every cluster must have a name of its own; {name!r} is what cluster {int(number[1])} is called"
            )
        if any(other != cluster and said == theirs for other, theirs in all_names.items()):
            raise InvalidInputError(f"every cluster must have a name of its own; {name!r} is there twice")
