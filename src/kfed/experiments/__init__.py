"""The paper's tables and figures, each as one command: ``kfed reproduce NAME``.

To run one of your own, write a file that defines an `Experiment`, and ``kfed reproduce my_experiment.py``; those of the
paper are in `kfed.experiments.registry`::

    def run_one(axes, seed):                       # one run: named axes in, a dict of plain numbers out
        rng = np.random.default_rng(seed_of(seed, d=axes["d"], run=axes["run"]))
        return {"accuracy": ...}

    def summarize(results):                        # all runs, in the order of the preset
        finding = Finding("claim", paper="98.8", ours="100.0", verdict="exceeded", reason="...")
        return ExperimentSummary((finding,), (TextTable("title", ("d", "accuracy"), rows),))

    def plot(results, figure):                     # draw on a matplotlib figure
        figure.add_subplot().plot(...)

    EXPERIMENT = Experiment(name="my-figure", ..., quick=grid(d=[8], run=range(2)), full=grid(d=[8, 64], run=range(10)),
                            run_one=run_one, summarize=summarize, plot=plot)

An experiment is a list of independent runs. What a run gives depends on its axes and the seed alone, so that each is
stored as it finishes and never done twice. The runner owns files, progress, resuming and data that are missing.
"""

from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable, grid, seed_of
from kfed.experiments.own import load_experiment
from kfed.experiments.registry import EXPERIMENTS, get
from kfed.experiments.runner import ExperimentOutcome, reproduce
from kfed.experiments.tidy import tidy

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "ExperimentOutcome",
    "ExperimentSummary",
    "Finding",
    "Result",
    "TextTable",
    "get",
    "grid",
    "load_experiment",
    "reproduce",
    "seed_of",
    "tidy",
]
