"""
A consortium of clinics
=======================

Four clinics have a table each: other orders of columns, missing cells, a category, a date. Each clusters its own rows
and sends one small message; no clinic sees another's rows, and nothing was agreed on beforehand.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt

import kfed
from kfed.site import cluster_file

warnings.simplefilter("ignore", kfed.KFedWarning)
folder = next(
    path / "examples" / "hospitals" for path in Path.cwd().parents if (path / "examples" / "hospitals").exists()
)
clinics = ["north", "south", "east", "west"]

# %%
# At every clinic: a file to keep, and a message to send.
kept = {name: cluster_file(folder / f"{name}.csv", 2, name, id_column="patient") for name in clinics}
messages = [file.to_message() for file in kept.values()]
print({name: f"{len(message.to_bytes()):,} bytes" for name, message in zip(clinics, messages, strict=True)})

# %%
# Anywhere: group the centers, and see what the groups are.
result = kfed.aggregate(messages, 4)
profile = result.profile()
for cluster in range(4):
    print(f"{result.cluster_sizes[cluster]:4} patients: {profile.in_words(cluster)}")

profile.plot()
plt.show()
