"""The spectral deviation that a device sends: the norm of its points minus their centers, or an upper estimate.

==============================  =====================================  ======================================
few features, or few points     all singular values                    exact
many of both                    Lanczos steps from random starts       at most 4 % too high; too low with a
                                (`lanczos`)                            chance of 1 in 1000 at most
==============================  =====================================  ======================================
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.device.deviation.lanczos import lanczos_bound
from kfed.device.deviation.residuals import Residuals
from kfed.device.rows.rows import Rows
from kfed.theory import DEVIATION_MARGIN, EXACT_FEATURES


def deviation_bound(
    rows: Rows, centers: Array, labels: Array, weights: Array, roots: Array, keys: npt.NDArray[np.uint64]
) -> Array:
    """Norm of the residuals of each device, or up to `DEVIATION_MARGIN` above it, (n_devices,).

    `roots` are their Frobenius norms, which are never exceeded.
    """
    if min(rows.n_points, rows.n_features) <= EXACT_FEATURES:
        return rows.residual_norm(centers, labels, weights)
    scales = np.where(roots > 0, roots, 1)
    bounds = lanczos_bound(Residuals(rows, centers, labels, weights, scales), keys, 1 + DEVIATION_MARGIN)
    return np.asarray(np.minimum(bounds * scales, roots))
