"""A data set is put together only if its parts fit, and every mistake is named with its place."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bunches import CANDIDATES, DATA, NAMES, TARGET, assert_same, bunches, example
from hypothesis import given
from scipy import sparse

from hera_fast import HERAClassifier
from hera_fast.bunch import make_bunch


def refused(reason, error=ValueError, **changes):
    """What is wrong is said, also after the name of the source."""
    with pytest.raises(error, match=reason):
        example(**changes)
    with pytest.raises(error, match="(?s)^some/file.mat: .*" + reason):
        example(**changes, source="some/file.mat")


# What comes out


def test_fields():
    bunch = example()
    assert list(bunch) == [
        "data",
        "candidates",
        "target",
        "target_names",
        "feature_names",
        "DESCR",
    ]
    assert bunch.data.tobytes() == DATA.tobytes()
    assert isinstance(bunch.candidates, sparse.csr_array)
    assert bunch.candidates.dtype == np.bool_
    assert bunch.candidates.has_canonical_format
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
    assert bunch.target.dtype == np.int64
    assert bunch.target.tolist() == TARGET.tolist()
    assert bunch.target_names.tolist() == NAMES
    assert bunch.target_names.dtype.kind == "U"
    assert bunch.feature_names == ["weight", "größe (m)"]


def test_without_names_and_truth():
    bunch = make_bunch(DATA, CANDIDATES)
    assert bunch.target is None
    assert bunch.target_names.tolist() == ["0", "1", "2"]
    assert bunch.feature_names == ["x0", "x1"]
    assert bunch.DESCR == (
        "Partial-label data: 4 rows, 2 features, 3 labels, 1.75 candidates per row, truth unknown."
    )


def test_one_of_everything():
    bunch = make_bunch([[1]], [[1]], [0])
    assert bunch.candidates.toarray().tolist() == [[True]]
    assert bunch.data.tolist() == [[1.0]]
    assert bunch.DESCR == (
        "Partial-label data: 1 row, 1 feature, 1 label, 1.00 candidates per row, truth known."
    )


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("dtype", ["u1", "?", "f8"])
def test_a_single_column_is_a_matrix_of_candidates(form, dtype):
    bunch = make_bunch(DATA, form(np.ones((4, 1), dtype)))
    assert bunch.candidates.toarray().tolist() == [[True]] * 4
    assert bunch.target_names.tolist() == ["0"]


@pytest.mark.parametrize("dtype", [">f8", ">i4", "f2", "g"])
def test_candidates_of_types_without_sparse_matrices(dtype):
    bunch = example(candidates=CANDIDATES.astype(dtype))
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)


def test_description():
    bunch = example()
    assert bunch.DESCR.splitlines() == [
        "Partial-label data: 4 rows, 2 features, 3 labels, 1.75 candidates per row, truth known.",
        "",
        "Made up,",
        "in two lines.",
    ]
    assert_same(make_bunch(**bunch), bunch)


def test_description_of_a_part_replaces_that_of_the_whole():
    bunch = example()
    part = make_bunch(bunch.data[:1], bunch.candidates[:1], DESCR=bunch.DESCR)
    assert part.DESCR.splitlines() == [
        "Partial-label data: 1 row, 2 features, 3 labels, 2.00 candidates per row, truth unknown.",
        "",
        "Made up,",
        "in two lines.",
    ]


@given(bunches())
def test_putting_together_again_changes_nothing(bunch):
    assert_same(make_bunch(**bunch), bunch)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("f4", "f4"), ("f8", "f8"), (">f8", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8")],
)
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_types_of_data(given, kept, form):
    data = np.array([[0, 1], [1, 0], [1, 1], [0, 0]], given)
    if form is sparse.csr_array:
        data = data.astype(data.dtype.newbyteorder("="))  # there are no others
    bunch = example(data=form(data))
    assert bunch.data.dtype == np.dtype(kept)
    assert bunch.data.dtype.isnative
    if form is sparse.csr_array:
        assert isinstance(bunch.data, sparse.csr_array)
        bunch.data = bunch.data.toarray()
    assert bunch.data.flags.c_contiguous
    np.testing.assert_array_equal(bunch.data, data)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
def test_sparse_data_become_canonical(container):
    given = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 3], [1, 1, 0])), shape=(4, 2))
    bunch = example(data=container(given))
    assert isinstance(bunch.data, sparse.csr_array)
    assert bunch.data.has_canonical_format
    assert bunch.data.toarray().tolist() == [[0, 3], [0, 0], [0, 0], [4, 0]]


def test_input_stays_as_it_is():
    data = sparse.csr_array((np.ones(2), np.array([1, 0]), np.array([0, 2, 2, 2, 2])), shape=(4, 2))
    candidates = sparse.csr_array(CANDIDATES.astype(float))
    example(data=data, candidates=candidates)
    assert data.indices.tolist() == [1, 0]
    assert candidates.dtype == np.float64


# Forms of candidates and names


def test_candidates_bring_their_names_along():
    sets = [
        [["owl", "cat"], ["dog"], ["cat", "dog", "owl"], ["owl"]],
        [[3, 1], [2], [1, 2, 3], [3]],
    ]
    for rows, names in zip(sets, [["cat", "dog", "owl"], [1, 2, 3]], strict=True):
        bunch = make_bunch(DATA, rows)
        assert bunch.target_names.tolist() == names
        np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)


def test_whole_floats_are_integers():
    bunch = make_bunch(DATA, [1.0, 2.0, 2.0, 7.0])
    assert bunch.target_names.dtype.kind == "i"
    assert bunch.target_names.tolist() == [1, 2, 7]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame):
    bunch = make_bunch(
        frame({"a": [1.0, 2.0], "b": [3, 4]}), frame({"x": [True, False], "y": [True, True]})
    )
    assert bunch.feature_names == ["a", "b"]
    assert bunch.target_names.tolist() == ["x", "y"]
    assert bunch.data.tolist() == [[1, 3], [2, 4]]
    assert bunch.candidates.toarray().tolist() == [[True, True], [False, True]]


def test_given_names_come_first():
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    assert make_bunch(frame, [["x"], ["y"]], feature_names=["b"]).feature_names == ["b"]
    bunch = make_bunch(frame, [["x"], ["y"]], target_names=["y", "z", "x"])
    assert bunch.target_names.tolist() == ["y", "z", "x"]
    assert bunch.candidates.toarray().tolist() == [[False, False, True], [True, False, False]]


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        tuple(NAMES),
        np.array(NAMES),
        np.array(NAMES, object),
        pd.Series(NAMES),
        [5, -3, 2**62],
        np.array([3, 2, 1], np.uint8),
        np.array([3.0, 2.0, 1.0]),
    ],
)
def test_forms_of_target_names(names):
    bunch = example(target_names=names)
    assert bunch.target_names.tolist() == list(names)
    assert bunch.target_names.dtype.kind in "iuU"


def test_a_model_is_fitted_and_scored_with_it():
    rng = np.random.default_rng(0)
    data = np.repeat(np.eye(3) * 10, 20, axis=0) + rng.normal(size=(60, 3))
    truth = np.repeat([0, 1, 2], 20)
    candidates = np.eye(3, dtype=bool)[truth] | (rng.random((60, 3)) < 0.3)
    bunch = make_bunch(data, candidates, truth, target_names=["c", "b", "a"])
    model = HERAClassifier().fit(bunch.data, bunch.candidates)
    assert model.score(bunch.data, bunch.target) == 1
    assert bunch.target_names[model.predict(bunch.data[:1])].tolist() == ["c"]


# What is refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": DATA[:3]}, "found 4 rows of candidates for 3 rows"),
        ({"data": np.empty((0, 2)), "candidates": CANDIDATES[:0]}, r"0 sample\(s\)"),
        ({"data": np.empty((4, 0))}, r"0 feature\(s\)"),
        ({"data": [1.0, 2.0]}, "2D array"),
        ({"data": [[1.0], [2.0, 3.0]]}, "inhomogeneous"),
        ({"candidates": np.empty((4, 0))}, "no columns"),
        ({"candidates": CANDIDATES.T}, r"found 3 rows .* looks transposed"),
        (
            {"candidates": CANDIDATES * [[1], [0], [1], [1]]},
            "1 of 4 rows have no candidates: row 1",
        ),
        ({"candidates": CANDIDATES * 2}, "must be 0 or 1, got 2 in row 0, column 0"),
        ({"candidates": np.where(CANDIDATES, 1, np.nan)}, "NaN: candidates, row 0, column 1"),
        ({"candidates": None}, "None"),
        ({"target": [0, 1, 0, 0]}, r"true label of row 3 is 'cat' \(column 0\), .* not among its"),
        ({"target": [0, 1, 0, 3]}, "target of row 3 is 3, but the labels are 0 to 2"),
        ({"target": [0, -1, 0, 2]}, "target of row 1 is -1, but"),
        ({"target": [2, 1, 0]}, "target has 3 entries for 4 rows"),
        ({"target": TARGET[:, None]}, r"1-d, got the shape \(4, 1\)"),
        ({"target_names": ["a", "b"]}, "found 3 columns of candidates, expected 2"),
        ({"target_names": ["a", "b", "a"]}, "target_names holds 'a' more than once"),
        ({"target_names": ["a", "b", "c\0"]}, r"target_names holds 'c\\x00', which has a null"),
        ({"target_names": [1, 2, 2**70]}, "beyond 64 bits: 1180591620717411303424"),
        ({"feature_names": ["a"]}, "found 1 feature_names for 2 features"),
        ({"feature_names": ["a", "a"]}, "feature_names holds 'a' more than once"),
        ({"feature_names": ["a", "\0"]}, "feature_names holds .* null character"),
    ],
)
def test_wrong_values(changes, reason):
    refused(reason, **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": np.array([["a", "b"]] * 4)}, "data must be real numbers, got an array of <U1"),
        ({"data": [["1", "2"]] * 4}, "data must be real numbers"),
        ({"data": DATA.astype(complex)}, "data must be real numbers, got an array of complex128"),
        ({"candidates": np.array([["a", "b"]] * 4)}, "zeros and ones, got <U1"),
        ({"target": [0.0, 1.0, 0.0, 2.0]}, "target must be integers, .* got float64"),
        ({"target": ["cat", "cat", "cat", "cat"]}, "target must be integers"),
        ({"target": CANDIDATES[:, 0]}, "target must be integers, .* got bool"),
        ({"target_names": "abc"}, "one name per label, got 'abc'"),
        ({"target_names": 3}, "one name per label, got 3"),
        ({"target_names": ["a", 1, 2]}, "all strings or all integers"),
        ({"target_names": [True, False, None]}, "all strings or all integers"),
        ({"target_names": [0.5, 1, 2]}, "all strings or all integers"),
        ({"feature_names": "ab"}, "one string per feature, got 'ab'"),
        ({"feature_names": [1, 2]}, "feature_names must be strings"),
    ],
)
def test_wrong_types(changes, reason):
    refused(reason, TypeError, **changes)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity(form, value, dtype):
    data = np.array([[0, 1], [2, 0], [0, value], [value, 3]], dtype)
    refused(re.escape("infinity in row 2, column 1 ('größe (m)')"), data=form(data))


def test_more_columns_than_can_be_named():
    wide = sparse.csr_array((4, 10_000_001))
    refused("data has 10000001 columns, and no more than 10000000", data=wide)
    refused("candidates has 10000001 columns", candidates=wide)
