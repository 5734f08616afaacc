"""`Judgement`: the base of certificates and separation reports, with facts, a table of pairs and a picture."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import text
from kfed._base.array import Array, Length
from kfed._base.notebook import InNotebook
from kfed._base.report import Block, Conclusion, Notes, TextTable, fact_table
from kfed.theory.conditions import Condition
from kfed.theory.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MET = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Judgement(InNotebook, ABC):
    """A clustering judged by the paper's theorems.

    `kfed.Certificate` goes by messages, `kfed.SeparationReport` by points, and a `MixtureReport` by a known mixture.
    """

    required_ratio: float
    conditions: tuple[Condition, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    distances: Array = field(repr=False)
    active_pairs: Array = field(repr=False)
    cluster_sizes: Array = field(repr=False)
    smallest_size: float
    size_imbalance: float
    max_local_clusters: int

    n_clusters = Length("cluster_sizes", 0, "Number of clusters, k.")

    @property
    def is_heterogeneous(self) -> bool:
        """Whether k' <= sqrt(k)."""
        return self.max_local_clusters**2 <= self.n_clusters

    @abstractmethod
    def conclusion(self) -> Conclusion:
        """Give the verdict, and whether it is a guarantee."""

    @abstractmethod
    def facts(self) -> list[tuple[str, str]]:
        """List the numbers that are about all clusters, each with its name."""

    @abstractmethod
    def pair_table(self) -> TextTable:
        """Tabulate the active and the inactive pairs of clusters, a row each."""

    @abstractmethod
    def ratios_to_draw(self) -> tuple[Array, Array, str]:
        """c_rs of each pair, the c_rs that the proofs require of it, and what to call the former."""

    def blocks(self) -> Iterator[Block]:
        """Describe the judgement: the verdict, the conditions, the facts, the pairs of clusters and the notes."""
        yield self.conclusion()
        if self.conditions:
            yield self.condition_table()
        yield fact_table(self.facts())
        pairs = self.pair_table()
        if pairs.rows:
            yield pairs
        yield Notes(self.notes)

    def condition_table(self) -> TextTable:
        """Tabulate the conditions that the proofs use, and whether each is met."""
        rows = tuple((condition.name, MET[condition.is_met]) for condition in self.conditions)
        return TextTable("", ("condition of the proofs", "met"), rows, n_words=2)

    def __str__(self) -> str:
        return text.render(self.blocks())

    def _shown(self) -> Iterator[Block]:
        return self.blocks()

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types; a number that is not finite becomes None."""
        result: dict[str, Any] = text.plain(self._values())
        return result

    def _values(self) -> dict[str, Any]:
        return {**vars(self), "conditions": list(map(vars, self.conditions))}

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw a histogram of c_rs, active and inactive pairs of clusters apart (the appendix's figure).

        Parameters
        ----------
        path : path, optional
            Where to save the picture (.png, .svg or .pdf).
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from kfed.theory.pair_plot import plot_pairs

        return plot_pairs(self, path, ax)

    def _facts_of_theorem(self, deviation: str, inactive_scale: str) -> Iterator[tuple[str, str]]:
        """Yield the quantities of the main theorem."""
        kind = "heterogeneous" if self.is_heterogeneous else "not heterogeneous"
        yield "clusters, k", str(self.n_clusters)
        yield "most on one device, k'", f"{self.max_local_clusters}: {kind} (sqrt(k) is {self.n_clusters**0.5:.3g})"
        yield "size imbalance, m0", f"{self.size_imbalance:.4g}"
        yield "cluster sizes, n_r", _range(self.cluster_sizes)
        yield "smallest device or cluster, n_min", number(self.smallest_size)
        yield "spectral deviation, norm(A - C)", deviation
        yield "inactive scale, lambda", inactive_scale
        yield "required ratio, c", f"{self.required_ratio:g}"


def _range(sizes: Array) -> str:
    least, most = number(sizes.min()), number(sizes.max())
    return least if least == most else f"{least} to {most}"


def kinds_of_pairs(values: Array, active_pairs: Array) -> Iterator[tuple[str, Array]]:
    """Yield "active" and "inactive", each with a mask of the pairs r < s of that kind whose value is not NaN, if any.

    Examples
    --------
    >>> [(name, np.argwhere(pairs).tolist()) for name, pairs in kinds_of_pairs(np.ones((3, 3)), np.array([[0, 2]]))]
    [('active', [[0, 2]]), ('inactive', [[0, 1], [1, 2]])]
    """
    is_active = np.zeros(values.shape, bool)
    is_active[tuple(active_pairs.T)] = True
    exists = np.triu(~np.isnan(values), 1)
    for name, pairs in [("active", exists & is_active), ("inactive", exists & ~is_active)]:
        if pairs.any():
            yield name, pairs
