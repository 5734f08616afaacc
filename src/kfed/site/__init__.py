"""A site of a consortium: its table, which columns of it are used, and the file it keeps until the answer comes."""

from kfed.site.columns import shown
from kfed.site.kept import LocalFile
from kfed.site.table import Table, open_table, read_column, read_scale, read_table, unscaled

__all__ = [
    "LocalFile",
    "Table",
    "open_table",
    "read_column",
    "read_scale",
    "read_table",
    "shown",
    "unscaled",
]
