"""How fast kfed is, as ratios to competitors measured in the same run: ``kfed bench``.

Contestants take turns and medians are compared (`figures.race`). The workloads: `devices` has W1 to W4, `servers` S1 to
S3, `messages` what a message and an import cost, `federated` training; `coordinator` and `partitions` are services.
"""

from kfed.bench.figures import Figure
from kfed.bench.run import WORKLOADS, run

__all__ = ["WORKLOADS", "Figure", "run"]
