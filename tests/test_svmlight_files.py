"""svmlight files with several labels in a line."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from strategies import candidate_matrices, seeds

from hera_fast import svmlight_files
from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels
from hera_fast.svmlight_files import read_svmlight


def read(text):
    return make_bunch(**read_svmlight(io.BytesIO(text.encode())))


@pytest.mark.parametrize("suffix", [".svm", ".svmlight", ".libsvm", ".SVM"])
def test_example(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_text("# a comment\n1,3 1:0.5 4:2 # a row\n\n-2 2:-1e3\r\n3,1,-2 4:nan\n", "utf-8")
    bunch = load_partial_labels(path)
    assert isinstance(bunch.data, sparse.csr_array)
    np.testing.assert_array_equal(
        bunch.data.toarray(), [[0.5, 0, 0, 2], [0, -1000, 0, 0], [0, 0, 0, np.nan]]
    )
    assert bunch.target is None
    assert bunch.target_names.dtype == np.int64
    assert bunch.target_names.tolist() == [-2, 1, 3]
    assert bunch.candidates.toarray().astype(int).tolist() == [[0, 1, 1], [1, 0, 0], [1, 1, 1]]


def test_indices_from_0_or_1():
    assert read("1 0:5 2:6\n").data.toarray().tolist() == [[5, 0, 6]]
    assert read("1 1:5 3:6\n").data.toarray().tolist() == [[5, 0, 6]]
    assert read("1 2:5 3:6\n2 0:1\n").data.toarray().tolist() == [[0, 0, 5, 6], [1, 0, 0, 0]]


def test_a_line_without_features():
    assert read("1 1:5\n2\n").data.toarray().tolist() == [[5], [0]]


def test_labels_written_as_floats_and_twice():
    bunch = read("1.0,2e1,1 1:5\n")
    assert bunch.target_names.tolist() == [1, 20]
    assert bunch.candidates.toarray().tolist() == [[True, True]]


def test_query_numbers_are_passed_over():
    assert read("1,2 qid:7 1:5\n").data.toarray().tolist() == [[5]]


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.data())
def test_what_scikit_learn_writes(n, d, q, zero_based, draw):
    candidates = draw.draw(candidate_matrices(n, q))
    data = np.random.default_rng(draw.draw(seeds)).normal(size=(n, d))
    file = io.BytesIO()
    dump_svmlight_file(data, candidates.astype(int), file, multilabel=True, zero_based=zero_based)
    bunch = make_bunch(**read_svmlight(io.BytesIO(file.getvalue())))
    assert bunch.target_names.tolist() == np.flatnonzero(candidates.any(axis=0)).tolist()
    np.testing.assert_array_equal(bunch.candidates.toarray(), candidates[:, candidates.any(axis=0)])
    np.testing.assert_allclose(bunch.data.toarray(), data, rtol=1e-15)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1:0.5", "there are no candidates before the features"),
        (",1 1:2", "the label '' is not an integer"),
        ("1,,2 1:2", "the label '' is not an integer"),
        ("cat 1:2", "the label 'cat' is not an integer"),
        ("1.5 1:2", r"the label '1\.5' is not an integer"),
        ("nan 1:2", "the label 'nan' is not an integer"),
        ("inf 1:2", "the label 'inf' is not an integer"),
        ("1e300 1:2", "the label '1e300' is not an integer"),
        ("1 2", "'2' is not of the form index:value"),
        ("1 a:2", "'a:2' is not of the form index:value"),
        ("1 2:", "'2:' is not of the form index:value"),
        ("1 -2:3", "'-2:3' is not of the form index:value"),
        ("1 qid:3 2:x", "the value of '2:x' is not a finite number"),
        ("1 qid 2:3", "'qid' is not of the form index:value"),
        ("1 2:x", "the value of '2:x' is not a finite number"),
        ("1 2:1:3", "the value of '2:1:3' is not a finite number"),
        ("1 2:inf", "the value of '2:inf' is not a finite number"),
        ("1 2:1 2:3", "the indices must ascend, but '2:3' follows 2"),
        ("1 3:1 2:3", "the indices must ascend, but '2:3' follows 3"),
        ("1 99999999999:1", "the index of '99999999999:1' is larger than 2147483647"),
        ("\udcff 1:2", "the label '\ufffd' is not an integer"),
    ],
)
def test_wrong_lines(line, reason):
    for rest in ("", "1 1:2\n", "1 1:x\n"):
        text = f"# first\n1 1:2\n\n{line}\n{rest}"
        with pytest.raises(ValueError, match=f"^line 4: {reason}"):
            read_svmlight(io.BytesIO(text.encode(errors="surrogateescape")))


@pytest.mark.parametrize("text", ["", "# nothing\n\n", "1\n2\n"])
def test_nothing_in_it(text):
    with pytest.raises(ValueError, match="no line has a feature"):
        read(text)


def test_faults_that_only_the_parser_sees(monkeypatch):
    def fail(*arguments, **options):
        raise OverflowError("too much")

    monkeypatch.setattr(svmlight_files, "load_svmlight_file", fail)
    with pytest.raises(ValueError, match=r"it is no svmlight file \(too much\)"):
        read("1 1:5\n")


def test_a_single_feature_far_to_the_right_takes_no_memory():
    with pytest.raises(ValueError, match="data has 2147483647 columns, and no more than 10000000"):
        read("1 1:1 2147483647:1\n")
