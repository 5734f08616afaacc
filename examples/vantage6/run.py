"""The hospitals of ../hospitals on vantage6, with its mock client: three in one round, and a fourth that comes late.

python run.py FOLDER writes clusters.kfed, and for each hospital the labels that would stay at its node.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from vantage6.algorithm.tools.mock_client import MockAlgorithmClient

HOSPITALS = Path(__file__).parent.parent / "hospitals"
NAMES = {1: "north", 2: "south", 3: "east", 4: "west"}  # by the ids of their organizations


def database(hospital: str) -> dict[str, Any]:
    """What the node of a hospital is configured with."""
    path = HOSPITALS / f"{hospital}.csv"
    if hospital == "south":  # vantage6 reads CSV files with commas and decimal points; this one has neither
        return {"database": pd.read_csv(path, sep=";", decimal=",", na_values=["-"])}
    return {"database": str(path), "db_type": "csv"}


def run_task(client: MockAlgorithmClient, **kwargs: Any) -> dict[str, Any]:
    """Run the central function at the first hospital, as a researcher asks for it."""
    names = {str(id_): name for id_, name in NAMES.items()}
    ask = {"method": "central", "kwargs": {"names": names, **kwargs}}
    task = client.task.create(input_=ask, organizations=[1])
    return dict(client.result.from_task(task["id"])[0])


def main(folder: Path) -> None:
    """Cluster three hospitals; answer the fourth; keep the clusters."""
    os.environ["KFED_ID_COLUMN"] = "patient"  # all three are what the operator of a node sets
    os.environ["KFED_LABELS"] = str(folder / "{site}-labels.csv")
    os.environ["KFED_ASKED"] = str(folder)
    tables = [[database(hospital)] for hospital in NAMES.values()]
    client = MockAlgorithmClient(tables, "kfed.adapters.vantage6", organization_ids=list(NAMES))
    found = run_task(client, organizations=[1, 2, 3])
    late = run_task(client, organizations=[4], clusters=found["clusters"])
    (folder / "clusters.kfed").write_bytes(base64.b64decode(found["clusters"]))
    print(f"{found['n_clusters']} clusters of {found['cluster_sizes']} rows; labelled: {found['labelled']}")
    print(f"late: {late['late']}; labelled: {late['labelled']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
