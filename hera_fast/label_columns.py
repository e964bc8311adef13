"""The columns of a table that hold labels: found, split, and turned into a candidate matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "CANDIDATES",
    "TARGET",
    "candidates_of_cells",
    "check_feature_names",
    "find_columns",
    "labels_of_rows",
    "sorted_labels",
    "truth_of_labels",
]

_Array = np.ndarray[Any, Any]

#: The names of the columns with labels, unless told otherwise.
CANDIDATES, TARGET = "candidates", "target"

_SHOWN = 5
_SHOWN_COLUMNS = 20
_NO_TRUTH = "the true label is missing. Give it in every row, or leave out the whole column"
_OPTIONS = {"candidate": "candidates NAME", "target": "target NAME"}
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def find_columns(
    header: list[str],
    candidate_column: str | None,
    target_column: str | None,
    *,
    hint: str = "",
    needs_candidates: bool = True,
) -> tuple[int | None, int | None]:
    """Where the candidates and, if there is one, the true label are among the columns.

    Parameters
    ----------
    header : list of str
        The names of all columns.
    candidate_column, target_column : str or None
        Their names, or None for ``"candidates"`` and, if there is one, ``"target"``.
    hint : str, default=""
        What is to be said when a column is missing.
    needs_candidates : bool, default=True
        Whether there must be candidates, if `candidate_column` is None.

    Returns
    -------
    candidates, target : int or None
        Their places; None for what is not there.

    Raises
    ------
    ValueError
        If a column is missing, two have the same name, or none is left for the features.

    Examples
    --------
    >>> from hera_fast.label_columns import find_columns
    >>> find_columns(["target", "x", "candidates"], None, None)
    (2, 0)
    """
    position: dict[str, int] = {}
    for column, name in enumerate(header):
        if not name.strip():
            raise ValueError(
                f"column {column} of the header has no name. If it is the index of a data frame, "
                "write the file without it (index=False)"
            )
        if name in position:
            raise ValueError(f"the header has the column {name!r} more than once")
        position[name] = column
    if candidate_column is None and (needs_candidates or CANDIDATES in position):
        candidate_column = CANDIDATES
    if target_column is None and TARGET in position and candidate_column != TARGET:
        target_column = TARGET
    wanted = [name for name in (candidate_column, target_column) if name is not None]
    for name in wanted:
        if name not in position:
            shown = ", ".join(map(repr, header[:_SHOWN_COLUMNS])) + (
                ", ..." if header[_SHOWN_COLUMNS:] else ""
            )
            option = "target" if name == target_column else "candidate"
            raise ValueError(
                f"there is no column {name!r}. The columns are {shown}{hint}. Name the right one: "
                f"{option}_column=..., on the command line --{_OPTIONS[option]}"
            )
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"the column {wanted[0]!r} cannot be both the candidates and the truth")
    if len(header) == len(wanted):
        raise ValueError("there is no column with a feature")
    return (
        None if candidate_column is None else position[candidate_column],
        None if target_column is None else position[target_column],
    )


def check_feature_names(names: list[str]) -> None:
    """Refuse names of features that :func:`find_columns` would not find again.

    Parameters
    ----------
    names : list of str
        The names.

    Raises
    ------
    ValueError
        If a name is empty or is that of a column with labels.

    Examples
    --------
    >>> from hera_fast.label_columns import check_feature_names
    >>> check_feature_names(["height", "target"])
    Traceback (most recent call last):
        ...
    ValueError: a feature has the name 'target', which the labels need: rename it
    """
    for name in names:
        if name in (CANDIDATES, TARGET):
            raise ValueError(f"a feature has the name {name!r}, which the labels need: rename it")
        if not name.strip():
            raise ValueError(f"a feature has the name {name!r}, but columns of a table need names")


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """Distinct labels in the order of their columns.

    Parameters
    ----------
    labels : iterable of str
        The labels.

    Returns
    -------
    labels : list of str
        In the order of the numbers if all of them are integers, else in that of the strings.

    Examples
    --------
    >>> from hera_fast.label_columns import sorted_labels
    >>> sorted_labels(["10", "9", "10"]), sorted_labels(["10", "9", "a"])
    (['9', '10'], ['10', '9', 'a'])
    """
    distinct = set(labels)
    are_integers = all(map(_INTEGER.fullmatch, distinct))
    return sorted(distinct, key=int) if are_integers else sorted(distinct)


def candidates_of_cells(
    cells: Sequence[str], separator: str, where: Callable[[int], str]
) -> tuple[Any, list[str]]:
    """Candidates from cells such as ``"cat|dog"``.

    Parameters
    ----------
    cells : sequence of str
        The labels of each row. Space around a label does not belong to it.
    separator : str
        What stands between labels.
    where : callable
        Says where a row is, for error messages.

    Returns
    -------
    candidates : csr_array of bool, shape (n, q)
        In canonical format.
    labels : list of str
        The label of each column.

    Raises
    ------
    ValueError
        If a row has no labels, or an empty one.

    Examples
    --------
    >>> from hera_fast.label_columns import candidates_of_cells
    >>> candidates, labels = candidates_of_cells(["cat|dog", "owl"], "|", "row {}".format)
    >>> labels
    ['cat', 'dog', 'owl']
    >>> candidates.toarray().astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    # Many rows have the same candidates.
    place = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    sets = [{label.strip() for label in cell.split(separator)} for cell in place]
    bad = next((cell for cell, labels in zip(place, sets, strict=True) if "" in labels), None)
    if bad is not None:
        row = list(cells).index(bad)
        what = f"is an empty label in {bad!r}" if bad.strip() else "are no candidates"
        raise ValueError(f"{where(row)}: there {what}. Name at least one label, or drop the row")
    labels = sorted_labels(label for each in sets for label in each)
    column = {label: number for number, label in enumerate(labels)}
    indices = [number for each in sets for number in sorted(column[label] for label in each)]
    indptr = np.cumsum([0, *map(len, sets)])
    distinct = sparse.csr_array(
        (np.ones(len(indices), np.bool_), indices, indptr), shape=(len(sets), len(labels))
    )
    return distinct[[place[cell] for cell in cells]], labels


def labels_of_rows(truth: Sequence[Any], where: Callable[[int], str]) -> tuple[_Array, list[Any]]:
    """The column of each row's true label where there are no candidates, and the labels.

    Parameters
    ----------
    truth : sequence of str or int
        The true label of each row.
    where : callable
        Says where a row is, for error messages.

    Returns
    -------
    columns : ndarray of int64, shape (n,)
        Where the true labels are among the labels.
    labels : list of str or int
        Those that occur, in order.

    Raises
    ------
    ValueError
        If the true label of a row is missing.

    Examples
    --------
    >>> from hera_fast.label_columns import labels_of_rows
    >>> columns, labels = labels_of_rows(["owl", "cat", "owl"], "row {}".format)
    >>> columns.tolist(), labels
    ([1, 0, 1], ['cat', 'owl'])
    """
    missing = next((row for row, label in enumerate(truth) if label in ("", None)), None)
    if missing is not None:
        raise ValueError(f"{where(missing)}: {_NO_TRUTH}")
    is_text = isinstance(truth[0], str)
    labels = sorted_labels(truth) if is_text else sorted(set(truth))
    place = {label: column for column, label in enumerate(labels)}
    return np.fromiter((place[label] for label in truth), np.int64, len(truth)), labels


def truth_of_labels(
    truth: Sequence[Any], labels: Sequence[Any], candidates: Any, where: Callable[[int], str]
) -> _Array:
    """The column of each row's true label.

    Parameters
    ----------
    truth : sequence of str or int
        The true label of each row.
    labels : sequence of str or int
        The label of each column.
    candidates : csr_array of bool, shape (n, q)
        The candidates.
    where : callable
        Says where a row is, for error messages.

    Returns
    -------
    columns : ndarray of int64, shape (n,)
        Where the true labels are in `labels`.

    Raises
    ------
    ValueError
        If the true label of a row is not among its candidates.

    Examples
    --------
    >>> from hera_fast.label_columns import candidates_of_cells, truth_of_labels
    >>> candidates, labels = candidates_of_cells(["cat|dog", "owl"], "|", "row {}".format)
    >>> truth_of_labels(["dog", "owl"], labels, candidates, "row {}".format).tolist()
    [1, 2]
    >>> truth_of_labels(["owl", "owl"], labels, candidates, "row {}".format)
    Traceback (most recent call last):
        ...
    ValueError: row 0: the true label is 'owl', which is not among the candidates 'cat', 'dog'
    """
    place = {label: column for column, label in enumerate(labels)}
    columns = np.fromiter((place.get(label, -1) for label in truth), np.int64, len(truth))
    rows = np.arange(len(columns))
    wrong = (columns < 0) | ~np.asarray(candidates[rows, np.maximum(columns, 0)], np.bool_)
    if wrong.any():
        row = int(np.argmax(wrong))
        if truth[row] in ("", None):
            raise ValueError(f"{where(row)}: {_NO_TRUTH}")
        own = candidates.indices[candidates.indptr[row] : candidates.indptr[row + 1]]
        shown = ", ".join(repr(labels[column]) for column in own[:_SHOWN])
        shown += ", ..." if len(own) > _SHOWN else ""
        raise ValueError(
            f"{where(row)}: the true label is {truth[row]!r}, which is not among the candidates "
            f"{shown}"
        )
    return columns
