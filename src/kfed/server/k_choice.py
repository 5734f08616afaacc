"""`KChoice`: a number of global clusters that was found, and how clearly the device centers show it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base.array import Array, frozen
from kfed._base.notebook import InNotebook
from kfed.errors import InvalidInputError, NoReliableKError
from kfed.server.k_comparison import KComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_SHOWN = 3

_FACTS: dict[str, type | tuple[type, ...]] = {
    "n_clusters": int,
    "is_reliable": bool,
    "agreement": (bool, type(None)),
    "n_strays": int,
    "n_mixtures": int,
    "reason": str,
}


@dataclass(frozen=True, eq=False)
class KChoice(InNotebook):
    """A number of clusters, and how clearly the device centers show it. Made by `choose_n_clusters` and `aggregate`.

    Attributes
    ----------
    n_clusters : int
        The best guess of k.
    is_reliable : bool
        Whether it is more than a guess.
    agreement : bool or None
        Whether a second rule gives the same number: the centers that lie farther apart than those of one cluster, or
        the maximum of the Calinski-Harabasz index. None if the messages lack what these ask for.
    distances : array of shape (n_candidates,)
        Farthest-first distances: how far the 2nd, 3rd, ... pick was from those before it.
    ratios : array of shape (n_candidates - 1,)
        For k = 2, 3, ...: how many times the distance drops after the k-th pick.
    n_strays, n_mixtures : int
        Centers that were set aside: those of few points, and those of several clusters in one.
    reason : str
        Evidence for the number, or doubts about it.
    comparison : KComparison or None
        The values of k that were compared to find it, if any were; it is not kept in files.
    may_lack_a_cluster : bool
        Whether centers of one device were set aside that could be a cluster more; it is not kept in files.

    Examples
    --------
    >>> places = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]
    >>> pairs = [[places[i % 3], places[(i + 1) % 3]] for i in range(12)]
    >>> sent = [kfed.DeviceMessage(f"{i}", pair, [50, 50], [60.0, 60.0]) for i, pair in enumerate(pairs)]
    >>> kfed.choose_n_clusters(sent).n_clusters
    3
    """

    n_clusters: int
    is_reliable: bool
    agreement: bool | None
    distances: Array
    ratios: Array
    n_strays: int
    n_mixtures: int
    reason: str
    comparison: KComparison | None = field(default=None, repr=False)
    may_lack_a_cluster: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for array in (self.distances, self.ratios):
            array.flags.writeable = False

    @property
    def candidates(self) -> list[tuple[int, float]]:
        """The numbers of clusters after which distances drop most, and how many times, the clearest first."""
        best = np.argsort(-self.ratios, kind="stable")[:N_SHOWN]
        return [(int(k) + 2, float(self.ratios[k])) for k in best]

    def reliable_n_clusters(self) -> int:
        """The number that was found. Raises `NoReliableKError` if it is only a guess."""
        if not self.is_reliable:
            seen = ", ".join(f"{k} ({ratio:.2f} times)" for k, ratio in self.candidates) or "none"
            raise NoReliableKError(
                f"n_clusters='auto' found {self}; candidates, and how many times distances drop after each: {seen}; "
                "give n_clusters as a number"
            )
        return self.n_clusters

    def tensors(self) -> dict[str, Array]:
        """Give the arrays, by the names they have in a file."""
        return {"k_choice_distances": self.distances, "k_choice_ratios": self.ratios}

    def facts(self) -> dict[str, Any]:
        """Give all but the arrays."""
        return {name: getattr(self, name) for name in _FACTS}

    @classmethod
    def restored(cls, facts: dict[str, Any], tensors: dict[str, Array], n_clusters: int) -> KChoice:
        """Rebuild from `facts` and `tensors`; raise unless they are valid, and about this many clusters."""
        distances, ratios = (frozen(tensors[f"k_choice_{name}"]) for name in ("distances", "ratios"))
        is_sound = (
            facts.keys() == _FACTS.keys()
            and all(isinstance(facts[name], kinds) for name, kinds in _FACTS.items())
            and facts["n_clusters"] == n_clusters
            and all(array.ndim == 1 and array.dtype == np.float64 for array in (distances, ratios))
        )
        if not is_sound:
            raise InvalidInputError("its record of how n_clusters was found contradicts the rest")
        return cls(distances=distances, ratios=ratios, **facts)

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw how far apart centers were picked; `path` and `ax` are as in `kfed.Certificate.plot`."""
        from kfed.server.plots import plot_traversal

        return plot_traversal(self, path=path, ax=ax)

    def __str__(self) -> str:
        found = f"{self.n_clusters} clusters" if self.is_reliable else "no reliable number of clusters"
        return f"{found}: {self.reason}"
