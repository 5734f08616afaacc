"""How fast kfed is, as ratios to competitors measured in the same run: ``kfed bench``."""

from kfed.bench.figures import Figure
from kfed.bench.run import WORKLOADS, run

__all__ = ["WORKLOADS", "Figure", "run"]
