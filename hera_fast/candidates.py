"""Candidate labels in every form users have them, turned into one bool matrix.

Estimators want it dense, files and scores sparse. Lists, vectors and sparse matrices become CSR
first, dense matrices stay dense, and either is turned into the other at the end if need be.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import chain
from numbers import Complex, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from hera_fast.frames import as_frame, column_array, frame_cells

__all__ = ["check_candidates", "check_labels", "csr_candidates"]

_Array = np.ndarray[Any, Any]

_FORMS = (
    "an (n, q) array, data frame or sparse matrix of zeros and ones, a list with the candidate "
    "labels of each row as a set or list, or a 1-d array or list with one label per row"
)
_LABEL_LISTS = "To give labels, pass a list with one set or list of labels per row"
_SHOWN = 5


def check_candidates(
    Y: Any,
    *,
    n_samples: int | None = None,
    classes: Any = None,
    unknown: str = "error",
    allow_empty: bool = False,
) -> tuple[_Array, _Array]:
    """Return which labels are candidates of which row, and the labels.

    Parameters
    ----------
    Y : array, data frame, sparse matrix or sequence
        One of

        - an (n, q) array, data frame or sparse matrix of zeros and ones, where 1 marks a
          candidate. The labels are ``0, ..., q - 1`` or the names of the columns;
        - a list, tuple, series or 1-d object array with one set, list, tuple or 1-d array of
          labels for each row. Nested lists are of this kind too: they hold labels, not zeros and
          ones;
        - a 1-d array, list or series of labels, each the only candidate of its row. A single
          column is taken for one, with a warning.
    n_samples : int or None, default=None
        The number of rows there must be.
    classes : array-like or None, default=None
        The labels of a fitted estimator. A matrix must have a column for each of them, and the
        columns of a data frame are found by their names.
    unknown : {"error", "ignore"}, default="error"
        What to do with labels that are not in `classes`. A row may lose all its labels to
        ``"ignore"``.
    allow_empty : bool, default=False
        Whether a row may come without candidates.

    Returns
    -------
    candidates : ndarray of bool, shape (n, q)
        C-contiguous, and never shares memory with `Y`.
    classes : ndarray, shape (q,)
        The label of each column; sorted when they were collected from the rows.

    Raises
    ------
    TypeError
        If `Y` is of no known form, or its labels cannot be sorted.
    ValueError
        If the contents of `Y` make no sense. The message says in which row and column.

    Examples
    --------
    >>> from hera_fast.candidates import check_candidates
    >>> candidates, classes = check_candidates([{"cat", "dog"}, {"dog"}, {"owl", "cat"}])
    >>> classes.tolist()
    ['cat', 'dog', 'owl']
    >>> candidates.astype(int)
    array([[1, 1, 0],
           [0, 1, 0],
           [1, 0, 1]])
    >>> check_candidates(["owl", "dog"], classes=classes)[0].astype(int)
    array([[0, 0, 1],
           [0, 1, 0]])
    """
    candidates, labels = _candidates(Y, n_samples, classes, unknown, allow_empty)
    return candidates.toarray() if sparse.issparse(candidates) else candidates, labels


def csr_candidates(
    Y: Any,
    *,
    n_samples: int | None = None,
    classes: Any = None,
    unknown: str = "error",
    allow_empty: bool = False,
) -> tuple[Any, _Array]:
    """Return the same as :func:`check_candidates`, the candidates as a sparse array.

    No array of n times q entries is made, unless `Y` is one.

    Parameters
    ----------
    Y, n_samples, classes, unknown, allow_empty
        As for :func:`check_candidates`.

    Returns
    -------
    candidates : csr_array of bool, shape (n, q)
        In canonical format, all entries True; never shares memory with `Y`.
    classes : ndarray, shape (q,)
        The label of each column.

    Examples
    --------
    >>> from hera_fast.candidates import csr_candidates
    >>> candidates, classes = csr_candidates([{"cat", "dog"}, {"dog"}, {"owl", "cat"}])
    >>> candidates.indices.tolist(), candidates.indptr.tolist()
    ([0, 1, 1, 0, 2], [0, 2, 3, 5])
    """
    candidates, labels = _candidates(Y, n_samples, classes, unknown, allow_empty)
    return sparse.csr_array(candidates), labels


def check_labels(labels: Any, *, classes: Any = None) -> tuple[_Array, _Array]:
    """Return the column of the label of each row, and the labels of the columns.

    Parameters
    ----------
    labels : array-like of shape (n,)
        One label for each row.
    classes : array-like or None, default=None
        The labels of the columns. None means all that occur, sorted.

    Returns
    -------
    columns : ndarray of shape (n,), integers
        Where each label is in `classes`.
    classes : ndarray of shape (q,)

    Raises
    ------
    TypeError, ValueError
        As :func:`check_candidates`, and if a row has several labels.

    Examples
    --------
    >>> from hera_fast.candidates import check_labels
    >>> columns, classes = check_labels(["owl", "cat", "owl"])
    >>> columns.tolist(), classes.tolist()
    ([1, 0, 1], ['cat', 'owl'])
    """
    one_hot, known = csr_candidates(labels, classes=classes)
    several = np.flatnonzero(np.diff(one_hot.indptr) != 1)
    if len(several):
        raise ValueError(f"there must be one label for each row, but row {several[0]} has several")
    return one_hot.indices.astype(np.intp), known


def _candidates(
    Y: Any, n_samples: int | None, classes: Any, unknown: str, allow_empty: bool
) -> tuple[Any, _Array]:
    """Return the candidates, dense if they were given so and else as CSR, and their labels."""
    if unknown not in ("error", "ignore"):
        raise ValueError(f"unknown must be 'error' or 'ignore', got {unknown!r}")
    if Y is None:
        raise ValueError(
            f"requires y to be passed, but the target y is None. Pass the candidates: {_FORMS}"
        )
    known = None if classes is None else _known_classes(classes)
    if sparse.issparse(Y):
        _check_shape(Y.shape, n_samples, known)
        candidates = _from_sparse(Y)
        known = np.arange(Y.shape[1]) if known is None else known
    elif isinstance(Y, (list, tuple)):
        return _from_rows(list(Y), n_samples, known, unknown, allow_empty)
    else:
        frame = as_frame(Y)
        if frame is None:
            array = _as_array(Y)
            names = list(Y.columns) if hasattr(Y, "columns") else None
        else:
            names, array = frame_cells(frame)
        is_series = len(getattr(Y, "shape", ())) == 1
        if is_series and array.ndim == 2:
            # A series of lists of one length.
            return _from_rows(list(array), n_samples, known, unknown, allow_empty)
        if array.ndim == 1 and array.dtype.kind in "OT":
            return _from_rows(list(array), n_samples, known, unknown, allow_empty)
        if array.ndim == 1:
            _check_count(len(array), n_samples)
            return _from_label_array(array, known, unknown)
        if array.ndim == 2 and _is_label_column(array, known):
            _check_count(len(array), n_samples)
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel().",
                DataConversionWarning,
                stacklevel=3,
            )
            return _candidates(array[:, 0], n_samples, known, unknown, allow_empty)
        _check_shape(array.shape, n_samples, known)
        candidates = _from_dense(array)
        if names is not None:
            candidates, known = _name_columns(candidates, names, known)
        known = np.arange(array.shape[1]) if known is None else known
    if not allow_empty:
        _refuse_empty(candidates.sum(axis=1) == 0)
    return candidates, known


def _as_array(Y: Any) -> _Array:
    if not hasattr(Y, "__array__") or isinstance(Y, np.generic):
        raise TypeError(f"candidates must be {_FORMS}; got {type(Y).__name__}")
    if np.ma.is_masked(Y):
        raise ValueError("candidates must not be masked: fill in or drop the masked entries")
    array = column_array(Y)
    if array.ndim == 0:
        raise TypeError(f"candidates must be {_FORMS}; got a single {array.dtype} value")
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: candidates must be {_FORMS}")
    return array


def _known_classes(classes: Any) -> _Array:
    known = classes if isinstance(classes, np.ndarray) else _label_array(list(classes))
    if known.ndim != 1 or len(set(_plain(known))) != len(known) or not len(known):
        raise ValueError("classes must be one or more labels, each once, in a 1-d array or list")
    return known


def _is_label_column(array: _Array, classes: _Array | None) -> bool:
    """With a single class, a column of bool is a candidate matrix like any other."""
    a_matrix = classes is not None and len(classes) == 1 and array.dtype == np.bool_
    return array.shape[1] == 1 and not a_matrix


def _check_count(n_rows: int, n_samples: int | None, n_columns: int | None = None) -> None:
    if n_samples is not None and n_rows != n_samples:
        message = f"found {n_rows} rows of candidates for {n_samples} rows of X"
        if n_columns == n_samples:
            message += f". Y has {n_columns} columns, so it looks transposed: pass Y.T"
        raise ValueError(message)
    if n_rows == 0:
        raise ValueError("there are no rows of candidates: at least 1 is needed")


def _check_shape(shape: tuple[int, ...], n_samples: int | None, classes: _Array | None) -> None:
    if len(shape) != 2:
        raise ValueError(f"candidates in {len(shape)} dimension(s) found: pass {_FORMS}")
    n_rows, n_columns = shape
    _check_count(n_rows, n_samples, n_columns)
    if n_columns == 0:
        raise ValueError(f"candidates of shape {shape} have no columns: one per label is needed")
    if classes is not None and n_columns != len(classes):
        raise ValueError(
            f"found {n_columns} columns of candidates, expected {len(classes)}: one for each class"
        )


def _from_sparse(Y: Any) -> Any:
    csr = Y.tocsr()
    if not csr.has_canonical_format:
        # Entries stored in parts count by their sum.
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.dtype.kind == "c":
        raise ValueError("Complex data not supported: candidates must be zeros and ones")
    ones = csr.data == 1
    wrong = np.flatnonzero(~(ones | (csr.data == 0)))
    if len(wrong):
        row = int(np.searchsorted(csr.indptr, wrong[0], "right")) - 1
        _refuse_entry(row, csr.indices[wrong[0]], csr.data[wrong[0]], len(wrong))
    candidates = sparse.csr_array((ones, csr.indices, csr.indptr), shape=Y.shape, copy=True)
    candidates.eliminate_zeros()
    return candidates


def _from_dense(array: _Array) -> _Array:
    if array.dtype == np.bool_:
        return np.array(array, order="C")
    if array.dtype.kind not in "biufO":
        raise ValueError(
            f"candidates must be zeros and ones, got a matrix of {array.dtype}. "
            f"{_LABEL_LISTS}, for example Y.tolist()"
        )
    ones, zeros = _equal(array, 1), _equal(array, 0)
    allowed = ones | zeros
    if not allowed.all():
        rows, columns = np.nonzero(~allowed)
        _refuse_entry(rows[0], columns[0], array[rows[0], columns[0]], len(rows))
    return np.ascontiguousarray(ones)


def _equal(array: _Array, number: int) -> _Array:
    """``array == number``, also for objects that do not want to be compared."""
    if array.dtype != np.object_:
        return np.asarray(array == number)
    same = np.zeros(array.size, np.bool_)
    for position, entry in enumerate(array.flat):
        try:
            same[position] = bool(entry == number)
        except (TypeError, ValueError):
            continue
    return same.reshape(array.shape)


def _refuse_entry(row: int, column: int, entry: Any, count: int) -> None:
    where = f"row {row}, column {column}"
    more = f" ({count - 1} more entries are wrong)" if count > 1 else ""
    if _is_missing(entry):
        raise ValueError(f"Input y contains NaN: candidates, {where}{more}. Write 0 or 1 there")
    raise ValueError(
        f"candidates must be 0 or 1, got {_shown(entry)} in {where}{more}. "
        f"{_LABEL_LISTS}, for example Y.tolist()"
    )


def _refuse_empty(empty: _Array) -> None:
    rows = np.flatnonzero(empty)
    if len(rows):
        shown = ", ".join(map(str, rows[:_SHOWN])) + (", ..." if len(rows) > _SHOWN else "")
        raise ValueError(
            f"{len(rows)} of {len(empty)} rows have no candidates: row {shown}. Drop them, or make "
            "every label a candidate where nothing is known"
        )


def _name_columns(
    candidates: _Array, names: list[Any], classes: _Array | None
) -> tuple[_Array, _Array]:
    """Put the columns of a data frame in the order of the classes."""
    position = {name: column for column, name in enumerate(names)}
    if len(position) < len(names):
        twice = next(name for column, name in enumerate(names) if position[name] != column)
        raise ValueError(f"two columns of the candidates have the name {twice!r}")
    if classes is None:
        return candidates, _label_array(names)
    labels = _plain(classes)
    missing = [label for label in labels if label not in position]
    if missing:
        raise ValueError(
            f"the candidates have no column {missing[0]!r}, which is one of the classes. Name the "
            "columns after the classes, or pass Y.to_numpy() with the columns in their order"
        )
    return np.ascontiguousarray(candidates[:, [position[label] for label in labels]]), classes


def _from_rows(
    rows: list[Any],
    n_samples: int | None,
    classes: _Array | None,
    unknown: str,
    allow_empty: bool,
) -> tuple[Any, _Array]:
    _check_count(len(rows), n_samples)
    sets = {kind for kind in set(map(type, rows)) if _holds_labels(kind)}
    if not sets:
        return _from_labels(rows, classes, unknown)
    other = next((row for row, labels in enumerate(rows) if type(labels) not in sets), None)
    if other is not None:
        if _is_missing(rows[other]):
            raise ValueError(
                f"row {other} of the candidates is missing ({rows[other]!r}). Drop it, or make "
                "every label a candidate where nothing is known"
            )
        raise TypeError(
            f"row {other} of the candidates is {rows[other]!r} ({type(rows[other]).__name__}), "
            "but other rows are sets or lists of labels: put it into a list as well"
        )
    if any(hasattr(kind, "__array__") for kind in sets):
        rows = [_array_row(row, labels) for row, labels in enumerate(rows)]
    lengths = np.fromiter(map(len, rows), np.intp, len(rows))
    flat = list(chain.from_iterable(rows))
    row_of = np.repeat(np.arange(len(rows)), lengths)
    distinct = _check_labels(flat, row_of)
    _refuse_fractions(flat, distinct, row_of)
    _refuse_nested_matrix(rows, lengths, distinct)
    if not allow_empty:
        _refuse_empty(lengths == 0)
    return _encode(flat, distinct, row_of, len(rows), classes, unknown)


def _holds_labels(kind: type) -> bool:
    """Whether the rows of this type are collections of labels, not labels."""
    if issubclass(kind, (str, bytes, bytearray, np.generic)):
        return False
    return issubclass(kind, (Set, Sequence)) or hasattr(kind, "__array__")


def _array_row(row: int, labels: Any) -> Iterable[Any]:
    if not hasattr(labels, "__array__"):
        return labels  # type: ignore[no-any-return]
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(
            f"row {row} of the candidates is an array with {array.ndim} dimension(s): "
            "pass the labels of a row as a set, a list or a 1-d array"
        )
    return _plain(array)


def _from_labels(labels: list[Any], classes: _Array | None, unknown: str) -> tuple[Any, _Array]:
    row_of = np.arange(len(labels))
    distinct = _check_labels(labels, row_of)
    if all(isinstance(label, str) for label in distinct) or all(map(_is_number, distinct)):
        array = _label_array(labels)
        if array.dtype != np.object_:
            return _from_label_array(array, classes, unknown)
    return _encode(labels, distinct, row_of, len(labels), classes, unknown)


def _from_label_array(array: _Array, classes: _Array | None, unknown: str) -> tuple[Any, _Array]:
    kind = array.dtype.kind
    if kind in "SV":
        raise TypeError(f"labels must be strings or numbers, got an array of {array.dtype}")
    if kind in "fmM":
        finite = np.isfinite(array)
        if not finite.all():
            row = int(np.argmin(finite))
            _refuse_label(array[row], row)
    if classes is None:
        check_classification_targets(array)
    distinct, codes = np.unique(array, return_inverse=True)
    rows = np.arange(len(array))
    if classes is None:
        return _mark(rows, codes, len(array), len(distinct)), distinct
    columns = _look_up(_plain(distinct), classes)[codes]
    return _encode_known(array, columns, rows, len(array), classes, unknown)


def _encode(
    flat: list[Any],
    distinct: set[Any],
    row_of: _Array,
    n_rows: int,
    classes: _Array | None,
    unknown: str,
) -> tuple[Any, _Array]:
    if classes is not None:
        return _encode_known(flat, _look_up(flat, classes), row_of, n_rows, classes, unknown)
    if not distinct:
        raise ValueError("no row of the candidates has a label: at least 1 is needed")
    try:
        labels = sorted(distinct)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in distinct}))
        raise TypeError(
            f"labels of different types ({kinds}) cannot be sorted: convert all of them to "
            "strings or all to numbers"
        ) from error
    position = {label: column for column, label in enumerate(labels)}
    codes = np.fromiter(map(position.__getitem__, flat), np.intp, len(flat))
    return _mark(row_of, codes, n_rows, len(labels)), _label_array(labels)


def _look_up(labels: list[Any], classes: _Array) -> _Array:
    """The column of each label, -1 for those that are not among the classes."""
    position = {label: column for column, label in enumerate(_plain(classes))}
    return np.fromiter((position.get(label, -1) for label in labels), np.intp, len(labels))


def _encode_known(
    labels: Any, columns: _Array, row_of: _Array, n_rows: int, classes: _Array, unknown: str
) -> tuple[Any, _Array]:
    found = columns >= 0
    if unknown == "error" and not found.all():
        first = int(np.argmin(found))
        shown = ", ".join(map(repr, _plain(classes)[:_SHOWN]))
        shown += ", ..." if len(classes) > _SHOWN else ""
        more = f" ({len(found) - found.sum() - 1} more are unknown)" if (~found).sum() > 1 else ""
        raise ValueError(
            f"row {row_of[first]} has the label {_shown(labels[first])}, which is none of the "
            f"{len(classes)} classes ({shown}){more}"
        )
    return _mark(row_of[found], columns[found], n_rows, len(classes)), classes


def _mark(rows: _Array, columns: _Array, n_rows: int, n_columns: int) -> Any:
    marks = np.ones(len(rows), np.bool_)
    # A label that a row names twice is marked once.
    return sparse.csr_array((marks, (rows, columns)), shape=(n_rows, n_columns))


def _check_labels(flat: list[Any], row_of: _Array) -> set[Any]:
    """Return the distinct labels after a look at what is among them."""
    for kind in set(map(type, flat)):
        if _holds_labels(kind) or not issubclass(kind, Hashable) or issubclass(kind, Mapping):
            where = next(i for i, label in enumerate(flat) if type(label) is kind)
            raise TypeError(
                f"row {row_of[where]} of the candidates has a {kind.__name__} where a label is "
                f"expected, which is a string or a number: pass {_FORMS}"
            )
    distinct = set(flat)
    # A set keeps the first of equal labels, so the row found is the first with that label.
    bad = {id(label) for label in distinct if not _is_allowed(label)}
    if bad:
        where = next(i for i, label in enumerate(flat) if id(label) in bad)
        _refuse_label(flat[where], row_of[where])
    return distinct


def _is_number(label: Any) -> bool:
    return isinstance(label, (Real, np.bool_))


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        # Missing values of data frames refuse to be compared.
        return True


def _is_allowed(label: Any) -> bool:
    if isinstance(label, str):
        return True
    if _is_missing(label) or isinstance(label, (bytes, bytearray)):
        return False
    if isinstance(label, (float, np.floating)):
        return math.isfinite(label)
    return not isinstance(label, Complex) or isinstance(label, Real)


def _refuse_label(label: Any, row: int) -> None:
    what = f"row {row} has the label {label!s}"
    if _is_missing(label):
        raise ValueError(f"Input y contains NaN: {what}. Drop the row, or name its candidates")
    if isinstance(label, (bytes, bytearray)):
        raise TypeError(f"labels must be strings or numbers, not bytes: {what}. Decode it")
    if isinstance(label, (float, np.floating)):
        raise ValueError(
            "Input y contains infinity or a value too large for "
            f"{np.asarray(label).dtype!r}: {what}"
        )
    raise ValueError(f"Complex data not supported: {what}")


def _refuse_fractions(flat: list[Any], distinct: set[Any], row_of: _Array) -> None:
    fractions = {
        id(label)
        for label in distinct
        if isinstance(label, (float, np.floating)) and label != math.floor(label)
    }
    if fractions:
        where = next(i for i, label in enumerate(flat) if id(label) in fractions)
        raise ValueError(
            f"Unknown label type: continuous. Row {row_of[where]} has the label {flat[where]!s}; "
            "labels must be strings or whole numbers"
        )


def _refuse_nested_matrix(rows: list[Any], lengths: _Array, distinct: set[Any]) -> None:
    """Zeros and ones in equally long rows, some of them twice in a row, are no labels."""
    if distinct <= {0, 1} and lengths.min() == lengths.max() >= 2:
        for row, labels in enumerate(rows):
            if len(set(labels)) < len(labels):
                raise ValueError(
                    f"row {row} has the same label twice, and all rows are equally long lists of "
                    "0 and 1: nested lists hold labels. To give a matrix, pass np.asarray(Y)"
                )


def _shown(entry: Any) -> str:
    """The entry without the name of its NumPy type."""
    number = isinstance(entry, np.generic) and not isinstance(entry, np.str_)
    return str(entry) if number else repr(str(entry) if isinstance(entry, str) else entry)


def _plain(labels: _Array) -> list[Any]:
    """Python objects to look up in a dictionary; dates would lose their unit."""
    return list(labels) if labels.dtype.kind in "mM" else labels.tolist()


def _label_array(labels: list[Any]) -> _Array:
    """An array of numbers or strings, or of objects where that would change a label."""
    if all(isinstance(label, str) for label in labels) or all(map(_is_number, labels)):
        array = np.asarray(labels)
        if array.tolist() == labels:
            return array
    array = np.empty(len(labels), np.object_)
    for position, label in enumerate(labels):
        array[position] = label
    return array
