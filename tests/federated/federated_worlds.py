"""Small worlds for federated training: two kinds of row, whose labels mean the opposite of each other."""

import numpy as np


def rows_of_kind(kind: int, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    sign = 1 - 2 * kind
    inputs = rng.normal(loc=4 * sign, size=(n_rows, 3)).astype(np.float32)
    return inputs, (sign * (inputs[:, 0] - inputs[:, 1]) > 0).astype(np.int64)


def device(kinds: list[int], n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    parts = [rows_of_kind(kind, n_rows, rng) for kind in kinds]
    inputs, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
    return inputs, targets


def fleet(n_devices: int, seed: int = 0, kinds_of=lambda i: [i % 2], n_rows=lambda i: 20 + 7 * i) -> dict:
    rng = np.random.default_rng(seed)
    return {f"device-{i}": device(kinds_of(i), n_rows(i), rng) for i in range(n_devices)}
