"""The paper's tables and figures, each as one command: ``kfed reproduce NAME``.

To run one of your own, write a file that defines an `Experiment`, and ``kfed reproduce my_experiment.py``; those of the
paper are in `kfed.experiments.registry`::

    def run_one(axes, seed):                       # one run: named axes in, a dict of plain numbers out
        rng = np.random.default_rng(seed_of(seed, d=axes["d"], run=axes["run"]))
        return {"accuracy": ...}

    def summarize(results):                        # all runs, in the order of the preset
        finding = Finding("claim", paper="+1.5", ours="+1.2", verdict=yardstick.leads(effects, paper=1.5))
        return ExperimentSummary((finding,), (TextTable("title", ("d", "accuracy"), rows),))

    def plot(results, figure):                     # draw on a matplotlib figure
        figure.add_subplot().plot(...)

    EXPERIMENT = Experiment.of(__name__, "My figure", "beyond the paper", claim=..., measure=..., setup_differs=...,
                               quick=grid(d=[8], run=range(2)), full=grid(d=[8, 64], run=range(10)))

An experiment is a list of independent runs. What a run gives depends on its axes and the seed alone, so that each is
stored as it finishes and never done twice. The runner owns files, progress, resuming and data that are missing.
"""

from kfed.experiments.axes import grid, seed_of
from kfed.experiments.demo import run_demo as run_demo  # for commands
from kfed.experiments.earlier import left_out_of as left_out_of
from kfed.experiments.earlier import with_earlier as with_earlier
from kfed.experiments.experiment import Experiment, ExperimentSummary, Finding, Result, TextTable
from kfed.experiments.outcome import ExperimentOutcome
from kfed.experiments.own import load_experiment
from kfed.experiments.pages import section_of as section_of
from kfed.experiments.pages import write_documentation as write_documentation
from kfed.experiments.pages import write_html as write_html
from kfed.experiments.registry import EXPERIMENTS, get
from kfed.experiments.repetition import repeat as repeat
from kfed.experiments.runner import reproduce
from kfed.experiments.runner import stored_in as stored_in
from kfed.experiments.tidy_table import tidy

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
