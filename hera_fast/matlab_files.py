"""Partial-label data in MATLAB files, of version 5 to 7.2 and of version 7.3, which are HDF5."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from scipy.io import loadmat, savemat
from scipy.io.matlab import MatWriteError

from hera_fast.expansion import check_expansion
from hera_fast.extras import require
from hera_fast.matlab_checks import check_variables
from hera_fast.palm_layout import NAMES, Unreadable, palm_parts
from hera_fast.sparse_checks import check_indices

__all__ = ["read_matlab", "write_matlab"]

_Array = np.ndarray[Any, Any]

_HDF5 = b"\x89HDF\r\n\x1a\n"
# HDF5 looks for its signature there; MATLAB puts it at 512.
_HDF5_OFFSETS = (0, 512, 1024, 2048)


def read_matlab(file: BinaryIO) -> dict[str, Any]:
    """Read the parts of a data set from a MATLAB file.

    Parameters
    ----------
    file : binary file
        The file. If it is of version 7.3, it must have a name.

    Returns
    -------
    parts : dict
        Arguments for :func:`hera_fast.bunch.make_bunch`.

    Raises
    ------
    ImportError
        If the file is of version 7.3 and h5py is not installed.
    ValueError
        If the file is damaged or does not hold such a data set.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> import scipy.io
    >>> from hera_fast.matlab_files import read_matlab
    >>> file = io.BytesIO()
    >>> candidates = np.array([[1, 0, 1], [1, 1, 0]])
    >>> scipy.io.savemat(file, {"data": np.eye(3), "partial_target": candidates})
    >>> read_matlab(file)["candidates"].toarray()
    array([[1, 1],
           [0, 1],
           [1, 0]])
    """
    is_hdf5 = any(_bytes_at(file, offset) == _HDF5 for offset in _HDF5_OFFSETS)
    return palm_parts(_read_hdf5(file) if is_hdf5 else _read_version_5(file))


def _bytes_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.read(len(_HDF5))


def _read_version_5(file: BinaryIO) -> dict[str, Any]:
    reasons = check_variables(file, NAMES)
    sound = [name for name, reason in reasons.items() if reason is None]
    file.seek(0)
    with warnings.catch_warnings():
        # About variables that are not wanted.
        warnings.simplefilter("ignore")
        loaded = loadmat(file, variable_names=sound) if sound else {}
    return {
        name: _plain(loaded[name], name) if reason is None else Unreadable(reason)
        for name, reason in reasons.items()
    }


def _plain(value: Any, name: str) -> Any:
    """What `palm_layout` knows for what SciPy returns."""
    if sparse.issparse(value):
        return _sound(value, name)
    if value.dtype.names is not None:
        if value.size != 1:
            return Unreadable(f"it is an array of {value.size} structs")
        return {field: _plain(value.flat[0][field], field) for field in value.dtype.names}
    if value.dtype.kind == "U":
        return _text([str(row) for row in value.ravel()])
    if value.dtype.kind == "O":
        cells = [_plain(cell, name) for cell in value.ravel()]
        return cells if all(type(cell) is str for cell in cells) else Unreadable("it is a cell")
    return value


def _sound(matrix: Any, name: str) -> Any:
    try:
        check_indices(matrix)
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from error
    return matrix


def _text(rows: list[str]) -> str | list[str]:
    """A text, or several, which MATLAB makes equally long with space."""
    return "".join(rows) if len(rows) < 2 else [row.rstrip() for row in rows]


def _read_hdf5(file: BinaryIO) -> dict[str, Any]:
    h5py = require("h5py", "files", "a MATLAB file of version 7.3")
    with h5py.File(file.name, "r") as root:
        return _hdf5_group(h5py, root, _Needed(), are_variables=True)


@dataclass
class _Needed:
    """How much memory everything that was read of a file takes."""

    size: int = 0


def _hdf5_group(h5py: Any, group: Any, needed: _Needed, *, are_variables: bool) -> dict[str, Any]:
    """The variables of a file or the fields of a struct, as far as they matter."""
    found: dict[str, Any] = {}
    for name in group:
        found[name] = Unreadable("not needed")
        # Links may lead to other files.
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            found[name] = Unreadable("it is a link")
        elif name.lower() in NAMES:
            found[name] = _hdf5_value(h5py, group[name], name, needed)
        elif are_variables and isinstance(group[name], h5py.Group) and not name.startswith("#"):
            found[name] = _hdf5_group(h5py, group[name], needed, are_variables=False)
    return found


def _hdf5_value(h5py: Any, item: Any, name: str, needed: _Needed) -> Any:
    if isinstance(item, h5py.Group):
        is_sparse = "MATLAB_sparse" in item.attrs
        return _hdf5_sparse(item, name, needed) if is_sparse else Unreadable("it is a struct")
    kind = _hdf5_class(item)
    if kind == "cell":
        references = _hdf5_array(item, name, "O", needed).ravel()
        cells = [item.file[reference] for reference in references]
        if all(isinstance(cell, h5py.Dataset) and _hdf5_class(cell) == "char" for cell in cells):
            return [_hdf5_value(h5py, cell, name, needed) for cell in cells]
        return Unreadable("it is a cell")
    if kind == "char":
        if "MATLAB_empty" in item.attrs:
            return ""
        codes = _hdf5_array(item, name, "u", needed).astype("<u2")
        return _text([row.tobytes().decode("utf-16-le") for row in codes.T])
    if item.dtype.kind not in "biuf":
        return Unreadable(f"it is a {kind or 'variable'} of {item.dtype}")
    return _hdf5_array(item, name, "biuf", needed).T


def _hdf5_class(item: Any) -> str:
    return np.bytes_(item.attrs.get("MATLAB_class", b"")).decode()


def _hdf5_array(dataset: Any, name: str, kinds: str, needed: _Needed) -> _Array:
    """All of a dataset, unless a short file claims that it is huge or it is in other files."""
    if dataset.external or dataset.is_virtual or dataset.dtype.kind not in kinds:
        raise ValueError(f"{name} is stored in a way that is not read")
    file_size = dataset.file.id.get_filesize()
    # Numbers become double, and texts take several bytes for each character.
    size = 8 * dataset.size
    check_expansion(size, min(dataset.id.get_storage_size(), file_size), name)
    # A cell may hold the same text any number of times.
    needed.size += size
    check_expansion(needed.size, file_size, f"the file, up to {name},")
    array: _Array = dataset[()]
    return array


def _hdf5_sparse(group: Any, name: str, needed: _Needed) -> Any:
    starts = _hdf5_array(group["jc"], name, "iu", needed)
    n_rows = int(group.attrs["MATLAB_sparse"])
    # Without entries there is nothing but the starts of the columns.
    rows, values = np.empty(0, np.int64), np.empty(0)
    if "ir" in group:
        rows = _hdf5_array(group["ir"], name, "iu", needed)
    if "data" in group:
        values = _hdf5_array(group["data"], name, "biuf", needed)
    parts = values, rows.astype(np.int64), starts.astype(np.int64)
    try:
        matrix = sparse.csc_array(parts, shape=(n_rows, len(starts) - 1))
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from error
    return _sound(matrix, name)


def write_matlab(file: BinaryIO, bunch: Any) -> None:
    """Write a data set as a MATLAB file of version 5, in the layout that :mod:`palm_layout` names.

    Besides ``data``, ``partial_target`` and ``target`` there are ``target_names``,
    ``feature_names`` and ``DESCR``. Sparse matrices are double, as MATLAB wants them.

    Parameters
    ----------
    file : binary file
        Where to write.
    bunch : Bunch
        What :func:`hera_fast.bunch.make_bunch` returns.

    Raises
    ------
    ValueError
        If a variable is too large for the format.

    Examples
    --------
    >>> import io
    >>> import scipy.io
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.matlab_files import write_matlab
    >>> file = io.BytesIO()
    >>> write_matlab(file, make_bunch([[1.5], [0.1]], [{"cat", "dog"}, {"owl"}], [1, 2]))
    >>> scipy.io.loadmat(file)["partial_target"].toarray()
    array([[1., 0.],
           [1., 0.],
           [0., 1.]])
    """
    n, q = bunch.candidates.shape
    data = bunch.data.astype(np.float64) if sparse.issparse(bunch.data) else bunch.data
    variables = {
        "data": data,
        "partial_target": bunch.candidates.astype(np.float64).T,
        "target_names": _column(bunch.target_names),
        "feature_names": _column(np.array(bunch.feature_names)),
        "DESCR": bunch.DESCR,
    }
    if bunch.target is not None:
        truth = np.ones(n), bunch.target, np.arange(n + 1)
        variables["target"] = sparse.csc_array(truth, shape=(q, n))
    try:
        savemat(file, variables, do_compression=True)
    except MatWriteError as error:
        raise ValueError(f"the format has no place for matrices of this size ({error})") from error


def _column(names: _Array) -> _Array:
    """A column of integers, or of cells with texts."""
    return names[:, None] if names.dtype.kind in "iu" else names.astype(object)[:, None]
