"""Partial-label data in NumPy's ``.npz`` archives, without pickle.

========================  =====================================================================
array                     contents
========================  =====================================================================
``data`` or ``X``         the features, n x d
``candidates`` or ``Y``   zeros and ones, n x q; without it the true labels are the candidates
``target`` or ``y``       the column of each true label; or the labels themselves, if they are
                          strings or there are neither candidates nor names
``target_names`` or       the names of the labels
``classes``
``feature_names``         the names of the features
``DESCR``                 a text
========================  =====================================================================

Instead of ``data`` and ``candidates`` there may be the parts of a CSR matrix, for example
``data.data``, ``data.indices``, ``data.indptr`` and ``data.shape``. Candidates are always written
in that way.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from hera_fast.candidates import csr_candidates
from hera_fast.expansion import check_expansion
from hera_fast.sparse_checks import check_indices

__all__ = ["read_npz", "write_npz"]

_Array = np.ndarray[Any, Any]

_SUFFIX = ".npy"
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_PARTS = ("data", "indices", "indptr", "shape")
_NAMES = {
    "data": ("data", "X"),
    "candidates": ("candidates", "Y"),
    "target": ("target", "y"),
    "target_names": ("target_names", "classes"),
    "feature_names": ("feature_names",),
    "DESCR": ("DESCR",),
}


def read_npz(file: BinaryIO, *, needs_candidates: bool = True) -> dict[str, Any]:
    """Read the parts of a data set from an archive.

    Parameters
    ----------
    file : binary file
        The archive.
    needs_candidates : bool, default=True
        Whether there must be candidates, or true labels that make up for them. With False, true
        labels are no candidates.

    Returns
    -------
    parts : dict
        Arguments for :func:`hera_fast.bunch.make_bunch`.

    Raises
    ------
    ValueError
        If the archive does not hold such a data set.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from hera_fast.npz_files import read_npz
    >>> file = io.BytesIO()
    >>> np.savez(file, X=np.eye(2), Y=np.array([[1, 1], [0, 1]]), y=np.array([0, 1]))
    >>> sorted(name for name, part in read_npz(file).items() if part is not None)
    ['DESCR', 'candidates', 'data', 'target']
    """
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        members = {info.filename.removesuffix(_SUFFIX): info for info in infos}
        if len(members) < len(infos):
            raise ValueError("an array is there more than once")
        arrays: dict[str, Any] = {}
        read: set[str] = set()
        for field, names in _NAMES.items():
            arrays[field], used = _read_field(archive, members, names, size)
            read |= used
    if arrays["data"] is None:
        found = ", ".join(map(repr, sorted(members)))
        raise ValueError(f"there is no array 'data' or 'X' among its arrays: {found}")
    has_candidates = arrays["candidates"] is not None
    if needs_candidates and arrays["target"] is None and not has_candidates:
        raise ValueError(
            "there are neither candidates ('candidates' or 'Y') nor true labels ('target' or 'y')"
        )
    text = "" if arrays["DESCR"] is None else str(arrays["DESCR"])
    rest = ", ".join(sorted(members.keys() - read))
    arrays["DESCR"] = "\n".join(
        filter(None, [text, f"Arrays that were not read: {rest}." if rest else ""])
    )
    parts = _with_columns(arrays)
    return parts if needs_candidates or has_candidates else {**parts, "candidates": None}


def _read_field(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], names: tuple[str, ...], size: int
) -> tuple[Any, set[str]]:
    """The array of one of these names, or None, and which members were used."""
    found = [name for name in names if name in members or f"{name}.indptr" in members]
    if len(found) > 1:
        raise ValueError(f"the arrays {found[0]!r} and {found[1]!r} are two names for one thing")
    if not found:
        return None, set()
    if found[0] in members:
        return _read_array(archive, members[found[0]], found[0], size), {found[0]}
    parts = [f"{found[0]}.{part}" for part in _PARTS]
    missing = [part for part in parts if part not in members]
    if missing:
        raise ValueError(f"the array {missing[0]!r} is missing")
    arrays = (_read_array(archive, members[part], part, size) for part in parts)
    return _csr(found[0], *arrays), {*parts}


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, size: int) -> _Array:
    # No member is larger than the archive, whatever it claims.
    check_expansion(info.file_size, min(info.compress_size, size), name)
    with warnings.catch_warnings(), archive.open(info) as member:
        # Headers of Python 2 need no word, and damaged ones fail all the same.
        warnings.simplefilter("ignore")
        version = np.lib.format.read_magic(member)
        if version not in _READ_HEADER:
            raise ValueError(f"{name} is an array of the unknown format version {version}")
        shape, _, dtype = _READ_HEADER[version](member)
        if dtype.hasobject:
            raise ValueError(
                f"{name} holds Python objects, which only a pickle can store, and a pickle could "
                f"run any code. Write it as numbers or strings, for example {name}.astype(str)"
            )
        # Before any memory is taken.
        if math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError(f"{name} is said to have shape {shape}, which is not the size it has")
        member.seek(0)
        array: _Array = np.lib.format.read_array(member, allow_pickle=False)
        # The end of the member is where its checksum is compared.
        member.read(1)
    return array


def _csr(name: str, data: _Array, indices: _Array, indptr: _Array, shape: _Array) -> Any:
    if shape.shape != (2,) or any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
        raise ValueError(f"{name}.shape, {name}.indices and {name}.indptr must be integers, 1-d")
    if data.dtype.kind not in "biuf":
        raise ValueError(f"{name}.data must be real numbers, got {data.dtype}")
    try:
        # The byte order of another machine is nothing for sparse matrices.
        data = data.astype(data.dtype.newbyteorder("="), copy=False)
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        check_indices(matrix)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the parts of {name} make no matrix: {error}") from error
    return matrix


def _with_columns(arrays: dict[str, Any]) -> dict[str, Any]:
    """Turn true labels into columns, and into candidates when there are none."""
    target, names, candidates = (arrays[f] for f in ("target", "target_names", "candidates"))
    if target is None:
        return arrays
    if target.ndim != 1:
        raise ValueError(f"the true labels must be 1-d, got the shape {target.shape}")
    are_columns = target.dtype.kind in "iu" and not (names is None and candidates is None)
    if are_columns and candidates is not None:
        return arrays
    if are_columns:
        outside = (target < 0) | (target >= len(names))
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(
                f"the true label of row {row} is {target[row]}, but there are names for 0 to "
                f"{len(names) - 1}"
            )
        target = names[target]
    elif candidates is not None and names is None:
        raise ValueError(
            f"the true labels are of {target.dtype}: without names of the labels they must be "
            "integers, the columns in the candidates"
        )
    matrix, labels = csr_candidates(target, classes=names)
    parts = {**arrays, "target": matrix.indices, "target_names": labels}
    return parts if candidates is not None else {**parts, "candidates": matrix}


def write_npz(file: BinaryIO, bunch: Any) -> None:
    """Write a data set as an archive that :func:`read_npz` and NumPy can read.

    Parameters
    ----------
    file : binary file
        Where to write.
    bunch : Bunch
        What :func:`hera_fast.bunch.make_bunch` returns.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.npz_files import write_npz
    >>> file = io.BytesIO()
    >>> write_npz(file, make_bunch([[1.5], [0.1]], [{"cat", "dog"}, {"owl"}]))
    >>> _ = file.seek(0)
    >>> np.load(file)["target_names"].tolist()
    ['cat', 'dog', 'owl']
    """
    arrays: dict[str, Any] = {}
    for name in ("data", "candidates"):
        matrix = bunch[name]
        if sparse.issparse(matrix):
            arrays |= {f"{name}.{part}": np.asarray(getattr(matrix, part)) for part in _PARTS}
        else:
            arrays[name] = matrix
    if bunch.target is not None:
        arrays["target"] = bunch.target
    for name in ("target_names", "feature_names", "DESCR"):
        arrays[name] = np.asarray(bunch[name])
    np.savez_compressed(file, **arrays)
