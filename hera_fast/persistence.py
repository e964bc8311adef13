"""Models in files: arrays and a JSON header in one archive, without pickle.

A model file is a ZIP archive whose members are stored, not compressed:

``<name>.npy``
    One array in NumPy's format, version 1.0, C order. A CSR matrix is three of them:
    ``<name>.data.npy``, ``<name>.indices.npy`` and ``<name>.indptr.npy``.
``header.json``
    A JSON object with

    - ``format``: ``"hera-fast model"``, and ``format_version``: 1;
    - ``kind``: what was saved, for example ``"HERAClassifier"``;
    - ``versions``: of hera-fast, NumPy, SciPy, scikit-learn and Python;
    - ``header``: whatever was to be saved besides the arrays;
    - ``arrays``: ``dtype``, ``shape`` and ``sha256`` for each ``.npy`` member, the digest
      being that of the array's bytes without the NumPy header;
    - ``sparse``: ``shape`` and ``container`` (``csr_array`` or ``csr_matrix``) of each CSR matrix.

Numbers in the header come back exactly. JSON knows no infinity and no NaN, so they are written as
``{"$float": "inf"}``, ``"-inf"`` or ``"nan"``.

``numpy.load`` opens such a file as well, without any of the checks made here. The digests find
damage, not malice: whoever can write the file can write the digests. Reading a file from someone
else is safe all the same, because nothing in it is run, and no more memory is taken than the file
is large.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import scipy
import sklearn
from scipy import sparse

from hera_fast._version import __version__
from hera_fast.atomic import replacing
from hera_fast.sparse_checks import check_indices

__all__ = ["model_kind", "read_model", "write_model"]

_Array = np.ndarray[Any, Any]
_Path = str | os.PathLike[str]

_FORMAT = "hera-fast model"
_FORMAT_VERSION = 1
_HEADER = "header.json"
_SUFFIX = ".npy"
_CONTAINERS = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
_PARTS = ("data", "indices", "indptr")
# bool, integers, floats, complex, fixed-width bytes and strings, time spans, dates
_KINDS = "biufcSUmM"
_CHUNK = 1 << 20
# Beyond this a member needs the 64-bit extension, which has to be known before it is written.
_LARGE = 1 << 31
# The first moment a ZIP archive can express, so that equal models give equal files.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_model(
    path: _Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and a header into one file.

    The file appears under its name when it is complete; until then, and if anything goes wrong,
    a file that was there before stays as it is.

    Parameters
    ----------
    path : str or path
        Name of the file, taken as it is. Its folder must exist.
    kind : str
        What is saved; `read_model` must be asked for the same.
    header : dict
        Strings, numbers, bool, None, and lists and dicts (with keys of type str) of them. Floats
        come back exactly, infinity and NaN included; tuples come back as lists and NumPy's
        scalars as Python's.
    arrays : dict of ndarray or CSR matrix
        Names are identifiers. Arrays come back with the same bits, in C order; object arrays are
        refused.

    Raises
    ------
    TypeError
        If something can be written only by pickling it. Nothing is written then.
    FileNotFoundError
        If the folder does not exist.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from hera_fast.persistence import read_model, write_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scale.model")
    ...     write_model(path, "scale", {"tol": 1e-3}, {"factor": np.array([0.5, 2.0])})
    ...     read_model(path, "scale")
    ({'tol': 0.001}, {'factor': array([0.5, 2. ])})
    """
    if not isinstance(kind, str):
        raise TypeError(f"kind must be a string, got {type(kind).__name__}")
    if not isinstance(header, Mapping):
        raise TypeError(f"header must be a dict, got {type(header).__name__}")
    members, containers = _split(arrays)
    document = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "kind": kind,
        "versions": {
            "hera-fast": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "header": _to_json(header, "header"),
        "sparse": containers,
    }
    with replacing(path, "model") as file:
        _write_archive(file, document, members)


def read_model(
    path: _Path, kind: str, *, advice: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what `write_model` wrote.

    Parameters
    ----------
    path : str or path
        Name of the file.
    kind : str
        What the file is expected to hold.
    advice : dict or None, default=None
        What to do with a file that holds another kind, by that kind; for the error message.

    Returns
    -------
    header : dict
        The header that was saved.
    arrays : dict of ndarray or CSR matrix
        The arrays that were saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model, holds another kind, was written by a later version, or is
        damaged. The message names the file and the reason.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast.persistence import read_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "letter.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("Dear reader")
    ...     try:
    ...         read_model(path, "scale")
    ...     except ValueError as error:
    ...         print(str(error).replace(folder + os.sep, ""))
    letter.txt is no intact hera-fast model: File is not a zip file
    """
    with open(path, "rb") as file, _faults_named(path):
        return _read_archive(file, kind, advice or {})


def model_kind(path: _Path) -> str:
    """Return what a file holds, without reading its arrays.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    kind : str
        What `write_model` was given.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a model, was written by a later version, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast.persistence import model_kind, write_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scale.model")
    ...     write_model(path, "scale", {}, {})
    ...     model_kind(path)
    'scale'
    """
    with open(path, "rb") as file, _faults_named(path), zipfile.ZipFile(file) as archive:
        document = _read_document(archive, _members(archive, os.fstat(file.fileno()).st_size))
        _check_document(document)
        return str(document["kind"])


@contextmanager
def _faults_named(path: _Path) -> Iterator[None]:
    """Turn whatever a damaged file makes fail into a ValueError with its name."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        # A wrong offset makes seeking fail; other trouble with the disk is not the file's.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        # zipfile has many ways to fail on damaged archives, and they differ by version.
        raise ValueError(
            f"{os.fspath(path)} is no intact hera-fast model: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, (ValueError, zipfile.BadZipFile)) and str(error):
        return str(error)
    return f"it is damaged ({type(error).__name__}: {error})"


def _split(arrays: Mapping[str, Any]) -> tuple[dict[str, _Array], dict[str, Any]]:
    """The arrays behind all members, and what else it takes to make CSR matrices of them."""
    members: dict[str, _Array] = {}
    containers: dict[str, Any] = {}
    for name, array in arrays.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"the name of an array must be an identifier, got {name!r}")
        container = type(array).__name__
        if sparse.issparse(array) and container in _CONTAINERS:
            containers[name] = {"shape": list(map(int, array.shape)), "container": container}
            members |= {f"{name}.{part}": getattr(array, part) for part in _PARTS}
        elif sparse.issparse(array):
            raise TypeError(f"{name} is a {container}: pass {name}.tocsr()")
        elif isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
            members[name] = np.asarray(array)
        else:
            raise TypeError(f"{name} must be a NumPy array or a CSR matrix, got {container}")
    for name, array in members.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(
                f"{name} is an array of {array.dtype}, which cannot be written without pickle: "
                f"convert it, for example with {name}.astype(str) or {name}.astype(float)"
            )
    return members, containers


def _to_json(value: Any, where: str) -> Any:
    """Plain JSON for `value`, in which infinity and NaN have a notation of their own."""
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, (list, tuple)):
        return [_to_json(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == "$float":
                raise TypeError(f"keys of {where} must be strings other than '$float', got {key!r}")
        return {key: _to_json(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"{where} is a {type(value).__name__}, which has no place in a JSON header: use strings, "
        "numbers, bool, None, lists and dicts, or pass it as an array"
    )


def _from_json(pairs: dict[str, Any]) -> Any:
    return float(pairs["$float"]) if pairs.keys() == {"$float"} else pairs


def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before the bytes of an array in a .npy file of version 1.0, in C order.

    Written here, so that it can be compared instead of being parsed, whatever NumPy is installed.
    """
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    # Magic and length take 10 bytes, the line feed one more; the data start at a multiple of 64.
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")


def _bytes_of(array: _Array) -> memoryview:
    """The memory of a C-contiguous array."""
    raw = array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    return raw.data


def _write_archive(file: BinaryIO, document: dict[str, Any], members: dict[str, _Array]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        described = {}
        for name, array in members.items():
            shape = tuple(map(int, array.shape))
            array = np.ascontiguousarray(array).reshape(shape)
            large = array.nbytes >= _LARGE
            info = zipfile.ZipInfo(name + _SUFFIX, _EPOCH)
            data = _bytes_of(array)
            with archive.open(info, "w", force_zip64=large) as member:
                member.write(_npy_header(array.dtype.str, shape))
                member.write(data)
            described[name] = {
                "dtype": array.dtype.str,
                "shape": list(shape),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        text = json.dumps({**document, "arrays": described}, indent=1, allow_nan=False)
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), text.encode())


def _read_archive(
    file: BinaryIO, kind: str, advice: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = _members(archive, size)
        document = _read_document(archive, members)
        _check_document(document)
        if document["kind"] != kind:
            what = advice.get(document["kind"])
            raise ValueError(
                f"it holds a {document['kind']!r}, but a {kind!r} was asked for"
                + (f". {what}" if what else "")
            )
        described = document["arrays"]
        expected = {_HEADER, *(name + _SUFFIX for name in described)}
        for name in sorted(expected ^ members.keys()):
            raise ValueError(f"{name} {'is missing' if name in expected else 'does not belong'}")
        stored = {
            name: _read_array(archive, members[name + _SUFFIX], name, description)
            for name, description in described.items()
        }
    return document["header"], _join(stored, document["sparse"])


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name; none of them can unfold to more than the file holds."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if _HEADER not in members:
        raise ValueError(f"it has no {_HEADER}; is it another kind of archive?")
    if len(members) < len(infos):
        raise ValueError("a member appears twice")
    if any(
        info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size
        for info in infos
    ):
        raise ValueError("a member is compressed, which it never is in a model")
    if sum(info.file_size for info in infos) > size:
        raise ValueError("its members are larger than the file")
    # Otherwise the tail of a file that has another model inside would pass for that model.
    if min(info.header_offset for info in infos) != 0:
        raise ValueError("something stands before the archive")
    return members


def _read_document(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> dict[str, Any]:
    try:
        document = json.loads(
            archive.read(members[_HEADER]).decode(),
            object_hook=_from_json,
            parse_constant=_refuse_constant,
        )
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{_HEADER} is not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(f"{_HEADER} does not say that its format is {_FORMAT!r}")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{_HEADER} has a {name}, which is not JSON")


def _check_document(document: dict[str, Any]) -> None:
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{_HEADER} has no valid format version, but {version!r}")
    if version > _FORMAT_VERSION:
        versions = document.get("versions")
        writer = versions.get("hera-fast") if isinstance(versions, dict) else None
        raise ValueError(
            f"it was written by hera-fast {writer or 'of a later version'} in format version "
            f"{version}, but hera-fast {__version__} reads up to {_FORMAT_VERSION}: update it"
        )
    for name in ("header", "arrays", "sparse"):
        if not isinstance(document.get(name), dict):
            raise ValueError(f"{_HEADER} has no {name!r}")
    if not isinstance(document.get("kind"), str):
        raise ValueError(f"{_HEADER} does not say what kind of model it is")


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, description: dict[str, Any]
) -> _Array:
    shape = tuple(description["shape"])
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"{name} has the impossible shape {shape}")
    dtype = np.dtype(str(description["dtype"]))
    if dtype.kind not in _KINDS or dtype.str != description["dtype"]:
        raise ValueError(f"{name} has the dtype {description['dtype']!r}, which no model has")
    start = _npy_header(dtype.str, shape)
    # Before any memory is taken.
    if info.file_size != len(start) + math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} is said to have shape {shape}, which is not the size it has")
    # Other than empty, this does not turn strings without characters into something else.
    array: _Array = np.ndarray(shape, dtype)
    data = _bytes_of(array)
    digest = hashlib.sha256()
    with archive.open(info) as member:
        if member.read(len(start)) != start:
            raise ValueError(f"{name} does not have the dtype and shape that {_HEADER} says")
        for i in range(0, len(data), _CHUNK):
            chunk = member.read(min(_CHUNK, len(data) - i))
            data[i : i + len(chunk)] = chunk
            digest.update(chunk)
        # The end of the member is where its checksum is compared.
        member.read(1)
    if digest.hexdigest() != description["sha256"]:
        raise ValueError(f"{name} is not what was written: its SHA-256 digest differs")
    return array


def _join(stored: dict[str, _Array], containers: dict[str, Any]) -> dict[str, Any]:
    """Make CSR matrices of their parts."""
    arrays: dict[str, Any] = dict(stored)
    for name, description in containers.items():
        parts = tuple(arrays.pop(f"{name}.{part}") for part in _PARTS)
        container = _CONTAINERS[description["container"]]
        matrix = container(parts, shape=tuple(description["shape"]))
        check_indices(matrix)
        arrays[name] = matrix
    return arrays
