"""Archives of NumPy arrays: all names, dense and sparse, with and without truth."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
from bunches import CANDIDATES, DATA, NAMES, TARGET, assert_same, example
from scipy import sparse

from hera_fast import expansion
from hera_fast.bunch import make_bunch
from hera_fast.npz_files import read_npz, write_npz


def archive(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file


def read(**arrays):
    return make_bunch(**read_npz(archive(**arrays)))


def parts(name, matrix):
    matrix = sparse.csr_array(matrix)
    return {
        f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")
    }


def refused(reason, **arrays):
    with pytest.raises(ValueError, match=reason):
        read(**arrays)


def assert_example(bunch):
    assert bunch.data.tobytes() == DATA.tobytes()
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
    assert bunch.target.tolist() == TARGET.tolist()


@pytest.mark.parametrize(
    "names", [("X", "Y", "y"), ("data", "candidates", "target"), ("X", "candidates", "y")]
)
def test_names(names):
    assert_example(read(**dict(zip(names, (DATA, CANDIDATES, TARGET), strict=True))))


@pytest.mark.parametrize("name", ["classes", "target_names"])
def test_names_of_labels_and_features(name):
    bunch = read(
        X=DATA, Y=CANDIDATES, y=TARGET, **{name: NAMES}, feature_names=["a", "b"], DESCR="x"
    )
    assert_example(bunch)
    assert bunch.target_names.tolist() == NAMES
    assert bunch.feature_names == ["a", "b"]
    assert bunch.DESCR.endswith("\n\nx")


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float32, ">i2", ">f8"])
def test_types(dtype):
    assert_example(read(X=DATA, Y=CANDIDATES.astype(dtype), y=TARGET.astype(">u2")))
    assert_example(read(X=DATA, **parts("Y", CANDIDATES), y=TARGET))
    swapped = parts("Y", CANDIDATES)
    swapped["Y.data"] = swapped["Y.data"].astype(dtype)
    assert_example(read(X=DATA.astype(">f8"), **swapped, y=TARGET))


def test_sparse_data():
    matrix = sparse.csr_array(np.array([[0, 1.5], [0, 0], [2, 3], [0, 0]], np.float32))
    bunch = read(**parts("X", matrix), Y=CANDIDATES)
    assert isinstance(bunch.data, sparse.csr_array)
    assert bunch.data.dtype == np.float32
    np.testing.assert_array_equal(bunch.data.toarray(), matrix.toarray())


@pytest.mark.parametrize(
    ("arrays", "names", "target"),
    [
        ({"y": TARGET}, [0, 1, 2], TARGET),
        ({"y": np.array([7, 5, 5, 9])}, [5, 7, 9], [1, 0, 0, 2]),
        ({"y": np.array(["b", "a", "b", "c"])}, ["a", "b", "c"], [1, 0, 1, 2]),
        ({"y": np.array([2.0, 1.0, 1.0, 2.0])}, [1, 2], [1, 0, 0, 1]),
        ({"y": TARGET, "classes": ["z", "y", "x", "w"]}, ["z", "y", "x", "w"], TARGET),
        ({"y": TARGET, "classes": [5, 6, 7]}, [5, 6, 7], TARGET),
        ({"y": np.array(["y", "z", "z", "z"]), "classes": ["z", "y"]}, ["z", "y"], [1, 0, 0, 0]),
    ],
)
def test_supervised_data(arrays, names, target):
    bunch = read(X=DATA, **arrays)
    assert bunch.target_names.tolist() == names
    assert bunch.target.tolist() == list(target)
    np.testing.assert_array_equal(bunch.candidates.toarray(), np.eye(len(names))[target])


def test_truth_by_name():
    bunch = read(X=DATA, Y=CANDIDATES, y=np.array(NAMES)[TARGET], classes=NAMES)
    assert_example(bunch)


def test_other_arrays():
    bunch = read(X=DATA, Y=CANDIDATES, sex=np.array(["f"]), DESCR="A text.", also=np.zeros(3))
    assert bunch.DESCR.splitlines()[1:] == ["", "A text.", "Arrays that were not read: also, sex."]


def test_everything_comes_back():
    for bunch in (example(), example(target=None), example(data=sparse.csr_array(DATA[:, ::-1]))):
        file = io.BytesIO()
        write_npz(file, bunch)
        assert_same(make_bunch(**read_npz(file)), bunch)


def test_what_others_find_in_the_file():
    file = io.BytesIO()
    write_npz(file, example())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        parts = (arrays[f"candidates.{part}"] for part in ("data", "indices", "indptr"))
        candidates = sparse.csr_array(tuple(parts), shape=arrays["candidates.shape"])
        np.testing.assert_array_equal(candidates.toarray(), CANDIDATES)
        np.testing.assert_array_equal(arrays["data"], DATA)
        np.testing.assert_array_equal(arrays["target"], TARGET)
        assert arrays["target_names"].tolist() == NAMES
    with zipfile.ZipFile(file) as members:
        assert {info.compress_type for info in members.infolist()} == {zipfile.ZIP_DEFLATED}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"Y": CANDIDATES}, "no array 'data' or 'X' among its arrays: 'Y'"),
        ({"X": DATA}, "neither candidates .* nor true labels"),
        ({"X": DATA, "data": DATA, "y": TARGET}, "'data' and 'X' are two names for one thing"),
        ({"X": DATA, "y": TARGET, "target": TARGET}, "'target' and 'y' are two names"),
        ({"X": DATA, "Y": CANDIDATES, **parts("candidates", CANDIDATES)}, "'candidates' and 'Y'"),
        ({"X": DATA, "y": TARGET[:, None]}, r"must be 1-d, got the shape \(4, 1\)"),
        (
            {"X": DATA, "Y": CANDIDATES, "y": TARGET[:, None]},
            r"must be 1-d, got the shape \(4, 1\)",
        ),
        ({"X": DATA, "Y": CANDIDATES, "y": np.array(NAMES)[TARGET]}, "without names of the labels"),
        ({"X": DATA, "Y": CANDIDATES, "y": TARGET / 1.0}, "of float64: without names"),
        (
            {"X": DATA, "y": TARGET, "classes": NAMES[:2]},
            "row 0 is 2, but there are names for 0 to 1",
        ),
        ({"X": DATA, "y": TARGET - 1, "classes": NAMES}, "row 2 is -1, but there are names"),
        ({"X": DATA, "y": np.array(["x"] * 4), "classes": NAMES}, "row 0 has the label 'x', which"),
        ({"X": DATA, "y": TARGET / 2}, "continuous"),
    ],
)
def test_arrays_that_do_not_fit(arrays, reason):
    refused(reason, **arrays)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Y.indices": None}, r"the array 'Y\.indices' is missing"),
        ({"Y.shape": None}, r"the array 'Y\.shape' is missing"),
        ({"Y.indices": [0, 2, 1, 0, 1, 2, 3]}, "the parts of Y make no matrix: .*[Ii]nd"),
        ({"Y.indices": [0, 2, -1, 0, 1, 2, 2]}, "the parts of Y make no matrix"),
        ({"Y.indices": [0, 2, 1]}, "the parts of Y make no matrix"),
        ({"Y.indices": [0.0, 2, 1, 0, 1, 2, 2]}, r"Y\.indices and Y\.indptr must be integers"),
        ({"Y.indices": np.zeros((7, 1), int)}, "the parts of Y make no matrix"),
        ({"Y.indptr": [0, 2, 3, 6, 99]}, "the parts of Y make no matrix"),
        ({"Y.indptr": [0, 3, 2, 6, 7]}, "the parts of Y make no matrix"),
        ({"Y.indptr": [1, 2, 3, 6, 7]}, "the parts of Y make no matrix"),
        ({"Y.indptr": [0, 2, 3, 7]}, "the parts of Y make no matrix"),
        ({"Y.shape": [4, -3]}, "the parts of Y make no matrix"),
        ({"Y.shape": [4, 3, 1]}, "must be integers"),
        ({"Y.shape": [2**62, 3]}, "the parts of Y make no matrix"),
        ({"Y.data": np.array(["a"] * 7)}, r"Y\.data must be real numbers, got <U1"),
        ({"Y.data": np.ones(7, complex)}, r"Y\.data must be real numbers, got complex128"),
    ],
)
def test_parts_that_do_not_fit(change, reason):
    arrays = {**parts("Y", CANDIDATES), **change}
    refused(reason, X=DATA, **{name: part for name, part in arrays.items() if part is not None})


class Exploding:
    """Whoever unpickles this will notice."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("name", ["X", "Y", "y", "classes", "feature_names", "DESCR", "Y.indptr"])
def test_pickles_are_not_run(name):
    bomb = np.empty(1, object)
    bomb[0] = Exploding()
    arrays = {"X": DATA, "Y": CANDIDATES, name: bomb}
    if "." in name:
        del arrays["Y"]
        arrays |= {**parts("Y", CANDIDATES), name: bomb}
    file = archive(**arrays)
    with zipfile.ZipFile(file) as members:
        assert b"a pickle was run" in members.read(f"{name}.npy")
    with pytest.raises(ValueError, match=f"{name} holds Python objects, which only a pickle"):
        read_npz(file)


def test_bare_pickles_are_not_run():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("X.npy", pickle.dumps(Exploding()))
    with pytest.raises(ValueError, match="magic"):
        read_npz(file)


def header(shape, dtype="<f8", version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return b"\x93NUMPY" + bytes(version) + file.getvalue()[8:]


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (
            header((10**15,)),
            r"X is said to have shape \(1000000000000000,\), which is not the size",
        ),
        (header((2, 2)) + bytes(31), r"X is said to have shape \(2, 2\)"),
        (header((2, 2)) + bytes(33), r"X is said to have shape \(2, 2\)"),
        (header((-1, 2)), "X is said to have shape"),
        (header((2, 2), version=(9, 0)) + bytes(32), "(?i)version"),
        (header((2, 2), version=(3, 0)) + bytes(32), r"unknown format version \(3, 0\)"),
        (header((2, 2), "|O") + bytes(32), "X holds Python objects"),
        (header((2, 2), [("a", "|O")]) + bytes(32), "X holds Python objects"),
        (b"", "(?i)magic"),
    ],
)
def test_headers_are_not_trusted(member, reason):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("X.npy", member)
    with pytest.raises(ValueError, match=reason):
        read_npz(file)


def test_versions_of_the_format():
    for version in ((1, 0), (2, 0)):
        file = archive(Y=CANDIDATES)
        with zipfile.ZipFile(file, "a") as members, members.open("X.npy", "w") as member:
            np.lib.format.write_array(member, DATA, version)
        assert make_bunch(**read_npz(file)).data.tobytes() == DATA.tobytes()


def test_bombs(monkeypatch):
    monkeypatch.setattr(expansion, "_HARMLESS", 1000)
    file = io.BytesIO()
    np.savez_compressed(file, X=np.zeros((1000, 100)), Y=np.ones((1000, 1)))
    with pytest.raises(ValueError, match=r"X would unfold from .* out of proportion"):
        read_npz(file)
    read_npz(archive(X=np.zeros((1000, 100)), Y=np.ones((1000, 1))))


def test_sizes_of_members_are_not_trusted():
    file = archive(X=DATA, Y=CANDIDATES)
    content = file.getvalue()
    with zipfile.ZipFile(file) as members:
        info = members.getinfo("X.npy")
    sizes = struct.pack("<II", info.compress_size, info.file_size)
    place = content.rindex(sizes, 0, content.rindex(b"X.npy"))
    for claimed in (2**31, 2**32 - 2):
        damaged = content[:place] + struct.pack("<II", claimed, claimed) + content[place + 8 :]
        with pytest.raises(
            ValueError, match=f"X would unfold from {len(content)} bytes to {claimed}"
        ):
            read_npz(io.BytesIO(damaged))


def test_the_same_array_twice():
    file = archive(X=DATA, Y=CANDIDATES)
    with zipfile.ZipFile(file, "a") as members, pytest.warns(UserWarning, match="Duplicate"):
        members.writestr("X.npy", b"")
    with pytest.raises(ValueError, match="an array is there more than once"):
        read_npz(file)


def test_wrong_checksums():
    file = archive(X=DATA, Y=CANDIDATES)
    damaged = bytearray(file.getvalue())
    place = damaged.index(DATA.tobytes())
    damaged[place] ^= 1
    with pytest.raises(zipfile.BadZipFile, match="CRC"):
        read_npz(io.BytesIO(bytes(damaged)))
