"""Which clients train in a round: at random, by loss (power of choice), or by loss and at most one of each cluster.

A selection is an object with one method, `select`, that any training loop can call. What it draws depends on its seed,
the number of the round and who is available alone, so a loop that stops and goes on picks the same clients. Where it
draws clients by size, the loop must average them evenly, or sizes count twice: `draws_by_size` says so. Nothing here
needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kfed._base import checks
from kfed._base.array import Array
from kfed.errors import InvalidInputError

Losses = Sequence[float] | Array | Callable[[Array], Any] | None
"""Losses of all clients, or a function that returns those of the given clients, so that only these compute it."""

TIES = 1
"""Names the random stream that breaks ties, apart from the one that draws candidates."""


class Selection(Protocol):
    """Picks the clients of a round.

    One whose attribute `draws_by_size` is true picks large clients more often; FedAvg then averages clients evenly.

    Examples
    --------
    One of your own: the clients with the largest losses.

    >>> class Worst:
    ...     def select(self, round, n, losses=None, *, available=None):
    ...         return np.sort(np.argsort(losses)[-n:])
    >>> Worst().select(round=0, n=2, losses=[0.1, 0.7, 0.5])
    array([1, 2])
    """

    def select(self, round: int, n: int, losses: Losses = None, *, available: Any = None) -> Array:
        """Return the positions of `n` distinct clients, sorted.

        Parameters
        ----------
        round, n : int
        losses : array of shape (n_clients,), or callable, optional
            A loss that is not finite is no reason to pick a client: it comes last.
        available : positions, or mask of shape (n_clients,), optional
            Clients to pick from; by default all. If they are fewer than `n`, all of them are picked.
        """


class RandomSelection:
    """Draw clients uniformly, or in proportion to their size.

    Parameters
    ----------
    n_clients : int
    sizes : array of shape (n_clients,), optional
        Probabilities are proportional to these; by default all are equal. Average clients that are drawn by size
        evenly.
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
        self.draws_by_size = sizes is not None

    def select(
        self,
        round: int,
        n: int,
        losses: Losses = None,  # noqa: ARG002 - the same for all selections
        *,
        available: Any = None,
    ) -> Array:
        """Return the positions of `n` distinct clients, sorted; see `Selection.select`."""
        return _drawn(self._chances, _checked(n, self.n_clients), self._seed, round, available)


class PowerOfChoice:
    """Draw candidates in proportion to their size, and take those with the highest loss: pow-d.

    Ties are broken at random. As in the paper, the clients of a round are to be averaged evenly.

    Parameters
    ----------
    sizes : array of shape (n_clients,), or mapping from client to size
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

    draws_by_size = True

    def __init__(self, sizes: Any, n_candidates: int, *, seed: int = 0) -> None:
        self._chances = _chances(sizes, len(sizes))
        self.n_clients = len(self._chances)
        self.n_candidates = _checked(n_candidates, self.n_clients, "n_candidates")
        self._seed = seed

    def select(self, round: int, n: int, losses: Losses = None, *, available: Any = None) -> Array:
        """Return the positions of `n` distinct clients, sorted; see `Selection.select`."""
        return np.sort(self.ranked(round, n, losses, available)[:n])

    def ranked(self, round: int, n: int, losses: Losses, available: Any = None) -> Array:
        """Return the candidates, those with the highest loss first."""
        n_candidates = max(self.n_candidates, _checked(n, self.n_clients))
        candidates = _drawn(self._chances, n_candidates, self._seed, round, available)
        ties = np.random.default_rng([self._seed, round, TIES]).random(len(candidates))
        return candidates[np.lexsort((ties, -_losses_of(candidates, losses, self.n_clients)))]


class KFedPowerOfChoice:
    """Power of choice with at most one client of each cluster: k-FED + pow-d.

    Candidates come in the order of their loss. One that shares a cluster with a client taken before is passed over;
    if fewer than `n` are left, those passed over fill the places, again in the order of their loss.

    Parameters
    ----------
    sizes : array of shape (n_clients,), or mapping from client to size
    clusters : sequence of int, or of collections of int, or mapping from client to such
        The global cluster or clusters of each client, as `kfed.aggregate` found them. The keys of a mapping are those
        of `sizes`, or the positions of the clients.
    n_candidates : int
    seed : int

    Examples
    --------
    >>> selection = KFedPowerOfChoice(sizes=[10, 10, 10, 10], clusters=[0, 1, 0, 1], n_candidates=4)
    >>> selection.select(round=0, n=2, losses=[0.1, 0.9, 0.4, 0.8])
    array([1, 2])
    """

    draws_by_size = True

    def __init__(
        self,
        sizes: Any,
        clusters: Sequence[int | Iterable[int]] | Mapping[Any, int | Iterable[int]],
        n_candidates: int,
        *,
        seed: int = 0,
    ) -> None:
        self._power_of_choice = PowerOfChoice(sizes, n_candidates, seed=seed)
        in_order = _in_order(clusters, sizes) if isinstance(clusters, Mapping) else clusters
        self._clusters = [frozenset(np.atleast_1d(np.asarray(_listed(own))).tolist()) for own in in_order]
        if len(self._clusters) != self._power_of_choice.n_clients:
            raise InvalidInputError(
                f"clusters must have one entry for each of {self._power_of_choice.n_clients} clients; "
                f"got {len(self._clusters)}"
            )

    def select(self, round: int, n: int, losses: Losses = None, *, available: Any = None) -> Array:
        """Return the positions of `n` distinct clients, sorted; see `Selection.select`."""
        fresh, passed_over = [], []
        taken: set[int] = set()
        for client in self._power_of_choice.ranked(round, n, losses, available):
            if taken.isdisjoint(self._clusters[client]):
                taken |= self._clusters[client]
                fresh.append(client)
            else:
                passed_over.append(client)
        return np.sort(np.array((fresh + passed_over)[:n]))


def _in_order(clusters: Mapping[Any, Any], sizes: Any) -> list[Any]:
    """Clusters of the clients in the order of `sizes`."""
    clients = list(sizes) if isinstance(sizes, Mapping) else list(range(len(sizes)))
    if set(clients) != set(clusters):
        raise InvalidInputError(
            "clusters must have the keys of sizes, or the positions of the clients if sizes is a sequence; got other "
            "keys; pass sizes as a mapping from the same clients"
        )
    return [clusters[client] for client in clients]


def _listed(clusters: int | Iterable[int]) -> Any:
    return list(clusters) if isinstance(clusters, Iterable) else clusters


def _chances(sizes: Any, n_clients: int) -> Array:
    sizes = list(sizes.values()) if isinstance(sizes, Mapping) else sizes
    sizes = checks.as_array(sizes, "sizes", np.float64)
    if sizes.shape != (n_clients,) or n_clients == 0 or not np.isfinite(sizes).all() or (sizes <= 0).any():
        raise InvalidInputError(f"sizes must be {n_clients} finite numbers greater than 0, one for each client")
    return np.asarray(sizes / sizes.sum())


def _checked(n: int, n_clients: int, name: str = "n") -> int:
    n = checks.positive_integer(n, name)
    if n > n_clients:
        raise InvalidInputError(f"{name} must be at most {n_clients}, the number of clients; got {n}")
    return n


def _drawn(chances: Array, n: int, seed: int, round: int, available: Any) -> Array:
    """Draw `n` of the available clients, or all if they are fewer; return their positions, sorted."""
    there = _available(available, len(chances))
    chances = chances if available is None else chances[there] / chances[there].sum()
    rng = np.random.default_rng([seed, round])
    return np.sort(rng.choice(there, min(n, len(there)), replace=False, p=chances))


def _available(available: Any, n_clients: int) -> Array:
    """Positions of the available clients, sorted."""
    if available is None:
        return np.arange(n_clients)
    given = np.asarray(available)
    if given.dtype == bool and given.shape == (n_clients,):
        given = np.flatnonzero(given)
    if given.size == 0:
        raise InvalidInputError("available must hold at least one client; got none")
    if given.ndim != 1 or given.dtype.kind not in "iu" or not ((given >= 0) & (given < n_clients)).all():
        raise InvalidInputError(
            f"available must hold positions from 0 to {n_clients - 1}, or be a mask of {n_clients} clients"
        )
    return np.unique(given)


def _losses_of(candidates: Array, losses: Losses, n_clients: int) -> Array:
    """Losses of the candidates, (n_candidates,). One that is not finite becomes the lowest of all.

    A client whose loss is NaN or infinite would spoil the mean, and one that did not reply has none.
    """
    if losses is None:
        raise InvalidInputError("losses must be given: this selection prefers clients with a high loss")
    known = losses(candidates) if callable(losses) else losses
    known = checks.as_array(known, "losses", np.float64)
    expected = len(candidates) if callable(losses) else n_clients
    if known.shape != (expected,):
        raise InvalidInputError(f"losses must have shape ({expected},), one for each client; got {known.shape}")
    known = known if callable(losses) else known[candidates]
    return np.where(np.isfinite(known), known, -np.inf)
