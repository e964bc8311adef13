from __future__ import annotations

import math

import naive_softmax as naive
import numba
import numpy as np
import pytest
import scipy.special
from assembly import VECTOR_FMA, blocks_with, called_functions, listing, needs_vectors
from hypothesis import given
from hypothesis import strategies as st
from strategies import dtypes, label_counts, row_counts, seeds

from hera_fast.kernels.softmax import (
    _exponential,
    _number_of_order,
    _order,
    _softmax_rows,
    _split,
    softmax,
)
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
ACCURACY = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-14}


def probabilities(Z, offsets=None):
    P = np.array(Z)
    softmax(np.zeros(P.shape[1], P.dtype) if offsets is None else offsets, P)
    return P


@st.composite
def problems(draw):
    n, q, dtype = draw(row_counts), draw(label_counts), draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    Z = rng.normal(size=(n, q)) * draw(st.sampled_from([0, 1e-3, 1, 30, 1e3, 1e30]))
    offsets = rng.normal(size=q) * draw(st.sampled_from([0, 1, 1e3]))
    offsets[rng.random(q) < draw(st.sampled_from([0, 0.3, 1]))] = -np.inf
    offsets[rng.integers(q)] = 0
    return offsets.astype(dtype), Z.astype(dtype)


@given(problems())
def test_agrees_with_the_twin(problem):
    offsets, Z = problem
    P, ref = probabilities(Z, offsets), Z.copy()
    naive.softmax(offsets, ref)
    assert P.dtype == Z.dtype
    accuracy = ACCURACY[P.dtype]
    np.testing.assert_allclose(P, ref, rtol=accuracy, atol=2 * np.finfo(P.dtype).tiny)


@given(problems())
def test_agrees_with_scipy(problem):
    offsets, Z = problem
    ref = scipy.special.softmax(Z + offsets, axis=1) if len(Z) else Z
    P = probabilities(Z, offsets)
    np.testing.assert_allclose(P, ref, rtol=ACCURACY[P.dtype], atol=2 * np.finfo(P.dtype).tiny)


@given(problems())
def test_rows_are_distributions(problem):
    offsets, Z = problem
    P = probabilities(Z, offsets)
    assert (P >= 0).all()
    assert (P[:, np.isneginf(offsets)] == 0).all()
    for p in P:
        assert abs(math.fsum(p) - 1) <= (4 + len(p) / 16) * np.finfo(P.dtype).eps


def exponential(x):
    rest, factor = _split(x)
    assert abs(rest) < 0.35
    return type(x)(factor) * type(x)(_exponential(type(x)(rest)))


@both_dtypes
def test_exponential(dtype):
    lowest = np.log(np.finfo(dtype).tiny) + 0.5
    x = np.concatenate([[0], np.linspace(lowest, 0, 20_001), -np.geomspace(1e-30, 1, 300)])
    x = x.astype(dtype)
    found = np.array([exponential(value) for value in x], np.longdouble)
    errors = np.abs(found / np.exp(x.astype(np.longdouble)) - 1)
    assert errors.max() <= (1e-15 if dtype == np.float64 else 3e-7)
    assert found[0] == 1


@both_dtypes
def test_the_exponential_of_what_is_far_is_zero(dtype):
    for x in (-750, -1e10, -np.finfo(dtype).max, -np.inf):
        assert exponential(dtype(x)) == 0


def test_order():
    x = [-np.inf, -1e300, -1.5, -1, -1e-300, -5e-324, 0, 5e-324, 1e-300, 1, 1.5, 1e300, np.inf]
    orders = [_order(np.float64(value)) for value in x]
    assert orders == sorted(set(orders))
    assert [_number_of_order(np.int64(order)) for order in orders] == x


@both_dtypes
def test_huge_scores(dtype):
    huge = np.finfo(dtype).max / 4
    Z = np.array([[huge, -huge, huge], [-huge, -huge, -huge], [0, 0, -huge]], dtype)
    third = dtype(1) / dtype(3)
    expected = [[0.5, 0, 0.5], [third, third, third], [0.5, 0.5, 0]]
    np.testing.assert_array_equal(probabilities(Z), np.array(expected, dtype))


@both_dtypes
def test_one_label_is_certain(dtype):
    assert probabilities(np.array([[1e30], [-3], [0]], dtype)).tolist() == [[1], [1], [1]]


@both_dtypes
@pytest.mark.parametrize("place", [0, 7, 20])
def test_nan_spreads_over_its_row(dtype, place):
    Z = np.zeros((3, 21), dtype)
    for nan in (np.nan, np.copysign(np.nan, -1.0)):
        Z[1, place] = nan
        with np.errstate(invalid="ignore"):
            P = probabilities(Z)
        assert np.isnan(P).all(axis=1).tolist() == [False, True, False]
        assert not np.isnan(P[::2]).any()


@both_dtypes
def test_rows_without_a_largest_number_become_nan(dtype):
    Z = np.zeros((3, 5), dtype)
    Z[0, 2] = np.inf
    Z[1] = -np.inf
    with np.errstate(invalid="ignore"):
        P = probabilities(Z)
    assert np.isnan(P).all(axis=1).tolist() == [True, True, False]
    assert (P[2] == dtype(0.2)).all()


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20 if numba.config.DISABLE_JIT else 500, 99)).astype(dtype)
    offsets = rng.normal(size=99).astype(dtype)
    with threads(1):
        one = probabilities(Z, offsets)
    with threads(2):
        two = probabilities(Z, offsets)
    assert one.tobytes() == two.tobytes()


@needs_vectors
@both_dtypes
def test_the_exponential_is_vectorised(dtype):
    text = listing(_softmax_rows, 0, 2, np.zeros(64, dtype), np.zeros((2, 64), dtype))
    assert blocks_with(VECTOR_FMA, text, at_least=8) >= 1
    assert blocks_with(r"\tvpcmpgtq\s[^\n]*[yz]mm|\tvpmaxsq", text) >= 1
    assert not called_functions(text) & {"exp", "expf"}


def test_bad_arguments_are_named():
    offsets, Z = np.zeros(4), np.zeros((3, 4))
    with pytest.raises(TypeError, match=r"^offsets must be float32 or float64"):
        softmax(np.zeros(4, int), Z)
    with pytest.raises(TypeError, match=r"^Z must be float64 like offsets"):
        softmax(offsets, Z.astype(np.float32))
    with pytest.raises(ValueError, match=r"^offsets must have 1 dimension"):
        softmax(Z, Z.copy())
    with pytest.raises(ValueError, match=r"^Z must have shape \(n, q\) with q = 3"):
        softmax(np.zeros(3), Z)
    with pytest.raises(ValueError, match=r"^Z must be C-contiguous"):
        softmax(offsets, np.asfortranarray(Z))
    with pytest.raises(ValueError, match=r"^Z is written to, but it shares memory with offsets"):
        softmax(Z[0], Z)
