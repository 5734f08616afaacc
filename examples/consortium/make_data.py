"""Write the made-up patients of four clinics: north.csv, south.csv, east.csv, and west.csv, which comes late."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

COLUMNS = ("age", "bmi", "systolic", "glucose")
GROUPS = {  # typical values of each kind of patient, in the order of COLUMNS
    "young and well": (29, 22.5, 114, 86),
    "hypertension": (58, 26.0, 158, 97),
    "diabetes": (61, 31.5, 134, 182),
    "frail": (84, 20.0, 122, 92),
}
SPREAD = (4.0, 1.0, 5.0, 6.0)
CLINICS = {
    "north": {"young and well": 34, "hypertension": 28},
    "south": {"hypertension": 25, "diabetes": 31},
    "east": {"diabetes": 22, "frail": 27},
    "west": {"frail": 18, "young and well": 21},
}


def main() -> None:
    """Write one CSV file for each clinic beside this script."""
    rng = np.random.default_rng(7)
    for clinic, groups in CLINICS.items():
        rows = np.concatenate([rng.normal(GROUPS[name], SPREAD, size=(size, 4)) for name, size in groups.items()])
        rng.shuffle(rows)
        with (Path(__file__).parent / f"{clinic}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["patient", *COLUMNS])
            for number, row in enumerate(rows.round(1), start=1):
                writer.writerow([f"{clinic[0].upper()}{number:03d}", *row])


if __name__ == "__main__":
    main()
