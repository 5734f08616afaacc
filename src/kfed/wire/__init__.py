"""What crosses between parties, and only that: a device's message, the server's answer, and the features both describe.

`MessageBatch` holds many messages as columns. Nothing here has seen a data point.
"""

from kfed.wire.batch import MessageBatch
from kfed.wire.file import KfedFile, load
from kfed.wire.identity import Identity
from kfed.wire.message import DIGEST_BYTES, LARGEST_SINGLE, MAX_COUNT, MAX_VALUE, DeviceMessage, digest_of
from kfed.wire.schema import FeatureSchema

__all__ = [
    "DIGEST_BYTES",
    "LARGEST_SINGLE",
    "MAX_COUNT",
    "MAX_VALUE",
    "DeviceMessage",
    "FeatureSchema",
    "Identity",
    "KfedFile",
    "MessageBatch",
    "digest_of",
    "load",
]
