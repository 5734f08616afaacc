"""The account of Gaussian noise: Gaussian differential privacy (mu), and the (epsilon, delta) that follow from it.

A release whose value moves by at most `s` when one row is added or removed, plus Gaussian noise of standard deviation
`sigma`, is mu-GDP with ``mu = s / sigma``. Releases compose exactly: their squares add up. And mu-GDP is the same as
(epsilon, delta(epsilon))-differential privacy for every epsilon at once, in closed form.

References
----------
Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8. Dong, Roth and Su,
"Gaussian differential privacy", Journal of the Royal Statistical Society B, 2022, corollaries 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

MAX_EPSILON = 100.0
MAX_MU = 100.0


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta with which a mu-GDP release is (epsilon, delta)-differentially private.

    Examples
    --------
    >>> f"{delta_of(1.0, 1.0):.4f}"
    '0.1269'
    """
    above = _normal_tail(epsilon / mu - mu / 2)
    return max(0.0, above - math.exp(epsilon) * _normal_tail(epsilon / mu + mu / 2))


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu whose releases are (epsilon, delta)-differentially private."""
    return _largest(lambda mu: delta_of(mu, epsilon) <= delta, MAX_MU)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon with which a mu-GDP release is (epsilon, delta)-differentially private; at most 100."""
    if delta_of(mu, 1e-12) <= delta:
        return 0.0
    return _largest(lambda epsilon: delta_of(mu, epsilon) > delta, MAX_EPSILON)


def composed(mus: Iterable[float]) -> float:
    """The mu of several releases about the same rows together."""
    return math.sqrt(math.fsum(mu * mu for mu in mus))


def _normal_tail(z: float) -> float:
    """The probability that a standard normal number is above `z`."""
    return math.erfc(z / math.sqrt(2)) / 2


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest number up to `most` for which a condition holds that holds for all smaller ones."""
    low, high = 0.0, most
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
