"""`choose_by_separation`: the appendix's rule that chooses k by how well the clusters are separated."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import checks, pool, text
from kfed._base.array import Array, frozen
from kfed._base.report import Paragraph, TextTable
from kfed.errors import InvalidInputError
from kfed.separation.labelled import Labelled
from kfed.theory import Presence, separation_ratios

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def choose_by_separation(
    points: Any,
    candidates: Mapping[int, Any] | Sequence[Any],
    groups: Any = None,
    *,
    threshold: float = 0.5,
    n_jobs: int | None = None,
) -> SeparationChoice:
    """Choose among clusterings with different k the one whose clusters are best separated (the appendix's rule).

    It is the k with the largest share of pairs of clusters whose c_rs is above a threshold; on ties, the largest k.

    Parameters
    ----------
    points, groups
        As in `separation_report`.
    candidates : mapping from k to labels, or sequence of labels
        Clusterings of all points, such as those that k-means gives for several k; each as `target_labels` in
        `separation_report`, with at least two clusters.
    threshold : float
        c_0; the paper takes 0.5.
    n_jobs : int, optional
        Number of threads, by default one per core. It does not change the result.

    Returns
    -------
    SeparationChoice

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1, 2], 40)
    >>> points = 50 * np.eye(3)[truth] + rng.normal(size=(120, 3))
    >>> halves = 2 * truth + np.tile([0, 1], 60)  # each cluster cut in two at random
    >>> choice = choose_by_separation(points, {2: truth > 0, 3: truth, 6: halves})
    >>> choice.n_clusters
    3
    >>> print(choice)
    k = 3
    <BLANKLINE>
    k  pairs  share of c_rs > 0.5
    2      1                 0.0%
    3      3               100.0%
    6     15                80.0%
    """
    threshold = checks.positive_number(threshold, "threshold")
    found: dict[int, Array] = {}
    for labels in candidates.values() if isinstance(candidates, Mapping) else candidates:
        data = Labelled.of(points, labels, groups)
        n_clusters = len(data.clusters)
        if n_clusters < 2 or n_clusters in found:
            raise InvalidInputError(
                "candidates must have at least 2 clusters each, and no two the same number; "
                f"got {n_clusters}{' twice' if n_clusters > 1 else ''}"
            )
        with pool.one_blas_thread():
            problem, presence = data.problem(n_jobs), Presence.of(data.devices, data.labels, n_clusters=n_clusters)
            ratios = separation_ratios(problem.distances, problem.spectral_deviation, presence)
        found[n_clusters] = frozen(ratios[np.triu_indices(n_clusters, 1)])
    if not found:
        raise InvalidInputError("candidates must not be empty")
    return SeparationChoice(threshold, dict(sorted(found.items())))


@dataclass(frozen=True, eq=False)
class SeparationChoice:
    """The k that separation favours. Made by `choose_by_separation`.

    Attributes
    ----------
    threshold : float
        c_0.
    separation_ratios : dict from int to array of shape (n_pairs,)
        For each k, c_rs of all pairs of clusters.
    """

    threshold: float
    separation_ratios: dict[int, Array] = field(repr=False)

    @property
    def shares(self) -> dict[int, float]:
        """For each k, the share of pairs of clusters whose c_rs is above the threshold."""
        return {k: float(np.mean(ratios > self.threshold)) for k, ratios in self.separation_ratios.items()}

    @property
    def n_clusters(self) -> int | None:
        """The k with the largest share; None if no pair is above the threshold at any k."""
        share, k = max((share, k) for k, share in self.shares.items())
        return k if share > 0 else None

    def __str__(self) -> str:
        answer = f"k = {self.n_clusters}" if self.n_clusters else f"no k: no pair has c_rs above {self.threshold:g}"
        rows = tuple(
            (str(k), f"{len(self.separation_ratios[k]):,}", f"{share:.1%}") for k, share in self.shares.items()
        )
        headings = ("k", "pairs", f"share of c_rs > {self.threshold:g}")
        return text.render([Paragraph(answer), TextTable("", headings, rows)])

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw for each k the share of pairs with a larger c_rs, against c_rs (the appendix's figure).

        The parameters and the returned axes are those of `SeparationReport.plot`.
        """
        from kfed.separation.plot import plot_choice

        return plot_choice(self, path, ax)
