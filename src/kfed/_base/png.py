"""A grey picture as PNG, without a library for pictures."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from kfed._base.array import Array


def grey_png(values: Array) -> bytes:
    r"""Encode values from 0 (black) to 1 (white), (height, width), with eight bits each.

    Examples
    --------
    >>> grey_png(np.array([[0.0, 1.0]]))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = values.shape
    pixels = np.rint(np.clip(np.nan_to_num(values), 0, 1) * 255).astype(np.uint8)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)  # each line begins with its filter, none
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
