"""Exact discrete Gaussian noise from the operating system's entropy.

Gaussian noise in floating point can be told from its low bits, and a sum of floats can move by more than a row should
move it. So what is released is a whole number, and so is its noise: the number y comes with a probability proportional
to exp(-y^2 / (2 sigma^2)), exactly.

References
----------
Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, algorithms 1 to 3. Mironov,
"On significance of the least significant bits for differential privacy", CCS 2012. Casacuberta, Shoemate, Vadhan and
Wagaman, "Widespread underestimation of sensitivity in differentially private libraries", CCS 2022.
"""

from __future__ import annotations

import os
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array

SIGMA_BITS = 30
"""The standard deviation of the noise is 2^30 steps of the grid: so fine that a Gaussian's account holds for it."""

DOUBT = 16
"""In steps of 2^-53, how far exp(-x) in double precision, and a uniform number cut to 53 bits, may be off at most."""


def discrete_gaussian(shape: int | tuple[int, ...], sigma_bits: int = SIGMA_BITS) -> Array:
    """Draw whole numbers from the discrete Gaussian distribution with sigma = 2^sigma_bits.

    Discrete Laplace numbers of scale sigma are accepted with probability exp(-(|y| / sigma - 1)^2 / 2).
    """
    n_draws = int(np.prod(shape))
    kept = np.empty(0, np.int64)
    while len(kept) < n_draws:
        candidates = _discrete_laplace(2 * (n_draws - len(kept)) + 16, sigma_bits)
        # exact in double precision: |y| has fewer than 53 bits, and sigma is a power of two
        deviations = np.abs(candidates) / 2.0**sigma_bits - 1
        kept = np.concatenate([kept, candidates[_bernoulli_exp(deviations, is_root=True)]])
    return kept[:n_draws].reshape(shape)


def _discrete_laplace(n_candidates: int, sigma_bits: int) -> npt.NDArray[np.int64]:
    """At most `n_candidates` draws with probabilities proportional to exp(-|y| / 2^sigma_bits)."""
    words = _random_words(n_candidates)
    low = (words >> np.uint64(64 - sigma_bits)).astype(np.int64) if sigma_bits else np.zeros(len(words), np.int64)
    accepted = _bernoulli_exp(low / 2.0**sigma_bits)
    low, is_negative = low[accepted], (words[accepted] & np.uint64(1)).astype(bool)
    sizes = low + (_geometric(len(low)) << sigma_bits)
    not_minus_zero = ~(is_negative & (sizes == 0))
    return np.asarray(np.where(is_negative, -sizes, sizes)[not_minus_zero])


def _geometric(n_draws: int) -> npt.NDArray[np.int64]:
    """Successes with probability 1/e before the first failure."""
    successes = np.zeros(n_draws, np.int64)
    going = np.arange(n_draws)
    while len(going):
        going = going[_bernoulli_exp(np.ones(len(going)))]
        successes[going] += 1
    return successes


def _bernoulli_exp(numbers: Array, *, is_root: bool = False) -> npt.NDArray[np.bool_]:
    """True with probability exp(-x), or exp(-x^2 / 2) of a root x; exactly, with more digits where it is close."""
    exponents = numbers * numbers / 2 if is_root else numbers
    uniforms = (_random_words(len(numbers)) >> np.uint64(11)).astype(np.float64)  # steps of 2^-53
    thresholds = np.exp(-exponents) * 2.0**53
    decided = uniforms < thresholds
    for doubtful in np.flatnonzero(np.abs(uniforms - thresholds) <= DOUBT).tolist():
        exact = Fraction(float(numbers[doubtful]))
        decided[doubtful] = _decide(int(uniforms[doubtful]), exact * exact / 2 if is_root else exact)
    return decided


def _decide(uniform: int, exponent: Fraction) -> bool:
    """Whether a uniform number whose first 53 bits are given is below exp(-exponent): add bits until it is clear."""
    n_bits = 53
    while True:
        uniform, n_bits = (uniform << 64) | int.from_bytes(os.urandom(8), "big"), n_bits + 64
        context = Context(prec=n_bits // 3 + 20)
        power = context.exp(-context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
        gap = Fraction(power) * 2**n_bits - uniform
        if not -1 <= gap <= 2:
            return bool(gap > 0)


def _random_words(n_words: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * n_words), np.uint64)
