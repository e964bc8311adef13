"""Which variables of a MATLAB file are what, and which way round they are.

The usual layout is that of the PALM laboratory: ``data`` is n x d, ``partial_target`` is q x n and
``target`` is q x n, both with zeros and ones. Other files have their matrices the other way round,
the true labels as a vector, everything in one struct, or the names ``features``, ``p_labels`` and
``logitlabels``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.bunch import make_bunch

__all__ = ["NAMES", "Unreadable", "palm_parts"]

_Array = np.ndarray[Any, Any]

_SYNONYMS = {
    "data": ("data", "features"),
    "partial_target": ("partial_target", "p_labels"),
    "target": ("target", "logitlabels"),
    "target_names": ("target_names",),
    "feature_names": ("feature_names",),
    "DESCR": ("descr",),
}
# A way in which matrices are turned: whether the data have a column for each example, whether the
# candidates have a row for each, and whether the truth has "columns", "rows" or is a "vector".
_Way = tuple[bool, bool, str | None]
_USUAL, _ROWS, _COLUMNS = (False, False), (False, True), (True, False)
#: Names of all variables that matter, in lower case.
NAMES = frozenset(name for names in _SYNONYMS.values() for name in names)


class Unreadable(str):
    """Why a variable cannot be read; stands in its place.

    Examples
    --------
    >>> from hera_fast.palm_layout import Unreadable
    >>> print(Unreadable("it is a cell"))
    it is a cell
    """


def palm_parts(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Find the parts of a data set among the variables of a MATLAB file.

    Parameters
    ----------
    variables : dict
        Arrays and sparse matrices by name; lists of strings for cells of text, strings for text,
        dicts for structs, and :class:`Unreadable` for everything else.

    Returns
    -------
    parts : dict
        Arguments for :func:`hera_fast.bunch.make_bunch`.

    Raises
    ------
    ValueError
        If variables are missing, do not fit, or make sense in several ways of which none is the
        usual one.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.palm_layout import palm_parts
    >>> data, candidates = np.zeros((3, 5)), np.array([[1, 1, 0], [1, 0, 1]])
    >>> truth = np.array([[1, 1, 2]])
    >>> parts = palm_parts({"data": data, "partial_target": candidates, "target": truth})
    >>> parts["candidates"].toarray()
    array([[1, 1],
           [1, 0],
           [0, 1]])
    >>> parts["target"].tolist()
    [0, 0, 1]
    """
    fields = _fields(variables)
    data = _matrix(fields["data"], "data")
    candidates = _matrix(fields["partial_target"], "partial_target")
    target = None if fields["target"] is None else _matrix(fields["target"], "target")
    ways = _ways(data.shape, candidates.shape, None if target is None else target.shape)
    if not ways:
        shapes = f"data is {_by(data)}, partial_target is {_by(candidates)}"
        shapes += "" if target is None else f", target is {_by(target)}"
        raise ValueError(f"no number of rows and labels fits the variables: {shapes}")
    others = {
        "target_names": _names(fields["target_names"], "target_names"),
        "feature_names": _names(fields["feature_names"], "feature_names"),
        "DESCR": fields["DESCR"] if type(fields["DESCR"]) is str else "",
    }
    if len(ways) == 1:
        return {**_turned(data, candidates, target, *ways[0]), **others}
    return _sensible_parts((data, candidates, target), others, ways)


def _sensible_parts(
    matrices: tuple[Any, Any, Any], others: dict[str, Any], ways: list[_Way]
) -> dict[str, Any]:
    """The parts in the first way in which they make a data set."""
    found: dict[tuple[bool, bool], dict[str, Any]] = {}
    errors: list[Exception] = []
    for way in ways:
        try:
            parts = {**_turned(*matrices, *way), **others}
            make_bunch(**parts)
        except (TypeError, ValueError) as error:
            errors.append(error)
        else:
            found.setdefault(way[:2], parts)
    if not found:
        raise ValueError(
            f"{errors[0]}. The variables fit in several ways, none of which makes sense; this is "
            f"said of {_orientation(*ways[0][:2])}"
        ) from errors[0]
    # Either is as natural as the other.
    if found.keys() >= {_ROWS, _COLUMNS} and _USUAL not in found:
        raise ValueError(
            f"the variables make sense in two ways: {_orientation(*_ROWS)}, or "
            f"{_orientation(*_COLUMNS)}. Save {_orientation(*_USUAL)}"
        )
    return next(iter(found.values()))


def _orientation(data_turned: bool, candidates_turned: bool) -> str:
    data, candidates = "column" if data_turned else "row", "row" if candidates_turned else "column"
    return f"data with a {data} and partial_target with a {candidates} for each example"


def _fields(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables by what they are, from the file itself or from its only fitting struct."""
    fields = _known(variables)
    if fields["data"] is None or fields["partial_target"] is None:
        structs = {name: _known(v) for name, v in variables.items() if isinstance(v, Mapping)}
        fitting = [
            name
            for name, known in structs.items()
            if known["data"] is not None and known["partial_target"] is not None
        ]
        if len(fitting) > 1:
            raise ValueError(f"several structs hold data: {', '.join(fitting)}. Keep one of them")
        if not fitting:
            missing = "data" if fields["data"] is None else "partial_target"
            found = ", ".join(f"{name}{_reason(value)}" for name, value in variables.items())
            raise ValueError(
                f"there is no variable {missing!r}, and no struct with data and partial_target. "
                f"The variables are: {found or 'none'}"
            )
        fields = structs[fitting[0]]
    return fields


def _reason(value: Any) -> str:
    return f" ({value})" if isinstance(value, Unreadable) and value != "not needed" else ""


def _known(variables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(_SYNONYMS)
    for field, synonyms in _SYNONYMS.items():
        names = [name for name in variables if name.lower() in synonyms]
        if len(names) > 1:
            raise ValueError(
                f"the variables {names[0]!r} and {names[1]!r} are two names for one thing"
            )
        if names:
            found[field] = variables[names[0]]
    return found


def _matrix(value: Any, name: str) -> Any:
    if not (sparse.issparse(value) or isinstance(value, np.ndarray)):
        reason = str(value) if isinstance(value, Unreadable) else "it is text or a struct"
        raise ValueError(f"{name} is no matrix of numbers: {reason}")
    if value.ndim != 2 or value.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a matrix of real numbers, got {value.ndim} dimensions of {value.dtype}"
        )
    # The byte order of another machine is nothing for sparse matrices.
    return value.astype(value.dtype.newbyteorder("="), copy=False)


def _by(matrix: Any) -> str:
    return " x ".join(map(str, matrix.shape))


def _ways(
    data: tuple[int, int], candidates: tuple[int, int], target: tuple[int, int] | None
) -> list[_Way]:
    """All ways in which the shapes fit, the usual one first, the least usual one last."""
    ways: list[_Way] = []
    for data_turned, candidates_turned in product((False, True), repeat=2):
        n = data[1] if data_turned else data[0]
        q, n_candidates = candidates[::-1] if candidates_turned else candidates
        if n_candidates != n:
            continue
        forms = {"columns": [(q, n)], "rows": [(n, q)], "vector": [(1, n), (n, 1)]}
        fitting = [form for form, shapes in forms.items() if target in shapes]
        ways += [(data_turned, candidates_turned, form) for form in (fitting if target else [None])]
    return ways


def _turned(
    data: Any,
    candidates: Any,
    target: Any,
    data_turned: bool,
    candidates_turned: bool,
    form: str | None,
) -> dict[str, Any]:
    """Everything with a row for each example."""
    n = data.shape[1] if data_turned else data.shape[0]
    # A damaged file may claim any number of rows, and each takes memory.
    if sparse.issparse(candidates) and candidates.nnz < n:
        entries = sparse.coo_array(candidates)
        rows = np.unique(entries.row if candidates_turned else entries.col)
        empty = int(np.argmax(np.append(rows, -1) != np.arange(len(rows) + 1)))
        raise ValueError(
            f"partial_target has {candidates.nnz} entries for {n} rows: row {empty} has no "
            "candidates"
        )
    matrix = sparse.csr_array(candidates if candidates_turned else candidates.T)
    truth = None
    if form == "vector":
        truth = _truth_of_vector(target.toarray() if sparse.issparse(target) else target, matrix)
    elif form is not None:
        truth = _truth_of_matrix(sparse.csr_array(target if form == "rows" else target.T))
    return {"data": data.T if data_turned else data, "candidates": matrix, "target": truth}


def _truth_of_matrix(target: Any) -> _Array:
    target.sum_duplicates()
    target.eliminate_zeros()
    rows = np.repeat(np.arange(target.shape[0]), np.diff(target.indptr))
    wrong = np.flatnonzero(target.data != 1)
    if len(wrong):
        first = wrong[0]
        raise ValueError(
            f"target must be 0 or 1, got {target.data[first]} in row {rows[first]}, column "
            f"{target.indices[first]}"
        )
    counts = np.diff(target.indptr)
    if (counts != 1).any():
        row = int(np.argmax(counts != 1))
        raise ValueError(f"target has {counts[row]} true labels in row {row} instead of 1")
    return np.asarray(target.indices)


def _truth_of_vector(target: _Array, candidates: Any) -> _Array:
    """Columns from numbers that begin with 1, as in MATLAB, or with 0."""
    numbers = target.ravel()
    q = candidates.shape[1]
    possible = (numbers >= 0) & (numbers <= q) & (numbers == np.floor(numbers))
    if not possible.all():
        row = int(np.argmin(possible))
        raise ValueError(f"target is {numbers[row]} in row {row}, but there are {q} labels")
    columns = numbers.astype(np.int64)
    begins_with_0 = columns.min() == 0 or (
        columns.max() < q
        and not _all_among(columns - 1, candidates)
        and _all_among(columns, candidates)
    )
    return columns if begins_with_0 else columns - 1


def _all_among(columns: _Array, candidates: Any) -> bool:
    chosen = candidates[np.arange(len(columns)), columns]
    return bool(np.asarray(chosen).all())


def _names(value: Any, what: str) -> Any:
    """Names of labels or features: a cell of strings, rows of text, or integers."""
    if value is None or isinstance(value, list):
        return value
    if type(value) is str:
        return [value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and 1 in value.shape:
        return value.ravel()
    raise ValueError(f"{what} must be a cell of strings, or integers")
