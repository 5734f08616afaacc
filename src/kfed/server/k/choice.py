"""`KChoice`: a number of global clusters that was found, and how clearly the device centers show it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kfed._base.array import Array, frozen
from kfed._base.notebook import InNotebook
from kfed.errors import InvalidInputError, NoReliableKError
from kfed.server.k.comparison import KComparison
from kfed.server.k.comparison_file import comparison_facts, comparison_tensors, restored_comparison
from kfed.server.k.words import finding

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
        The values of k that were compared to find it, if any were; files from before have none.
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

    @property
    def stands_out(self) -> bool:
        """Whether the number is reliable, or stands out among those that were compared."""
        return self.is_reliable or (self.comparison is not None and self.comparison.recommended == self.n_clusters)

    @property
    def certainty(self) -> Literal["reliable", "stands out", "none stands out"]:
        """How sure the number is: "stands out" is not reliable, and the reason says why."""
        if self.is_reliable:
            return "reliable"
        return "stands out" if self.stands_out else "none stands out"

    @property
    def finding(self) -> str:
        """The number, and how sure it is, without the reason."""
        return finding(self.n_clusters, stands_out=self.stands_out, is_reliable=self.is_reliable)

    @property
    def told(self) -> str:
        """The finding as devices may see it: with its reason if that names none of them, as a doubt may."""
        return str(self) if self.comparison is not None and self.is_reliable else self.finding

    def reliable_n_clusters(self) -> int:
        """The number that was found. Raises `NoReliableKError` if it is only a guess."""
        if not self.is_reliable:
            seen = ", ".join(f"{k} ({ratio:.2f})" for k, ratio in self.candidates) or "none"
            raise NoReliableKError(
                f"n_clusters='auto': {self}; candidates (factor by which distances drop): {seen}; "
                "give n_clusters as a number"
            )
        return self.n_clusters

    def tensors(self) -> dict[str, Array]:
        """Give the arrays, by the names they have in a file."""
        compared = {} if self.comparison is None else comparison_tensors(self.comparison)
        return {"k_choice_distances": self.distances, "k_choice_ratios": self.ratios, **compared}

    def facts(self) -> dict[str, Any]:
        """Give all but the arrays and the comparison."""
        return {name: getattr(self, name) for name in _FACTS}

    def file_facts(self) -> dict[str, Any]:
        """Give the facts of a file, by the names they have there; older versions ignore that of the comparison."""
        compared = {} if self.comparison is None else {"k_comparison": comparison_facts(self.comparison)}
        return {"k_choice": self.facts(), **compared}

    @classmethod
    def restored(cls, said: Mapping[str, Any], tensors: dict[str, Array], n_clusters: int) -> KChoice | None:
        """Rebuild from `file_facts` and `tensors`; raise unless they are valid, and about this many clusters."""
        facts = said.get("k_choice")
        if facts is None:
            return None
        distances, ratios = (frozen(tensors[f"k_choice_{name}"]) for name in ("distances", "ratios"))
        comparison = restored_comparison(said.get("k_comparison"), tensors)
        is_sound = (
            facts.keys() == _FACTS.keys()
            and all(isinstance(facts[name], kinds) for name, kinds in _FACTS.items())
            and facts["n_clusters"] == n_clusters
            and all(array.ndim == 1 and array.dtype == np.float64 for array in (distances, ratios))
            and (comparison is None or n_clusters in comparison.n_clusters)
        )
        if not is_sound:
            raise InvalidInputError("its record of how n_clusters was found contradicts the rest")
        return cls(distances=distances, ratios=ratios, comparison=comparison, **facts)

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw what the number was found by: values of k that were compared, or how far apart centers were picked.

        `path` and `ax` are as in `kfed.Certificate.plot`.
        """
        from kfed.server.view.plots import plot_k_choice

        return plot_k_choice(self, path=path, ax=ax)

    def __str__(self) -> str:
        return f"{self.finding}: {self.reason}"
