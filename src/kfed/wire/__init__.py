"""What crosses between parties, and only that: a device's message, the server's answer, and the features both describe.

`MessageBatch` holds many messages as columns. Nothing here has seen a data point.
"""

from kfed.wire.batch import MessageBatch
from kfed.wire.batch_details import BatchDetails
from kfed.wire.center_table import LARGEST_SINGLE, MAX_COUNT, MAX_VALUE
from kfed.wire.column_names import column_difference, respelled
from kfed.wire.columns import KINDS, MAX_LEVELS, OTHER, Column, level_features
from kfed.wire.details import Details
from kfed.wire.file import KfedFile, from_parts, kind_of, load, to_parts
from kfed.wire.grid import LEAST_KEPT
from kfed.wire.identity import Identity, nearest_clusters, shares_of
from kfed.wire.message import DIGEST_BYTES, DeviceMessage, digest_of
from kfed.wire.notice import Notice
from kfed.wire.promise import Promise, check_promise
from kfed.wire.scale import CommonScale, agreed_scale, columns_from_parts, columns_to_parts, features_by_column
from kfed.wire.schema import FeatureSchema
from kfed.wire.second import clusters_fingerprint, second_message
from kfed.wire.shown import dates_of, shown_value

__all__ = [
    "DIGEST_BYTES",
    "KINDS",
    "LARGEST_SINGLE",
    "LEAST_KEPT",
    "MAX_COUNT",
    "MAX_LEVELS",
    "MAX_VALUE",
    "OTHER",
    "BatchDetails",
    "Column",
    "CommonScale",
    "Details",
    "DeviceMessage",
    "FeatureSchema",
    "Identity",
    "KfedFile",
    "MessageBatch",
    "Notice",
    "Promise",
    "agreed_scale",
    "check_promise",
    "clusters_fingerprint",
    "column_difference",
    "columns_from_parts",
    "columns_to_parts",
    "dates_of",
    "digest_of",
    "features_by_column",
    "from_parts",
    "kind_of",
    "level_features",
    "load",
    "nearest_clusters",
    "respelled",
    "second_message",
    "shares_of",
    "shown_value",
    "to_parts",
]
