"""`Promise`: what a message promises about the rows behind it, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from kfed._base.accounting import MAX_EPSILON, delta_of
from kfed._base.finite import is_finite_number
from kfed.errors import InvalidInputError

LARGEST_DELTA = 1e-4
"""A larger delta is no promise to someone who demands one, whatever its epsilon."""


@dataclass(frozen=True)
class Promise:
    """(epsilon, delta)-differential privacy of a message, where neighbours differ by adding or removing one row.

    Parameters
    ----------
    epsilon, delta : float
    mu : float
        The same promise in Gaussian differential privacy, from which it follows.
    radius : float
        The public bound that rows were clipped to.
    """

    epsilon: float
    delta: float
    mu: float
    radius: float

    def __post_init__(self) -> None:
        numbers = (self.epsilon, self.delta, self.mu, self.radius)
        if not all(is_finite_number(number) and number > 0 for number in numbers) or self.delta >= 1:
            raise InvalidInputError("a promise of privacy must have numbers above zero, and a delta below 1")
        if self.epsilon > MAX_EPSILON or delta_of(self.mu, self.epsilon) > self.delta:
            raise InvalidInputError("a promise of privacy must have an epsilon and a delta that follow from its mu")

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-differentially private"

    def facts(self) -> dict[str, float]:
        """What `restored` makes an equal promise of."""
        return asdict(self)

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Self:
        """The promise of a file. Raises `InvalidInputError` if it is not valid."""
        if not isinstance(facts, Mapping) or set(facts) != {field.name for field in fields(cls)}:
            raise InvalidInputError("a promise of privacy must have epsilon, delta, mu and radius")
        return cls(**facts)


def check_promise(promise: Promise | None, max_epsilon: float, device: str) -> None:
    """Raise unless a device promises at least as much privacy as is demanded of it."""
    demanded = f"an epsilon of at most {max_epsilon:g} is demanded"
    if promise is None:
        raise InvalidInputError(f"the message of {device} promises no differential privacy; {demanded}")
    if promise.epsilon > max_epsilon:
        raise InvalidInputError(f"the message of {device} promises epsilon {promise.epsilon:g}; {demanded}")
    if promise.delta > LARGEST_DELTA:
        raise InvalidInputError(
            f"the message of {device} promises delta {promise.delta:g}; with a demanded epsilon, delta must be at most "
            f"{LARGEST_DELTA:g}"
        )
