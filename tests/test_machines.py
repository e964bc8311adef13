from __future__ import annotations

import naive_machines as naive
import numba
import numpy as np
import pytest
from assembly import VECTOR_FMA, blocks_with, listing, needs_vectors
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC
from strategies import dtypes, seeds

from hera_fast.kernels.machines import _train_parts, train_machines
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
COMPILED = not numba.config.DISABLE_JIT


def train(features, offsets, rows, signs, C=1.0, tol=1e-3, max_iter=1000, balanced=False):
    coef = np.ones((len(offsets) - 1, features.shape[1]), features.dtype)
    n_iter = np.full(len(coef), -1)
    train_machines(features, offsets, rows, signs, C, balanced, tol, max_iter, coef, n_iter)
    return coef, n_iter


def gradient(features, rows, signs, C, w, balanced=False):
    """Of the objective, which is smooth."""
    if balanced:
        C = C / (2 * np.where(signs > 0, np.mean(signs > 0), np.mean(signs < 0)))
    X, w = features[rows].astype(np.float64), w.astype(np.float64)
    losses = np.maximum(1 - signs * (X @ w), 0)
    return w - 2 * (C * losses * signs) @ X


def make_machines(rng, n, m, sizes, dtype=np.float64):
    """Rows of unit length, as of a Gaussian kernel, with a constant column."""
    features = rng.normal(size=(n, m))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    features[:, -1] = 1
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    rows = np.concatenate([rng.permutation(n)[:size] for size in sizes])
    signs = np.sign(features[rows, 0] + 0.2 * rng.normal(size=len(rows)))
    return features.astype(dtype), offsets, rows.astype(np.int64), signs.astype(dtype)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(seeds))
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(0, n), min_size=1, max_size=5))
    C = draw(st.sampled_from([1e-3, 1.0, 10.0]))
    return (*make_machines(rng, n, m, sizes, draw(dtypes)), C)


@given(problems(), st.booleans())
def test_agrees_with_the_twin(problem, balanced):
    features, offsets, rows, signs, C = problem
    is_single = features.dtype == np.float32
    tol, max_iter = (1e-3 if is_single else 1e-9), 3000
    coef, n_iter = train(features, offsets, rows, signs, C, tol, max_iter, balanced)
    ref, n_ref = np.empty_like(coef), np.empty_like(n_iter)
    naive.train_machines(features, offsets, rows, signs, C, balanced, tol, max_iter, ref, n_ref)
    assert coef.dtype == features.dtype
    assert ((n_iter > 0) == (n_ref > 0)).all()
    assert (n_iter < max_iter).all()
    # The objective is strongly convex with modulus 1: a gradient of g is at most g away.
    # Balanced, C is at most 12/2 times as large.
    largest = 6 * C if balanced else C
    atol = 2 * largest * tol * 2 * features.shape[0] + (1e-4 if is_single else 1e-9)
    np.testing.assert_allclose(coef, ref, rtol=0, atol=atol)


@given(problems(), st.booleans())
def test_the_gradient_is_as_small_as_the_tolerance_says(problem, balanced):
    features, offsets, rows, signs, C = problem
    tol = 1e-4
    coef, n_iter = train(features, offsets, rows, signs, C, tol, 3000, balanced)
    largest = 6 * C if balanced else C
    for k in np.flatnonzero(n_iter):
        part = slice(offsets[k], offsets[k + 1])
        slope = gradient(features, rows[part], signs[part], C, coef[k], balanced)
        # A dual variable is 2C times its loss, but for 2C tol when it was looked at, and as much
        # again for each step that came after it. Rows have at most the length 1.5.
        size = offsets[k + 1] - offsets[k]
        accuracy = size * tol + np.finfo(features.dtype).eps * 8
        assert np.abs(slope).max() <= 2 * largest * 1.5 * size * accuracy


@both_dtypes
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("weight", [None, "balanced"])
def test_agrees_with_scikit_learn(dtype, C, weight):
    rng = np.random.default_rng(3)
    features, offsets, rows, signs = make_machines(rng, 40, 6, [40, 25], dtype)
    signs[::5] = 1  # more of one sign than of the other
    tol = 1e-4 if dtype is np.float32 else 1e-8
    coef, n_iter = train(features, offsets, rows, signs, C, tol, 10_000, weight is not None)
    assert (n_iter < 10_000).all()
    for k in range(2):
        part = slice(offsets[k], offsets[k + 1])
        ref = LinearSVC(
            C=C, dual=True, fit_intercept=False, class_weight=weight, tol=1e-8, max_iter=100_000
        )
        ref.fit(features[rows[part]].astype(np.float64), signs[part])
        np.testing.assert_allclose(
            coef[k], ref.coef_[0], rtol=0, atol=2e-3 if dtype is np.float32 else 1e-6
        )


@both_dtypes
def test_rows_set_aside_come_back(dtype):
    """Many rows far from the border: they are set aside, and looked at once more at the end."""
    rng = np.random.default_rng(4)
    features, offsets, rows, signs = make_machines(rng, 60, 3, [60], dtype)
    features[:, :-1] *= 5
    coef, n_iter = train(features, offsets, rows, signs, 10.0, 1e-3, 5000)
    assert 1 < n_iter[0] < 5000
    margins = signs * (features[rows] @ coef[0])
    assert (margins > 1.5).sum() > 10
    slope = gradient(features, rows, signs, 10.0, coef[0])
    assert np.abs(slope).max() <= 20 * 60 * 6 * 2e-3


def test_machines_without_two_sides():
    features = np.random.default_rng(5).normal(size=(6, 3))
    offsets = np.array([0, 0, 3, 5, 6, 6])
    rows = np.array([0, 1, 2, 3, 4, 5])
    signs = np.array([1.0, 1, 1, 1, -1, -1])
    coef, n_iter = train(features, offsets, rows, signs)
    assert (n_iter > 0).tolist() == [False, False, True, False, False]
    assert (coef != 0).any(axis=1).tolist() == [False, False, True, False, False]


def test_no_machines_and_no_rows():
    empty = np.empty(0, np.int64)
    coef, _ = train(np.ones((3, 2)), np.zeros(1, np.int64), empty, np.empty(0))
    assert coef.shape == (0, 2)
    coef, n_iter = train(np.ones((0, 2)), np.zeros(3, np.int64), empty, np.empty(0))
    assert coef.tolist() == [[0, 0], [0, 0]]
    assert n_iter.tolist() == [0, 0]


def test_rows_of_zeros_cannot_be_told_apart():
    coef, n_iter = train(
        np.zeros((2, 3)), np.array([0, 2]), np.array([0, 1]), np.array([1.0, -1]), max_iter=50
    )
    assert coef.tolist() == [[0, 0, 0]]
    assert n_iter[0] < 50


def test_the_last_pass_is_counted():
    features, offsets, rows, signs = make_machines(np.random.default_rng(6), 30, 4, [30])
    assert train(features, offsets, rows, signs, 10.0, 0.0, 3)[1].tolist() == [3]


def test_a_machine_does_not_depend_on_the_others():
    features, offsets, rows, signs = make_machines(np.random.default_rng(7), 30, 4, [20, 30, 10])
    together, _ = train(features, offsets, rows, signs, tol=1e-10)
    for k in range(3):
        part = slice(offsets[k], offsets[k + 1])
        alone, _ = train(
            features, np.array([0, offsets[k + 1] - offsets[k]]), rows[part], signs[part], tol=1e-10
        )
        np.testing.assert_allclose(alone[0], together[k], rtol=0, atol=1e-8)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    sizes = [90, 0, 40, 60, 90, 3, 50] * (20 if COMPILED else 1)
    n, m = (90, 40) if COMPILED else (90, 5)
    problem = make_machines(np.random.default_rng(8), n, m, sizes, dtype)
    results = []
    for n_threads in (1, 2):
        with threads(n_threads):
            results.append(train(*problem, C=10.0, max_iter=100 if COMPILED else 3))
    (one, n_one), (two, n_two) = results
    assert one.tobytes() == two.tobytes()
    assert n_one.tolist() == n_two.tolist()


@needs_vectors
@both_dtypes
def test_products_are_vectorised(dtype):
    features, offsets, rows, signs = make_machines(np.random.default_rng(9), 4, 40, [4], dtype)
    parts, coef, n_iter = np.array([0, 1]), np.empty((1, 40), dtype), np.empty(1, np.int64)
    text = listing(
        _train_parts,
        *(0, 1, parts, features, offsets, rows, signs, dtype(1), False, dtype(1), np.int64(9)),
        *(coef, n_iter),
    )
    assert blocks_with(VECTOR_FMA, text, at_least=4) >= 3


def test_bad_arguments_are_named():
    features, offsets, rows, signs = make_machines(np.random.default_rng(10), 5, 3, [5, 4])
    with pytest.raises(TypeError, match=r"^features must be float32 or float64"):
        train(np.ones((5, 3), int), offsets, rows, signs)
    with pytest.raises(TypeError, match=r"^signs must be float64 like features"):
        train(features, offsets, rows, signs.astype(np.int8))
    with pytest.raises(TypeError, match=r"^rows must be int64"):
        train(features, offsets, rows.astype(np.int32), signs)
    with pytest.raises(ValueError, match=r"^signs must have shape \(r\) with r = 9"):
        train(features, offsets, rows, signs[:-1].copy())
    with pytest.raises(ValueError, match=r"^C must be a positive finite number"):
        train(features, offsets, rows, signs, C=0.0)
    with pytest.raises(ValueError, match=r"^tol must be a non-negative finite number"):
        train(features, offsets, rows, signs, tol=-1.0)
    with pytest.raises(ValueError, match=r"^max_iter must be at least 1"):
        train(features, offsets, rows, signs, max_iter=0)
    for wrong in ([1, 5, 9], [0, 5, 8], [0, 10, 9]):
        with pytest.raises(ValueError, match=r"^offsets must grow from 0 to the number of entries"):
            train(features, np.array(wrong), rows, signs)
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=r"^rows must be from 0 to 4"):
            train(features, offsets, np.full(9, wrong), signs)
    with pytest.raises(ValueError, match=r"^signs must be 1 or -1"):
        train(features, offsets, rows, 0 * signs)
    with pytest.raises(ValueError, match=r"^offsets must have one entry more than coef has rows"):
        train_machines(
            *(features, offsets, rows, signs, 1.0, False, 0.1, 9),
            *(np.empty((3, 3)), np.empty(3, np.int64)),
        )
