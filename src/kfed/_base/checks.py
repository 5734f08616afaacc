"""Checks of what callers pass in: public functions call these, and the code behind them assumes that they passed.

An error says what it must be, what it got and, where that helps, what to do. None shows a value of a data row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed._base.not_numbers import WHAT_TO_DO, column_fault
from kfed._base.text import plural
from kfed.errors import FeatureMismatchError, InvalidInputError

MAX_NAME_LENGTH = 200
MAX_SHOWN = 20

MAX_VALUE = 1e100
"""No value of a point or a center is larger in size."""

FLOATS = FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def is_sparse(points: object) -> bool:
    """Whether `points` is a scipy sparse matrix or array; does not import scipy."""
    return hasattr(points, "tocsr")


def finite_table(points: Any, name: str = "points") -> Any:
    """Convert points as `table` does, and raise unless all values are finite."""
    checked = table(points, name)
    finite(checked, name)
    return checked


def table(points: Any, name: str) -> Any:
    """Convert points to a C-contiguous float32 or float64 array (n_points, n_features), or to CSR if sparse.

    Values may be NaN or infinite; see `finite_table`.
    """
    if is_sparse(points):
        _two_axes(points, name)
        checked = points.tocsr()
        checked = checked.astype(_float_dtype(checked.dtype, name), copy=False)
        if not checked.has_canonical_format:
            checked = checked.copy()  # sum_duplicates works in place, and the matrix may be the caller's
            checked.sum_duplicates()
    else:
        checked = _dense(points, name)
    if checked.shape[0] == 0:
        raise InvalidInputError(f"{name} must have at least one row; got none: leave this device out")
    if checked.shape[1] == 0:
        raise InvalidInputError(f"{name} must have at least one column; got none")
    return checked


def is_table(points: Any) -> bool:
    """Whether `table` would return `points` as they are: a cheap test for the usual case."""
    return (
        type(points) is np.ndarray
        and points.dtype in FLOATS
        and points.ndim == 2
        and points.size > 0
        and points.flags.c_contiguous
    )


def clusterable(points: Any, name: str, weights: Array | None = None) -> None:
    """Raise as `finite` does, and if all values are so small that their distances vanish; float32 is widened later."""
    is_tiny = float(finite(points, name, weights)) < least_sum_of_squares(points.dtype)
    if is_tiny and (points.dtype == FLOAT64 or is_sparse(points)) and (points != 0).sum() > 0:
        raise InvalidInputError(
            f"{name} must be large enough to be squared in {points.dtype}; all values are too close to zero: bring "
            "features to a common scale"
        )


def finite(points: Any, name: str, weights: Array | None = None) -> np.floating[Any]:
    """Return the sum of squares, or raise unless all values are finite and small enough to be squared and summed."""
    values = (points.data if is_sparse(points) else points).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        sum_of_squares: np.floating[Any] = values @ values
    if float(sum_of_squares) <= MAX_VALUE and has_headroom(sum_of_squares, weights):
        return sum_of_squares
    if not np.isfinite(values).all():
        raise InvalidInputError(f"{name} must be finite; {_where_not_finite(points)}: remove or fill those rows first")
    if not has_headroom(sum_of_squares, weights):
        raise InvalidInputError(
            f"{name} must be small enough to be squared and weighted in {points.dtype}; some values are too large: "
            "bring features and weights to a common scale, or use float64"
        )
    if float(np.abs(values).max()) > MAX_VALUE:
        raise InvalidInputError(
            f"{name} must be at most {MAX_VALUE:g} in size; some values are larger: bring features to a common scale"
        )
    return sum_of_squares


def is_in_range(sum_of_squares: np.floating[Any], weights: Array | None = None) -> bool:
    """Whether a sum of squares shows at once that its values are neither too large nor too small."""
    least = least_sum_of_squares(sum_of_squares.dtype)
    return least <= float(sum_of_squares) <= MAX_VALUE and has_headroom(sum_of_squares, weights)


def least_sum_of_squares(dtype: np.dtype[Any]) -> float:
    """Values with a smaller sum of squares, if it is not zero, lose their distances to underflow."""
    limits = np.finfo(dtype)
    return float(limits.tiny) / float(limits.eps)


def has_headroom(sum_of_squares: np.floating[Any], weights: Array | None = None) -> bool:
    """Whether values with this sum of squares are finite and far from overflow in their precision."""
    heaviest = 1.0 if weights is None else float(weights.max())
    return float(sum_of_squares) * heaviest <= float(np.finfo(sum_of_squares.dtype).max) / 64


def feature_names_of(points: object) -> tuple[str, ...] | None:
    """Column names of a pandas or polars frame if all are strings, else None; the rule of scikit-learn."""
    columns = getattr(points, "columns", None)
    if columns is None or (not hasattr(points, "__dataframe__") and not hasattr(points, "to_numpy")):
        return None
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def sample_weight(weights: Any, points: Any) -> Array | None:
    """Weights of `points`, (n_points,): finite, not negative, not all zero; None stays None and means one each."""
    if weights is None:
        return None
    with np.errstate(over="ignore"):
        checked = as_array(weights, "sample_weight", points.dtype)
    if checked.shape != points.shape[:1]:
        raise InvalidInputError(
            f"sample_weight must have one weight per point, shape {points.shape[:1]}; got shape {checked.shape}"
        )
    if not np.isfinite(checked).all() or (checked < 0).any():
        raise InvalidInputError("sample_weight must be finite and not negative; some weights are not")
    if not checked.any():
        raise InvalidInputError("sample_weight must have a weight above zero; all are zero: leave this device out")
    return checked


def positive_integer(value: Any, name: str) -> int:
    """Return `value` as an int, or raise unless it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name} must be a whole number of at least 1; got {_shown(value)}")
    return int(value)


def positive_integer_or_auto(value: Any, name: str) -> int | Literal["auto"]:
    """Return `value` as an int or as "auto", or raise unless it is a whole number of at least 1 or "auto"."""
    if isinstance(value, str) and value == "auto":
        return "auto"
    if isinstance(value, str):
        raise InvalidInputError(f"{name} must be a whole number of at least 1, or 'auto'; got {_shown(value)}")
    return positive_integer(value, name)


def positive_number(value: Any, name: str) -> float:
    """Return `value` as a float, or raise unless it is finite and greater than zero."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        raise InvalidInputError(f"{name} must be a finite number greater than zero; got {_shown(value)}")
    return float(value)


def device_id(value: Any) -> str:
    """Return `value`, or raise unless it is a short printable string."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_LENGTH or not value.isprintable():
        shown = _shown_start(value) if isinstance(value, str) else f"a {type(value).__name__}"
        raise InvalidInputError(
            f"device id must be a string of 1 to {MAX_NAME_LENGTH} printable characters; got {shown}"
        )
    return value


def device_ids(values: Iterable[Any]) -> None:
    """Raise unless each is a device id, or empty: a device without a name."""
    for value in values:
        if value != "":
            device_id(value)


def feature_names(names: Iterable[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Return the names as a tuple, or raise unless there is one distinct string per feature; None stays None."""
    if names is None:
        return None
    checked = tuple(names)
    if not all(isinstance(name, str) for name in checked):
        raise InvalidInputError("feature_names must be strings; some are not")
    if len(checked) != n_features:
        raise FeatureMismatchError(f"feature_names must have {plural(n_features, 'name')}; got {len(checked)}")
    if len(set(checked)) != len(checked):
        twice = next(name for name in checked if checked.count(name) > 1)
        raise InvalidInputError(f"feature_names must be distinct; {twice!r} occurs more than once")
    return checked


def one_of(value: Any, allowed: Sequence[str], name: str) -> str:
    """Return `value`, or raise unless it is one of `allowed`."""
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {_shown(value)}")
    return str(value)


def as_array(values: Any, name: str, dtype: npt.DTypeLike | None = None) -> Array:
    """Convert `values` to an array; unlike NumPy's, the error does not show them, since they may be private."""
    try:
        return np.asarray(values, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name} must be numbers, with equally many in each row") from None


def _dense(points: Any, name: str) -> Array:
    array = points.to_numpy() if hasattr(points, "to_numpy") else as_array(points, name)
    _two_axes(array, name)
    if array.dtype.kind not in "fiub" and (fault := column_fault(points)):
        raise InvalidInputError(f"{name} must be numbers; {fault}: {WHAT_TO_DO}")
    if array.dtype == object:
        array = np.where(_is_pandas_na(array), np.nan, array)  # `finite` then says where the missing cells are
    return as_array(array, name, _float_dtype(array.dtype, name))


def _is_pandas_na(array: Array) -> npt.NDArray[np.bool_]:
    """Which cells are `pandas.NA`; does not import pandas."""
    return np.array([type(cell).__name__ == "NAType" for cell in array.flat], dtype=bool).reshape(array.shape)


def _two_axes(points: Any, name: str) -> None:
    if points.ndim != 2:
        raise InvalidInputError(
            f"{name} must have two axes (points, features); got shape {points.shape}: "
            "reshape a single feature with points.reshape(-1, 1)"
        )


def _float_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    if dtype == FLOAT32:
        return FLOAT32
    if dtype.kind in "fiubO":
        return FLOAT64
    raise InvalidInputError(f"{name} must be numbers; got dtype {dtype}: encode other columns as numbers first")


def _where_not_finite(array: Any) -> str:
    if is_sparse(array):
        n_values = int(np.count_nonzero(~np.isfinite(array.data)))
        return f"{plural(n_values, 'value is', 'values are')} NaN or infinite"
    bad = ~np.isfinite(array)
    row, column = np.argwhere(bad)[0]
    n_rows = int(np.count_nonzero(bad.any(axis=1)))
    hold = plural(n_rows, "row holds", "rows hold")
    return f"{hold} NaN or infinite values (first: row {row}, column {column})"


def _shown(value: Any) -> str:
    """A setting as an error shows it: a single number or word, but nothing that could hold data."""
    return repr(value) if isinstance(value, (int, float, str, np.number, type(None))) else f"a {type(value).__name__}"


def _shown_start(text: str) -> str:
    return repr(text) if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]!r}..."
