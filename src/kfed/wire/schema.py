"""`FeatureSchema`: which features a party's numbers describe, and the one place that compares two parties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfed._base import checks
from kfed.errors import FeatureMismatchError


@dataclass(frozen=True)
class FeatureSchema:
    """The features behind a center: how many there are, and their names if they have names.

    Messages, batches of messages, aggregations and federations each hold one.

    Parameters
    ----------
    n_features : int
        Length of a center, d.
    names : sequence of str, optional
        One distinct name for each feature, in their order.

    Examples
    --------
    >>> FeatureSchema(2, ["age", "height"]).check_same(FeatureSchema(2), "north", "south")  # without names, any match
    >>> FeatureSchema(2, ["age", "height"]).check_same(FeatureSchema(2, ["height", "age"]), "north", "south")
    Traceback (most recent call last):
    kfed.errors.FeatureMismatchError: all devices must have the same features in the same order; feature 0 is 'age' ...
    """

    n_features: int
    names: tuple[str, ...] | None = None

    def __init__(self, n_features: int, names: Iterable[str] | None = None) -> None:
        object.__setattr__(self, "n_features", n_features)  # the dataclass is frozen
        object.__setattr__(self, "names", checks.feature_names(names, n_features))

    def check_same(self, other: FeatureSchema, ours: str, theirs: str) -> None:
        """Raise `FeatureMismatchError` unless both describe the same features; features without names match any names.

        Parameters
        ----------
        other : FeatureSchema
        ours, theirs : str
            What an error calls the two parties.
        """
        if self is other or self == other:
            return
        if self.n_features != other.n_features:
            raise FeatureMismatchError(
                f"all devices must have the same features; {ours} has {self.n_features} and {theirs} has "
                f"{other.n_features}: {self._difference(other, ours, theirs)}"
            )
        if self.names is not None and other.names is not None and self.names != other.names:
            raise FeatureMismatchError(
                f"all devices must have the same features in the same order; {self._difference(other, ours, theirs)}"
            )

    def _difference(self, other: FeatureSchema, ours: str, theirs: str) -> str:
        """Name the first feature that differs."""
        if self.names is None or other.names is None:
            return "check the columns that each of them used"
        for position, (own, their) in enumerate(zip(self.names, other.names, strict=False)):
            if own != their:
                return f"feature {position} is {own!r} for {ours} and {their!r} for {theirs}"
        n_common = min(self.n_features, other.n_features)
        extra = (self.names if self.n_features > n_common else other.names)[n_common:]
        return f"only {ours if self.n_features > n_common else theirs} has {', '.join(map(repr, extra[:5]))}"
