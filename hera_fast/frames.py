"""Data frames of pandas, polars and Arrow as arrays.

None of these packages is imported: a frame of a package is given only where it is imported already.
"""

from __future__ import annotations

import reprlib
import sys
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

__all__ = ["as_frame", "column_array", "frame_cells", "frame_numbers"]

_Array = np.ndarray[Any, Any]

_NUMBERS = (Real, Decimal, np.bool_)
# The second is the NA of pandas.
_MISSING = ("NoneType", "NAType")


def as_frame(X: Any) -> Any:
    """Return a data frame as it is, an Arrow record batch as a table, and None for other things.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table or None

    Examples
    --------
    >>> import pandas
    >>> from hera_fast.frames import as_frame
    >>> as_frame(pandas.DataFrame({"a": [1.5]}))
         a
    0  1.5
    >>> as_frame([[1.5]]) is None
    True
    """
    if _is_a(X, "pyarrow", "RecordBatch"):
        # The names of its columns are unknown to scikit-learn.
        return sys.modules["pyarrow"].Table.from_batches([X])
    kinds = ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")
    return X if any(_is_a(X, *kind) for kind in kinds) else None


def frame_numbers(frame: Any) -> Any:
    """Return the numbers of a data frame; NaN where one is missing.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        A frame of n rows and d columns.

    Returns
    -------
    numbers : ndarray or sparse matrix of shape (n, d)
        Sparse if all columns are sparse columns of pandas. Of float32 if that is the dtype that
        NumPy finds for all columns together.

    Raises
    ------
    ValueError
        If a column holds anything but numbers and truth values. The message names it.

    Examples
    --------
    >>> import pandas
    >>> from hera_fast.frames import frame_numbers
    >>> frame_numbers(pandas.DataFrame({"a": [1.5, 2.0], "b": [True, None]}))
    array([[1.5, 1. ],
           [2. , nan]])
    >>> frame_numbers(pandas.DataFrame({"a": [1.5, 2.0], "b": ["x", "y"]}))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: X must hold numbers, but column 1 ('b') holds str, 'x' in row 0. ...
    """
    if _is_a(frame, "pandas", "DataFrame"):
        dtypes = set(frame.dtypes)
        if dtypes and all(isinstance(d, sys.modules["pandas"].SparseDtype) for d in dtypes):
            return frame.sparse.to_coo()
        if all(isinstance(d, np.dtype) and d.kind in "biuf" for d in dtypes):
            # Often without a copy.
            return frame.to_numpy(_common_dtype(dtypes))
    names, columns = _columns(frame)
    columns = list(map(_plain_numbers, columns))
    for position, (name, column) in enumerate(zip(names, columns, strict=True)):
        if not _is_numeric(column):
            raise ValueError(
                f"X must hold numbers, but column {position} ({name!r}) holds {_contents(column)}. "
                "Encode the column as numbers, or drop it"
            )
    single = _common_dtype({column.dtype for column in columns}) == np.float32
    return _stack(columns, frame.shape, np.float32 if single else np.float64)


def frame_cells(frame: Any) -> tuple[list[Any], _Array]:
    """Return the names of the columns of a data frame, and what is in its cells.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        A frame of n rows and d columns.

    Returns
    -------
    names : list
        A name for each column.
    cells : ndarray of shape (n, d)
        What a single column holds. Several columns of numbers or truth values as numbers, with NaN
        where one is missing; others as objects.

    Examples
    --------
    >>> import pandas
    >>> from hera_fast.frames import frame_cells
    >>> frame_cells(pandas.DataFrame({"cat": [1, 0], "owl": [True, True]}))
    (['cat', 'owl'], array([[1, 1],
           [0, 1]]))
    """
    names, columns = _columns(frame)
    if len(columns) == 1:
        # Labels stay what they are, also if they are numbers.
        return names, columns[0][:, np.newaxis]
    columns = list(map(_plain_numbers, columns))
    is_numeric = all(map(_is_numeric, columns))
    dtype = _common_dtype({column.dtype for column in columns}) if is_numeric else np.object_
    return names, _stack(columns, frame.shape, dtype)


def column_array(column: Any) -> _Array:
    """Return ``np.asarray(column)``, in which nothing missing has become something else.

    Parameters
    ----------
    column : array-like
        For example a series or an Arrow array.

    Returns
    -------
    array : ndarray

    Examples
    --------
    >>> import pyarrow
    >>> from hera_fast.frames import column_array
    >>> column = pyarrow.chunked_array([["owl", None, "cat"]]).dictionary_encode()
    >>> column_array(column).tolist()
    ['owl', None, 'cat']
    """
    kind: Any = getattr(column, "type", None)
    if hasattr(kind, "index_type") and hasattr(kind, "value_type"):
        # From chunks of a dictionary NumPy gets the last entry where one is missing.
        column = column.cast(kind.value_type)
    return np.asarray(column)


def _is_a(X: Any, package: str, name: str) -> bool:
    return isinstance(X, getattr(sys.modules.get(package), name, ()))


def _columns(frame: Any) -> tuple[list[Any], list[_Array]]:
    """The names of the columns, and an array of one dimension for each."""
    if _is_a(frame, "pyarrow", "Table"):
        names, columns = frame.column_names, frame.columns
    elif _is_a(frame, "polars", "DataFrame"):
        names, columns = frame.columns, frame.get_columns()
    else:
        names, columns = list(frame.columns), (column for _, column in frame.items())
    return names, [_one_dimension(column_array(column)) for column in columns]


def _one_dimension(column: _Array) -> _Array:
    """A column of arrays, which polars has, as objects, as lists of other lengths are."""
    if column.ndim == 1:
        return column
    rows = np.empty(len(column), np.object_)
    for position, row in enumerate(column):
        rows[position] = row
    return rows


def _plain_numbers(column: _Array) -> _Array:
    """Objects as float64 if all of them are numbers or missing; other columns as they are."""
    if column.dtype != np.object_:
        return column
    kinds = set(map(type, column))
    if not all(map(_is_number_or_missing, kinds)):
        return column
    missing = {kind for kind in kinds if not issubclass(kind, _NUMBERS)}
    return np.array([np.nan if type(cell) in missing else cell for cell in column], np.float64)


def _is_number_or_missing(kind: type) -> bool:
    return issubclass(kind, _NUMBERS) or kind.__name__ in _MISSING


def _is_numeric(column: _Array) -> bool:
    return column.dtype.kind in "biuf"


def _common_dtype(dtypes: set[np.dtype[Any]]) -> np.dtype[Any]:
    return np.result_type(*dtypes) if dtypes else np.dtype(np.float64)


def _stack(columns: list[_Array], shape: tuple[int, int], dtype: Any) -> _Array:
    array = np.empty(shape, dtype)
    for position, column in enumerate(columns):
        array[:, position] = column
    return array


def _contents(column: _Array) -> str:
    """What there is in a column that does not hold numbers only."""
    if column.dtype.kind not in "OTU":
        return str(column.dtype)
    cells = enumerate(column.astype(np.object_))
    row, cell = next((row, cell) for row, cell in cells if not _is_number_or_missing(type(cell)))
    return f"{type(cell).__name__}, {reprlib.repr(cell)} in row {row}"
