"""A file of each kind, as bytes."""

import json

import numpy as np

import kfed
from worlds import blobs

MESSAGE = kfed.DeviceMessage(
    "Krankenhaus 7 ☂", [[0.1, 0.2], [3.5, -4.25]], [30, 12], [1.5, 0.5], 2.25, ["height", "größe"]
)


def forged(header, body=b"", claimed=None):
    """Bytes in the shape of safetensors with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if claimed is None else claimed).to_bytes(8, "little") + text + body


def table(shape, dtype="F64", name="kfed1:a", n_bytes=None, **more):
    size = {"F64": 8, "F32": 4}.get(dtype, 8) * int(np.prod(shape, dtype=object)) if n_bytes is None else n_bytes
    return {name: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]}, **more}


RESULT = kfed.aggregate(
    [MESSAGE, kfed.DeviceMessage("b", [[7.0, 7.0]], [4.5]), kfed.DeviceMessage("c", np.empty((0, 2)), [])],
    2,
    first_device="b",
)


KINDS = {
    "message": MESSAGE,
    "empty message": kfed.DeviceMessage("a", np.empty((0, 2), np.float32), []),
    "identity": RESULT.identity(MESSAGE.device_id),
    "aggregation": RESULT,
    "local clustering": kfed.cluster_device(blobs(9, 2, 2, seed=0), 2, random_state=0),
}


def payload_of(kind):
    return KINDS[kind].to_bytes()
