"""SciPy gets to see only variables that are sound; from others it could crash."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat, whosmat

from hera_fast import expansion
from hera_fast.matlab_checks import check_variables

CELLS = np.array([["one", np.eye(2)]], object)
VARIABLES = {
    "double": np.eye(3),
    "single": np.ones((2, 5), np.float32),
    "complex": np.ones((2, 2)) * 1j,
    "deep": np.zeros((2, 3, 4)),
    "empty": np.zeros((0, 3)),
    "int64": np.array([[1, -(2**40)]]),
    "logical": np.array([[True, False]]),
    "text": "some text",
    "unicode": "ähem €𝄞",
    "no_text": "",
    "texts": ["a", "abc"],
    "csc": sparse.csc_array(np.eye(4)),
    "complex_csc": sparse.csc_array(np.eye(4) * 1j),
    "no_entries": sparse.csc_array((3, 4)),
    "cells": CELLS,
    "no_cells": np.empty((0, 0), object),
    "struct": {"a": np.eye(2), "b": {"c": CELLS, "d": "text"}},
    "structs": np.array([[(1.0, "a"), (2.0, "b")]], [("x", object), ("y", object)]),
}


class Everything:
    def __contains__(self, name):
        return True


def file_of(*variables):
    """A file from whole elements."""
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"
    return io.BytesIO(header + b"".join(variables))


def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(kind, *parts, shape=(1, 1), name=b"data", flags=0):
    return element(
        14,
        element(6, struct.pack("<II", kind | flags, 0))
        + element(5, struct.pack(f"<{len(shape)}i", *shape))
        + element(1, name)
        + b"".join(parts),
    )


ONE = element(9, struct.pack("<d", 1.0))
OPAQUE = element(14, element(6, struct.pack("<II", 17, 0)) + element(1, b"data") + ONE)
FIELDS = element(5, struct.pack("<i", 2)) + element(1, b"a\0b\0")


def compressed(variable):
    return struct.pack("<II", 15, len(zlib.compress(variable))) + zlib.compress(variable)


@pytest.mark.parametrize("do_compression", [False, True])
def test_what_scipy_writes_is_sound(do_compression):
    file = io.BytesIO()
    savemat(file, VARIABLES, do_compression=do_compression)
    assert check_variables(file, Everything()) == dict.fromkeys(VARIABLES)
    assert [name for name, _, _ in whosmat(file)] == list(VARIABLES)


def test_what_is_not_wanted_is_not_looked_at():
    damaged = matrix(6, element(77, bytes(8)))
    file = file_of(
        damaged, matrix(6, ONE, name=b"DATA"), matrix(2, FIELDS, name=b"s", shape=(0, 0))
    )
    assert check_variables(file, {"target"}) == {
        "data": "not needed",
        "DATA": "not needed",
        "s": None,
    }
    assert check_variables(file, {"data"}) == {
        "data": "it does not consist of numbers",
        "DATA": None,
        "s": None,
    }


@pytest.mark.parametrize(
    "wrap", [lambda variable: variable, compressed], ids=["plain", "compressed"]
)
@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        (matrix(6, element(8, bytes(8))), "it does not consist of numbers"),
        (matrix(6, element(200, bytes(8))), "it does not consist of numbers"),
        (matrix(6, element(7, bytes(8))), r"contents do not fit its shape \(1, 1\)"),
        (matrix(6, ONE, shape=(2, 1)), r"contents do not fit its shape \(2, 1\)"),
        (matrix(6, ONE, shape=(2**31 - 1,) * 3), "contents do not fit its shape"),
        (matrix(6), "it has 0 parts instead of 1"),
        (matrix(6, ONE, ONE), "it has 2 parts instead of 1"),
        (matrix(6, ONE, flags=1 << 11), "it has 1 parts instead of 2"),
        (matrix(4, element(9, bytes(8))), "it is no text"),
        (matrix(4, element(16, b"a"), shape=(1, 10**9)), "it is no text"),
        (matrix(4, element(16, b""), shape=(10**9, 10**9)), "it is no text"),
        (matrix(5, ONE), "it has 1 parts instead of 3"),
        (matrix(5, element(5, bytes(8)), element(9, bytes(8)), ONE), "it is no sparse matrix"),
        (matrix(5, element(5, b""), element(5, bytes(8)), ONE, shape=(1,) * 3), "no sparse matrix"),
        (matrix(5, element(5, bytes(4)), element(5, bytes(4)), ONE), "columns .* are incomplete"),
        (matrix(1, ONE), "a part is missing"),
        (matrix(1, shape=(10**9, 10**9)), "a part is missing"),
        (matrix(1, matrix(6, ONE), matrix(6, ONE)), "it has more parts than its type allows"),
        (matrix(1, matrix(6, element(8, bytes(8)))), "it does not consist of numbers"),
        (matrix(2, element(5, bytes(4)), element(1, b"ab")), "its fields have no names"),
        (
            matrix(2, element(5, struct.pack("<i", -1)), element(1, b"ab")),
            "its fields have no names",
        ),
        (
            matrix(2, element(5, struct.pack("<i", 3)), element(1, b"ab")),
            "its fields have no names",
        ),
        (
            matrix(2, element(5, struct.pack("<q", 2)), element(1, b"ab")),
            "its fields have no names",
        ),
        (matrix(2, element(5, struct.pack("<i", 2)), element(1, b"")), "its fields have no names"),
        (matrix(2, FIELDS, matrix(6, ONE)), "a part is missing"),
        (matrix(3, element(1, b"a"), FIELDS), "MATLAB object or function"),
        (matrix(16, matrix(6, ONE)), "MATLAB object or function"),
        (matrix(0, ONE), "MATLAB object or function"),
        (OPAQUE, "MATLAB object or function"),
        (matrix(1, OPAQUE), "MATLAB object or function"),
        (matrix(6, ONE, b"\t\0\0\0")[:-4], "it ends in the middle of a tag"),
        (matrix(6, struct.pack("<HH", 9, 5) + bytes(4)), "a length is wrong"),
        (matrix(6, struct.pack("<II", 9, 2**31)), "a length is wrong"),
        (matrix(1, element(14, bytes(4))), "a length is wrong"),
    ],
    ids=lambda value: value if isinstance(value, str) else "variable",
)
def test_unsound_variables(variable, reason, wrap):
    reasons = check_variables(file_of(wrap(variable)), {"data"})
    assert reasons.keys() == {"data"}
    assert reasons["data"] is not None
    with pytest.raises(ValueError, match=reason):
        raise ValueError(reasons["data"])


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        (element(14, b""), "it is damaged"),
        (element(9, bytes(8)), "it is damaged"),
        (matrix(6, ONE)[:-8], "ends in the middle of a variable"),
        (matrix(6, ONE) + b"abc", "it is damaged"),
        (element(14, bytes(16)), "it has no flags"),
        (element(14, element(6, bytes(4))), "it has no flags"),
        (element(14, struct.pack("<HHI", 6, 4, 6)), "it has no flags"),
        (element(14, element(6, struct.pack("<II", 6, 0))), "it has no dimensions"),
        (matrix(6, ONE, shape=(1,)), "it has no dimensions"),
        (matrix(6, ONE, shape=(1,) * 33), "it has no dimensions"),
        (matrix(6, ONE, shape=(-1, 1)), r"impossible shape \(-1, 1\)"),
        (
            element(14, element(6, struct.pack("<II", 6, 0)) + element(5, bytes(8)) + ONE),
            "it has no name",
        ),
        (matrix(6, ONE) * 2, "variable 'data' is there more than once"),
        (struct.pack("<II", 15, 8) + bytes(8), "it is damaged"),
        (compressed(bytes(4)), "damaged, or no variable"),
        (compressed(element(9, bytes(8))), "damaged, or no variable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "variable",
)
def test_damaged_files(variable, reason):
    with pytest.raises(ValueError, match=reason):
        check_variables(file_of(variable), {"data"})


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-4],
        lambda data: data + bytes(1),
        lambda data: zlib.compress(zlib.decompress(data) + bytes(8)),
        lambda data: zlib.compress(zlib.decompress(data)[:-8]),
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    ],
)
def test_compressed_variables_of_wrong_length(change):
    # Random numbers, so that the end of the variable is not among the first that are unfolded.
    numbers = np.random.default_rng(0).random(1000).tobytes()
    data = change(compressed(matrix(6, element(9, numbers), shape=(1000, 1)))[8:])
    reasons = check_variables(file_of(struct.pack("<II", 15, len(data)) + data), {"data"})
    assert "its length is wrong" in reasons["data"] or "it is damaged" in reasons["data"]


def test_bombs(monkeypatch):
    monkeypatch.setattr(expansion, "_HARMLESS", 10_000)
    bomb = compressed(matrix(6, element(9, bytes(8 * 10**5)), shape=(10**5, 1)))
    assert "out of proportion" in check_variables(file_of(bomb), {"data"})["data"]
    numbers = np.random.default_rng(0).random(10**4).tobytes()
    sound = compressed(matrix(6, element(9, numbers), shape=(10**4, 1)))
    assert check_variables(file_of(sound), {"data"}) == {"data": None}


@pytest.mark.parametrize("depth", [10, 21, 30_000])
def test_depth(depth):
    parts = [matrix(6, ONE, name=b"")]
    size = len(parts[0])
    start = matrix(1, name=b"")
    for _ in range(depth):
        parts.append(struct.pack("<II", 14, len(start) - 8 + size) + start[8:])
        size += len(start)
    body = b"".join(reversed(parts))
    named = matrix(1, body)
    reason = check_variables(file_of(named), {"data"})["data"]
    assert reason == (None if depth < 20 else "structs or cells are nested too deeply")


@pytest.mark.parametrize(
    "header",
    [b"", b"short", bytes(128), b"MATLAB 5.0".ljust(124) + b"\0\2IM", b"x" * 124 + b"\0\1MI"],
)
def test_other_files(header):
    with pytest.raises(ValueError, match="no MATLAB file of version 5 or later"):
        check_variables(io.BytesIO(header), {"data"})


SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}


@pytest.mark.parametrize("kind", range(20))
def test_types_of_numbers(kind):
    for n_bytes in (1, 2, 4, 8):
        variable = matrix(6, element(kind, bytes(3 * n_bytes)), shape=(1, 3))
        sound = check_variables(file_of(variable), {"data"}) == {"data": None}
        assert sound == (SIZES.get(kind) == n_bytes)


def test_empty_matrices_without_a_type():
    """MATLAB writes them for cells and fields that were never set."""
    nothing = element(14, b"")
    variables = (
        matrix(1, nothing, matrix(6, ONE), shape=(1, 2)),
        matrix(2, FIELDS, nothing, nothing, name=b"s"),
    )
    assert check_variables(file_of(*variables), {"data"}) == {"data": None, "s": None}


def test_dimensions_as_unsigned_numbers_and_names_as_utf8():
    """Some programs write them so."""
    start = element(6, struct.pack("<II", 6, 0)) + element(6, struct.pack("<II", 1, 1))
    variable = element(14, start + element(16, b"data") + ONE)
    assert check_variables(file_of(variable), {"data"}) == {"data": None}
