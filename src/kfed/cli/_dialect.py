"""A table with one more column, written like the file it came from: its separator, and its decimal sign."""

from __future__ import annotations

import csv
import io

from kfed.site import LabelledRows, open_table


def appended_as_read(rows: LabelledRows, header: bool | None, *, with_distances: bool) -> str:
    """The table of these rows with the cluster of each, and its distances on request, separated as the file is."""
    text = rows.appended_csv(header=header, with_distances=with_distances)
    reader = open_table(rows.path, header, rows.sheet)
    delimiter = getattr(reader, "_delimiter", ",")  # what is no CSV file becomes one with commas
    if delimiter == ",":
        return text
    n_read = len(reader.names)
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, lineterminator="\n")
    for line in csv.reader(io.StringIO(text, newline="")):
        own = [cell.replace(".", reader.signs.decimal) for cell in line[n_read:]]
        writer.writerow([*line[:n_read], *own])
    return written.getvalue()
