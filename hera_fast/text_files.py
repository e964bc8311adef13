"""Partial-label data in CSV and TSV files.

The first line names the columns. One column holds the candidates of each row, joined by a
separator (``cat|dog``); another may hold the true label; all others are numbers, and empty cells
are missing values. Labels are text, also when they look like numbers.
"""

from __future__ import annotations

import csv
import io
import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from hera_fast.label_columns import (
    CANDIDATES,
    TARGET,
    candidates_of_cells,
    check_feature_names,
    find_columns,
    labels_of_rows,
    truth_of_labels,
)

__all__ = ["read_text", "write_text"]

_Array = np.ndarray[Any, Any]

_ROWS = 1000  # at once: the text of a number takes many times the memory of the number
_SHOWN = 20
_MISSING = ("", "na", "n/a", "nan", "null")  # as R, spreadsheets and databases write it
_DELIMITERS = ",;\t"
_LONGEST_CELL = 2**31 - 1  # the largest limit that the csv module takes on every system
_LIMIT = threading.Lock()


def read_text(
    file: BinaryIO,
    *,
    delimiter: str,
    candidate_column: str | None,
    target_column: str | None,
    separator: str,
    needs_candidates: bool = True,
) -> dict[str, Any]:
    r"""Read the parts of a data set from text.

    Parameters
    ----------
    file : binary file
        UTF-8, with or without byte order mark; quotes as in the :mod:`csv` module.
    delimiter : str
        What stands between the cells.
    candidate_column, target_column : str or None
        Names of the columns with labels, or None for ``"candidates"`` and ``"target"``, the
        latter of which may be absent.
    separator : str
        What stands between the labels of a cell.
    needs_candidates : bool, default=True
        Whether there must be a column with candidates.

    Returns
    -------
    parts : dict
        Arguments for :func:`hera_fast.bunch.make_bunch`.

    Raises
    ------
    ValueError
        If something is wrong; the message says in which line and column.

    Examples
    --------
    >>> import io
    >>> from hera_fast.text_files import read_text
    >>> file = io.BytesIO(b"length,candidates\n1.5,cat|dog\n,owl\n")
    >>> options = dict(candidate_column=None, target_column=None, separator="|")
    >>> parts = read_text(file, delimiter=",", **options)
    >>> parts["data"]
    array([[1.5],
           [nan]])
    >>> parts["target_names"]
    ['cat', 'dog', 'owl']
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        with _cells_of_any_length():
            header = next(reader, [])
            if not header:
                raise ValueError("line 1 is empty: it must name the columns")
            hint = ""
            if any(other in cell for cell in header for other in _DELIMITERS):
                hint = (
                    f"; they must be separated by {delimiter!r}, and this looks like another sign"
                )
            label_columns = find_columns(
                header,
                candidate_column,
                target_column,
                hint=hint,
                needs_candidates=needs_candidates,
            )
            return _read_rows(reader, header, label_columns, separator)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"line {_undecodable_line(file)} is not UTF-8 text. Save the file as UTF-8"
        ) from error
    finally:
        text.detach()


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """A row may have many candidates. The limit holds for the whole process."""
    with _LIMIT:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _read_rows(
    reader: Any, header: list[str], label_columns: tuple[int | None, int | None], separator: str
) -> dict[str, Any]:
    features = [name for column, name in enumerate(header) if column not in label_columns]
    blocks: list[_Array] = []
    lines: list[int] = []
    cells: dict[int, list[str]] = {column: [] for column in label_columns if column is not None}
    for rows, their_lines in _blocks(reader, len(header)):
        # From the right, so that the columns further left keep their numbers.
        for column in sorted(cells, reverse=True):
            cells[column] += [row.pop(column) for row in rows]
        blocks.append(_numbers(rows, their_lines, features))
        lines += their_lines
    if not lines:
        raise ValueError("there is no row below the header")

    def where(column: int) -> Any:
        return lambda row: f"line {lines[row]} (row {row}), column {header[column]!r}"

    candidate_column, target_column = label_columns
    candidates = labels = target = None
    if candidate_column is not None:
        candidates, labels = candidates_of_cells(
            cells[candidate_column], separator, where(candidate_column)
        )
    if target_column is not None:
        truth = [label.strip() for label in cells[target_column]]
        if labels is None:
            target, labels = labels_of_rows(truth, where(target_column))
        else:
            target = truth_of_labels(truth, labels, candidates, where(target_column))
    return {
        "data": np.concatenate(blocks),
        "candidates": candidates,
        "target": target,
        "target_names": labels,
        "feature_names": features,
    }


def _blocks(reader: Any, width: int) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Some rows at a time, and the lines where they begin. Empty lines are left out."""
    rows: list[list[str]] = []
    lines: list[int] = []
    line = reader.line_num + 1
    for row in reader:
        if row:
            if len(row) != width:
                raise ValueError(
                    f"line {line} has {len(row)} cells, but the header has {width} columns"
                )
            rows.append(row)
            lines.append(line)
            if len(rows) == _ROWS:
                yield rows, lines
                rows, lines = [], []
        line = reader.line_num + 1
    if rows:
        yield rows, lines


def _numbers(rows: list[list[str]], lines: list[int], names: list[str]) -> _Array:
    shape = len(rows), len(names)
    try:
        # For Python 1_000 is a number, for nobody else.
        if any("_" in "".join(row) for row in rows):
            raise ValueError
        numbers = np.fromiter(map(float, chain.from_iterable(rows)), np.float64, math.prod(shape))
    except ValueError:
        cells = (
            _number(cell, line, name)
            for row, line in zip(rows, lines, strict=True)
            for cell, name in zip(row, names, strict=True)
        )
        numbers = np.fromiter(cells, np.float64, math.prod(shape))
    numbers = numbers.reshape(shape)
    if np.isinf(numbers).any():
        row, column = np.argwhere(np.isinf(numbers))[0]
        raise ValueError(
            f"line {lines[row]}, column {names[column]!r}: {rows[row][column]!r} is infinite. "
            "Leave the cell empty if the value is missing"
        )
    return numbers


def _number(cell: str, line: int, name: str) -> float:
    if cell.strip().lower() in _MISSING:
        return math.nan
    try:
        if "_" in cell:
            raise ValueError
        return float(cell)
    except ValueError:
        raise ValueError(
            f"line {line}, column {name!r}: {cell!r} is not a number. Leave the cell empty if the "
            "value is missing, and the column out if it is no feature"
        ) from None


def _undecodable_line(file: BinaryIO) -> int:
    file.seek(0)
    return next(number for number, line in enumerate(file, start=1) if not _is_utf8(line))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def write_text(file: BinaryIO, bunch: Any, *, delimiter: str, separator: str) -> None:
    """Write a data set as text.

    Parameters
    ----------
    file : binary file
        Where to write.
    bunch : Bunch
        What :func:`hera_fast.bunch.make_bunch` returns.
    delimiter : str
        What stands between the cells.
    separator : str
        What stands between the labels of a cell.

    Raises
    ------
    ValueError
        If labels or names cannot be written so that they come back.

    Warns
    -----
    UserWarning
        If a label is no candidate of any row, so that it is not in the file.

    Examples
    --------
    >>> import io
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.text_files import write_text
    >>> file = io.BytesIO()
    >>> bunch = make_bunch([[1.5], [0.1]], [{"cat", "dog"}, {"owl"}])
    >>> write_text(file, bunch, delimiter=",", separator="|")
    >>> file.getvalue().decode().splitlines()
    ['candidates,x0', 'cat|dog,1.5', 'owl,0.1']
    """
    labels = [str(label) for label in bunch.target_names.tolist()]
    _check_labels(labels, separator)
    check_feature_names(bunch.feature_names)
    _warn_of_unused(bunch.candidates, labels)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    # Its line ends are those of RFC 4180; any line break within a cell is then quoted.
    writer = csv.writer(text, delimiter=delimiter)
    truth = [] if bunch.target is None else [TARGET]
    writer.writerow([CANDIDATES, *truth, *bunch.feature_names])
    for start in range(0, bunch.data.shape[0], _ROWS):
        stop = min(start + _ROWS, bunch.data.shape[0])
        data = bunch.data[start:stop]
        rows = (data.toarray() if sparse.issparse(data) else data).tolist()
        for row, numbers in enumerate(rows, start):
            own = bunch.candidates.indices[slice(*bunch.candidates.indptr[row : row + 2])]
            cell = separator.join([labels[column] for column in own])
            truth = [] if bunch.target is None else [labels[bunch.target[row]]]
            writer.writerow([cell, *truth, *numbers])
    text.flush()
    text.detach()


def _check_labels(labels: list[str], separator: str) -> None:
    for label in labels:
        # The end of a label and the beginning of what follows may look like the separator.
        if (label + separator).index(separator) < len(label):
            raise ValueError(
                f"the label {label!r} contains the separator {separator!r}, or makes one with it: "
                "choose another one"
            )
        if not label or label != label.strip():
            raise ValueError(
                f"the label {label!r} is empty or begins or ends with space, which text files do "
                "not keep: rename it, or write .npz"
            )


def _warn_of_unused(candidates: Any, labels: list[str]) -> None:
    unused = np.flatnonzero(np.bincount(candidates.indices, minlength=len(labels)) == 0)
    if len(unused):
        shown = ", ".join(repr(labels[column]) for column in unused[:_SHOWN])
        shown += ", ..." if len(unused) > _SHOWN else ""
        warnings.warn(
            f"{len(unused)} of {len(labels)} labels are candidates of no row, and a text file has "
            f"no place for them: {shown}. Write .npz, .mat or .parquet to keep them",
            UserWarning,
            stacklevel=4,
        )
