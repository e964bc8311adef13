"""Partial-label data in Parquet files.

The columns are as in CSV files, with labels that are text. The candidates may also be a list of
strings or integers for each row; then these are the labels. What the columns cannot tell (the order
of the labels, labels that are candidates of no row, the description) is kept in the metadata of the
file, under the key ``hera-fast``, as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from hera_fast.expansion import check_expansion
from hera_fast.extras import require
from hera_fast.label_columns import (
    CANDIDATES,
    TARGET,
    candidates_of_cells,
    check_feature_names,
    find_columns,
    labels_of_rows,
    sorted_labels,
    truth_of_labels,
)

__all__ = ["read_parquet", "write_parquet"]

_Array = np.ndarray[Any, Any]

_KEY = b"hera-fast"


def read_parquet(
    file: BinaryIO,
    *,
    candidate_column: str | None,
    target_column: str | None,
    separator: str,
    needs_candidates: bool = True,
) -> dict[str, Any]:
    """Read the parts of a data set from a Parquet file.

    Parameters
    ----------
    file : binary file
        The file.
    candidate_column, target_column : str or None
        Names of the columns with labels, or None for ``"candidates"`` and ``"target"``, the
        latter of which may be absent.
    separator : str
        What stands between the labels where the candidates are strings.
    needs_candidates : bool, default=True
        Whether there must be a column with candidates.

    Returns
    -------
    parts : dict
        Arguments for :func:`hera_fast.bunch.make_bunch`.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If something is wrong; the message says in which row and column.

    Examples
    --------
    >>> import io
    >>> import pyarrow, pyarrow.parquet
    >>> from hera_fast.parquet_files import read_parquet
    >>> file = io.BytesIO()
    >>> table = pyarrow.table({"length": [1.5, None], "candidates": [["cat", "dog"], ["owl"]]})
    >>> pyarrow.parquet.write_table(table, file)
    >>> parts = read_parquet(file, candidate_column=None, target_column=None, separator="|")
    >>> parts["target_names"]
    ['cat', 'dog', 'owl']
    >>> parts["data"]
    array([[1.5],
           [nan]])
    """
    opened = _pyarrow("pyarrow.parquet").ParquetFile(file)
    schema, metadata = opened.schema_arrow, opened.metadata
    # pandas writes the index as a column of its own.
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    candidate_name, target_name = (
        None if column is None else names[column]
        for column in find_columns(
            names, candidate_column, target_column, needs_candidates=needs_candidates
        )
    )
    features = [name for name in names if name not in (candidate_name, target_name)]
    _check_features(schema, features)
    check_expansion(_unfolded(metadata), file.seek(0, os.SEEK_END), "the table")
    if not metadata.num_rows:
        raise ValueError("there is no row in the table")
    table = _read_table(file, metadata, names).select(names)
    saved = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
    candidates = labels = target = None
    if candidate_name is not None:
        candidates, labels = _candidates(
            table.column(candidate_name),
            separator,
            saved.get("target_names"),
            _where(candidate_name),
        )
    if target_name is not None:
        truth = _entries(table.column(target_name))
        if _is_text(table.schema.field(candidate_name or target_name).type):
            truth = ["" if label is None else str(label).strip() for label in truth]
        if labels is None:
            target, labels = labels_of_rows(truth, _where(target_name))
        else:
            target = truth_of_labels(truth, labels, candidates, _where(target_name))
    return {
        "data": _numbers(table.select(features)),
        "candidates": candidates,
        "target": target,
        "target_names": labels,
        "feature_names": features,
        "DESCR": saved.get("DESCR", ""),
    }


def _pyarrow(module: str) -> Any:
    return require(module, "files", "a Parquet file")


def _where(column: str) -> Callable[[int], str]:
    return lambda row: f"row {row}, column {column!r}"


def _check_features(schema: Any, names: list[str]) -> None:
    types = _pyarrow("pyarrow").types
    is_number = types.is_floating, types.is_integer, types.is_boolean, types.is_decimal
    for name in names:
        kind = schema.field(name).type
        if not any(is_kind(kind) for is_kind in is_number):
            raise ValueError(
                f"column {name!r} holds {kind}, but features are numbers. Leave it out if it is no "
                "feature"
            )


def _unfolded(metadata: Any) -> int:
    """How many bytes all columns take, and at least 8 for each value."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (group.column(column) for group in groups for column in range(group.num_columns))
    return sum(max(8 * chunk.num_values, chunk.total_uncompressed_size) for chunk in chunks)


def _encoded(values: Any) -> tuple[list[Any], Any]:
    """The distinct values, and the number of each row's value among them, or null."""
    encoded = values.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices


def _read_table(file: BinaryIO, metadata: Any, names: list[str]) -> Any:
    """The columns; of a text that many rows have there is one copy, as there may be in the file."""
    pa, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    leaves = [metadata.schema.column(column).path for column in range(metadata.num_columns)]
    encoded = parquet.ParquetFile(file, metadata=metadata, read_dictionary=leaves)
    # Each group has its own dictionaries, and lists are read with one at a time.
    groups = range(metadata.num_row_groups)
    return pa.concat_tables([encoded.read_row_group(group, columns=names) for group in groups])


def _entries(column: Any) -> list[Any]:
    """A string or integer for each row, or None; rows with equal strings share them."""
    found, numbers = _encoded(column.unify_dictionaries().combine_chunks())
    return [None if number is None else found[number] for number in numbers.to_pylist()]


def _candidates(
    column: Any, separator: str, order: list[Any] | None, where: Callable[[int], str]
) -> tuple[Any, list[Any]]:
    types = _pyarrow("pyarrow").types
    if _is_text(column.type):
        return candidates_of_cells([cell or "" for cell in _entries(column)], separator, where)
    is_list = types.is_list, types.is_large_list, types.is_fixed_size_list
    if any(is_kind(column.type) for is_kind in is_list):
        return _candidates_of_lists(column.unify_dictionaries().combine_chunks(), order, where)
    raise ValueError(
        f"{where(0)}: the candidates must be lists of strings or integers, or strings such as "
        f"'cat{separator}dog', but the column is of type {column.type}"
    )


def _is_text(kind: Any) -> bool:
    types = _pyarrow("pyarrow").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _candidates_of_lists(
    lists: Any, order: list[Any] | None, where: Callable[[int], str]
) -> tuple[Any, list[Any]]:
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    if not lengths.all():
        raise ValueError(
            f"{where(int(np.argmin(lengths)))}: there are no candidates. Name at least one label, "
            "or drop the row"
        )
    values = lists.flatten()
    if not (_is_text(values.type) or _pyarrow("pyarrow").types.is_integer(values.type)):
        raise ValueError(f"{where(0)}: labels must be strings or integers, not {lists.type}")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    if values.null_count:
        row = rows[int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))]
        raise ValueError(f"{where(row)}: a candidate is missing")
    known, numbers = _encoded(values)
    # A dictionary may hold labels that no row has.
    used, places = np.unique(numbers.to_numpy(), return_inverse=True)
    found = [known[number] for number in used]
    labels = _ordered(found, order)
    column = {label: number for number, label in enumerate(labels)}
    columns = np.array([column[label] for label in found])[places]
    ones = np.ones(len(columns), np.bool_)
    shape = len(lengths), len(labels)
    return sparse.csr_array(sparse.coo_array((ones, (rows, columns)), shape=shape)), labels


def _ordered(found: list[Any], order: list[Any] | None) -> list[Any]:
    """The labels in the order in which they were saved, or sorted if it is another table."""
    if order is not None and set(found) <= set(order):
        return order
    return sorted_labels(found) if isinstance(found[0], str) else sorted(set(found))


def _numbers(table: Any) -> _Array:
    pa = _pyarrow("pyarrow")
    single = all(column.type == pa.float32() for column in table.columns)
    data = np.empty(table.shape, np.float32 if single else np.float64)
    for number, column in enumerate(table.columns):
        data[:, number] = column.cast(pa.float64(), safe=False).to_numpy()
    return data


def write_parquet(file: BinaryIO, bunch: Any) -> None:
    """Write a data set as a Parquet file; sparse data become dense.

    Parameters
    ----------
    file : binary file
        Where to write.
    bunch : Bunch
        What :func:`hera_fast.bunch.make_bunch` returns.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If the name of a feature is taken by a column with labels.

    Examples
    --------
    >>> import io
    >>> import pyarrow.parquet
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.parquet_files import write_parquet
    >>> file = io.BytesIO()
    >>> write_parquet(file, make_bunch([[1.5], [0.1]], [{"cat", "dog"}, {"owl"}]))
    >>> pyarrow.parquet.read_table(file).to_pylist()
    [{'candidates': ['cat', 'dog'], 'x0': 1.5}, {'candidates': ['owl'], 'x0': 0.1}]
    """
    pa = _pyarrow("pyarrow")
    check_feature_names(bunch.feature_names)
    labels = pa.array(bunch.target_names.tolist())
    matrix = bunch.candidates
    columns = {CANDIDATES: pa.ListArray.from_arrays(matrix.indptr, labels.take(matrix.indices))}
    if bunch.target is not None:
        columns[TARGET] = labels.take(bunch.target)
    data = bunch.data.toarray() if sparse.issparse(bunch.data) else bunch.data
    columns |= dict(zip(bunch.feature_names, map(pa.array, data.T), strict=True))
    saved = {"target_names": bunch.target_names.tolist(), "DESCR": bunch.DESCR}
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(saved)})
    _pyarrow("pyarrow.parquet").write_table(table, file)
