"""The hospitals of ../hospitals on NVIDIA FLARE, in its simulator: three in one round, and a fourth that comes late.

python run.py FOLDER writes for each hospital the labels that would stay at its site; round/server/simulate_job has the
clusters.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from nvflare.job_config.api import FedJob

from kfed.adapters.nvflare import kfed_job

HOSPITALS = Path(__file__).parent.parent / "hospitals"


def simulate(job: FedJob, workspace: Path, sites: list[str]) -> Path:
    """Run a job in the simulator; return the folder of its results at the server."""
    policy = {"format_version": 2, "class_allow_list": ["kfed.adapters.nvflare"]}
    (workspace / "local").mkdir(parents=True)
    (workspace / "local" / "resources.json").write_text(json.dumps(policy), encoding="utf-8")
    if job.simulator_run(str(workspace), clients=sites):
        raise SystemExit(f"the job failed; see the logs in {workspace}")
    return workspace / "server" / "simulate_job"


def main(folder: Path) -> None:
    """Cluster three hospitals, and answer the fourth."""
    os.environ["KFED_TABLE"] = str(HOSPITALS / "{site}.csv")  # all of these are what the operator of a site sets
    os.environ["KFED_ID_COLUMN"] = "patient"
    os.environ["KFED_LABELS"] = str(folder / "{site}-labels.csv")
    os.environ["KFED_ASKED"] = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = simulate(kfed_job("patients"), folder / "round", ["north", "south", "east"])
    job = kfed_job("late", clusters=found / "clusters.kfed", sites=["west"])
    late = simulate(job, folder / "late", ["west"])
    for results in (found, late):
        facts = json.loads((results / "kfed.json").read_text(encoding="utf-8"))
        print(f"{facts['n_clusters']} clusters of {facts['cluster_sizes']} rows; labelled: {facts['labelled']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
