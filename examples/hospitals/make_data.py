"""Write the made-up patients of four hospitals, as messy as tables are: north.csv, south.csv, east.csv and west.csv.

Columns stand in another order in each file, cells are missing in several spellings, `ward` is a category, `smoker` a
flag and `admitted` a date, and south's file has semicolons and decimal commas.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

NUMBERS = {"age": 4.0, "bmi": 1.0, "systolic": 5.0, "glucose": 6.0}
GROUPS = {  # typical numbers, the usual ward, and the share of smokers
    "young and well": ((29, 22.5, 114, 86), "day clinic", 0.3),
    "hypertension": ((58, 26.0, 158, 97), "cardiology", 0.5),
    "diabetes": ((61, 31.5, 134, 182), "internal medicine", 0.2),
    "frail": ((84, 20.0, 122, 92), "geriatrics", 0.1),
}
HOSPITALS = {
    "north": {"young and well": 64, "hypertension": 58},
    "south": {"hypertension": 55, "diabetes": 61},
    "east": {"diabetes": 52, "frail": 57},
    "west": {"frail": 48, "young and well": 51},
}
ABSENT = ["", "NA", "n/a", "-"]
MISSING = 0.06


def main() -> None:
    """Write one CSV file for each hospital beside this script."""
    rng = np.random.default_rng(7)
    for hospital, groups in HOSPITALS.items():
        rows = [patient(rng, group) for group, size in groups.items() for _ in range(size)]
        rng.shuffle(rows)
        columns = list(rng.permutation(list(rows[0])))
        is_south = hospital == "south"
        with (Path(__file__).parent / f"{hospital}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=";" if is_south else ",")
            writer.writerow(["patient", *columns])
            for number, row in enumerate(rows, start=1):
                cells = [str(row[column]) for column in columns]
                cells = [cell.replace(".", ",") if is_south else cell for cell in cells]
                cells = [str(rng.choice(ABSENT)) if rng.random() < MISSING else cell for cell in cells]
                writer.writerow([f"{hospital[0].upper()}{number:03d}", *cells])


def patient(rng: np.random.Generator, group: str) -> dict[str, object]:
    """One patient of a group."""
    means, ward, smoking = GROUPS[group]
    numbers = rng.normal(means, list(NUMBERS.values())).round(1)
    wards = [own for _, own, _ in GROUPS.values()]
    return {
        **dict(zip(NUMBERS, numbers.tolist(), strict=True)),
        "ward": ward if rng.random() < 0.9 else str(rng.choice(wards)),
        "smoker": "yes" if rng.random() < smoking else "no",
        "admitted": f"2026-{rng.integers(1, 11):02d}-{rng.integers(1, 29):02d}",
    }


if __name__ == "__main__":
    main()
