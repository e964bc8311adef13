"""Partial-label data in svmlight files: ``1,3 1:0.5 4:2 # comment``.

Every line holds the candidates of a row, as integers with commas between them, and its features
that are not zero, as ``index:value`` in ascending order. Indices begin with 1, unless there is a 0.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

__all__ = ["read_svmlight"]

_Array = np.ndarray[Any, Any]

_LARGEST_INDEX = 2**31 - 1
_LARGEST_LABEL = 2.0**53  # the parser reads them as floats


def read_svmlight(file: BinaryIO, *, needs_candidates: bool = True) -> dict[str, Any]:
    r"""Read the parts of a data set from an svmlight file.

    Parameters
    ----------
    file : binary file
        The file.
    needs_candidates : bool, default=True
        Whether there must be candidates. With False, no line may have any.

    Returns
    -------
    parts : dict
        Arguments for :func:`hera_fast.bunch.make_bunch`; the data are sparse.

    Raises
    ------
    ValueError
        If a line makes no sense; the message says which.

    Examples
    --------
    >>> import io
    >>> from hera_fast.svmlight_files import read_svmlight
    >>> parts = read_svmlight(io.BytesIO(b"1,3 1:0.5 3:2 # two candidates\n3 2:1\n"))
    >>> parts["data"].toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    >>> parts["target_names"]
    array([1, 3])
    """
    try:
        data, labels = load_svmlight_file(file, multilabel=True, zero_based="auto")
        flat = np.fromiter(chain.from_iterable(labels), np.float64)
        is_whole = all(labels) or not (needs_candidates or any(labels))
        if not (is_whole and _are_integers(flat) and not np.isinf(data.data).any()):
            raise ValueError("some line makes no sense")
    except Exception as error:
        # Its parser does not say where, and raises whatever a conversion raises.
        file.seek(0)
        _refuse_first_wrong_line(file, needs_candidates)
        raise ValueError(f"it is no svmlight file ({error})") from error
    if not data.nnz:
        raise ValueError("no line has a feature")
    if not len(flat):
        _refuse_empty_lines(file, data.shape[0])
        return {"data": data, "candidates": None}
    names, columns = np.unique(flat.astype(np.int64), return_inverse=True)
    indptr = np.cumsum([0, *map(len, labels)])
    candidates = sparse.csr_array(
        (np.ones(len(columns), np.bool_), columns, indptr), shape=(len(labels), len(names))
    )
    return {"data": data, "candidates": candidates, "target_names": names}


def _refuse_empty_lines(file: BinaryIO, n_rows: int) -> None:
    """Refuse lines that may be rows of zeros: without labels the parser passes over them."""
    file.seek(0)
    empty = [number for number, line in enumerate(file, start=1) if not line.split()]
    if empty and empty[0] <= n_rows:
        raise ValueError(
            f"line {empty[0]} is empty. If it is a row of zeros, write a zero, such as 1:0; "
            "otherwise remove it"
        )


def _are_integers(labels: _Array) -> bool:
    return bool(((np.abs(labels) <= _LARGEST_LABEL) & (labels == np.floor(labels))).all())


def _refuse_first_wrong_line(file: BinaryIO, needs_candidates: bool) -> None:
    has_candidates = True if needs_candidates else None
    for number, line in enumerate(file, start=1):
        words = line.partition(b"#")[0].split()
        if words and has_candidates is None:
            # The first line decides for all.
            has_candidates = b":" not in words[0]
        fault = _fault(words if has_candidates else [b"0", *words])
        if fault:
            raise ValueError(f"line {number}: {fault}")


def _fault(words: list[bytes]) -> str | None:
    """What is wrong with a line, if anything."""
    if not words:
        return None
    labels, *features = words
    if b":" in labels:
        return "there are no candidates before the features"
    for label in labels.split(b","):
        number = _float(label)
        if number is None or not _are_integers(np.array(number)):
            return f"the label {_shown(label)} is not an integer"
    if features and features[0].startswith(b"qid:"):
        del features[0]
    previous = -1
    for feature in features:
        index, _, value = feature.partition(b":")
        if not index.isdigit() or not value:
            return f"{_shown(feature)} is not of the form index:value"
        if int(index) > _LARGEST_INDEX:
            return f"the index of {_shown(feature)} is larger than {_LARGEST_INDEX}"
        if int(index) <= previous:
            return f"the indices must ascend, but {_shown(feature)} follows {previous}"
        number = _float(value)
        if number is None or math.isinf(number):
            return f"the value of {_shown(feature)} is not a finite number"
        previous = int(index)
    return None


def _float(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="replace"))
