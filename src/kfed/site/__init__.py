"""A site of a consortium: its table, the columns of it that are used, and the file it keeps until the answer comes.

`read_table` reads the rows, `cluster_table` clusters them, and the `LocalFile` it gives makes the message to send and
labels the rows when the answer is there. `label_rows` labels rows that were never clustered.
"""

from kfed.site.agreed_options import about_scale, check_agreed
from kfed.site.formats.text_column import read_column
from kfed.site.kept import LocalFile, cluster_file, cluster_table
from kfed.site.kinds.kind_option import kind_option
from kfed.site.kinds.level_spelling import levels_that_differ
from kfed.site.ledger import Ledger, release_file
from kfed.site.new_rows import LabelledRows, label_rows, on_agreed_scale
from kfed.site.read import is_table_name, open_table, read_columns, read_table, table_stem
from kfed.site.rows_behind import check_same_rows, clustered_rows, rows_if_there, tables_beside
from kfed.site.scale import read_scale, unscaled
from kfed.site.schema_file import read_schema, write_schema
from kfed.site.second import refine_file
from kfed.site.summary import TableSummary, agree, units_that_differ
from kfed.site.table import MIN_TABLE_CLUSTER_SIZE, Table

__all__ = [
    "MIN_TABLE_CLUSTER_SIZE",
    "LabelledRows",
    "Ledger",
    "LocalFile",
    "Table",
    "TableSummary",
    "about_scale",
    "agree",
    "check_agreed",
    "check_same_rows",
    "cluster_file",
    "cluster_table",
    "clustered_rows",
    "is_table_name",
    "kind_option",
    "label_rows",
    "levels_that_differ",
    "on_agreed_scale",
    "open_table",
    "read_column",
    "read_columns",
    "read_scale",
    "read_schema",
    "read_table",
    "refine_file",
    "release_file",
    "rows_if_there",
    "table_stem",
    "tables_beside",
    "units_that_differ",
    "unscaled",
    "write_schema",
]
