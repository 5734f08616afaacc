"""Files of data sets, written as their publishers do."""

import csv
import gzip
import hashlib
import io
import json

from kfed.datasets import sources
from kfed.datasets.sources import File


def put(home, monkeypatch, name, files):
    """Write the files of a data set, and make them the published ones."""
    (home / name).mkdir(parents=True)
    known = []
    for file_name, payload in files.items():
        (home / name / file_name).write_bytes(payload)
        known.append(File(name, file_name, hashlib.sha256(payload).hexdigest(), len(payload)))
    monkeypatch.setitem(sources.SOURCES, name, tuple(known))


def leaf_json(users):
    data = {name: {"x": x, "y": y} for name, (x, y) in users.items()}
    return json.dumps({"users": list(users), "num_samples": [len(x) for x, _ in users.values()], "user_data": data})


def write_leaf(home, name, *contents):
    folder = home / name / "train"
    folder.mkdir(parents=True)
    for number, content in enumerate(contents):
        (folder / f"part_{number}.json").write_text(content)


HEADINGS = ["line_id", "play", "speech_number", "line_number", "speaker", "text"]


def lines_csv(rows):
    text = io.StringIO()
    csv.writer(text).writerows([HEADINGS, *rows])
    return gzip.compress(text.getvalue().encode())


ROWS = [
    [1, "Hamlet", "", "", "Stage Directions", "Enter"],
    [2, "Hamlet", 1, "1.1.1", "HAMLET", "To be, or not to be,"],
    [3, "Hamlet", 1, "1.1.2", "HAMLET", "that is the question"],
    [4, "Hamlet", 2, "1.1.3", "", "a line that nobody says"],
    [5, "Macbeth", 1, "1.1.1", "HAMLET", "another of that name"],
]
