"""The scatter that devices may send: that of all rows together, and norm(A - C), follow from it exactly."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kfed._base.array import Array
from kfed.wire import CommonScale, DeviceMessage, MessageBatch

MOST_FEATURES = 4_096
"""With more, the d x d matrix of all rows is not made."""


def scatter_factors(batch: MessageBatch, of: Literal["scatter", "sketch"] = "scatter") -> list[Array | None]:
    """For each device, F with F^T F its scatter, in the common features and scale; None if it sent none.

    With ``"sketch"``, those of devices that sent a sketch of it instead.
    """
    if batch.details is None:
        return [None] * batch.n_devices
    messages = batch.details.messages
    # a batch that was rescaled still holds the messages as they were sent, in the units of the tables
    scale = MessageBatch.of(messages).scale if batch.schema.scaling == "by message" else None
    return [_factor(batch, message, getattr(message.details, of, None), scale) for message in messages]


def _factor(
    batch: MessageBatch, message: DeviceMessage, factor: Array | None, scale: CommonScale | None
) -> Array | None:
    if factor is None:
        return None
    aligned = batch.schema.align(factor, message.schema)
    return aligned if scale is None else np.asarray(aligned / scale.scale)


def exact_deviation(batch: MessageBatch, labels: Array, means: Array) -> float | None:
    """norm(A - C) from the scatter of all devices, up to rounding; None unless all sent it.

    The scatter of a device is that of its rows about their local centers, plus that of these centers, once for each
    row. So it says the former, the R_z^T R_z of `deviation_bounds`, and nothing has to be bounded.
    """
    factors = scatter_factors(batch) if batch.details is not None and batch.n_features <= MOST_FEATURES else []
    if not factors or any(own is None for own in factors):
        return None
    centers, counts = batch.centers.astype(np.float64), batch.counts.astype(np.float64)
    shifts = (centers - means[labels]) * np.sqrt(counts)[:, None]
    total = shifts.T @ shifts
    for device, own in enumerate(factors):
        rows = batch.centers_of(device)
        if own is not None and rows.stop > rows.start:
            wide = own.astype(np.float64)
            about = centers[rows] - np.average(centers[rows], axis=0, weights=counts[rows])
            total += wide.T @ wide - (about * counts[rows, None]).T @ about
    return float(np.sqrt(max(0.0, np.linalg.eigvalsh(total)[-1])))
