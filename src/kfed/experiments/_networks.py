"""The networks of the paper's applications; this file needs PyTorch, and is imported by runs that train."""

from __future__ import annotations

import torch


def perceptron(n_inputs: int = 784, n_hidden: int = 200, n_classes: int = 10) -> torch.nn.Module:
    """One hidden layer, as in Table 2."""
    return torch.nn.Sequential(
        torch.nn.Linear(n_inputs, n_hidden), torch.nn.ReLU(), torch.nn.Linear(n_hidden, n_classes)
    )


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
