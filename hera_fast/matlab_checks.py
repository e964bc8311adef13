"""A walk through a MATLAB file of version 5 to 7.2 before SciPy reads it.

SciPy trusts the types, lengths and depths that are written in the file, and a single wrong byte
among them can end the interpreter. Here they are compared with each other, so that SciPy gets to
see only variables that are sound. The format is described in MathWorks' "MAT-File Format".
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Container, Iterator
from typing import BinaryIO, NamedTuple

from hera_fast.expansion import check_expansion, largest_expansion

__all__ = ["check_variables"]

_HEADER = 128
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED, _UTF8 = 1, 5, 6, 14, 15, 16
# Bytes of each number, by type.
_NUMBERS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_CHARACTERS = {1, 2, 4, 16, 17, 18}
_CELL, _STRUCT, _CHAR, _SPARSE = 1, 2, 4, 5
_NUMERIC = range(6, 16)
_COMPLEX = 1 << 11
_OPAQUE = 17
_MOST_DIMENSIONS = 32
_DEEPEST = 20
# Type, dimensions and name of a variable are within so many bytes.
_BEGINNING = 1024


class _Element(NamedTuple):
    kind: int
    data: memoryview
    is_small: bool  # the data are within the tag


class _Header(NamedTuple):
    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str


_NOTHING = _Element(0, memoryview(b""), True)


def check_variables(file: BinaryIO, wanted: Container[str]) -> dict[str, str | None]:
    """Say of each variable of a file why it cannot be read, or None if it can.

    Parameters
    ----------
    file : binary file
        A MATLAB file of version 5 to 7.2.
    wanted : container of str
        Names in lower case. Other variables than these and structs are not looked at.

    Returns
    -------
    reasons : dict of str or None
        By the name of the variable as it is in the file.

    Raises
    ------
    ValueError
        If the file as a whole is damaged.

    Examples
    --------
    >>> import io
    >>> import scipy.io
    >>> from hera_fast.matlab_checks import check_variables
    >>> file = io.BytesIO()
    >>> scipy.io.savemat(file, {"Data": [[1.0]], "other": [[2.0]], "s": {"a": 3.0}})
    >>> check_variables(file, {"data"})
    {'Data': None, 'other': 'not needed', 's': None}
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    header = file.read(_HEADER)
    order = {b"IM": "<", b"MI": ">"}.get(header[126:128], "")
    if not order or struct.unpack(order + "H", header[124:126])[0] != 0x0100:
        raise ValueError("it is no MATLAB file of version 5 or later")
    reasons: dict[str, str | None] = {}
    for kind, stored in _variables(file, size, order):
        start = stored if kind == _MATRIX else _unfolded(stored, order, _BEGINNING)
        variable = _header(_elements(memoryview(start), order), order)
        if variable.name in reasons:
            raise ValueError(f"the variable {variable.name!r} is there more than once")
        reasons[variable.name] = None
        if variable.kind != _STRUCT and variable.name.lower() not in wanted:
            reasons[variable.name] = "not needed"
            continue
        try:
            body = stored if kind == _MATRIX else _unfolded(stored, order, None)
            _check_matrix(memoryview(body), order, 0)
        except ValueError as error:
            reasons[variable.name] = str(error)
    return reasons


def _variables(file: BinaryIO, size: int, order: str) -> Iterator[tuple[int, bytes]]:
    """How each variable is stored, and the bytes."""
    position = _HEADER
    while position < size:
        tag = file.read(8)
        kind, length = struct.unpack(order + "II", tag) if len(tag) == 8 else (0, 0)
        position += 8 + length
        if kind not in (_MATRIX, _COMPRESSED) or not length or position > size:
            raise ValueError("it is damaged, or ends in the middle of a variable")
        yield kind, file.read(length)


def _unfolded(stored: bytes, order: str, most: int | None) -> bytes:
    """A compressed variable, as a whole or the beginning of it."""
    inflater = zlib.decompressobj()
    limit = largest_expansion(len(stored)) if most is None else most
    try:
        body = inflater.decompress(stored, limit + 1)
    except zlib.error as error:
        raise ValueError(f"it is damaged ({error})") from error
    kind, length = struct.unpack(order + "II", body[:8]) if len(body) >= 8 else (0, 0)
    if most is None:
        check_expansion(len(body), len(stored), "a variable")
        if not inflater.eof or inflater.unused_data or length != len(body) - 8:
            raise ValueError("its length is wrong")
    if kind != _MATRIX:
        raise ValueError("it is damaged, or no variable")
    return body[8:]


def _elements(body: memoryview, order: str) -> Iterator[_Element]:
    position = 0
    while position < len(body):
        tag = body[position : position + 8]
        if len(tag) < 8:
            raise ValueError("it ends in the middle of a tag")
        kind, length = struct.unpack(order + "II", tag)
        is_small = kind >> 16 != 0
        if is_small:
            kind, length = kind & 0xFFFF, kind >> 16
        start = position + (4 if is_small else 8)
        position = position + 8 if is_small else start + length + -length % 8
        data = body[start : start + length]
        if len(data) < length or (is_small and length > 4) or (kind == _MATRIX and length % 8):
            raise ValueError("a length is wrong")
        yield _Element(kind, data, is_small)


def _header(elements: Iterator[_Element], order: str) -> _Header:
    """What a variable is; the elements that are left are its contents."""
    kind, flags, is_small = next(elements, _NOTHING)
    if kind != _UINT32 or len(flags) != 8 or is_small:
        raise ValueError("it has no flags")
    word = struct.unpack(order + "II", flags)[0]
    shape: tuple[int, ...] = ()
    if word & 0xFF != _OPAQUE:
        kind, lengths, _ = next(elements, _NOTHING)
        n_dimensions, rest = divmod(len(lengths), 4)
        if kind not in (_INT32, _UINT32) or rest or not 2 <= n_dimensions <= _MOST_DIMENSIONS:
            raise ValueError("it has no dimensions")
        shape = struct.unpack(f"{order}{n_dimensions}i", lengths)
        if min(shape) < 0:
            raise ValueError(f"it has the impossible shape {shape}")
    kind, name, _ = next(elements, _NOTHING)
    if kind not in (_INT8, _UTF8):
        raise ValueError("it has no name")
    return _Header(word & 0xFF, bool(word & _COMPLEX), shape, bytes(name).decode("latin1"))


def _check_matrix(body: memoryview, order: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError("structs or cells are nested too deeply")
    elements = _elements(body, order)
    header = _header(elements, order)
    size = math.prod(header.shape)
    if header.kind in (_CELL, _STRUCT):
        if header.kind == _STRUCT:
            size *= _n_fields(elements, order)
        for _ in range(size):
            kind, matrix, _ = next(elements, _NOTHING)
            if kind != _MATRIX:
                raise ValueError("a part is missing")
            if len(matrix):
                _check_matrix(matrix, order, depth + 1)
    elif header.kind in (_CHAR, _SPARSE, *_NUMERIC):
        parts = [(kind, len(data)) for kind, data, _ in elements]
        _check_numbers(header, size, parts)
    else:
        raise ValueError("it is or has a MATLAB object or function")
    if next(elements, None) is not None:
        raise ValueError("it has more parts than its type allows")


def _n_fields(elements: Iterator[_Element], order: str) -> int:
    kind, data, _ = next(elements, _NOTHING)
    width = struct.unpack(order + "i", data)[0] if kind == _INT32 and len(data) == 4 else 0
    kind, names, _ = next(elements, _NOTHING)
    # Without fields SciPy would make an array of any shape.
    if width <= 0 or kind != _INT8 or len(names) % width or not len(names):
        raise ValueError("its fields have no names")
    return len(names) // width


def _check_numbers(header: _Header, size: int, parts: list[tuple[int, int]]) -> None:
    """Compare types and lengths of what a matrix consists of, as (type, bytes)."""
    values = 2 if header.is_complex else 1
    expected = 2 + values if header.kind == _SPARSE else values
    if len(parts) != expected:
        raise ValueError(f"it has {len(parts)} parts instead of {expected}")
    if header.kind == _CHAR:
        ((kind, length),) = parts
        # Some programs leave out the characters of short texts.
        if kind not in _CHARACTERS or size > max(length, _BEGINNING):
            raise ValueError("it is no text")
        return
    if any(kind not in _NUMBERS for kind, _ in parts):
        raise ValueError("it does not consist of numbers")
    if header.kind == _SPARSE:
        (rows, _), (starts, length) = parts[:2]
        if not {rows, starts} <= {_INT32, _UINT32} or len(header.shape) != 2:
            raise ValueError("it is no sparse matrix")
        if length < 4 * (header.shape[1] + 1):
            raise ValueError("the columns of a sparse matrix are incomplete")
    elif any(length != size * _NUMBERS[kind] for kind, length in parts):
        raise ValueError(f"its contents do not fit its shape {header.shape}")
