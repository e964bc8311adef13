"""Files with rows that have no candidates yet."""

from __future__ import annotations

import numpy as np
import pytest

from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels, save_partial_labels

X = np.array([[0.5, 2.0], [np.nan, -1.0]])


def load(path, **options):
    return load_partial_labels(path, needs_candidates=False, **options)


def assert_rows(bunch, *, truth=None):
    np.testing.assert_array_equal(bunch.data, X)
    assert bunch.candidates is None
    if truth is None:
        assert bunch.target is None
        assert bunch.target_names is None
    else:
        assert bunch.target_names[bunch.target].tolist() == truth
    assert "no candidates" in bunch.DESCR


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_text(suffix, tmp_path):
    path = tmp_path / f"new{suffix}"
    lines = [["a", "b"], ["0.5", "2"], ["", "-1"]]
    delimiter = "," if suffix == ".csv" else "\t"
    path.write_text("\n".join(delimiter.join(cells) for cells in lines))
    assert_rows(load(path))
    assert load(path).feature_names == ["a", "b"]
    with pytest.raises(ValueError, match="no column 'candidates'"):
        load_partial_labels(path)
    with pytest.raises(ValueError, match="no column 'who'"):
        load(path, candidate_column="who")
    labels = ["target", "owl", " cat "]
    path.write_text("\n".join(delimiter.join([*c, t]) for c, t in zip(lines, labels, strict=True)))
    assert_rows(load(path), truth=["owl", "cat"])
    assert_rows(load(path, target_column="target"), truth=["owl", "cat"])


def test_text_without_a_true_label(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("a,target\n1,owl\n2,\n")
    with pytest.raises(ValueError, match=r"line 3 \(row 1\), column 'target': the true label is"):
        load(path)


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "new.parquet"
    columns = {"a": [0.5, None], "b": [2, -1]}
    parquet.write_table(pa.table(columns), path)
    assert_rows(load(path))
    with pytest.raises(ValueError, match="no column 'candidates'"):
        load_partial_labels(path)
    parquet.write_table(pa.table({**columns, "target": ["owl", "cat"]}), path)
    assert_rows(load(path), truth=["owl", "cat"])
    parquet.write_table(pa.table({**columns, "target": [7, 3]}), path)
    assert_rows(load(path), truth=[7, 3])
    parquet.write_table(pa.table({**columns, "target": [7, None]}), path)
    with pytest.raises(ValueError, match="row 1, column 'target': the true label is missing"):
        load(path)


def test_npz(tmp_path):
    path = tmp_path / "new.npz"
    np.savez(path, X=X)
    assert_rows(load(path))
    with pytest.raises(ValueError, match="neither candidates"):
        load_partial_labels(path)
    for truth in (["owl", "cat"], [7, 3]):
        np.savez(path, X=X, y=truth)
        assert_rows(load(path), truth=truth)
    np.savez(path, X=X, y=[1, 0], classes=["cat", "owl", "rat"])
    assert_rows(load(path), truth=["owl", "cat"])
    # Elsewhere, the true labels are the candidates.
    assert load_partial_labels(path).candidates.nnz == 2
    np.savez(path, y=[1, 0])
    with pytest.raises(ValueError, match="no array 'data' or 'X'"):
        load(path)


@pytest.mark.parametrize("suffix", [".svm", ".libsvm"])
def test_svmlight(suffix, tmp_path):
    path = tmp_path / f"new{suffix}"
    path.write_text("1:0.5 3:2 # new\n2:1\n\n")
    bunch = load(path)
    assert bunch.candidates is bunch.target is None
    assert bunch.data.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]
    with pytest.raises(ValueError, match="line 1: there are no candidates before the features"):
        load_partial_labels(path)
    path.write_text("1,3 1:0.5\n2 2:1\n")
    assert load(path).candidates.nnz == 3
    path.write_text("1:0.5\n\n2:1\n")
    with pytest.raises(ValueError, match="line 2 is empty"):
        load(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1:0.5\n3 2:1\n", "line 2: '3' is not of the form index:value"),
        ("3 2:1\n1:0.5\n", "line 2: there are no candidates"),
        ("1:0.5\n2:x\n", "line 2: the value of '2:x' is not a finite number"),
        ("2:1 1:0.5\n", "line 1: the indices must ascend"),
    ],
)
def test_svmlight_that_makes_no_sense(text, reason, tmp_path):
    path = tmp_path / "new.svm"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason):
        load(path)


def test_files_with_candidates_are_as_ever(tmp_path):
    bunch = make_bunch(X, [{"cat", "owl"}, {"owl"}], [1, 1])
    for suffix in (".csv", ".npz", ".mat"):
        path = tmp_path / f"old{suffix}"
        save_partial_labels(path, bunch)
        found = load(path)
        assert found.candidates.toarray().tolist() == bunch.candidates.toarray().tolist()
        assert found.target.tolist() == [1, 1]


def test_a_bunch_without_candidates():
    bunch = make_bunch(X, None, [1, 0], target_names=["cat", "owl"], needs_candidates=False)
    assert_rows(bunch, truth=["owl", "cat"])
    assert bunch.DESCR.startswith("Partial-label data: 2 rows, 2 features, 2 labels, no candidates")
    with pytest.raises(ValueError, match="target needs target_names"):
        make_bunch(X, None, [1, 0], needs_candidates=False)
    with pytest.raises(ValueError, match="target of row 0 is 2, but the labels are 0 to 1"):
        make_bunch(X, None, [2, 0], target_names=["cat", "owl"], needs_candidates=False)
    with pytest.raises(ValueError, match="requires y to be passed"):
        make_bunch(X, None)
