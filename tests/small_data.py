"""Small files in the layouts of the data sets, for examples that show how they are read."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

from kfed.datasets.sources import File

WRITERS = {"f0001": [3, 40], "f0002": [5, 7]}
SAID = {"HAMLET": ["to be or not ", "o be or not t"], "ROMEO": ["but, soft! what light thro"]}
FOLLOWS = {"HAMLET": ["t", "r"], "ROMEO": ["u"]}
LINES = """play,line_number,speaker,text
Hamlet,,HAMLET,Enter Hamlet
Hamlet,1,HAMLET,To be or not to be
"""


def leaf_folder(folder: Path) -> None:
    """Write FEMNIST of two writers, and Shakespeare of two roles, as LEAF's scripts do."""
    images = {name: ([[1.0] * 784] * len(classes), classes) for name, classes in WRITERS.items()}
    spoken = {name: (SAID[name], FOLLOWS[name]) for name in SAID}
    for name, users in (("femnist", images), ("shakespeare", spoken)):
        (folder / name / "train").mkdir(parents=True)
        written = {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        }
        (folder / name / "train" / "all.json").write_text(json.dumps(written), encoding="utf-8")


def table_of_lines(folder: Path) -> File:
    """Write a table of lines, and return what is known of it."""
    payload = gzip.compress(LINES.encode(), mtime=0)
    (folder / "shakespeare-lines").mkdir()
    (folder / "shakespeare-lines" / "shakespeare_lines.csv.gz").write_bytes(payload)
    sha256 = hashlib.sha256(payload).hexdigest()
    return File("shakespeare-lines", "shakespeare_lines.csv.gz", sha256, len(payload))
