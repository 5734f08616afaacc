"""Which clients train in a round: at random, by loss (power of choice), or by loss and at most one of each cluster.

A selection is an object with one method, `select`, that any training loop can call. What it draws depends on its seed
and the number of the round alone, so a loop that stops and goes on picks the same clients. Nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError

Losses = Sequence[float] | Array | Callable[[Array], Any] | None
"""Losses of all clients, or a function that returns those of the given clients, so that only these compute it."""


class Selection(Protocol):
    """Picks the clients of a round."""

    def select(self, round: int, n: int, losses: Losses = None) -> Array:
        """Return the positions of `n` distinct clients, sorted."""


class RandomSelection:
    """Draw clients uniformly, or in proportion to their size.

    Parameters
    ----------
    n_clients : int
    sizes : array of shape (n_clients,), optional
        Probabilities are proportional to these; by default all are equal.
    seed : int

    Examples
    --------
    >>> RandomSelection(100, seed=1).select(round=0, n=5).shape
    (5,)
    """

    def __init__(self, n_clients: int, sizes: Any = None, *, seed: int = 0) -> None:
        self.n_clients = checks.positive_integer(n_clients, "n_clients")
        self._chances = _chances(np.ones(n_clients) if sizes is None else sizes, n_clients)
        self._seed = seed

    def select(self, round: int, n: int, losses: Losses = None) -> Array:  # noqa: ARG002 - the same for all selections
        """Return the positions of `n` distinct clients, sorted."""
        return np.sort(_draw(self._chances, _checked(n, self.n_clients), self._seed, round))


class PowerOfChoice:
    """Draw candidates in proportion to their size, and take those with the highest loss: pow-d.

    Parameters
    ----------
    sizes : array of shape (n_clients,)
        Points on each client.
    n_candidates : int
        Number of candidates, d; at least the number of clients to select.
    seed : int

    References
    ----------
    Cho, Wang and Joshi, "Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection
    Strategies", 2020.

    Examples
    --------
    >>> selection = PowerOfChoice(sizes=[10, 10, 10, 10], n_candidates=4)
    >>> selection.select(round=0, n=2, losses=[0.1, 0.9, 0.4, 0.8])
    array([1, 3])
    """

    def __init__(self, sizes: Any, n_candidates: int, *, seed: int = 0) -> None:
        self._chances = _chances(sizes, len(sizes))
        self.n_clients = len(self._chances)
        self.n_candidates = _checked(n_candidates, self.n_clients, "n_candidates")
        self._seed = seed

    def select(self, round: int, n: int, losses: Losses = None) -> Array:
        """Return the positions of `n` distinct clients, sorted."""
        return np.sort(self.ranked(round, n, losses)[:n])

    def ranked(self, round: int, n: int, losses: Losses) -> Array:
        """Return the candidates, those with the highest loss first."""
        n_candidates = max(self.n_candidates, _checked(n, self.n_clients))
        candidates = np.sort(_draw(self._chances, n_candidates, self._seed, round))
        return candidates[np.argsort(-_losses_of(candidates, losses, self.n_clients), kind="stable")]


class KFedPowerOfChoice:
    """Power of choice with at most one client of each cluster: k-FED + pow-d.

    Candidates come in the order of their loss. One that shares a cluster with a client taken before is passed over;
    if fewer than `n` are left, those passed over fill the places, again in the order of their loss.

    Parameters
    ----------
    sizes : array of shape (n_clients,)
    clusters : sequence of int, or of collections of int
        The global cluster or clusters of each client, as `kfed.aggregate` found them.
    n_candidates : int
    seed : int

    Examples
    --------
    >>> selection = KFedPowerOfChoice(sizes=[10, 10, 10, 10], clusters=[0, 1, 0, 1], n_candidates=4)
    >>> selection.select(round=0, n=2, losses=[0.1, 0.9, 0.4, 0.8])
    array([1, 2])
    """

    def __init__(
        self, sizes: Any, clusters: Sequence[int | Iterable[int]], n_candidates: int, *, seed: int = 0
    ) -> None:
        self._power_of_choice = PowerOfChoice(sizes, n_candidates, seed=seed)
        self._clusters = [frozenset(np.atleast_1d(np.asarray(_listed(own))).tolist()) for own in clusters]
        if len(self._clusters) != self._power_of_choice.n_clients:
            raise InvalidInputError(
                f"clusters must have one entry for each of {self._power_of_choice.n_clients} clients; "
                f"got {len(self._clusters)}"
            )

    def select(self, round: int, n: int, losses: Losses = None) -> Array:
        """Return the positions of `n` distinct clients, sorted."""
        fresh, passed_over = [], []
        taken: set[int] = set()
        for client in self._power_of_choice.ranked(round, n, losses):
            if taken.isdisjoint(self._clusters[client]):
                taken |= self._clusters[client]
                fresh.append(client)
            else:
                passed_over.append(client)
        return np.sort(np.array((fresh + passed_over)[:n]))


def _listed(clusters: int | Iterable[int]) -> Any:
    return list(clusters) if isinstance(clusters, Iterable) else clusters


def _chances(sizes: Any, n_clients: int) -> Array:
    sizes = checks.as_array(sizes, "sizes", np.float64)
    if sizes.shape != (n_clients,) or n_clients == 0 or not np.isfinite(sizes).all() or (sizes <= 0).any():
        raise InvalidInputError(f"sizes must be {n_clients} finite numbers greater than 0, one for each client")
    return np.asarray(sizes / sizes.sum())


def _checked(n: int, n_clients: int, name: str = "n") -> int:
    n = checks.positive_integer(n, name)
    if n > n_clients:
        raise InvalidInputError(f"{name} must be at most {n_clients}, the number of clients; got {n}")
    return n


def _draw(chances: Array, n: int, seed: int, round: int) -> Array:
    rng = np.random.default_rng([seed, round])
    return rng.choice(len(chances), n, replace=False, p=chances)


def _losses_of(candidates: Array, losses: Losses, n_clients: int) -> Array:
    """Losses of the candidates, (n_candidates,). An unknown loss (NaN) counts as infinite, so that client is tried."""
    if losses is None:
        raise InvalidInputError("losses must be given: this selection prefers clients with a high loss")
    known = losses(candidates) if callable(losses) else losses
    known = checks.as_array(known, "losses", np.float64)
    expected = len(candidates) if callable(losses) else n_clients
    if known.shape != (expected,):
        raise InvalidInputError(f"losses must have shape ({expected},), one for each client; got {known.shape}")
    known = known if callable(losses) else known[candidates]
    return np.where(np.isnan(known), np.inf, known)
