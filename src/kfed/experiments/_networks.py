"""The networks of the paper's applications; this file needs PyTorch, and is imported by runs that train."""

from __future__ import annotations

from collections.abc import Callable

import torch

PIXEL_MEAN, PIXEL_DEVIATION = 0.1307, 0.3081
"""Of MNIST's training images."""


class Standardized(torch.nn.Module):
    """Pixels in [0, 1] to numbers around zero, on which training takes fewer rounds."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Give them in the same shape."""
        return (pixels - PIXEL_MEAN).div_(PIXEL_DEVIATION)


def perceptron(n_hidden: int = 200) -> torch.nn.Module:
    """784 pixels, one hidden layer, ten digits: the network of Table 2."""
    return torch.nn.Sequential(
        Standardized(), torch.nn.Linear(784, n_hidden), torch.nn.ReLU(), torch.nn.Linear(n_hidden, 10)
    )


def convolutional(n_filters: int = 8, n_hidden: int = 200) -> torch.nn.Module:
    """784 pixels as an image, one layer of filters, one hidden layer, ten digits: the paper's "CNN-based model"."""
    return torch.nn.Sequential(
        Standardized(),
        torch.nn.Unflatten(1, (1, 28, 28)),
        torch.nn.Conv2d(1, n_filters, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(n_filters * 12 * 12, n_hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(n_hidden, 10),
    )


NETWORKS: dict[str, Callable[[], torch.nn.Module]] = {"perceptron": perceptron, "CNN": convolutional}


class NextCharacter(torch.nn.Module):
    """Scores for the character that comes after each of a window: an embedding, an LSTM, a linear layer."""

    def __init__(self, n_characters: int, n_embedding: int = 8, n_hidden: int = 128) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(n_characters, n_embedding)
        self.lstm = torch.nn.LSTM(n_embedding, n_hidden, batch_first=True)
        self.scores = torch.nn.Linear(n_hidden, n_characters)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """Scores of shape (n_windows, n_characters, length of a window)."""
        states, _ = self.lstm(self.embedding(windows))
        scores: torch.Tensor = self.scores(states)
        return scores.transpose(1, 2)
