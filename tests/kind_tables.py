"""Tables of numbers, flags and dates as data frames hold them, and clusters of them."""

from dataclasses import replace

import numpy as np
import pandas as pd

import kfed
from kfed.site import cluster_file
from kfed.wire import Column

RNG = np.random.default_rng(0)
AGE = (20 + 40 * RNG.random(200)).round(1)
FLAG = RNG.random(200) < 0.5
DAY = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, 200), "D")

COLUMNS = {
    "age": Column("age", shift=40.0, scale=12.0),
    "bmi": Column("bmi", shift=25.0, scale=4.0),
    "smoker": Column("smoker", "flag", shift=0.5, scale=0.5),
    "seen": Column("seen", "date", shift=18_700.0, scale=260.0),
    "sex": Column("sex", "category", ("f", "m"), shift=0.0, scale=1.0),
}
TABLES = {
    "numbers": {"age": AGE, "bmi": (18 + 15 * RNG.random(200)).round(1)},
    "flags in words": {"age": AGE, "smoker": np.where(FLAG, "yes", "no")},
    "flags": {"age": AGE, "smoker": FLAG},
    "flags as numbers": {"age": AGE, "smoker": FLAG.astype(int)},
    "dates in words": {"age": AGE, "seen": DAY.strftime("%Y-%m-%d")},
    "dates": {"age": AGE, "seen": DAY},
    "compact dates": {"age": AGE, "seen": DAY.strftime("%Y%m%d").astype(int)},
}


def clusters_of(frame, *, agreed):
    """Four clusters of a table, on the scale of `COLUMNS` if that was agreed on."""
    columns = [COLUMNS[name] for name in frame.columns]
    if not agreed:
        columns = [replace(column, shift=None, scale=None) for column in columns]
    schema = kfed.FeatureSchema.of_columns(columns, "agreed" if agreed else "by message")
    return kfed.aggregate([cluster_file(frame, None, "north", schema=schema).to_message()], 4)
