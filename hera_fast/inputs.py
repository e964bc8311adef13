"""Checks of rows and weights whose errors say where the fault is."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_sample_weight

__all__ = [
    "check_finite",
    "check_magnitude",
    "check_not_tiny",
    "check_weights",
    "largest_magnitude",
]

_Array = np.ndarray[Any, Any]

# What the largest absolute value of X may be: then sums of squares neither overflow nor vanish.
_MAGNITUDES = {np.dtype(np.float64): (1e-140, 1e140), np.dtype(np.float32): (1e-14, 1e14)}
_SCALE = "Scale the features, for example with sklearn.preprocessing.StandardScaler."


def check_finite(X: Any, names: _Array | None, first_row: int = 0) -> None:
    """Raise an error that says where X, whose first row has a certain number, is not finite."""
    try:
        assert_all_finite(X, input_name="X")
    except ValueError as error:
        if sparse.issparse(X):
            entries = X.tocoo()
            bad = np.flatnonzero(~np.isfinite(entries.data))
            row, column = entries.row[bad[0]], entries.col[bad[0]]
        else:
            rows, columns = np.nonzero(~np.isfinite(X))
            bad, row, column = rows, rows[0], columns[0]
        name = "" if names is None else f" ({names[column]!r})"
        raise ValueError(
            f"{str(error).splitlines()[0]} The first such entry is in row {first_row + row}, "
            f"column {column}{name}; there are {len(bad)}. Remove these rows, or put a "
            "sklearn.impute.SimpleImputer in front."
        ) from None


def check_magnitude(X: Any, names: _Array | None, *, is_training: bool, first_row: int = 0) -> None:
    """Raise an error if sums of squares would overflow, or all of them vanish in training."""
    largest = largest_magnitude(X, names, first_row)
    if is_training:
        check_not_tiny(largest, X.dtype)


def largest_magnitude(X: Any, names: _Array | None, first_row: int = 0) -> float:
    """Return the largest absolute value, or raise an error if its square would overflow."""
    values = X.data if sparse.issparse(X) else X
    largest = max(values.max(), -values.min()) if values.size else 0.0
    # In its own precision, so that a number and an array compare alike.
    most = X.dtype.type(_MAGNITUDES[X.dtype][1])
    if largest > most:
        rows, columns = (abs(X) > most).nonzero()
        name = "" if names is None else f" ({names[columns[0]]!r})"
        raise ValueError(
            f"X has the value {X[rows[0], columns[0]]:.3g} in row {first_row + rows[0]}, column "
            f"{columns[0]}{name}. In {X.dtype} absolute values must not exceed {most:g}, because "
            f"their squares are summed. {_SCALE}"
        )
    return float(largest)


def check_not_tiny(largest: float, dtype: np.dtype[Any]) -> None:
    """Raise an error if squares of numbers that are no larger would vanish."""
    least = dtype.type(_MAGNITUDES[dtype][0])
    if 0 < largest < least:
        raise ValueError(
            f"The largest absolute value of X is {largest:.3g}. In {dtype} it must be at least "
            f"{least:g}, because squares are summed. {_SCALE}"
        )


def check_weights(sample_weight: Any, rows: Any) -> _Array:
    """Check the weights of rows; float64."""
    weights: _Array = _check_sample_weight(
        sample_weight, rows, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("All entries of sample_weight are zero: no row counts.")
    least, most = _MAGNITUDES[np.dtype(np.float32)]
    if not least <= weights.max() <= most:
        raise ValueError(
            f"The largest entry of sample_weight is {weights.max():.3g}; it must be from {least:g} "
            f"to {most:g}. Multiply all of them by the same number."
        )
    return weights
