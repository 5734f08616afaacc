"""What an experiment is: a claim, runs along named axes, and what their results say about the claim."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from kfed._base.report import Finding, TextTable, Verdict
from kfed.experiments.axes import Axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "ExperimentSummary", "Finding", "Result", "TextTable", "Verdict"]


@dataclass(frozen=True)
class Result:
    """What one run gave.

    Attributes
    ----------
    axes : dict
        Which run it is: names and values that JSON knows.
    values : dict
        What was measured: numbers, or lists and dicts of them.
    seconds : float
        How long it took.
    """

    axes: Axes
    values: dict[str, Any]
    seconds: float

    def __getitem__(self, name: str) -> Any:
        return self.axes[name] if name in self.axes else self.values[name]


@dataclass(frozen=True)
class ExperimentSummary:
    """What the runs of an experiment say."""

    findings: tuple[Finding, ...]
    tables: tuple[TextTable, ...] = ()
    headline: str = ""  # what a reader must know first


def _nothing(axes: Axes) -> tuple[str, ...]:  # noqa: ARG001
    return ()


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name, title : str
        What the command line and the report call it.
    paper : str
        Where it is in the paper; "beyond the paper" or "not in the paper" if its claims are ours.
    claim : str
        What the paper says.
    measure : str
        What is measured, in one sentence.
    setup_differs : str
        How the setup differs from the paper's.
    quick, full : tuple of dict
        The runs of each preset, as named axes.
    run_one : callable
        ``run_one(axes, seed)`` does one run; what it gives depends on nothing else.
    summarize : callable
        ``summarize(results)`` gives an `ExperimentSummary`.
    plot : callable
        ``plot(results, figure)`` draws.
    requires : tuple of str
        Data sets that every run needs, keys of `kfed.datasets.sources.SOURCES`.
    run_requires : callable
        ``run_requires(axes)`` gives those that one run needs besides.
    run_reads : callable
        ``run_reads(axes)`` gives the folders of LEAF, such as ``femnist``, whose files a run reads if they are there.
    optional : tuple of str
        Of all these, data sets whose runs are left out where they are missing, even if the experiment is asked for by
        name.
    package : str
        A package beyond kfed's own that its runs import, if any.
    side_by_side : int
        How many runs are done at a time, each in a process with one thread for PyTorch. With 1 they are done here.
    figure_size : (width, height)
        Of the picture, in inches.
    legend : mapping, optional
        Draw a legend below the picture, with these options of matplotlib, such as ``{"ncols": 3}``.
    minutes : (quick, full), optional
        About how long each preset takes on two cores.
    """

    name: str
    title: str
    paper: str
    claim: str
    measure: str
    setup_differs: str
    quick: tuple[Axes, ...] = field(repr=False)
    full: tuple[Axes, ...] = field(repr=False)
    run_one: Callable[[Axes, int], dict[str, Any]] = field(repr=False)
    summarize: Callable[[list[Result]], ExperimentSummary] = field(repr=False)
    plot: Callable[[list[Result], Figure], None] = field(repr=False)
    requires: tuple[str, ...] = ()
    run_requires: Callable[[Axes], tuple[str, ...]] = field(default=_nothing, repr=False)
    run_reads: Callable[[Axes], tuple[str, ...]] = field(default=_nothing, repr=False)
    optional: tuple[str, ...] = ()
    package: str = ""
    side_by_side: int = 1
    figure_size: tuple[float, float] = (9.0, 4.5)
    legend: Mapping[str, Any] = field(default_factory=dict, repr=False)
    minutes: tuple[float, float] | None = None

    @classmethod
    def of(cls, module: str, title: str, paper: str, **own: Any) -> Self:
        """Make the experiment of a module, which defines `run_one`, `summarize` and `plot`, and gives it its name."""
        steps = {step: getattr(sys.modules[module], step) for step in ("run_one", "summarize", "plot")}
        return cls(module.rpartition(".")[2].replace("_", "-"), title, paper, **steps, **own)

    @property
    def is_of_paper(self) -> bool:
        """Whether its claims are the paper's, not ours."""
        return not self.paper.lower().startswith(("beyond the paper", "not in the paper"))

    def needs(self, axes: Axes) -> set[str]:
        """Data sets that a run needs."""
        return {*self.requires, *self.run_requires(axes)}

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Data sets that some run needs, sorted."""
        return tuple(sorted(set().union(*(self.needs(axes) for axes in self.quick + self.full))))
