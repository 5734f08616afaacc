"""`Promise`: what a message promises about the rows behind it, in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from kfed.errors import InvalidInputError


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
        if not all(isinstance(number, int | float) and 0 < number < math.inf for number in numbers) or self.delta >= 1:
            raise InvalidInputError("a promise of privacy must have numbers above zero, and a delta below 1")

    def facts(self) -> dict[str, float]:
        """What `restored` makes an equal promise of."""
        return asdict(self)

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Self:
        """The promise of a file. Raises `InvalidInputError` if it is not valid."""
        if not isinstance(facts, Mapping) or set(facts) != {field.name for field in fields(cls)}:
            raise InvalidInputError("a promise of privacy must have epsilon, delta, mu and radius")
        return cls(**facts)
