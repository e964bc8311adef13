"""Model files: everything comes back bit by bit, and nothing but a model is accepted."""

from __future__ import annotations

import io
import json
import math
import os
import re
import stat
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

import hera_fast
from hera_fast import persistence
from hera_fast.persistence import read_model, write_model

NAN_PAYLOADS = np.array([0x7FF8000000000123, 0xFFF0000000000001], np.uint64).view(np.float64)
ARRAYS = {
    "float64": np.array([[0.1, -0.0, np.inf], [-np.inf, 5e-324, 1e308]]),
    "float32": np.array([0.1, -0.0, np.nan, 1e-45], np.float32),
    "nan": NAN_PAYLOADS,
    "bool": np.array([[True, False]]),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "uint8": np.arange(256, dtype=np.uint8),
    "big_endian": np.array([1.5, 2.5], ">f8"),
    "strings": np.array(["a", "", "äöü€𝄞"]),
    "bytes": np.array([b"a", b"bc"]),
    "days": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "complex": np.array([1 + 2j]),
    "scalar": np.array(-0.0),
    "empty": np.empty((0, 3), np.float32),
    "empty_strings": np.empty(0, "<U7"),
    "no_characters": np.ndarray((2,), "<U0"),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20)[::3],
    "deep": np.zeros((1, 2, 1, 3, 1)),
    "_private9": np.array([1]),
}
HEADER = {
    "parameters": {"alpha": 0.1, "tol": 1e-300, "seed": 2**70, "name": "ä\ud800", "none": None},
    "numbers": [math.inf, -math.inf, -0.0, 5e-324, 1 / 3],
    "nested": [[], {}, [{"a": [True, False]}]],
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a model.hera"


def assert_same(array, expected):
    assert type(array) is type(expected)
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert array.tobytes() == expected.tobytes()


def assert_same_csr(matrix, expected):
    assert type(matrix) is type(expected)
    assert matrix.shape == expected.shape
    assert_same(matrix.data, expected.data)
    np.testing.assert_array_equal(matrix.indices, expected.indices)
    np.testing.assert_array_equal(matrix.indptr, expected.indptr)


def refused(path, reason, kind="test"):
    expected = re.escape(f"{path} is no intact hera-fast model: ") + ".*" + reason
    with pytest.raises(ValueError, match=expected):
        read_model(path, kind)


def rewrite(path, change, *, compression=zipfile.ZIP_STORED):
    """Write the archive again after changing its members, the checksums being right again."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    members = change(dict(members))
    members = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)


def rewrite_header(path, change):
    def changed(members):
        document = json.loads(members["header.json"])
        change(document)
        return {**members, "header.json": json.dumps(document).encode()}

    rewrite(path, changed)


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


# Everything comes back


def test_arrays_come_back_bit_by_bit(path):
    write_model(path, "test", {}, ARRAYS)
    header, arrays = read_model(path, "test")
    assert header == {}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        assert_same(array, ARRAYS[name])
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned


def test_header_comes_back(path):
    write_model(path, "test", HEADER, {})
    header, arrays = read_model(path, "test")
    assert arrays == {}
    assert header == HEADER
    assert math.copysign(1, header["numbers"][2]) == -1


def test_header_of_other_types(path):
    header = {
        "nan": np.nan,
        "tuple": (1, (2,)),
        "bool": np.True_,
        "int": np.int8(3),
        "float": np.float32(0.1),
        "inf": np.float64(-np.inf),
    }
    write_model(path, "test", header, {})
    read, _ = read_model(path, "test")
    assert math.isnan(read.pop("nan"))
    assert read == {
        "tuple": [1, [2]],
        "bool": True,
        "int": 3,
        "float": float(np.float32(0.1)),
        "inf": -math.inf,
    }
    assert type(read["bool"]) is bool


def test_header_is_strict_json(path):
    write_model(path, "test", {"a": math.inf, "b": math.nan}, {"x": np.zeros(2, np.float32)})
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("header.json"), parse_constant=pytest.fail)
    assert document["header"] == {"a": {"$float": "inf"}, "b": {"$float": "nan"}}
    assert document["format"] == "hera-fast model"
    assert document["format_version"] == 1
    assert document["kind"] == "test"
    assert document["versions"]["hera-fast"] == hera_fast.__version__
    assert document["versions"]["numpy"] == np.__version__
    assert document["versions"].keys() == {"hera-fast", "numpy", "scipy", "scikit-learn", "python"}
    assert document["arrays"]["x"]["dtype"] == "<f4"
    assert document["arrays"]["x"]["shape"] == [2]
    assert len(document["arrays"]["x"]["sha256"]) == 64


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.int64])
@pytest.mark.parametrize("shape", [(4, 5), (0, 3), (3, 0), (1, 1)])
def test_csr(container, dtype, shape, path):
    rng = np.random.default_rng(0)
    matrix = container((rng.integers(0, 3, shape)).astype(dtype))
    write_model(path, "test", {}, {"X": matrix, "data": np.ones(2)})
    _, arrays = read_model(path, "test")
    assert arrays.keys() == {"X", "data"}
    assert_same_csr(arrays["X"], matrix)


def test_csr_keeps_explicit_zeros_and_order(path):
    parts = np.array([0.0, -0.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])
    matrix = sparse.csr_array(parts, shape=(2, 3))
    write_model(path, "test", {}, {"X": matrix})
    assert_same_csr(read_model(path, "test")[1]["X"], matrix)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text().filter("$float".__ne__), inner, max_size=4)
    ),
    max_leaves=8,
)
all_arrays = npst.arrays(
    npst.scalar_dtypes() | npst.unicode_string_dtypes(min_len=1, max_len=5),
    npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@settings(max_examples=60)
@given(header=st.dictionaries(st.text().filter("$float".__ne__), json_values), array=all_arrays)
def test_whatever_goes_in_comes_out(header, array, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "hypothesis.hera"
    write_model(path, "test", header, {"array": array, "transposed": array.T})
    read, arrays = read_model(path, "test")
    assert repr(read) == repr(header)
    assert_same(arrays["array"], array)
    assert_same(arrays["transposed"], np.array(array.T, order="C"))


def test_numpy_reads_the_arrays(path):
    write_model(path, "test", HEADER, ARRAYS)
    with np.load(path, allow_pickle=False) as archive:
        assert set(archive) == {*ARRAYS, "header.json"}
        for name, array in ARRAYS.items():
            assert_same(archive[name], array)


def test_data_are_aligned_as_numpy_does(path):
    write_model(path, "test", {}, ARRAYS)
    with zipfile.ZipFile(path) as archive:
        for name, array in ARRAYS.items():
            assert archive.read(f"{name}.npy").endswith(np.ascontiguousarray(array).tobytes())
            header_size = archive.getinfo(f"{name}.npy").file_size - array.nbytes
            assert header_size % 64 == 0


def test_equal_models_give_equal_files(tmp_path):
    for name in "ab":
        write_model(tmp_path / name, "test", HEADER, ARRAYS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_members_beyond_32_bits(path, monkeypatch):
    """What is written for members of that size, with a small one."""
    monkeypatch.setattr(persistence, "_LARGE", 8)
    write_model(path, "test", {}, ARRAYS)
    _, arrays = read_model(path, "test")
    for name, array in arrays.items():
        assert_same(array, ARRAYS[name])


def test_no_second_copy_in_memory(path):
    array = np.zeros(1 << 21)
    tracemalloc.start()
    try:
        write_model(path, "test", {}, {"x": array})
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 2
        tracemalloc.reset_peak()
        read_model(path, "test")
        assert tracemalloc.get_traced_memory()[1] < array.nbytes * 1.5
    finally:
        tracemalloc.stop()


# Where it is written


@pytest.mark.parametrize("form", [str, Path])
def test_no_suffix_is_added(form, tmp_path):
    write_model(form(tmp_path / "model"), "test", {}, {})
    assert os.listdir(tmp_path) == ["model"]
    assert read_model(form(tmp_path / "model"), "test") == ({}, {})


def test_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model("model", "test", {}, {})
    assert read_model("model", "test") == ({}, {})


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder of the model file does not exist"):
        write_model(tmp_path / "nowhere" / "model", "test", {}, {})


def test_folder_instead_of_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="written to a file"):
        write_model(tmp_path, "test", {}, {})
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        read_model(tmp_path, "test")


def test_missing_file(path):
    with pytest.raises(FileNotFoundError):
        read_model(path, "test")


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_failing_write_leaves_the_old_file(function, error, path, monkeypatch):
    def fail(*arguments):
        raise error

    write_model(path, "test", {}, {"x": np.zeros(3)})
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(type(error)):
            write_model(path, "test", {}, {"x": np.ones(3)})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    write_model(path, "test", {}, {"x": np.ones(3)})
    assert path.read_bytes() != before


def test_failing_in_the_middle_leaves_nothing(path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("disk full")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(OSError, match="disk full"):
        write_model(path, "test", {}, {"x": np.zeros(3)})
    assert os.listdir(path.parent) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_permissions(path):
    path.touch()
    expected = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    write_model(path, "test", {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == expected
    path.chmod(0o600)
    write_model(path, "test", {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="links need special rights on Windows")
def test_links_are_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "model")
    write_model(tmp_path / "link", "test", {}, {})
    assert (tmp_path / "link").is_symlink()
    assert read_model(tmp_path / "folder" / "model", "test") == ({}, {})


# What cannot be written


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["a", "b"], object), r"x is an array of object.*x\.astype\(str\)"),
        (np.zeros(2, "i4,f8"), "x is an array of .* without pickle"),
        (sparse.csc_array(np.eye(2)), r"x is a csc_array: pass x\.tocsr\(\)"),
        (np.ma.array([1, 2], mask=[0, 1]), "x must be a NumPy array .* got MaskedArray"),
        ([1, 2], "x must be a NumPy array or a CSR matrix, got list"),
        (np.float64(1), "x must be a NumPy array"),
        (None, "got NoneType"),
    ],
    ids=["objects", "records", "csc", "masked", "list", "number", "none"],
)
def test_arrays_that_are_refused(array, message, path):
    with pytest.raises(TypeError, match=message):
        write_model(path, "test", {}, {"x": array})
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("name", ["", "a.b", "../a", "a/b", "1a", "header.json", "ä", "a\n", 3])
def test_names_that_are_refused(name, path):
    with pytest.raises(ValueError, match="must be an identifier"):
        write_model(path, "test", {}, {name: np.zeros(1)})


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": [{"b": {1, 2}}]}, r"header\['a'\]\[0\]\['b'\] is a set"),
        ({"a": np.zeros(2)}, r"header\['a'\] is a ndarray.*or pass it as an array"),
        ({"a": 1j}, "is a complex"),
        ({"a": {1: 2}}, r"keys of header\['a'\] must be strings.*got 1"),
        ({"$float": "inf"}, "keys of header must be strings other than"),
        (["a"], "header must be a dict, got list"),
    ],
    ids=repr,
)
def test_headers_that_are_refused(header, message, path):
    with pytest.raises(TypeError, match=message):
        write_model(path, "test", header, {})
    assert os.listdir(path.parent) == []


def test_kind_must_be_a_string(path):
    with pytest.raises(TypeError, match="kind must be a string, got int"):
        write_model(path, 3, {}, {})


# What is not read


@pytest.fixture
def model(path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "X": sparse.csr_array(np.eye(3))}
    write_model(path, "test", {"a": 1}, arrays)
    return path


def test_not_an_archive(path):
    for content in (b"", b"Dear reader", b"PK\x03\x04", npy(np.zeros(3))):
        path.write_bytes(content)
        refused(path, "not a zip file")


def test_foreign_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "Dear reader")
    refused(path, r"no header\.json")
    with zipfile.ZipFile(path, "w"):
        pass
    refused(path, r"no header\.json")


def test_foreign_npz(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    refused(tmp_path / "a.npz", r"no header\.json")


def test_wrong_kind(model):
    refused(model, "holds a 'test', but a 'HERAClassifier' was asked for", "HERAClassifier")


def test_later_format(model):
    def change(document):
        document["format_version"] = 2
        document["versions"]["hera-fast"] = "9.8"

    rewrite_header(model, change)
    refused(model, r"written by hera-fast 9\.8 in format version 2, .* reads up to 1: update")
    rewrite_header(model, lambda document: document.pop("versions"))
    refused(model, "written by hera-fast of a later version in format version 2")


@pytest.mark.parametrize("version", [None, 0, -1, 1.0, "1", True, [1]])
def test_impossible_format_version(model, version):
    rewrite_header(model, lambda document: document.update(format_version=version))
    refused(model, "no valid format version")


@pytest.mark.parametrize("name", ["header", "arrays", "sparse"])
@pytest.mark.parametrize("value", [None, [], "a"])
def test_incomplete_header(model, name, value):
    rewrite_header(model, lambda document: document.update({name: value}))
    refused(model, f"no '{name}'")
    rewrite_header(model, lambda document: document.pop(name))
    refused(model, f"no '{name}'")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b"Dear reader", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"format": "hera-fast model", "a": NaN}', "NaN, which is not JSON"),
        (b"[]", "does not say that its format is 'hera-fast model'"),
        (b"{}", "does not say"),
        (b'{"format": "other"}', "does not say"),
        (b'{"$float": "inf"}', "does not say"),
        (b"[" * 100_000, "damaged .RecursionError"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_wrong_header(model, text, reason):
    rewrite(model, lambda members: {**members, "header.json": text})
    refused(model, reason)


def test_missing_and_extra_members(model):
    before = model.read_bytes()
    for name in ("x.npy", "X.data.npy"):
        model.write_bytes(before)
        rewrite(model, lambda members, name=name: {k: v for k, v in members.items() if k != name})
        refused(model, f"{re.escape(name)} is missing")
    for name in ("y.npy", "letter.txt", "../x.npy"):
        model.write_bytes(before)
        rewrite(model, lambda members, name=name: {**members, name: b"a"})
        refused(model, f"{re.escape(name)} does not belong")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_member_twice(model):
    rewrite(model, lambda members: [*members.items(), ("x.npy", members["x.npy"])])
    refused(model, "appears twice")


def test_compressed_member(model):
    rewrite(model, lambda members: members, compression=zipfile.ZIP_DEFLATED)
    refused(model, "compressed")


def test_changed_array(model):
    rewrite(model, lambda members: {**members, "x.npy": npy(np.arange(6.0).reshape(2, 3) + 1)})
    refused(model, "x is not what was written: its SHA-256 digest differs")


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 2)), np.zeros((2, 3), np.int64), np.zeros((2, 3), ">f8"), np.zeros((2, 3)).T.T],
    ids=["shape", "dtype", "byte order", "equal"],
)
def test_array_of_another_kind(model, array):
    rewrite(model, lambda members: {**members, "x.npy": npy(np.asfortranarray(array))})
    refused(model, "x does not have the dtype and shape")


def test_array_of_another_size(model):
    rewrite(model, lambda members: {**members, "x.npy": npy(np.zeros((2, 4)))})
    refused(model, "not the size it has")


def test_pickled_array_is_never_opened(model):
    rewrite(model, lambda members: {**members, "x.npy": npy(np.array([[print]], object))})
    refused(model, "x is said to have shape")
    rewrite_header(model, lambda document: document["arrays"]["x"].update(dtype="|O"))
    refused(model, r"x has the dtype '\|O', which no model has")


@pytest.mark.parametrize("dtype", ["|V8", "f8", "float64", "=f8", "<f8,<f8", "(2,)<f8", "junk", 3])
def test_impossible_dtype(model, dtype):
    rewrite_header(model, lambda document: document["arrays"]["x"].update(dtype=dtype))
    refused(model, "dtype|damaged")


@pytest.mark.parametrize(
    "shape",
    [[2**40], [2**62, 2**62], [2**64], [0, 2**70], [3], [-2, -3], [2.0, 3], ["2", 3], [True]],
)
def test_absurd_shape_takes_no_memory(model, shape):
    rewrite_header(model, lambda document: document["arrays"]["x"].update(shape=shape))
    tracemalloc.start()
    try:
        refused(model, "shape")
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", ["dtype", "shape", "sha256"])
def test_incomplete_description(model, key):
    rewrite_header(model, lambda document: document["arrays"]["x"].pop(key))
    refused(model, f"damaged .KeyError: '{key}'")


def test_members_larger_than_the_file(model):
    content = bytearray(model.read_bytes())
    record = content.index(b"PK\x01\x02")
    struct.pack_into("<II", content, record + 20, 2**31, 2**31)
    model.write_bytes(content)
    refused(model, "larger than the file")


@pytest.mark.parametrize(
    ("part", "array", "reason"),
    [
        ("indices", np.array([0, 1, 3], np.int32), "indices"),
        ("indices", np.array([0, -1, 2], np.int32), "indices"),
        ("indptr", np.array([0, 2, 1, 3], np.int32), "indptr|index pointer"),
    ],
)
def test_csr_that_would_lead_outside(path, part, array, reason):
    matrix = sparse.csr_array(np.eye(3))
    getattr(matrix, part)[:] = array
    write_model(path, "test", {}, {"X": matrix})
    refused(path, reason)


def test_csr_without_entries_that_would_lead_outside(path):
    matrix = sparse.csr_array((2, 3))
    matrix.indptr[1] = 1_000_000
    write_model(path, "test", {}, {"X": matrix})
    refused(path, "index pointer values must not fall")


def test_unknown_container(model):
    rewrite_header(model, lambda document: document["sparse"]["X"].update(container="dict"))
    refused(model, "damaged .KeyError: 'dict'")


def test_something_before_the_archive(model):
    content = model.read_bytes()
    model.write_bytes(b"Dear reader" + content)
    refused(model, "before the archive")
    model.write_bytes(content + content)
    refused(model, "before the archive")


def test_tail_of_a_file_with_a_model_inside(model, tmp_path):
    inner = model.read_bytes()
    write_model(tmp_path / "outer", "test", {}, {"x": np.frombuffer(inner, np.uint8)})
    outer = (tmp_path / "outer").read_bytes()
    model.write_bytes(outer[: outer.index(inner) + len(inner)])
    refused(model, "before the archive")


def test_errors_of_the_disk_are_no_damage(model, monkeypatch):
    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        read_model(model, "test")


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_lack_of_memory_is_no_damage(model, error, monkeypatch):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(zipfile.ZipExtFile, "read", fail)
    with pytest.raises(error):
        read_model(model, "test")


# Damage anywhere


def damaged_model(folder, damage):
    """A small model, damaged; returns what it was, and the file."""
    path = folder / "damaged.hera"
    header = {"a": 0.5, "b": "text"}
    arrays = {"x": np.arange(5.0), "s": np.array(["a", "b"]), "X": sparse.csr_array(np.eye(2))}
    write_model(path, "test", header, arrays)
    path.write_bytes(damage(bytearray(path.read_bytes())))
    return header, arrays, path


def refused_or_equal(header, arrays, path):
    """Whether the file was refused; if not, it must be what was written."""
    try:
        read, found = read_model(path, "test")
    except ValueError:
        return True
    assert read == header
    assert found.keys() == arrays.keys()
    for name in ("x", "s"):
        assert_same(found[name], arrays[name])
    assert_same_csr(found["X"], arrays["X"])
    return False


@settings(max_examples=400)
@given(where=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_changed_byte_is_never_silent(where, change, tmp_path_factory):
    def damage(content):
        content[int(where * len(content))] ^= change
        return content

    refused_or_equal(*damaged_model(tmp_path_factory.getbasetemp(), damage))


def test_a_changed_bit_in_contents_is_refused(tmp_path):
    header, arrays, path = damaged_model(tmp_path, bytes)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    for info in infos:
        start = info.header_offset + 30 + len(info.filename)
        for position in range(start, start + info.file_size):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 8
            path.write_bytes(damaged)
            assert refused_or_equal(header, arrays, path), f"{info.filename}, byte {position}"


@settings(max_examples=200)
@given(where=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused(where, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    damage = lambda content: content[: int(where * len(content))]
    assert refused_or_equal(*damaged_model(folder, damage))


@settings(max_examples=100)
@given(
    where=st.floats(0, 1, exclude_max=True),
    removed=st.integers(0, 40),
    inserted=st.binary(max_size=40),
)
def test_a_changed_piece_is_never_silent(where, removed, inserted, tmp_path_factory):
    def damage(content):
        start = int(where * len(content))
        content[start : start + removed] = inserted
        return content

    refused_or_equal(*damaged_model(tmp_path_factory.getbasetemp(), damage))
