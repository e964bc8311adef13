"""Partial-label data sets: features, candidates, truth and names, checked against each other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch, check_array

from hera_fast.candidates import csr_candidates

__all__ = ["make_bunch"]

_Array = np.ndarray[Any, Any]

_TITLE = "Partial-label data: "
# Every column gets a name; a damaged file may claim any number of columns.
_MOST_COLUMNS = 10_000_000


def make_bunch(
    data: Any,
    candidates: Any,
    target: Any = None,
    *,
    target_names: Any = None,
    feature_names: Any = None,
    DESCR: str = "",
    source: str = "",
    needs_candidates: bool = True,
) -> Bunch:
    """Put the parts of a partial-label data set together and check that they fit.

    Parameters
    ----------
    data : array, data frame or sparse matrix, shape (n, d)
        The features: real numbers, or NaN where a value is missing.
    candidates : array, data frame, sparse matrix or sequence
        The candidate labels of each row, in any form that :meth:`HERAClassifier.fit` takes.
    target : array-like of int, shape (n,), or None, default=None
        The column of each row's true label in the candidates; None when it is unknown.
    target_names : array-like of str or int, shape (q,), or None, default=None
        The labels, one for each column. By default those that the candidates bring along, and
        ``"0", "1", ...`` when they are a matrix without names.
    feature_names : array-like of str, shape (d,), or None, default=None
        By default the names of the columns of a data frame, else ``"x0", "x1", ...``.
    DESCR : str, default=""
        What is to be said about the data set.
    source : str, default=""
        Where the parts come from; stands at the beginning of error messages.
    needs_candidates : bool, default=True
        Whether the candidates must not be None. New rows have none; then ``candidates`` is None,
        the target holds places in `target_names`, and these may be None without a target.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With the fields

        - ``data``: C-contiguous array of float32 or float64, or ``csr_array`` when it was sparse;
        - ``candidates``: ``csr_array`` of bool, shape (n, q), in canonical format;
        - ``target``: array of int64 or None. It holds columns, not names, so that after
          ``fit(data, candidates)`` the accuracy is ``score(data, target)``;
        - ``target_names``: 1-d array of strings or integers;
        - ``feature_names``: list of str;
        - ``DESCR``: a line with the figures of the data set, then the given text.

    Raises
    ------
    TypeError
        If something is of the wrong type.
    ValueError
        If the parts do not fit together or their contents make no sense; the message says where.

    Examples
    --------
    >>> from hera_fast.bunch import make_bunch
    >>> animals = make_bunch([[0.1, 2.0], [0.3, 4.0]], [{"cat", "dog"}, {"owl"}], [1, 2])
    >>> animals.target_names[animals.target].tolist()
    ['dog', 'owl']
    >>> animals.candidates.toarray().astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    >>> print(animals.DESCR)
    Partial-label data: 2 rows, 2 features, 3 labels, 1.50 candidates per row, truth known.
    """
    try:
        names = None if target_names is None else _label_names(target_names)
        features, columns = _data(data, feature_names)
        n, d = features.shape
        matrix = None
        if candidates is not None or needs_candidates:
            matrix, names = _candidates(candidates, n, names)
        truth = None if target is None else _truth(target, n, matrix, names)
    except (TypeError, ValueError) as error:
        if not source:
            raise
        raise type(error)(f"{source}: {error}") from error
    known = [] if names is None else [_count(len(names), "label")]
    known.append("no candidates" if matrix is None else f"{matrix.nnz / n:.2f} candidates per row")
    summary = (
        f"{_TITLE}{_count(n, 'row')}, {_count(d, 'feature')}, {', '.join(known)}, "
        f"truth {'unknown' if truth is None else 'known'}."
    )
    # The summary of a data set that was put together before is replaced.
    text = re.sub(rf"\A{_TITLE}.*", "", DESCR).strip()
    return Bunch(
        data=features,
        candidates=matrix,
        target=truth,
        target_names=names,
        feature_names=columns,
        DESCR=f"{summary}\n\n{text}" if text else summary,
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _data(data: Any, names: Any) -> tuple[Any, list[str]]:
    if names is None and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
    if isinstance(data, (list, tuple)):
        data = np.asarray(data)
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind not in "biufO":
        raise TypeError(f"data must be real numbers, got an array of {data.dtype}")
    features = check_array(
        data,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        ensure_all_finite=False,
        input_name="data",
    )
    if sparse.issparse(features):
        features = sparse.csr_array(features)
        if not features.has_canonical_format:
            features = features.copy()
            features.sum_duplicates()
    _check_width(features, "data")
    columns = _feature_names(names, features.shape[1])
    values = features.data if sparse.issparse(features) else features
    if np.isinf(values).any():
        entries = sparse.coo_array(features)
        first = int(np.argmax(np.isinf(entries.data)))
        column = entries.col[first]
        raise ValueError(
            f"data has infinity in row {entries.row[first]}, column {column} "
            f"({columns[column]!r}). Missing values are NaN"
        )
    return features, columns


def _check_width(matrix: Any, what: str) -> None:
    if matrix.shape[1] > _MOST_COLUMNS:
        raise ValueError(
            f"{what} has {matrix.shape[1]} columns, and no more than {_MOST_COLUMNS} are possible"
        )


def _feature_names(names: Any, n_features: int) -> list[str]:
    if names is None:
        return [f"x{column}" for column in range(n_features)]
    if isinstance(names, str):
        raise TypeError(f"feature_names must be one string per feature, got {names!r}")
    columns = list(names)
    if not all(isinstance(name, str) for name in columns):
        raise TypeError("feature_names must be strings")
    columns = list(map(str, columns))
    if len(columns) != n_features:
        raise ValueError(f"found {len(columns)} feature_names for {n_features} features")
    _check_names(columns, "feature_names")
    return columns


def _label_names(names: Any) -> _Array:
    """The names as an array that NumPy writes without pickle."""
    if isinstance(names, str) or not np.iterable(names):
        raise TypeError(f"target_names must be one name per label, got {names!r}")
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    plain = [int(name) if _is_whole(name) else name for name in plain]
    if all(isinstance(name, str) for name in plain):
        labels: _Array = np.array(plain, dtype=np.str_)
    elif all(isinstance(name, int) and not isinstance(name, bool) for name in plain):
        labels = np.array(plain)
    else:
        raise TypeError("target_names must be all strings or all integers")
    if labels.dtype.kind not in "iuU":
        raise ValueError(f"target_names holds integers beyond 64 bits: {max(plain, key=abs)}")
    _check_names(plain, "target_names")
    return labels


def _is_whole(name: Any) -> bool:
    return isinstance(name, float) and name.is_integer()


def _check_names(names: list[Any], what: str) -> None:
    position = {name: place for place, name in enumerate(names)}
    if len(position) < len(names):
        twice = next(name for place, name in enumerate(names) if position[name] != place)
        raise ValueError(f"{what} holds {twice!r} more than once")
    # NumPy drops them at the end of strings.
    bad = next((name for name in names if isinstance(name, str) and "\0" in name), None)
    if bad is not None:
        raise ValueError(f"{what} holds {bad!r}, which has a null character")


def _candidates(candidates: Any, n_rows: int, names: _Array | None) -> tuple[Any, _Array]:
    if isinstance(candidates, np.ndarray) and candidates.ndim == 2:
        if candidates.dtype.kind not in "biuf":
            raise TypeError(f"candidates must be zeros and ones, got {candidates.dtype}")
        # SciPy has sparse matrices of these types only.
        native = candidates.dtype.newbyteorder("=") if candidates.dtype.kind != "f" else np.float64
        # A dense matrix with one column could be a vector of labels, a sparse one cannot.
        candidates = sparse.csr_array(candidates.astype(native, copy=False))
    if sparse.issparse(candidates):
        _check_width(candidates, "candidates")
    matrix, classes = csr_candidates(candidates, n_samples=n_rows, classes=names)
    if names is None:
        unnamed = sparse.issparse(candidates)
        names = _label_names(map(str, classes) if unnamed else classes)
    return matrix, names


def _truth(target: Any, n: int, candidates: Any, names: _Array | None) -> _Array:
    truth = np.asarray(target)
    if names is None:
        raise ValueError("target needs target_names where there are no candidates")
    q = len(names)
    if truth.ndim != 1:
        raise ValueError(f"target must be 1-d, got the shape {truth.shape}")
    if truth.dtype.kind not in "iu":
        raise TypeError(
            f"target must be integers, the columns of the true labels, got {truth.dtype}"
        )
    if len(truth) != n:
        raise ValueError(f"target has {len(truth)} entries for {n} rows")
    outside = (truth < 0) | (truth >= q)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(f"target of row {row} is {truth[row]}, but the labels are 0 to {q - 1}")
    truth = truth.astype(np.int64)
    if candidates is None:
        return truth
    missing = ~np.asarray(candidates[np.arange(n), truth], np.bool_)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"the true label of row {row} is {names.tolist()[truth[row]]!r} (column {truth[row]}), "
            "which is not among its candidates"
        )
    return truth
