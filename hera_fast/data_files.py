"""Partial-label data sets in files: one function reads every format, one writes them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from hera_fast.atomic import replacing
from hera_fast.bunch import make_bunch
from hera_fast.label_columns import truth_of_labels
from hera_fast.matlab_files import read_matlab, write_matlab
from hera_fast.npz_files import read_npz, write_npz
from hera_fast.parquet_files import read_parquet, write_parquet
from hera_fast.svmlight_files import read_svmlight
from hera_fast.text_files import read_text, write_text

__all__ = ["load_partial_labels", "save_partial_labels"]

_Array = np.ndarray[Any, Any]
_Path = str | os.PathLike[str]

_FIELDS = ("data", "candidates", "target", "target_names", "feature_names", "DESCR")

# Formats with columns: these alone need to know which of them hold labels.
_READ_TABLE: dict[str, Callable[..., dict[str, Any]]] = {
    ".csv": partial(read_text, delimiter=","),
    ".parquet": read_parquet,
    ".tsv": partial(read_text, delimiter="\t"),
}
_READ: dict[str, Callable[..., dict[str, Any]]] = {
    ".libsvm": read_svmlight,
    ".mat": read_matlab,
    ".npz": read_npz,
    ".svm": read_svmlight,
    ".svmlight": read_svmlight,
}
_WRITE_TEXT: dict[str, Callable[..., None]] = {
    ".csv": partial(write_text, delimiter=","),
    ".tsv": partial(write_text, delimiter="\t"),
}
_WRITE: dict[str, Callable[[BinaryIO, Any], None]] = {
    ".mat": write_matlab,
    ".npz": write_npz,
    ".parquet": write_parquet,
}


def load_partial_labels(
    path: _Path,
    *,
    candidate_column: str | None = None,
    target_column: str | None = None,
    separator: str = "|",
    needs_candidates: bool = True,
) -> Bunch:
    r"""Read a partial-label data set from a file.

    The end of the file name says what the file is:

    ``.mat``
        MATLAB, any version from 5 on, in the layout of the PALM laboratory: ``data`` (n x d),
        ``partial_target`` (q x n) and, if known, ``target`` (q x n). Matrices may be sparse or the
        other way round, the truth may be a vector of label numbers, and all of them may be fields
        of a struct. Version 7.3 needs h5py.
    ``.npz``
        NumPy arrays ``X`` or ``data``, ``Y`` or ``candidates`` and, if known, ``y`` or ``target``;
        see :mod:`hera_fast.npz_files` for all of them. Without candidates it is ordinary
        supervised data, and every true label is the only candidate.
    ``.csv``, ``.tsv``
        Text, UTF-8, with the names of the columns in the first line: one column with the
        candidates, such as ``cat|dog``, one with the truth, if known, and numbers in all others.
        Empty cells are missing values. Labels are text and sorted; if all of them are integers,
        in the order of the numbers.
    ``.parquet``
        The same columns; the candidates may also be lists. Needs pyarrow.
    ``.svm``, ``.svmlight``, ``.libsvm``
        ``1,3 1:0.5 4:2``: candidates, which are integers, and features that are not zero.

    Nothing in a file is ever run: it is safe to read files from strangers.

    Parameters
    ----------
    path : str or path
        Name of the file.
    candidate_column : str or None, default=None
        In a table, the column with the candidates. By default ``"candidates"``.
    target_column : str or None, default=None
        In a table, the column with the true label. By default ``"target"``, if there is one.
    separator : str, default="|"
        In a table, what stands between the candidates of a row.
    needs_candidates : bool, default=True
        False is for new rows, which may come without candidates: then ``candidates`` is None,
        and so is ``target_names`` unless the truth is known. MATLAB files always need them.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With ``data``, ``candidates``, ``target``, ``target_names``, ``feature_names`` and
        ``DESCR``, see :func:`hera_fast.bunch.make_bunch`. The target holds columns of the
        candidates: fit with ``fit(data, candidates)``, score with ``score(data, target)``, and
        find names in ``target_names[target]``.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ImportError
        If the format needs a package that is not installed.
    ValueError
        If the contents make no sense. The message names the file and where in it the fault is.

    See Also
    --------
    save_partial_labels : Writes such files.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast.data_files import load_partial_labels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "animals.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("weight,legs,candidates\n4.5,4,cat|dog\n0.4,2,owl\n")
    ...     animals = load_partial_labels(path)
    >>> animals.data
    array([[4.5, 4. ],
           [0.4, 2. ]])
    >>> animals.target_names.tolist()
    ['cat', 'dog', 'owl']
    >>> animals.candidates.toarray().astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    name, suffix = _name_and_suffix(path, _READ | _READ_TABLE)
    _check_separator(separator)
    if suffix in _READ_TABLE:
        read: Callable[..., dict[str, Any]] = partial(
            _READ_TABLE[suffix],
            candidate_column=candidate_column,
            target_column=target_column,
            separator=separator,
        )
    elif candidate_column is not None or target_column is not None:
        raise ValueError(
            f"{name}: candidate_column and target_column are for {_listed(_READ_TABLE)} files"
        )
    else:
        read = _READ[suffix]
    if not needs_candidates and suffix != ".mat":
        read = partial(read, needs_candidates=False)
    parts = _read(name, suffix, read)
    try:
        return make_bunch(**parts, source=name, needs_candidates=needs_candidates)
    except TypeError as error:
        # Of a file, wrong types are wrong contents.
        raise ValueError(str(error)) from error


def _name_and_suffix(path: _Path, known: Iterable[str]) -> tuple[str, str]:
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"path must be a string or a path, got {type(path).__name__}")
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in known:
        raise ValueError(f"{name}: the file name must end with {_listed(known)}")
    return name, suffix


def _listed(suffixes: Iterable[str]) -> str:
    *others, last = sorted(suffixes)
    return f"{', '.join(others)} or {last}"


def _check_separator(separator: str) -> None:
    if not isinstance(separator, str):
        raise TypeError(f"separator must be a string, got {type(separator).__name__}")
    if not separator:
        raise ValueError("separator must not be empty")


def _read(name: str, suffix: str, read: Callable[[BinaryIO], dict[str, Any]]) -> dict[str, Any]:
    if os.path.isdir(name):
        raise IsADirectoryError(errno.EISDIR, "a data set is read from a file", name)
    with open(name, "rb") as file:
        try:
            return read(file)
        except MemoryError:
            raise
        except ImportError as error:
            raise ImportError(f"{name}: {error}", name=error.name) from error
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        except Exception as error:
            # Trouble with the disk is not the file's, but a wrong offset makes seeking fail.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            # The libraries have many ways to fail on damaged files, and they differ by version.
            raise ValueError(
                f"{name}: it is no intact {suffix} file ({type(error).__name__}: {error})"
            ) from error


def save_partial_labels(
    path: _Path,
    data: Any,
    candidates: Any = None,
    target: Any = None,
    *,
    target_names: Any = None,
    feature_names: Any = None,
    DESCR: str = "",
    separator: str = "|",
) -> None:
    """Write a partial-label data set to a file that :func:`load_partial_labels` reads.

    The file appears under its name when it is complete; until then, and if anything goes wrong, a
    file that was there before stays as it is. The end of its name says what is written:

    ========================  =============================================================
    file                      what comes back
    ========================  =============================================================
    ``.npz``                  everything, bit by bit
    ``.mat``                  everything; sparse float32 comes back as float64. In the layout
                              of the PALM laboratory, which other programs read too
    ``.parquet``              everything; sparse data come back dense. Needs pyarrow
    ``.csv``, ``.tsv``        data with the same values, but dense and as float64; labels as
                              text and sorted; no description. Labels that are candidates of no
                              row are left out, with a warning
    ========================  =============================================================

    Parameters
    ----------
    path : str or path
        Name of the file. Its folder must exist.
    data : Bunch, array, data frame or sparse matrix
        A data set as :func:`load_partial_labels` returns it, and nothing else; or its features,
        of shape (n, d), where NaN is a missing value.
    candidates : array, data frame, sparse matrix or sequence
        The candidate labels of each row, in any form that :meth:`HERAClassifier.fit` takes.
    target : array-like, shape (n,), or None, default=None
        The true label of each row, if known. When the candidates are a matrix without names,
        numbers are columns of it.
    target_names : array-like of str or int, shape (q,), or None, default=None
        The labels, one for each column of the candidates. By default those that the candidates
        bring along, and ``"0", "1", ...`` when they are a matrix without names.
    feature_names : array-like of str, shape (d,), or None, default=None
        By default the names of the columns of a data frame, else ``"x0", "x1", ...``.
    DESCR : str, default=""
        What is to be said about the data set.
    separator : str, default="|"
        In a text file, what stands between the candidates of a row.

    Raises
    ------
    TypeError
        If something is of the wrong type.
    ValueError
        If the parts do not fit together, or the format has no place for something.
    OSError
        If the file cannot be written.
    ImportError
        If the format needs a package that is not installed.

    See Also
    --------
    load_partial_labels : Reads such files.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast.data_files import load_partial_labels, save_partial_labels
    >>> X, Y, y = [[4.5, 4], [0.4, 2]], [{"cat", "dog"}, {"owl"}], ["dog", "owl"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "animals.mat")
    ...     save_partial_labels(path, X, Y, y, feature_names=["weight", "legs"])
    ...     animals = load_partial_labels(path)
    >>> animals.target_names[animals.target].tolist()
    ['dog', 'owl']
    >>> animals.feature_names
    ['weight', 'legs']
    """
    name, suffix = _name_and_suffix(path, _READ | _READ_TABLE)
    if suffix not in _WRITE and suffix not in _WRITE_TEXT:
        raise ValueError(
            f"{name}: {suffix} files are only read; write {_listed(_WRITE | _WRITE_TEXT)}"
        )
    _check_separator(separator)
    if isinstance(data, Bunch):
        if not (candidates is target is target_names is feature_names is None and DESCR == ""):
            raise TypeError("a Bunch holds the whole data set: pass nothing else")
        for field in ("data", "candidates"):
            if field not in data:
                raise ValueError(
                    f"the Bunch has no {field!r}: pass the parts of the data set instead"
                )
        bunch = make_bunch(**{field: data[field] for field in _FIELDS if field in data})
    else:
        bunch = _bunch_of(data, candidates, target, target_names, feature_names, DESCR)
    _check_encodable(bunch)
    with replacing(path, "data set") as file:
        if suffix in _WRITE_TEXT:
            _WRITE_TEXT[suffix](file, bunch, separator=separator)
        else:
            _WRITE[suffix](file, bunch)


def _bunch_of(
    data: Any, candidates: Any, target: Any, target_names: Any, feature_names: Any, DESCR: str
) -> Bunch:
    bunch = make_bunch(
        data,
        candidates,
        target_names=target_names,
        feature_names=feature_names,
        DESCR=DESCR,
    )
    if target is not None:
        truth = np.asarray(target)
        if truth.shape != bunch.data.shape[:1]:
            raise ValueError(f"target has shape {truth.shape} for {bunch.data.shape[0]} rows")
        is_matrix = sparse.issparse(candidates) or getattr(candidates, "ndim", 0) == 2
        is_named = hasattr(candidates, "columns")
        if is_matrix and not is_named and truth.dtype.kind in "iuf":
            truth = _columns(truth)
        else:
            labels = bunch.target_names.tolist()
            truth = truth_of_labels(truth.tolist(), labels, bunch.candidates, "row {}".format)
        bunch = make_bunch(**{**bunch, "target": truth})
    return bunch


def _columns(truth: _Array) -> _Array:
    """Columns as integers, also where they were computed or loaded as floats."""
    if truth.dtype.kind == "f":
        whole = (truth == np.floor(truth)) & (np.abs(truth) < 2**53)
        if not whole.all():
            row = int(np.argmin(whole))
            raise ValueError(
                f"target of row {row} is {truth[row]}: where the candidates are a matrix without "
                "names, numbers are columns of it, so they must be integers"
            )
        truth = truth.astype(np.int64)
    return truth


def _check_encodable(bunch: Bunch) -> None:
    for name in (*bunch.target_names.tolist(), *bunch.feature_names, bunch.DESCR):
        try:
            str(name).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name!r} is no valid text: {error.reason}") from None
    # The names were checked with the bunch.
    if "\0" in bunch.DESCR:
        raise ValueError("DESCR has a null character, which not every file keeps: remove it")
