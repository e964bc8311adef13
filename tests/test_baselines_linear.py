from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy import sparse

from hera_fast.baselines.linear import sum_derivatives
from hera_fast.threads import threads

kinds = pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
# More than one block of rows, and none that is full.
N, D, Q = 1500, 7, 4


def problem(dtype=np.float64, *, has_intercept=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)
    return X.astype(dtype), rng.normal(size=(D + has_intercept, Q))


@kinds
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_agrees_with_one_product(kind, has_intercept, form):
    X, W = problem(has_intercept=has_intercept)
    factors = np.random.default_rng(1).normal(size=(N, 1))
    found = sum_derivatives(kind(X), W, lambda rows, Z: form(factors[rows] * np.maximum(Z, 0)))
    extended = np.hstack([X, np.ones((N, int(has_intercept)))])
    expected = extended.T @ (factors * np.maximum(extended @ W, 0))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@kinds
def test_scores_have_the_precision_of_the_rows_and_sums_do_not(kind):
    X, W = problem(np.float32)
    seen = set()

    def differentiate(rows, Z):
        seen.add(Z.dtype)
        return Z

    assert sum_derivatives(kind(X), W, differentiate).dtype == np.float64
    assert seen == {np.dtype(np.float32)}


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@kinds
def test_the_number_of_threads_changes_no_bit(kind):
    X, W = problem()
    found = []
    for n_threads in (1, 2):
        with threads(n_threads):
            found.append(sum_derivatives(kind(X), W, lambda rows, Z: Z))
    assert found[0].tobytes() == found[1].tobytes()
