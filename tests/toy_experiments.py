"""An experiment that adds numbers, and ways to run experiments in tests."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from kfed._base import figures, text
from kfed.cli import app
from kfed.experiments import (
    Experiment,
    ExperimentSummary,
    Finding,
    Result,
    TextTable,
    grid,
    registry,
    reproduce,
    seed_of,
)

needs_data = pytest.mark.skipif(not os.environ.get("KFED_DATA"), reason="KFED_DATA does not name a folder of data sets")


class Toy:
    """An experiment that adds numbers, remembers which runs were done, and can be interrupted."""

    def __init__(self, stop_at=None, **changes):
        self.done, self.stop_at = [], stop_at
        self.experiment = Experiment(
            name="toy",
            title="Toy",
            paper="Table 0",
            claim="One and one is two.",
            measure="The sum.",
            setup_differs="In no way.",
            quick=grid(a=[1], b=[1, 2]),
            full=grid(a=[1, 2], b=[1, 2]),
            run_one=self.run_one,
            summarize=self.summarize,
            plot=lambda results, figure: figure.text(0.1, 0.5, str([r["sum"] for r in results])),
        )
        self.experiment = replace(self.experiment, **changes)

    def run_one(self, axes, seed):
        if axes == self.stop_at:
            raise KeyboardInterrupt
        self.done.append(dict(axes))
        rng = np.random.default_rng(seed_of(seed, **axes))
        return {"sum": np.int64(axes["a"] + axes["b"]), "noise": rng.normal(size=2), "nothing": np.nan}

    @staticmethod
    def summarize(results):
        total = sum(r["sum"] for r in results)
        finding = Finding("the sum is 8 | or more", "8", str(total), "reproduced" if total >= 8 else "not reproduced")
        return ExperimentSummary(
            (finding,), (TextTable("Sums", ("a", "sum"), tuple((str(r["a"]), str(r["sum"])) for r in results)),)
        )


def run(toy, folder, **options):
    return next(iter(reproduce([toy.experiment], folder, progress=False, **options)))


def results_of(experiment, runs, seed=0):
    return [Result(axes, json.loads(json.dumps(text.plain(experiment.run_one(axes, seed)))), 1.0) for axes in runs]


def draw(experiment, results, tmp_path):
    figure = figures.new_figure(*experiment.figure_size)
    experiment.plot(results, figure)
    figures.save_figure(figure, tmp_path / "picture.png")


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """Run `kfed reproduce` where the toy is the only experiment."""
    monkeypatch.chdir(tmp_path)
    toys = {"toy": Toy().experiment, "needy": replace(Toy(requires=("mnist",)).experiment, name="needy")}
    every = dict(registry.EXPERIMENTS)
    registry.EXPERIMENTS.clear()
    registry.EXPERIMENTS.update(toys)
    yield lambda *words: CliRunner().invoke(app, ["reproduce", *words])
    registry.EXPERIMENTS.clear()
    registry.EXPERIMENTS.update(every)
