"""Random numbers that are a function of (seed, device id): a device's draws do not depend on other devices.

A fleet draws for thousands of devices at once, and making a `numpy.random.Generator` for each would take a good part of
the time of clustering it. So a device has a 64-bit key, and its draws are the SplitMix64 sequence that starts there
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), computed for all keys at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kfed.errors import InvalidInputError

RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def as_seed(random_state: RandomState) -> int:
    """Turn a `random_state`, as in scikit-learn, into one integer."""
    if random_state is None:
        return secrets.randbits(64)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if not isinstance(random_state, (int, np.integer)):
        raise InvalidInputError(
            f"random_state must be a whole number, a NumPy generator or None; got a {type(random_state).__name__}"
        )
    return int(random_state)


def device_keys(seed: int, device_ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """One 64-bit key for each device, a function of the seed and the device's id only."""
    prefix = hashlib.blake2b(str(seed).encode(), digest_size=8)
    digests = {}
    for device_id in set(device_ids):
        state = prefix.copy()
        state.update(b":" + device_id.encode())
        digests[device_id] = state.digest()
    keys = b"".join([digests[device_id] for device_id in device_ids])
    return np.frombuffer(keys, dtype="<u8").astype(np.uint64)


def uniforms(keys: npt.NDArray[np.uint64], n_draws: int) -> npt.NDArray[np.float64]:
    """The first `n_draws` numbers in [0, 1) of each key, shape (n_keys, n_draws)."""
    return np.asarray((words(keys, n_draws) >> np.uint64(11)) * 2.0**-53)


def words(keys: npt.NDArray[np.uint64], n_draws: int) -> npt.NDArray[np.uint64]:
    """The first `n_draws` words of 64 random bits of each key, shape (n_keys, n_draws)."""
    if len(keys) > 1 and (keys == keys[0]).all():  # devices without names
        return np.repeat(words(keys[:1], n_draws), len(keys), axis=0)
    steps = np.arange(1, n_draws + 1, dtype=np.uint64) * _GOLDEN_GAMMA
    bits = keys[:, None] + steps
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return np.asarray(bits)
