"""The only place that judges what a caller gives: public functions check here, the code behind them assumes.

Every message says what is wrong, what it must be, what came, and what to do, and none shows a value of a data row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kfed._base.array import Array
from kfed.errors import FeatureMismatchError, InvalidInputError

MAX_NAME_LENGTH = 200

FLOATS = FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def is_sparse(points: object) -> bool:
    """Whether `points` is a scipy sparse matrix or array; scipy need not be imported to know."""
    return hasattr(points, "tocsr")


def points(points: Any, name: str = "points") -> Any:
    """Rows as a finite float32 or float64 array, C-contiguous (n_points, n_features), or as CSR of such."""
    checked = table(points, name)
    finite(checked, name)
    return checked


def table(points: Any, name: str) -> Any:
    """`points`, but for whether they are finite."""
    if is_sparse(points):
        _two_axes(points, name)
        checked = points.tocsr()
        checked = checked.astype(_float_dtype(checked.dtype, name), copy=False)
        if not checked.has_canonical_format:
            checked = checked.copy()  # the caller's own matrix may not be put in order
            checked.sum_duplicates()
    else:
        checked = _dense(points, name)
    if checked.shape[0] == 0:
        raise InvalidInputError(f"{name} must have at least one row, and has none; leave this device out")
    if checked.shape[1] == 0:
        raise InvalidInputError(f"{name} must have at least one column, and has none")
    return checked


def is_table(points: Any) -> bool:
    """Whether `points` are what `table` would make of them; the usual case, seen at a glance."""
    return (
        type(points) is np.ndarray
        and points.dtype in FLOATS
        and points.ndim == 2
        and points.size > 0
        and points.flags.c_contiguous
    )


def finite(points: Any, name: str, weights: Array | None = None) -> None:
    """Raise unless all values are finite, and small enough to be squared and summed."""
    values = (points.data if is_sparse(points) else points).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        sum_of_squares = values @ values
    if is_tame(sum_of_squares, weights):
        return
    if not np.isfinite(values).all():
        raise InvalidInputError(
            f"{name} must be finite, and {_where_not_finite(points)} NaN or infinite; remove or fill those rows first"
        )
    raise InvalidInputError(
        f"{name} must be small enough to be squared in {points.dtype}, and with their weights are not; "
        "bring features and weights to a common scale, or use float64"
    )


def is_tame(sum_of_squares: np.floating[Any], weights: Array | None = None) -> bool:
    """Whether values with this sum of squares are finite, and small enough in their precision with room to spare."""
    heaviest = 1.0 if weights is None else float(weights.max())
    return float(sum_of_squares) * heaviest <= float(np.finfo(sum_of_squares.dtype).max) / 64


def feature_names_of(points: object) -> tuple[str, ...] | None:
    """Column names of a pandas or polars frame whose names are all strings, as scikit-learn takes them."""
    columns = getattr(points, "columns", None)
    if columns is None or (not hasattr(points, "__dataframe__") and not hasattr(points, "to_numpy")):
        return None
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def sample_weight(weights: Any, points: Any) -> Array | None:
    """One weight for each of `points`: finite, not negative, not all zero; None means one each."""
    if weights is None:
        return None
    with np.errstate(over="ignore"):
        checked = as_array(weights, "sample_weight", points.dtype)
    if checked.shape != points.shape[:1]:
        raise InvalidInputError(
            f"sample_weight must have one weight for each of {points.shape[0]} points, and has shape {checked.shape}"
        )
    if not np.isfinite(checked).all() or (checked < 0).any():
        raise InvalidInputError("sample_weight must be finite and not negative, and some weights are not")
    if not checked.any():
        raise InvalidInputError("sample_weight must not be zero everywhere, and is; leave this device out")
    return checked


def positive_integer(value: Any, name: str) -> int:
    """A whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name} must be a whole number of at least 1, and is {_shown(value)}")
    return int(value)


def positive_integer_or_auto(value: Any, name: str) -> int | Literal["auto"]:
    """Give a whole number of at least one, or the word "auto"."""
    if isinstance(value, str) and value == "auto":
        return "auto"
    if isinstance(value, str):
        raise InvalidInputError(f"{name} must be a whole number of at least 1 or 'auto', and is {_shown(value)}")
    return positive_integer(value, name)


def positive_number(value: Any, name: str) -> float:
    """Give a finite number greater than zero."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        raise InvalidInputError(f"{name} must be a number greater than zero, and is {_shown(value)}")
    return float(value)


def device_id(value: Any) -> str:
    """A device's name: a string that fits a line."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_LENGTH or not value.isprintable():
        shown = f"{value[:20]!r}..." if isinstance(value, str) else repr(type(value).__name__)
        raise InvalidInputError(
            f"a device id must be a string of 1 to {MAX_NAME_LENGTH} printable characters, and came as {shown}"
        )
    return value


def device_ids(values: Iterable[Any]) -> None:
    """Names that random numbers depend on; the empty one stands for no name."""
    for value in values:
        if value != "":
            device_id(value)


def feature_names(names: Iterable[str] | None, n_features: int) -> tuple[str, ...] | None:
    """One distinct name a feature, or None."""
    if names is None:
        return None
    checked = tuple(names)
    if not all(isinstance(name, str) for name in checked):
        raise InvalidInputError("feature_names must be strings, and some are not")
    if len(checked) != n_features:
        raise FeatureMismatchError(f"feature_names must name {n_features} features, and names {len(checked)}")
    if len(set(checked)) != len(checked):
        twice = next(name for name in checked if checked.count(name) > 1)
        raise InvalidInputError(f"feature_names must be distinct, and {twice!r} stands there twice")
    return checked


def one_of(value: Any, allowed: Sequence[str], name: str) -> str:
    """One of a few words."""
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, allowed))}, and is {_shown(value)}")
    return str(value)


def as_array(values: Any, name: str, dtype: npt.DTypeLike | None = None) -> Array:
    """`values` as an array. An error does not repeat them, as NumPy's would: they may be private."""
    try:
        return np.asarray(values, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name} must be numbers, as many in each row, and are not") from None


def _dense(points: Any, name: str) -> Array:
    array = points.to_numpy() if hasattr(points, "to_numpy") else as_array(points, name)
    _two_axes(array, name)
    return as_array(array, name, _float_dtype(array.dtype, name))


def _two_axes(points: Any, name: str) -> None:
    if points.ndim != 2:
        raise InvalidInputError(
            f"{name} must have two axes (points, features), and has shape {points.shape}; "
            "reshape a single feature with points.reshape(-1, 1)"
        )


def _float_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    if dtype == FLOAT32:
        return FLOAT32
    if dtype.kind in "fiubO":
        return FLOAT64
    raise InvalidInputError(f"{name} must be numbers, and have dtype {dtype}; encode other columns as numbers first")


def _where_not_finite(array: Any) -> str:
    if is_sparse(array):
        return f"{np.count_nonzero(~np.isfinite(array.data))} of its values are"
    bad = ~np.isfinite(array)
    row, column = np.argwhere(bad)[0]
    n_rows = np.count_nonzero(bad.any(axis=1))
    return f"{n_rows} of its rows (first: row {row}, column {column}) hold values that are"


def _shown(value: Any) -> str:
    """A setting as an error may show it: a single number or word, nothing that could hold data."""
    return repr(value) if isinstance(value, (int, float, str, np.number, type(None))) else f"a {type(value).__name__}"
