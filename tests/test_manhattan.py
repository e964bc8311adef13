from __future__ import annotations

import naive_manhattan as naive
import numba
import numpy as np
import pytest
from assembly import VECTOR_SUM, blocks_with, called_functions, listing, needs_vectors
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from strategies import dtypes, row_counts, seeds

from hera_fast.kernels import manhattan
from hera_fast.kernels.manhattan import _manhattan_rows, _pack, manhattan_distances
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

#: Of 256 bits, or of 512.
VECTOR_ABS = r"\tv(?:and[np]?p[sd]|pand[dq]?|range\w+)\s[^\n]*[yz]mm"


def distances(queries, points, function=manhattan_distances):
    out = np.full((len(queries), len(points)), np.nan, queries.dtype)
    function(queries, points, out)
    return out


@st.composite
def problems(draw):
    m, n, dtype = draw(row_counts), draw(st.integers(0, 40)), draw(dtypes)
    d = draw(st.one_of(st.integers(0, 13), st.just(163)))
    rng = np.random.default_rng(draw(seeds))
    scale = draw(st.sampled_from([0, 1e-3, 1, 1e30]))
    queries, points = (scale * rng.normal(size=(k, d)) for k in (m, n))
    if draw(st.booleans()):
        # Many differences are zero.
        queries, points = np.round(queries), np.round(points)
    return queries.astype(dtype), points.astype(dtype)


@given(problems())
def test_agrees_with_the_twin(problem):
    found, ref = distances(*problem), distances(*problem, naive.manhattan_distances)
    dtype, d = problem[0].dtype, problem[0].shape[1]
    assert found.dtype == dtype
    # The documented bound, and the rounding of the twin.
    np.testing.assert_allclose(found, ref, rtol=(d / 8 + 4) * np.finfo(dtype).eps)


@given(problems())
def test_each_order_gives_the_same_bits(problem):
    queries, points = problem
    found = distances(queries, points)
    np.testing.assert_array_equal(found, distances(points, queries).T)
    np.testing.assert_array_equal(found[::-1], distances(queries[::-1].copy(), points))
    for query, row in zip(queries, found, strict=True):
        np.testing.assert_array_equal(distances(query[np.newaxis], points)[0], row)


@given(problems())
def test_a_row_is_nowhere_but_at_itself(problem):
    queries, _ = problem
    assert (np.diag(distances(queries, queries.copy())) == 0).all()


@both_dtypes
@pytest.mark.parametrize(("m", "n", "d"), [(3, 1030, 2), (5, 100, 30), (2, 33, 163)])
def test_agrees_with_scipy(dtype, m, n, d):
    rng = np.random.default_rng(0)
    queries, points = rng.normal(size=(m, d)).astype(dtype), rng.normal(size=(n, d)).astype(dtype)
    ref = cdist(queries, points, "cityblock")
    accuracy = 1e-14 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(distances(queries, points), ref, rtol=accuracy)


@both_dtypes
@pytest.mark.parametrize("n", [1, 15, 16, 17, 100, 129])
def test_the_size_of_panels_changes_no_bit(dtype, n, monkeypatch):
    rng = np.random.default_rng(0)
    queries, points = rng.normal(size=(3, 9)).astype(dtype), rng.normal(size=(n, 9)).astype(dtype)
    usual = distances(queries, points)
    assert _pack(points).shape[0] == 1
    monkeypatch.setattr(manhattan, "_MOST_POINTS", 48)
    np.testing.assert_array_equal(distances(queries, points), usual)
    monkeypatch.setattr(manhattan, "_PANEL_BYTES", 1)
    assert _pack(points).shape == (-(-n // 16), 12, 16)
    np.testing.assert_array_equal(distances(queries, points), usual)


def test_panels_are_alike():
    assert _pack(np.zeros((1025, 1))).shape == (2, 4, 528)
    for d in (1, 40, 163, 300, 20_000):
        n_panels, n_features, width = _pack(np.zeros((1000, d))).shape
        assert n_features - d in range(4)
        assert 1000 <= n_panels * width < 1000 + width
        assert width == 16 or n_features * width * 8 <= 448 << 10


@both_dtypes
def test_a_known_case(dtype):
    queries = np.array([[0, 0, 0, 0, 0], [1, -2, 3, -4, 5], [2, 2, 2, 2, 2]], dtype)
    points = np.array([[1, 1, 1, 1, 1], [-1, 0, 0, 0, 9]], dtype)
    assert distances(queries, points).tolist() == [[5, 10], [14, 15], [5, 16]]


@both_dtypes
def test_nan_and_infinity_stay_where_they_are(dtype):
    queries, points = np.zeros((3, 6), dtype), np.ones((20, 6), dtype)
    queries[1, 5], points[4, 0], points[7, 3] = np.nan, np.inf, np.nan
    found = distances(queries, points)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[:, 7]).all()
    assert (found[[0, 2], 4] == np.inf).all()
    assert (np.delete(found[::2], [4, 7], axis=1) == 6).all()


@both_dtypes
def test_inputs_may_be_read_only(dtype):
    rng = np.random.default_rng(0)
    queries, points = rng.normal(size=(3, 5)).astype(dtype), rng.normal(size=(4, 5)).astype(dtype)
    usual = distances(queries, points)
    queries.setflags(write=False)
    points.setflags(write=False)
    np.testing.assert_array_equal(distances(queries, points), usual)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    rng = np.random.default_rng(0)
    m, n = (7, 20) if numba.config.DISABLE_JIT else (333, 1003)
    queries, points = rng.normal(size=(m, 41)).astype(dtype), rng.normal(size=(n, 41)).astype(dtype)
    with threads(1):
        one = distances(queries, points)
    with threads(2):
        two = distances(queries, points)
    assert one.tobytes() == two.tobytes()


@needs_vectors
@both_dtypes
def test_the_differences_are_vectorised(dtype):
    queries, points = np.zeros((2, 8), dtype), np.zeros((64, 8), dtype)
    text = listing(_manhattan_rows, 0, 2, queries, _pack(points), np.zeros((2, 64), dtype))
    # For two queries and four features, in the first four and in the others.
    assert blocks_with(VECTOR_SUM, text, at_least=14) >= 2
    assert blocks_with(VECTOR_ABS, text, at_least=8) >= 2
    assert not called_functions(text) & {"fabs", "fabsf"}


def test_bad_arguments_are_named():
    queries, points, out = np.zeros((3, 5)), np.zeros((4, 5)), np.zeros((3, 4))
    manhattan_distances(queries, points, out)
    for arguments, error, message in [
        ((queries.astype(int), points, out), TypeError, "queries must be float32 or float64"),
        ((queries, points.astype(np.float32), out), TypeError, "points must be float64 like"),
        ((queries[0], points, out), ValueError, r"queries must have 2 dimension\(s\)"),
        ((queries, np.zeros((4, 6)), out), ValueError, "points must have shape"),
        ((queries, points, out.T.copy()), ValueError, "out must have shape"),
        ((queries, points, np.asfortranarray(out)), ValueError, "out must be C-contiguous"),
        ((out, np.zeros((4, 4)), out), ValueError, "out is written to, but it shares memory"),
    ]:
        with pytest.raises(error, match="^" + message):
            manhattan_distances(*arguments)
    out.setflags(write=False)
    with pytest.raises(ValueError, match=r"^out is written to, but it is read-only"):
        manhattan_distances(queries, points, out)
