"""Centred features against plain NumPy."""

from __future__ import annotations

import tracemalloc

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import dtypes, seeds

from hera_fast.features import make_features
from hera_fast.threads import threads

layouts = st.sampled_from(["dense", "array", "matrix"])


def laid_out(X, layout):
    return {"dense": np.ascontiguousarray, "array": sparse.csr_array, "matrix": sparse.csr_matrix}[
        layout
    ](X)


def problem(n, d, q, seed, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + 1) * (rng.random((n, d)) < 0.6)
    R = rng.standard_normal((n, q)).astype(dtype)
    weights = rng.random(n) * (rng.random(n) < 0.8)
    return X.astype(dtype), R, rng.standard_normal((d, q)), weights


@given(
    n=st.one_of(st.integers(0, 9), st.sampled_from([1024, 1025, 2500])),
    d=st.integers(1, 7),
    q=st.integers(1, 7),
    seed=seeds,
    dtype=dtypes,
    layout=layouts,
    fit_intercept=st.booleans(),
    weighted=st.booleans(),
)
def test_against_numpy(n, d, q, seed, dtype, layout, fit_intercept, weighted):
    X, R, W, weights = problem(n, d, q, seed, dtype)
    before = X.copy()
    sample_weight = weights if weighted else None
    features = make_features(
        laid_out(X, layout), fit_intercept=fit_intercept, sample_weight=sample_weight
    )
    w = weights if weighted else np.ones(n)
    mean = np.zeros(d)
    if fit_intercept and w.sum() > 0:
        mean = w @ X.astype(float) / w.sum()
    centred = X - mean
    offset = np.arange(q) / 3
    out = np.empty((n, q), dtype)
    eps = np.finfo(dtype).eps
    products = features.gram(), features.correlate(R)

    assert features.shape == (n, d)
    assert features.dtype == dtype
    assert features.sample_weight is sample_weight
    assert features.total_weight == pytest.approx(w.sum(), rel=1e-13)
    assert features.mean.dtype == np.float64
    assert all(product.dtype == np.float64 for product in products)
    np.testing.assert_allclose(features.mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        products[0], (centred.T * w) @ centred, rtol=0, atol=30 * eps * (n + 1)
    )
    np.testing.assert_allclose(products[1], (centred.T * w) @ R, rtol=0, atol=30 * eps * (n + 1))
    features.scores(W, offset, out)
    np.testing.assert_allclose(out, centred @ W + offset, rtol=0, atol=300 * eps)
    assert (before == X).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_means(dtype, weighted):
    rng = np.random.default_rng(0)
    X = (1e5 + rng.standard_normal((3000, 5))).astype(dtype)
    w = rng.random(3000) if weighted else np.ones(3000)
    features = make_features(X, fit_intercept=True, sample_weight=w if weighted else None)
    exact = X.astype(float)
    exact -= w @ exact / w.sum()
    gram = (exact.T * w) @ exact
    size = np.abs(gram).max()
    # The mean itself is known to this accuracy, or its difference to each row rounded to it.
    rounding = 1e-11 if dtype == np.float64 else 1e-7
    np.testing.assert_allclose(features.gram(), gram, rtol=0, atol=1e2 * rounding * size)
    R = rng.standard_normal((3000, 2)).astype(dtype)
    np.testing.assert_allclose(
        features.correlate(R), (exact.T * w) @ R, rtol=0, atol=1e3 * rounding * np.sqrt(size)
    )
    out = np.empty((3000, 2), dtype)
    W = rng.standard_normal((5, 2))
    features.scores(W, np.zeros(2), out)
    np.testing.assert_allclose(out, exact @ W, rtol=0, atol=1e2 * rounding)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["dense", "array"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("value", [0.0, 0.1, -0.7, 1e5 / 7])
def test_constant_features_are_exactly_zero(dtype, layout, weighted, value):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3)).astype(dtype)
    X[:, 1] = value
    weights = rng.random(3000)
    weights[7] = 0
    if weighted:
        X[7, 1] = 5  # a row that does not count
    features = make_features(
        laid_out(X, layout), fit_intercept=True, sample_weight=weights if weighted else None
    )
    gram, product = features.gram(), features.correlate(rng.random((3000, 2)).astype(dtype))
    assert (gram[1] == 0).all()
    assert (gram[:, 1] == 0).all()
    assert (product[1] == 0).all()
    assert (gram[[0, 0, 2, 2], [0, 2, 0, 2]] != 0).all()
    assert (product[[0, 2]] != 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_features_that_vary_a_little_are_kept(dtype):
    spread = 0.01
    X = (1 + spread * np.random.default_rng(0).standard_normal((500, 1))).astype(dtype)
    gram = make_features(sparse.csr_array(X), fit_intercept=True).gram()
    np.testing.assert_allclose(gram, 500 * X.var(dtype=np.float64), rtol=1e-10)


def test_without_intercept_nothing_is_copied():
    X = np.ones((50, 3))
    features = make_features(X, fit_intercept=False)
    X[:] = 2
    assert (features.gram() == 200).all()


@pytest.mark.parametrize("layout", ["dense", "array"])
def test_no_weight_at_all(layout):
    X = laid_out(np.arange(6.0).reshape(3, 2), layout)
    features = make_features(X, fit_intercept=True, sample_weight=np.zeros(3))
    assert (features.mean == 0).all()
    assert (features.gram() == 0).all()
    assert (features.correlate(np.ones((3, 1))) == 0).all()


def test_duplicate_entries_of_a_sparse_matrix_add_up():
    X = sparse.csr_array((np.array([1.0, 2.0]), [0, 0], [0, 2, 2]), shape=(2, 1))
    features = make_features(X, fit_intercept=True)
    assert features.mean.tolist() == [1.5]
    assert features.gram().tolist() == [[4.5]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_with_a_row_for_each_sample_is_allocated(dtype, weighted):
    n, d, q = 100_000, 20, 30
    X, R, W, weights = problem(n, d, q, 0, dtype)
    features = make_features(X, fit_intercept=True, sample_weight=weights if weighted else None)
    out, offset = np.empty((n, q), dtype), np.zeros(q)

    def call_all():
        features.gram()
        features.correlate(R)
        features.scores(W, offset, out)

    with threads(1):
        call_all()
        tracemalloc.start()
        call_all()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 0.8 * 8 * n  # less than one number for each row


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_features_are_never_dense(weighted):
    n, d, q = 60_000, 200, 3
    X = sparse.random(n, d, density=0.01, format="csr", random_state=0)
    weights = np.random.default_rng(0).random(n) if weighted else None
    R, out = np.ones((n, q)), np.empty((n, q))
    tracemalloc.start()
    features = make_features(X, fit_intercept=True, sample_weight=weights)
    features.gram()
    features.correlate(R)
    features.scores(np.ones((d, q)), np.zeros(q), out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.1 * 8 * n * d


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize("layout", ["dense", "array"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_bits_for_every_number_of_threads(layout, dtype, weighted):
    X, R, W, weights = problem(20_011, 41, 53, 0, dtype)
    X = laid_out(X, layout)
    results = []
    for n_threads in (1, 2):
        out = np.empty_like(R)
        with threads(n_threads):
            features = make_features(
                X, fit_intercept=True, sample_weight=weights if weighted else None
            )
            features.scores(W, W[0], out)
            results.append([features.mean, features.gram(), features.correlate(R), out])
    assert all((one == two).all() for one, two in zip(*results, strict=True))


@pytest.mark.parametrize(
    ("X", "error"),
    [
        ([[1.0]], TypeError),
        (np.ones((2, 2), int), TypeError),
        (np.ones(3), ValueError),
        (np.ones((2, 3)).T, ValueError),
        (sparse.csc_array(np.ones((2, 2))), TypeError),
        (sparse.csr_array(np.ones((2, 2), int)), TypeError),
    ],
    ids=["list", "integer", "dimensions", "order", "CSC", "sparse integer"],
)
def test_wrong_features(X, error):
    with pytest.raises(error, match=r"^X must"):
        make_features(X, fit_intercept=True)


@pytest.mark.parametrize(
    ("sample_weight", "error"),
    [
        ([1.0, 1.0], TypeError),
        (np.ones(2, np.float32), TypeError),
        (np.ones((2, 1)), ValueError),
        (np.ones(3), ValueError),
    ],
    ids=["list", "single", "dimensions", "length"],
)
def test_wrong_weights(sample_weight, error):
    with pytest.raises(error, match=r"^sample_weight must"):
        make_features(np.ones((2, 2)), fit_intercept=True, sample_weight=sample_weight)
