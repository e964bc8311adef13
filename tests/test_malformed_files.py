"""Files that are wrong in one way each, and what is said about them; and files that are damaged."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from matlab_hdf5 import write_hdf5
from pyarrow import parquet
from scipy import sparse
from scipy.io import savemat
from sklearn.utils import Bunch

from hera_fast.data_files import load_partial_labels, save_partial_labels

DATA = np.array([[0.5, 1], [2, 3], [4, np.nan], [6, 7], [8, 9]])
CANDIDATES = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]])
TARGET = np.array([2, 1, 0, 2, 0])
TRUTH = np.eye(3)[TARGET]
# As many rows as DATA and as many columns as CANDIDATES.
EMPTY = sparse.csc_array((5, 3))
CSV = """weight,legs,candidates,target
0.5,1,cat|owl,owl
2,3,dog,dog
4,,cat|dog|owl,cat
6,7,owl,owl
8,9,cat|dog,cat
"""
SVM = "1,3 1:0.5 2:1\n2 1:2 2:3\n1,2,3 1:4\n3 1:6 2:7\n1,2 1:8 2:9\n"


class Exploding:
    """Whoever unpickles this will notice."""

    def __reduce__(self):
        return (os.mkdir, ("a-pickle-was-run",))


def changed(matrix, *places):
    """A copy with other entries, given as (row, column, value)."""
    matrix = np.array(matrix, float)
    for row, column, value in places:
        matrix[row, column] = value
    return matrix


def objects(entry):
    array = np.empty(5, object)
    array[:] = [entry] * 5
    return array


# How they are made: each of these returns the bytes of a file.


def text(*replacements):
    content = CSV
    for old, new in replacements:
        assert old in content
        content = content.replace(old, new, 1)
    return content.encode()


def tabs(*replacements):
    return text(*replacements).replace(b",", b"\t")


def svm(old, new):
    assert old in SVM
    return SVM.replace(old, new, 1).encode()


def npz(**changes):
    arrays = {"X": DATA, "Y": CANDIDATES, "y": TARGET} | changes
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()


def npz_parts(**changes):
    matrix = sparse.csr_array(CANDIDATES)
    parts = {f"Y.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    return npz(
        Y=None, **{**parts, **{name.replace("_", "."): new for name, new in changes.items()}}
    )


def npz_far(name):
    """A file with a matrix without entries, one of whose rows begins far outside."""
    far = np.array([0, 10**6, 0, 0, 0, 0])
    parts = {"data": np.empty(0), "indices": np.empty(0, int), "indptr": far, "shape": [5, 3]}
    return npz(**{name: None}, **{f"{name}.{part}": value for part, value in parts.items()})


def npz_member(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", content)
    return file.getvalue()


def matlab_variables(changes):
    variables = {"data": DATA, "partial_target": CANDIDATES.T, "target": TRUTH.T} | changes
    return {name: variable for name, variable in variables.items() if variable is not None}


def mat(*, compressed=False, **changes):
    file = io.BytesIO()
    savemat(file, matlab_variables(changes), do_compression=compressed)
    return file.getvalue()


def mat_sparse(offset, value):
    """A file in whose partial_target one index is another."""
    matrix = sparse.csc_array(CANDIDATES.T * 1.0)
    content = mat(partial_target=matrix)
    place = content.index(matrix.indices.astype("<i4").tobytes()) + 4 * offset
    return content[:place] + struct.pack("<i", value) + content[place + 4 :]


def mat_far(name, matrix):
    """A file with a matrix without entries, one of whose columns begins far outside."""
    content = mat(**{name: matrix})
    starts = struct.pack("<II", 5, matrix.indptr.nbytes) + matrix.indptr.astype("<i4").tobytes()
    place = content.index(starts) + 12
    return content[:place] + struct.pack("<i", 10**6) + content[place + 4 :]


def hdf5_far(name, matrix):
    def change(root):
        root[name]["jc"][1] = 10**6

    return hdf5(change, **{name: matrix})


def hdf5(change=lambda root: None, **changes):
    path = "file.mat"
    write_hdf5(path, matlab_variables(changes))
    with h5py.File(path, "r+") as root:
        change(root)
    with open(path, "rb") as file:
        return file.read()


def hdf5_sparse(part, value):
    def change(root):
        if part == "MATLAB_sparse":
            root["partial_target"].attrs[part] = value
        else:
            del root["partial_target"][part]
            root["partial_target"][part] = value

    return hdf5(change, partial_target=sparse.csc_array(CANDIDATES.T * 1.0))


def table(**changes):
    columns = {
        "x": DATA[:, 0],
        "candidates": [["cat", "owl"], ["dog"], ["cat", "dog", "owl"], ["owl"], ["cat", "dog"]],
        "target": ["owl", "dog", "cat", "owl", "cat"],
    } | changes
    file = io.BytesIO()
    names = [name for name in columns if columns[name] is not None]
    arrays = [pa.array(columns[name]) for name in names]
    parquet.write_table(pa.Table.from_arrays(arrays, names), file)
    return file.getvalue()


class Malformed(NamedTuple):
    name: str  # with the suffix of the file
    make: Callable[[], bytes]
    reason: str  # a pattern of what is said after the name of the file


MALFORMED = [
    # Text
    Malformed("empty.csv", lambda: b"", "line 1 is empty: it must name the columns"),
    Malformed("blank.csv", lambda: b"\n\n", "line 1 is empty"),
    Malformed("header only.csv", lambda: CSV.split("\n")[0].encode(), "no row below the header"),
    Malformed(
        "no header.csv", lambda: text((CSV.split("\n")[0] + "\n", "")), "no column 'candidates'"
    ),
    Malformed(
        "no candidates.csv",
        lambda: text(("candidates", "labels")),
        "no column 'candidates'. The columns are 'weight', 'legs', 'labels', 'target'",
    ),
    Malformed("semicolons.csv", lambda: text().replace(b",", b";"), "must be separated by ','"),
    Malformed("commas.tsv", lambda: text(), r"must be separated by '\\t'"),
    Malformed("no features.csv", lambda: b"candidates,target\na,a\n", "no column with a feature"),
    Malformed("twice.csv", lambda: text(("legs", "weight")), "the column 'weight' more than once"),
    Malformed("index.csv", lambda: text(("weight", "")), "column 0 .* has no name.*index=False"),
    Malformed(
        "short row.csv", lambda: text(("6,7,", "6,")), "line 5 has 3 cells, but .* 4 columns"
    ),
    Malformed("long row.csv", lambda: text(("6,7,", "6,7,8,")), "line 5 has 5 cells, but .* 4"),
    Malformed(
        "short row.tsv", lambda: tabs(("6,7,", "6,")), "line 5 has 3 cells, but .* 4 columns"
    ),
    Malformed(
        "word.csv", lambda: text(("6,7", "6,many")), "line 5, column 'legs': 'many' is not a"
    ),
    Malformed(
        "word.tsv", lambda: tabs(("6,7", "6,many")), "line 5, column 'legs': 'many' is not a"
    ),
    Malformed(
        "comma.csv", lambda: text(("6,7", '6,"7,5"')), "line 5, column 'legs': '7,5' is not a"
    ),
    Malformed(
        "infinity.csv", lambda: text(("6,7", "inf,7")), "line 5, column 'weight': 'inf' is inf"
    ),
    Malformed(
        "empty set.csv",
        lambda: text((",dog,dog", ",,dog")),
        r"line 3 \(row 1\), column 'candidates': there are no candidates",
    ),
    Malformed(
        "empty label.csv",
        lambda: text(("cat|dog|owl", "cat||owl")),
        r"line 4 \(row 2\), column 'candidates': there is an empty label in 'cat\|\|owl'",
    ),
    Malformed(
        "truth outside.csv",
        lambda: text((",dog,dog", ",dog,cat")),
        r"line 3 \(row 1\), column 'target': the true label is 'cat', .* candidates 'dog'",
    ),
    Malformed(
        "truth unknown.tsv",
        lambda: tabs((",dog,dog", ",dog,cow")),
        r"line 3 \(row 1\), column 'target': the true label is 'cow'",
    ),
    Malformed(
        "truth missing.csv",
        lambda: text((",dog,dog", ",dog,")),
        r"line 3 \(row 1\), column 'target': the true label is missing",
    ),
    Malformed("open quote.csv", lambda: text(("6,7,owl", '6,7,"owl')), "line 6: unexpected end of"),
    Malformed("closed quote.csv", lambda: text(("dog,dog", '"dog"x,dog')), "line 3: .* expected"),
    Malformed(
        "latin1.csv",
        lambda: text(("6,7,owl", "6,7,öwl")).decode().encode("latin1"),
        "line 5 is not UTF-8",
    ),
    Malformed("utf16.csv", lambda: text().decode().encode("utf-16"), "line 1 is not UTF-8"),
    Malformed("cut off.csv", lambda: text()[:-6], "line 6 has 3 cells, but"),
    Malformed("spreadsheet.csv", lambda: npz(), "line [12] is not UTF-8"),
    # svmlight
    Malformed("empty.svm", lambda: b"", "no line has a feature"),
    Malformed(
        "empty set.svm", lambda: svm("2 1:2", "1:2"), "line 2: there are no candidates before"
    ),
    Malformed(
        "name.svmlight", lambda: svm("2 1:2", "dog 1:2"), "line 2: the label 'dog' is not an"
    ),
    Malformed(
        "fraction.libsvm", lambda: svm("2 1:2", "2.5 1:2"), r"line 2: the label '2\.5' is not"
    ),
    Malformed(
        "word.svm", lambda: svm("1:6", "1:six"), "line 4: the value of '1:six' is not a finite"
    ),
    Malformed("infinity.svm", lambda: svm("1:6", "1:inf"), "line 4: the value of '1:inf' is not a"),
    Malformed(
        "no index.svm", lambda: svm("1:6", "6"), "line 4: '6' is not of the form index:value"
    ),
    Malformed("negative.svm", lambda: svm("1:6", "-1:6"), "line 4: '-1:6' is not of the form"),
    Malformed(
        "descending.svm", lambda: svm("1:6", "3:6"), "line 4: .* ascend, but '2:7' follows 3"
    ),
    Malformed(
        "huge index.svm", lambda: svm("2:7", f"{10**12}:7"), "line 4: the index of .* larger"
    ),
    # NumPy
    Malformed("empty.npz", lambda: b"", "no intact .npz file"),
    Malformed("magic.npz", lambda: b"PL" + npz()[2:], "no intact .npz file"),
    Malformed("text.npz", lambda: text(), "no intact .npz file"),
    Malformed(
        "no data.npz", lambda: npz(X=None), "no array 'data' or 'X' among its arrays: 'Y', 'y'"
    ),
    Malformed(
        "data only.npz", lambda: npz(Y=None, y=None), "neither candidates .* nor true labels"
    ),
    Malformed(
        "two names.npz", lambda: npz(data=DATA), "'data' and 'X' are two names for one thing"
    ),
    Malformed("pickle.npz", lambda: npz(X=objects(Exploding())), "X holds Python objects"),
    Malformed(
        "pickled names.npz", lambda: npz(classes=objects(Exploding())), "classes holds Python"
    ),
    Malformed("bare pickle.npz", lambda: npz_member(b"\x80\x04cos\nmkdir\n."), "magic"),
    Malformed(
        "strings.npz", lambda: npz(X=DATA.astype(str)), "data must be real numbers, got an ar"
    ),
    Malformed(
        "complex.npz", lambda: npz(X=DATA * 1j), "data must be real numbers, got .* complex128"
    ),
    Malformed("vector.npz", lambda: npz(X=DATA[:, 0]), "Expected 2D array"),
    Malformed("rows.npz", lambda: npz(X=DATA[:4]), "found 5 rows of candidates for 4 rows"),
    Malformed("turned.npz", lambda: npz(Y=CANDIDATES.T), "found 3 rows .* looks transposed"),
    Malformed(
        "no rows.npz", lambda: npz(X=DATA[:0], Y=CANDIDATES[:0], y=TARGET[:0]), r"0 sample\(s\)"
    ),
    Malformed("no features.npz", lambda: npz(X=DATA[:, :0]), r"0 feature\(s\)"),
    Malformed("no labels.npz", lambda: npz(Y=CANDIDATES[:, :0]), "have no columns"),
    Malformed(
        "infinity.npz",
        lambda: npz(X=changed(DATA, (3, 1, np.inf))),
        r"infinity in row 3, column 1 \('x1'\)",
    ),
    Malformed(
        "empty set.npz", lambda: npz(Y=changed(CANDIDATES, (3, 2, 0))), "no candidates: row 3"
    ),
    Malformed(
        "nan.npz", lambda: npz(Y=changed(CANDIDATES, (3, 2, np.nan))), "NaN: .* row 3, column 2"
    ),
    Malformed(
        "two.npz", lambda: npz(Y=changed(CANDIDATES, (3, 2, 2))), "0 or 1, got 2.0 in row 3, col"
    ),
    Malformed(
        "minus.npz", lambda: npz(Y=changed(CANDIDATES, (3, 2, -1))), "0 or 1, got -1.0 in row 3"
    ),
    Malformed(
        "truth outside.npz", lambda: npz(y=np.array([2, 1, 0, 0, 0])), r"row 3 is '0' \(column 0\)"
    ),
    Malformed(
        "truth range.npz", lambda: npz(y=TARGET + 1), "target of row 0 is 3, but the labels are"
    ),
    Malformed(
        "truth negative.npz", lambda: npz(y=TARGET - 1), "target of row 2 is -1, but the labels"
    ),
    Malformed("truth fractions.npz", lambda: npz(y=TARGET / 2), "of float64: without names"),
    Malformed(
        "names.npz", lambda: npz(classes=["a", "b"]), "found 3 columns of candidates, expected 2"
    ),
    Malformed("same names.npz", lambda: npz(classes=["a", "b", "a"]), "'a' more than once"),
    Malformed(
        "features.npz", lambda: npz(feature_names=["a"]), "found 1 feature_names for 2 features"
    ),
    Malformed("part missing.npz", lambda: npz_parts(Y_indices=None), r"'Y\.indices' is missing"),
    Malformed(
        "index range.npz", lambda: npz_parts(Y_indices=[0, 2, 1, 0, 1, 9, 2, 0, 1]), "parts of Y"
    ),
    Malformed(
        "index negative.npz",
        lambda: npz_parts(Y_indices=[0, 2, -1, 0, 1, 2, 2, 0, 1]),
        "parts of Y",
    ),
    Malformed(
        "indices short.npz", lambda: npz_parts(Y_indices=[0, 2]), "parts of Y make no matrix"
    ),
    Malformed("indptr falls.npz", lambda: npz_parts(Y_indptr=[0, 3, 2, 6, 7, 9]), "parts of Y"),
    Malformed("indptr far.npz", lambda: npz_parts(Y_indptr=[0, 2, 3, 6, 7, 10**9]), "parts of Y"),
    Malformed(
        "shape.npz",
        lambda: npz_parts(Y_shape=[5, 10**18]),
        "candidates has 10+ columns, and no more",
    ),
    Malformed("data far.npz", lambda: npz_far("X"), "parts of X make no matrix: .* must not fall"),
    Malformed("far.npz", lambda: npz_far("Y"), "parts of Y make no matrix: .* must not fall"),
    # MATLAB, version 5
    Malformed("empty.mat", lambda: b"", "no MATLAB file of version 5 or later"),
    Malformed(
        "magic.mat", lambda: mat()[:126] + b"XX" + mat()[128:], "no MATLAB file of version 5"
    ),
    Malformed("text.mat", lambda: text() * 2, "no MATLAB file of version 5 or later"),
    Malformed(
        "no data.mat", lambda: mat(data=None), "no variable 'data'.* are: partial_target, target"
    ),
    Malformed(
        "no candidates.mat", lambda: mat(partial_target=None), "no variable 'partial_target'"
    ),
    Malformed(
        "nothing.mat",
        lambda: mat(data=None, partial_target=None, target=None),
        "no variable 'data'",
    ),
    Malformed(
        "rows.mat", lambda: mat(data=DATA[:4]), "data is 4 x 2, partial_target is 3 x 5, target is"
    ),
    Malformed(
        "truth rows.mat", lambda: mat(target=TRUTH[:4]), "no number of rows .* target is 4 x 3"
    ),
    Malformed(
        "text data.mat", lambda: mat(data="text"), "data is no matrix of numbers: it is text"
    ),
    Malformed("cell.mat", lambda: mat(partial_target=objects("a")), "partial_target is no matrix"),
    Malformed("complex.mat", lambda: mat(data=DATA * 1j), "data must be a matrix of real numbers"),
    Malformed("cube.mat", lambda: mat(data=np.zeros((5, 2, 2))), "got 3 dimensions"),
    Malformed(
        "infinity.mat",
        lambda: mat(data=changed(DATA, (3, 1, -np.inf))),
        "infinity in row 3, column 1",
    ),
    Malformed(
        "empty set.mat",
        lambda: mat(partial_target=changed(CANDIDATES.T, (2, 3, 0))),
        "candidates: row 3",
    ),
    Malformed(
        "nan.mat",
        lambda: mat(partial_target=changed(CANDIDATES.T, (2, 3, np.nan))),
        "NaN: .* row 3, column 2",
    ),
    Malformed(
        "two.mat", lambda: mat(partial_target=CANDIDATES.T * 2), "0 or 1, got 2 in row 0, column 0"
    ),
    Malformed(
        "truth outside.mat",
        lambda: mat(target=TRUTH[[0, 1, 2, 2, 4]].T),
        "true label of row 3 is '0'",
    ),
    Malformed(
        "no truth.mat", lambda: mat(target=changed(TRUTH.T, (2, 3, 0))), "0 true labels in row 3"
    ),
    Malformed(
        "two truths.mat", lambda: mat(target=changed(TRUTH.T, (0, 3, 1))), "2 true labels in row 3"
    ),
    Malformed(
        "truth two.mat",
        lambda: mat(target=changed(TRUTH.T, (2, 3, 2))),
        "0 or 1, got 2.0 in row 3, column 2",
    ),
    Malformed(
        "truth range.mat",
        lambda: mat(target=TARGET[None] + 2),
        "target is 4 in row 0, but there are 3",
    ),
    Malformed(
        "names.mat",
        lambda: mat(target_names=["a", "b"]),
        "found 3 columns of candidates, expected 2",
    ),
    Malformed("index range.mat", lambda: mat_sparse(4, 3), "partial_target is damaged: .*ind"),
    Malformed("index negative.mat", lambda: mat_sparse(4, -1), "partial_target is damaged: .*ind"),
    Malformed("starts.mat", lambda: mat_sparse(12, 7), "index pointer"),
    Malformed("data far.mat", lambda: mat_far("data", EMPTY), "data is damaged: .* not fall"),
    Malformed(
        "far.mat",
        lambda: mat_far("partial_target", EMPTY.T.tocsc()),
        "partial_target is damaged: .* not fall",
    ),
    Malformed("cut off.mat", lambda: mat()[:-40], "damaged, or ends in the middle of a variable"),
    Malformed(
        "cut off early.mat", lambda: mat()[:300], "damaged, or ends in the middle of a variable"
    ),
    Malformed("cut off in the header.mat", lambda: mat()[:100], "no MATLAB file of version 5"),
    Malformed("cut off, compressed.mat", lambda: mat(compressed=True)[:-10], "ends in the middle"),
    Malformed(
        "bits, compressed.mat",
        lambda: mat(compressed=True).replace(b"x\x9c", b"x\x9d", 1),
        "damaged",
    ),
    # MATLAB, version 7.3
    Malformed("no data 7.3.mat", lambda: hdf5(data=None), "no variable 'data'"),
    Malformed(
        "rows 7.3.mat", lambda: hdf5(data=DATA[:4]), "data is 4 x 2, partial_target is 3 x 5"
    ),
    Malformed("cell 7.3.mat", lambda: hdf5(data=["a"]), "data is no matrix of numbers"),
    Malformed("cut off 7.3.mat", lambda: hdf5()[:-100], "no intact .mat file .*truncated"),
    Malformed("only the header 7.3.mat", lambda: hdf5()[:530], "no intact .mat file"),
    Malformed(
        "index range 7.3.mat",
        lambda: hdf5_sparse("ir", np.full(9, 3, "u8")),
        "partial_target is damaged: .*ind",
    ),
    Malformed(
        "index huge 7.3.mat",
        lambda: hdf5_sparse("ir", np.full(9, 2**63, "u8")),
        "partial_target is damaged: .*ind",
    ),
    Malformed(
        "indices short 7.3.mat",
        lambda: hdf5_sparse("ir", np.zeros(3, "u8")),
        "partial_target is damaged",
    ),
    Malformed(
        "starts 7.3.mat",
        lambda: hdf5_sparse("jc", np.array([0, 5, 3, 6, 7, 9], "u8")),
        "partial_target is damaged: .*ind",
    ),
    Malformed("data far 7.3.mat", lambda: hdf5_far("data", EMPTY), "data is damaged: .* not fall"),
    Malformed(
        "far 7.3.mat",
        lambda: hdf5_far("partial_target", EMPTY.T),
        "partial_target is damaged: .* not fall",
    ),
    Malformed(
        "columns 7.3.mat",
        lambda: hdf5_sparse("jc", np.array([0, 2, 3, 6, 9], "u8")),
        "no number of rows",
    ),
    Malformed(
        "height 7.3.mat",
        lambda: hdf5_sparse("MATLAB_sparse", np.uint64(2**40)),
        "no number of rows",
    ),
    # Parquet
    Malformed("empty.parquet", lambda: b"", "[Pp]arquet"),
    Malformed("magic.parquet", lambda: table()[:-4] + b"PAR2", "magic bytes"),
    Malformed("cut off.parquet", lambda: table()[:-30], "magic bytes"),
    Malformed("text.parquet", lambda: text(), "(magic bytes|[Pp]arquet)"),
    Malformed("no candidates.parquet", lambda: table(candidates=None), "no column 'candidates'"),
    Malformed("no features.parquet", lambda: table(x=None), "no column with a feature"),
    Malformed(
        "word.parquet", lambda: table(x=list("abcde")), "column 'x' holds string, but features"
    ),
    Malformed(
        "infinity.parquet", lambda: table(x=[1, 2, 3, np.inf, 4]), "infinity in row 3, column 0"
    ),
    Malformed(
        "empty set.parquet",
        lambda: table(candidates=[["a"], ["b"], [], ["a"], ["b"]]),
        "row 2, column 'cand",
    ),
    Malformed(
        "numbers.parquet",
        lambda: table(candidates=[1, 2, 3, 4, 5]),
        "but the column is of type int64",
    ),
    Malformed(
        "truth.parquet",
        lambda: table(target=list("abcde")),
        "row 0, column 'target': the true label is 'a'",
    ),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_they_are_made_from_is_right(folder):
    contents = {
        "x.csv": text(),
        "x.tsv": tabs(),
        "x.svm": SVM.encode(),
        "x.npz": npz(),
        "y.npz": npz_parts(),
        "x.mat": mat(),
        "y.mat": mat(compressed=True),
        "z.mat": mat_sparse(0, 0),
        "u.mat": hdf5(),
        "v.mat": hdf5_sparse("MATLAB_sparse", np.uint64(3)),
        "x.parquet": table(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        bunch = load_partial_labels(name)
        np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
        assert bunch.target is None if name == "x.svm" else (bunch.target == TARGET).all()


def test_there_are_many_and_every_name_is_used_once():
    assert len(MALFORMED) >= 45
    assert len({malformed.name for malformed in MALFORMED}) == len(MALFORMED)


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda malformed: malformed.name)
def test_malformed(malformed, folder):
    path = folder / malformed.name
    path.write_bytes(malformed.make())
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{malformed.reason}"):
        load_partial_labels(path)
    assert not (folder / "a-pickle-was-run").exists()


# Damage


def contents_of_all_formats():
    """Valid files of every format, by name."""
    with np.errstate(all="raise"):
        return {
            "a.csv": text(),
            "a.tsv": tabs(),
            "a.svm": SVM.encode(),
            "a.npz": npz(classes=["a", "b", "c"], feature_names=["d", "e"], DESCR="f"),
            "sparse.npz": npz_parts(),
            "a.mat": mat(
                partial_target=sparse.csc_array(CANDIDATES.T * 1.0), target_names=["a", "b", "c"]
            ),
            "empty data.mat": mat(data=EMPTY),
            "compressed.mat": mat(compressed=True),
            "a.parquet": table(),
        }


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    contents = contents_of_all_formats()
    write_hdf5(folder / "7.3.mat", {"lost": matlab_variables({"target": TARGET[None] + 1.0})})
    write_hdf5(folder / "empty data 7.3.mat", matlab_variables({"data": EMPTY}))
    for name in ("7.3.mat", "empty data 7.3.mat"):
        contents[name] = (folder / name).read_bytes()
    struct_file = io.BytesIO()
    savemat(struct_file, {"lost": {**matlab_variables({}), "tr_idx": objects("a")}})
    contents["struct.mat"] = struct_file.getvalue()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        load_partial_labels(folder / name)
    return contents


def assert_read_or_refused(path):
    reason = ""
    try:
        bunch = load_partial_labels(path)
    except (ValueError, OSError, ImportError) as error:
        reason = str(error)
    if reason:
        assert str(path) in reason
    else:
        assert isinstance(bunch, Bunch)
        assert bunch.candidates.sum(axis=1).all()


KINDS = [
    "a.csv",
    "a.tsv",
    "a.svm",
    "a.npz",
    "sparse.npz",
    "a.mat",
    "empty data.mat",
    "compressed.mat",
    "struct.mat",
    "7.3.mat",
    "empty data 7.3.mat",
    "a.parquet",
]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    kept=st.one_of(st.just(1.0), st.floats(0, 1)),
)
@example(flips=[], kept=0.0)
@example(flips=[], kept=1.0)
def test_damaged_files(name, flips, kept, sound, tmp_path):
    content = bytearray(sound[name][: round(kept * len(sound[name]))])
    for place, value in flips:
        if content:
            content[int(place * len(content))] = value
    path = tmp_path / name
    path.write_bytes(content)
    assert_read_or_refused(path)


@pytest.mark.parametrize("name", KINDS)
def test_files_that_are_cut_off(name, sound, tmp_path):
    path = tmp_path / name
    content = sound[name]
    for length in {*range(0, len(content), 1 + len(content) // 60), len(content) - 1}:
        path.write_bytes(content[:length])
        assert_read_or_refused(path)


@pytest.mark.parametrize("name", ["a.mat", "empty data.mat"])
def test_every_byte_of_the_tags_of_a_matlab_file(name, sound, tmp_path):
    """SciPy alone would end the interpreter for hundreds of these."""
    path = tmp_path / name
    content = sound[name]
    for place in range(124, len(content), 4):
        for value in (0, 8, 20, 255):
            path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            assert_read_or_refused(path)


def test_nothing_is_written_by_reading(sound, tmp_path):
    for name, content in sound.items():
        (tmp_path / name).write_bytes(content)
        load_partial_labels(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
    assert set(os.listdir(tmp_path)) == set(sound)


def test_a_file_that_is_saved_over_a_damaged_one_is_sound(sound, tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(sound["a.npz"][:50])
    save_partial_labels(path, DATA, CANDIDATES, TARGET)
    assert load_partial_labels(path).target.tolist() == TARGET.tolist()
