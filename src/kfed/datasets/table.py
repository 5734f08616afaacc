"""`Dataset`: points, what each of them is, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kfed._base.array import Array, Length
from kfed.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of points with their classes and owners, where it has them.

    Attributes
    ----------
    name : str
        What reports call it.
    points : array or sparse matrix of shape (n_points, n_features)
        float32.
    classes : array of shape (n_points,) or None
        What each point is, such as the digit.
    owners : array of shape (n_points,) or None
        Whose each point is, such as the writer: the natural device.

    Examples
    --------
    >>> data = Dataset("three", np.eye(3), np.array([7, 8, 9]), np.array(["ann", "bob", "bob"]))
    >>> data.n_points, data.n_features, set(data.owners) == {"ann", "bob"}
    (3, 3, True)
    """

    name: str
    points: Any = field(repr=False)
    classes: Array | None = field(default=None, repr=False)
    owners: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, column in (("classes", self.classes), ("owners", self.owners)):
            if column is not None and len(column) != self.n_points:
                raise InvalidInputError(
                    f"{name} of {self.name} must have {self.n_points:,} entries; got {len(column):,}"
                )

    n_points = Length("points", 0, "Rows of the table.")

    n_features = Length("points", 1, "Columns of the table, d.")

    def take(self, rows: Array) -> Dataset:
        """Return some of the rows, in the given order.

        Examples
        --------
        >>> import numpy as np
        >>> Dataset("three", np.eye(3), np.array([7, 8, 9])).take(np.array([2, 0])).classes
        array([9, 7])
        """
        classes, owners = (None if column is None else column[rows] for column in (self.classes, self.owners))
        return Dataset(self.name, self.points[rows], classes, owners)
