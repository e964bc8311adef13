"""Data sets come back from files as they were written, and real ones come in."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bunches import (
    CANDIDATES,
    DATA,
    FEATURES,
    NAMES,
    TARGET,
    assert_same,
    assert_same_labels,
    bunches,
    dense,
    example,
    texts,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.utils import Bunch

from hera_fast import data_files
from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels, save_partial_labels

WRITTEN = [".npz", ".mat", ".parquet", ".csv", ".tsv"]
TEXT = [".csv", ".tsv"]
READ_ONLY = [".svm", ".svmlight", ".libsvm"]

every_format = pytest.mark.parametrize("suffix", WRITTEN)
every_text_format = pytest.mark.parametrize("suffix", TEXT)
# The folder of a test serves all of its examples.
one_folder = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def there_and_back(folder, suffix, *data_set, **options):
    path = folder / f"a data set{suffix}"
    save_partial_labels(path, *data_set, **options)
    return load_partial_labels(path)


# Round trips


@every_format
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target": None},
        {"target_names": None, "feature_names": None},
        {"DESCR": ""},
        {
            "data": DATA[:1],
            "candidates": CANDIDATES[:1, ::2],
            "target": [1],
            "target_names": ["a", "b"],
        },
        {"candidates": np.ones((4, 1)), "target": [0] * 4, "target_names": ["only"]},
        {"candidates": np.ones((4, 1)), "target": None, "target_names": None},
        {"target_names": ["9", "10", "11"]},
        {"target_names": ["007", "1.0", "1e3"]},
        {"target_names": ["nan", "null", "true"]},
        {"target_names": ["-1", "0", "1"]},
        {"feature_names": ["x,y", 'say "x"\r\nhere']},
    ],
)
def test_example(suffix, changes, tmp_path):
    bunch = example(**changes)
    back = there_and_back(tmp_path, suffix, bunch)
    if suffix in TEXT:
        back.DESCR = bunch.DESCR
    assert_same(back, bunch)


@every_format
def test_a_hundred_unnamed_labels(suffix, tmp_path):
    rng = np.random.default_rng(0)
    candidates = rng.random((200, 100)) < 0.5
    bunch = make_bunch(rng.normal(size=(200, 3)), candidates, candidates.argmax(axis=1))
    assert_same(there_and_back(tmp_path, suffix, bunch), bunch)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".parquet"])
def test_integers_stay_integers(suffix, tmp_path):
    bunch = example(target_names=[7, -3, 2**62])
    assert_same(there_and_back(tmp_path, suffix, bunch), bunch)


@every_text_format
def test_integers_become_text(suffix, tmp_path):
    back = there_and_back(tmp_path, suffix, example(target_names=[10, 9, -3]))
    assert back.target_names.tolist() == ["-3", "9", "10"]
    assert back.candidates.toarray().tolist() == CANDIDATES[:, ::-1].tolist()
    assert back.target.tolist() == (2 - TARGET).tolist()


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".parquet"])
def test_labels_without_candidates_and_order_are_kept(suffix, tmp_path):
    bunch = example(
        candidates=np.insert(CANDIDATES, 1, False, axis=1),
        target=[3, 2, 0, 3],
        target_names=["z", "never", "b", "a"],
    )
    assert_same(there_and_back(tmp_path, suffix, bunch), bunch)


@every_text_format
def test_labels_without_candidates_are_left_out_of_text(suffix, tmp_path):
    bunch = example(
        candidates=np.insert(CANDIDATES, 1, False, axis=1),
        target=[3, 2, 0, 3],
        target_names=["z", "never", "b", "a"],
    )
    with pytest.warns(UserWarning, match=r"^1 of 4 labels .*: 'never'\. Write \.npz") as caught:
        back = there_and_back(tmp_path, suffix, bunch)
    assert [warning.filename for warning in caught] == [__file__]
    assert back.target_names.tolist() == ["a", "b", "z"]
    assert back.candidates.toarray().tolist() == CANDIDATES[:, ::-1].tolist()
    assert back.target_names[back.target].tolist() == ["a", "b", "z", "a"]


@one_folder
@given(bunch=bunches())
def test_npz_keeps_everything(bunch, tmp_path):
    assert_same(there_and_back(tmp_path, ".npz", bunch), bunch)


@one_folder
@given(bunch=bunches(names=st.integers(-(2**63), 2**63 - 1)), suffix=st.sampled_from(WRITTEN[:2]))
def test_integer_names(bunch, suffix, tmp_path):
    bunch.data = dense(bunch.data)
    assert_same(there_and_back(tmp_path, suffix, bunch), bunch)


@one_folder
@given(bunch=bunches())
def test_matlab_keeps_everything(bunch, tmp_path):
    back = there_and_back(tmp_path, ".mat", bunch)
    if sparse.issparse(bunch.data):
        bunch.data = bunch.data.astype(np.float64)
    assert_same(back, bunch)


columns = texts.filter(lambda name: name.strip() and name not in ("candidates", "target"))


@one_folder
@given(bunch=bunches(feature_names=columns))
def test_parquet_keeps_everything_but_sparsity(bunch, tmp_path):
    back = there_and_back(tmp_path, ".parquet", bunch)
    bunch.data = dense(bunch.data)
    assert_same(back, bunch)


labels = texts.filter(lambda label: label and label == label.strip() and "|" not in label)


@every_text_format
@one_folder
@given(bunch=bunches(names=labels, feature_names=columns))
def test_text_keeps_values_and_names(suffix, bunch, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = there_and_back(tmp_path, suffix, bunch)
    used = bunch.candidates.toarray().any(axis=0)
    assert set(back.target_names) == set(bunch.target_names[used])
    kept = make_bunch(
        dense(bunch.data).astype(np.float64),
        bunch.candidates[:, used],
        None if bunch.target is None else (np.cumsum(used) - 1)[bunch.target],
        target_names=bunch.target_names[used],
    )
    assert_same_labels(back, kept)
    np.testing.assert_array_equal(np.isnan(back.data), np.isnan(kept.data))
    numbers = ~np.isnan(kept.data)
    assert back.data[numbers].tobytes() == kept.data[numbers].tobytes()
    assert back.data.dtype == np.float64
    assert back.feature_names == bunch.feature_names


# What can be saved


def assert_is_example(bunch):
    assert_same_labels(bunch, example())
    np.testing.assert_array_equal(dense(bunch.data), DATA)
    assert bunch.feature_names == FEATURES


SETS = [["cat", "owl, big"], {"dög"}, ("cat", "dög", "owl, big"), np.array(["owl, big"])]
TRUTH = ["owl, big", "dög", "cat", "owl, big"]
NAMED = {"target_names": NAMES, "feature_names": FEATURES}


@pytest.mark.parametrize(
    "parts",
    [
        (DATA, CANDIDATES, TARGET),
        (DATA, CANDIDATES, TRUTH),
        (DATA, CANDIDATES.astype(float), pd.Series(TRUTH)),
        (DATA, sparse.csc_matrix(CANDIDATES), TARGET.astype(np.uint8)),
        (DATA.tolist(), SETS, TRUTH),
        (DATA, pd.DataFrame(CANDIDATES, columns=NAMES), TRUTH),
        (pd.DataFrame(DATA), pd.Series(SETS), np.array(TRUTH, object)),
    ],
)
@every_format
def test_forms_of_data_sets(suffix, parts, tmp_path):
    assert_is_example(there_and_back(tmp_path, suffix, *parts, **NAMED))


@every_format
def test_names_of_a_data_frame(suffix, tmp_path):
    frame = pd.DataFrame(DATA, columns=FEATURES)
    assert_is_example(there_and_back(tmp_path, suffix, frame, SETS, TRUTH))


def test_integer_labels_are_labels_when_the_candidates_bring_them(tmp_path):
    back = there_and_back(tmp_path, ".npz", DATA, [[5], [3, 5], [5, 4], [4]], [5, 3, 4, 4])
    assert back.target_names.tolist() == [3, 4, 5]
    assert back.target.tolist() == [2, 0, 1, 1]
    frame = pd.DataFrame([[1, 0], [1, 1], [0, 1], [1, 0]], columns=[1, 0])
    back = there_and_back(tmp_path, ".npz", DATA, frame, [1, 0, 0, 1])
    assert back.target.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64, np.float32])
def test_numbers_are_columns_of_a_matrix(dtype, tmp_path):
    truth = TARGET.astype(dtype)
    back = there_and_back(tmp_path, ".npz", DATA, CANDIDATES, truth, target_names=[2, 1, 0])
    assert back.target.tolist() == TARGET.tolist()


def test_description_is_kept(tmp_path):
    for suffix in (".npz", ".mat", ".parquet"):
        back = there_and_back(tmp_path, suffix, DATA, CANDIDATES, DESCR="Zwölf\nLetters")
        assert back.DESCR.splitlines()[2:] == ["Zwölf", "Letters"]
        assert there_and_back(tmp_path, suffix, back).DESCR == back.DESCR


def test_separator(tmp_path):
    path = tmp_path / "x.csv"
    save_partial_labels(path, example(target_names=["a|b", "c", "d"]), separator=" / ")
    assert load_partial_labels(path, separator="/").target_names.tolist() == ["a|b", "c", "d"]


def test_a_bunch_alone(tmp_path):
    for options in ({"candidates": CANDIDATES}, {"target": TARGET}, {"DESCR": "x"}, NAMED):
        with pytest.raises(TypeError, match="holds the whole data set: pass nothing else"):
            save_partial_labels(tmp_path / "x.npz", example(), **options)
    assert os.listdir(tmp_path) == []


def test_a_bunch_that_was_changed_is_checked(tmp_path):
    bunch = example()
    bunch.target = bunch.target[::-1]
    with pytest.raises(ValueError, match="true label of row 1 is 'cat'"):
        save_partial_labels(tmp_path / "x.npz", bunch)


def test_bunches_of_others(tmp_path):
    with pytest.raises(ValueError, match="the Bunch has no 'candidates'"):
        save_partial_labels(tmp_path / "x.npz", load_iris())
    iris = load_iris(as_frame=True)
    iris.candidates = np.eye(3)[iris.target]
    back = there_and_back(tmp_path, ".npz", iris)
    np.testing.assert_array_equal(back.data, load_iris().data)
    np.testing.assert_array_equal(back.target, load_iris().target)
    assert back.target_names.tolist() == ["setosa", "versicolor", "virginica"]
    assert "R.A. Fisher" in back.DESCR
    back = there_and_back(tmp_path, ".npz", Bunch(data=DATA, candidates=CANDIDATES))
    assert_same(back, make_bunch(DATA, CANDIDATES))


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"target": ["cat", "dög", "cat", "cow"]}, ValueError, "row 3: the true label is 'cow'"),
        ({"target": ["cat", "cat", "cat", "cat"]}, ValueError, "row 1: .* candidates 'dög'$"),
        ({"target": TARGET[:3]}, ValueError, r"target has shape \(3,\) for 4 rows"),
        ({"target": TARGET[:, None]}, ValueError, r"target has shape \(4, 1\) for 4 rows"),
        ({"target": [0, 1, 2, 3]}, ValueError, "target of row 3 is 3"),
        ({"target": [2.0, 1.0, 0.5, 2.0]}, ValueError, r"target of row 2 is 0\.5: .* integers"),
        ({"target": [2.0, np.nan, 0.0, 2.0]}, ValueError, "target of row 1 is nan: .* integers"),
        ({"target": [2.0, 1.0, 0.0, np.inf]}, ValueError, "target of row 3 is inf: .* integers"),
        (
            {"target": [2.0, 1e300, 0.0, 2.0]},
            ValueError,
            r"target of row 1 is 1e\+300: .* integers",
        ),
        ({"target_names": ["a", "b", "\ud800"]}, ValueError, r"'\\ud800' is no valid text"),
        ({"feature_names": ["a", "\udfff"]}, ValueError, r"'\\udfff' is no valid text"),
        ({"DESCR": "\udc00"}, ValueError, "is no valid text"),
        ({"DESCR": "A word.\0"}, ValueError, "DESCR has a null character"),
        ({"separator": ""}, ValueError, "separator must not be empty"),
        ({"separator": 1}, TypeError, "separator must be a string, got int"),
    ],
)
@every_format
def test_what_is_not_saved(suffix, options, error, reason, tmp_path):
    arguments = {"candidates": CANDIDATES, "target_names": NAMES, **options}
    with pytest.raises(error, match=reason):
        save_partial_labels(tmp_path / f"x{suffix}", DATA, **arguments)
    assert os.listdir(tmp_path) == []


@every_text_format
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"target_names": ["a", "b|c", "d"]}, r"'b\|c' contains the separator '\|'"),
        ({"target_names": ["a", "", "d"]}, "label '' is empty"),
        ({"target_names": ["a", "b ", "d"]}, "label 'b ' .* ends with space"),
        ({"feature_names": ["a", "target"]}, "name 'target', which the labels need"),
        ({"feature_names": ["candidates", "b"]}, "name 'candidates', which the labels need"),
        ({"feature_names": ["a", " "]}, "name ' ', but columns"),
    ],
)
def test_what_text_has_no_place_for(suffix, options, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        save_partial_labels(tmp_path / f"x{suffix}", example(**options))
    assert os.listdir(tmp_path) == []


def test_what_parquet_has_no_place_for(tmp_path):
    with pytest.raises(ValueError, match="name 'target', which the labels need"):
        save_partial_labels(tmp_path / "x.parquet", example(feature_names=["a", "target"]))


# Where it is written and read


@every_format
def test_a_failing_write_leaves_the_old_file(suffix, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    path = tmp_path / f"x{suffix}"
    save_partial_labels(path, example())
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save_partial_labels(path, example(target=None))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@every_format
def test_missing_folder(suffix, tmp_path):
    with pytest.raises(FileNotFoundError, match="folder of the data set file does not exist"):
        save_partial_labels(tmp_path / "nowhere" / f"x{suffix}", example())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_permissions(tmp_path):
    path = tmp_path / "x.npz"
    path.touch()
    path.chmod(0o600)
    save_partial_labels(path, example())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("form", [str, Path])
@pytest.mark.parametrize("name", ["X.NPZ", "x.Mat", "x.CSV", "x.tsv.TSV", "a.b/x.parquet"])
def test_names_of_files(form, name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    save_partial_labels(form(path), example())
    assert os.listdir(path.parent) == [path.name]
    assert_is_example(load_partial_labels(form(path)))


ALL = r"\.csv, \.libsvm, \.mat, \.npz, \.parquet, \.svm, \.svmlight or \.tsv$"


@pytest.mark.parametrize("name", ["x", "x.pkl", "x.csv.gz", ".npz", "x.", "mat"])
def test_unknown_suffixes(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=rf"{name}: the file name must end with {ALL}"):
        load_partial_labels(tmp_path / name)
    with pytest.raises(ValueError, match=rf"{name}: the file name must end with {ALL}"):
        save_partial_labels(tmp_path / name, example())


@pytest.mark.parametrize("suffix", READ_ONLY)
def test_formats_that_are_only_read(suffix, tmp_path):
    reason = r"files are only read; write \.csv, \.mat, \.npz, \.parquet or \.tsv"
    with pytest.raises(ValueError, match=rf"x{suffix}: {suffix} {reason}"):
        save_partial_labels(tmp_path / f"x{suffix}", example())


@pytest.mark.parametrize("suffix", [*WRITTEN, *READ_ONLY])
def test_missing_files_and_folders(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    with pytest.raises(FileNotFoundError, match=f"x{suffix}"):
        load_partial_labels(path)
    path.mkdir()
    with pytest.raises(IsADirectoryError, match=f"read from a file: .*x{suffix}"):
        load_partial_labels(path)
    if suffix in WRITTEN:
        with pytest.raises(IsADirectoryError, match=f"written to a file: .*x{suffix}"):
            save_partial_labels(path, example())


@pytest.mark.parametrize("path", [b"x.npz", None, 3])
def test_no_path(path):
    with pytest.raises(TypeError):
        load_partial_labels(path)
    with pytest.raises(TypeError):
        save_partial_labels(path, example())


@pytest.mark.parametrize("suffix", [".npz", ".mat", *READ_ONLY])
@pytest.mark.parametrize("option", ["candidate_column", "target_column"])
def test_columns_are_for_tables(suffix, option, tmp_path):
    (tmp_path / f"x{suffix}").touch()
    reason = r"candidate_column and target_column are for \.csv, \.parquet or \.tsv files"
    with pytest.raises(ValueError, match=f"x{suffix}: {reason}"):
        load_partial_labels(tmp_path / f"x{suffix}", **{option: "a"})


def test_wrong_separators(tmp_path):
    (tmp_path / "x.csv").touch()
    with pytest.raises(ValueError, match="separator must not be empty"):
        load_partial_labels(tmp_path / "x.csv", separator="")
    with pytest.raises(TypeError, match="separator must be a string, got NoneType"):
        load_partial_labels(tmp_path / "x.csv", separator=None)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(5, "Input/output error"), OSError),
        (MemoryError(), MemoryError),
        (OSError(22, "Invalid argument"), ValueError),
        (OSError("truncated file"), ValueError),
        (RuntimeError("encrypted"), ValueError),
        (ImportError("it needs soap"), ImportError),
    ],
)
def test_whose_fault_an_error_is(error, expected, tmp_path, monkeypatch):
    def fail(file):
        raise error

    path = tmp_path / "x.npz"
    save_partial_labels(path, example())
    monkeypatch.setitem(data_files._READ, ".npz", fail)
    with pytest.raises(expected) as info:
        load_partial_labels(path)
    if expected is type(error) and expected is not ImportError:
        assert info.value is error
    else:
        assert str(info.value).startswith(f"{path}: ")
        assert str(error) in str(info.value)


# Real data sets

FOLDER = os.environ.get("HERA_FAST_DATA", "")
with_data = pytest.mark.skipif(
    not FOLDER, reason="HERA_FAST_DATA does not say where the data sets are"
)
REAL = {"lost": "lost", "MSRCv2": "msrcv2", "FG-NET": "fg-net", "BirdSong": "birdsong"}


def existing(*parts):
    path = Path(FOLDER, *parts)
    if not path.exists():
        pytest.skip(f"there is no {path}")
    return path


@with_data
@pytest.mark.parametrize(("matlab", "numpy"), REAL.items(), ids=REAL)
def test_original_files(matlab, numpy):
    path = existing("realworld", f"{numpy}.npz")
    with np.load(path, allow_pickle=False) as arrays:
        X, Y, y = arrays["X"], arrays["Y"], arrays["y"]
    for source in (path, existing("realworld", "mat", f"{matlab}.mat")):
        bunch = load_partial_labels(source)
        assert bunch.data.dtype == np.float64
        assert bunch.data.tobytes() == np.ascontiguousarray(X, np.float64).tobytes()
        np.testing.assert_array_equal(bunch.candidates.toarray(), Y)
        np.testing.assert_array_equal(bunch.target, y)
        assert bunch.target_names.tolist() == [str(column) for column in range(Y.shape[1])]


@with_data
@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("abalone", [*map(str, range(1, 28)), "29"]),
        ("dermatology", None),
        ("ecoli", None),
        ("glass", None),
        ("letter", list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")),
        ("pendigits", list("0123456789")),
        ("satimage", None),
        ("segment", None),
        ("vehicle", ["opel", "saab", "bus", "van"]),
    ],
)
def test_supervised_files(name, labels):
    path = existing("uci", f"{name}.npz")
    with np.load(path, allow_pickle=False) as arrays:
        X, y, classes = arrays["X"], arrays["y"], arrays["classes"]
        others = sorted(set(arrays) - {"X", "y", "classes"})
    bunch = load_partial_labels(path)
    assert bunch.data.tobytes() == np.ascontiguousarray(X).tobytes()
    np.testing.assert_array_equal(bunch.target, y)
    np.testing.assert_array_equal(bunch.candidates.toarray(), np.eye(len(classes))[y])
    assert bunch.target_names.tolist() == (labels or classes.tolist())
    rest = f"\n\nArrays that were not read: {', '.join(others)}." if others else ""
    assert bunch.DESCR.partition("truth known.")[2] == rest


@with_data
@every_format
def test_real_data_come_back(suffix, tmp_path):
    bunch = load_partial_labels(existing("realworld", "lost.npz"))
    assert_same(there_and_back(tmp_path, suffix, bunch), bunch)
