"""The task, to be replaced by your own: handwritten digits, of which each node has some, turned in its own way."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from kfed import datasets

N_TURNS = 4
N_TRAIN = 1_400
"""Of the small digits; MNIST says itself which images are for tests."""
PIXEL_MEAN, PIXEL_DEVIATION = 0.13, 0.31


class Rows(NamedTuple):
    """Images of a node as rows of pixels, (n_rows, n_pixels), and which digit each is, (n_rows,)."""

    inputs: torch.Tensor
    targets: torch.Tensor


def rows_of(node: int, n_nodes: int, split: str, data: str = "digits", most: int = 0) -> Rows:
    """Images of one node, the first `most` unless that is 0; node 0 has them upright, node 1 by a quarter turn, ..."""
    images, classes = _images(data, split)
    order = np.random.default_rng(0).permutation(len(images))  # MNIST has two sorts of writers in turn
    own = order[node // N_TURNS :: -(-n_nodes // N_TURNS)][: most or None]
    turned = np.rot90(images[own], node % N_TURNS, axes=(1, 2)).reshape(len(own), -1)
    return Rows(torch.tensor((turned - PIXEL_MEAN) / PIXEL_DEVIATION), torch.tensor(classes[own]))


def new_model(data: str = "digits") -> torch.nn.Module:
    """A network with one hidden layer, the same whenever it is made."""
    torch.manual_seed(0)
    n_pixels = 784 if data == "mnist" else 64
    return torch.nn.Sequential(torch.nn.Linear(n_pixels, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))


def train(model: torch.nn.Module, rows: Rows, rate: float, batch_size: int, seed: int) -> float:
    """One pass over the rows; gives the mean loss on the way."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    order = torch.Generator().manual_seed(seed)
    total = 0.0
    for inputs, targets in DataLoader(TensorDataset(*rows), batch_size, shuffle=True, generator=order):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += len(targets) * loss.item()
    return total / len(rows.targets)


@torch.no_grad()
def evaluate(model: torch.nn.Module, rows: Rows) -> tuple[float, float]:
    """Mean loss, and share of the images that are recognized."""
    scores = model(rows.inputs)
    loss = torch.nn.functional.cross_entropy(scores, rows.targets).item()
    return loss, (scores.argmax(dim=1) == rows.targets).float().mean().item()


@cache
def _images(data: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images with two axes each, and what they show."""
    if data == "mnist":
        found = datasets.mnist(split)
        return found.points.reshape(-1, 28, 28), found.classes
    found, part = datasets.digits(), slice(N_TRAIN) if split == "train" else slice(N_TRAIN, None)
    return found.points[part].reshape(-1, 8, 8), found.classes[part]
