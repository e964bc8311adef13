from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import clusters, problems
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from strategies import seeds

from hera_fast.baselines.plsvm import PLSVMClassifier, _is_steady, _Loss

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
X, Y, y = clusters(80, 4, 5, noise=0.4)


def objective(X, Y, W, lam):
    """The definition; the last row of W are the intercepts."""
    Z = X @ W[:-1] + W[-1]
    inside = np.where(Y, Z, -np.inf).max(axis=1)
    outside = np.where(Y, -np.inf, Z).max(axis=1)
    return lam / 2 * (W**2).sum() + np.maximum(0, 1 - (inside - outside)).mean()


def solution(model):
    return np.vstack([model.coef_.T, model.intercept_])


@given(problems(most_labels=5), seeds, st.sampled_from([0.1, 1.0, 10.0]))
def test_the_loss_is_the_one_that_is_stated(problem, seed, size):
    W = size * np.random.default_rng(seed).normal(size=(problem.X.shape[1] + 1, problem.Y.shape[1]))
    rows = sparse.csr_array(problem.X) if problem.is_sparse else problem.X
    found, _ = _Loss(rows, problem.Y).evaluate(W)
    np.testing.assert_allclose(found, objective(problem.X, problem.Y, W, 0.0), rtol=1e-10)


@given(seeds, st.booleans(), st.booleans())
def test_the_direction_is_the_derivative_where_there_is_one(seed, is_sparse, fit_intercept):
    """Scores of random numbers do not tie, and no margin is within reach of 1."""
    rng = np.random.default_rng(seed)
    rows, matrix, _ = clusters(12, 3, 4, seed=seed % 1000)
    W, V = rng.normal(size=(2, 3 + fit_intercept, 4))
    loss = _Loss(sparse.csr_array(rows) if is_sparse else rows, matrix)
    step = 1e-7
    slope = (loss.evaluate(W + step * V)[0] - loss.evaluate(W - step * V)[0]) / (2 * step)
    _, direction = loss.evaluate(W)
    np.testing.assert_allclose(slope, -(direction * V).sum(), rtol=1e-5, atol=1e-5)


def test_with_one_candidate_each_the_direction_is_a_subgradient_everywhere():
    """The problem is convex then: the tangent is below the loss, also where scores tie."""
    rng = np.random.default_rng(0)
    loss = _Loss(X, np.eye(5, dtype=bool)[y])
    for _ in range(50):
        W, V = np.round(rng.normal(size=(2, 5, 5)))
        value, direction = loss.evaluate(W)
        assert loss.evaluate(V)[0] >= value - (direction * (V - W)).sum() - 1e-9
    # The same is true of the mean over the ties at the start.
    value, direction = loss.evaluate_start(np.zeros((5, 5)))
    assert loss.evaluate(V)[0] >= value - (direction * V).sum() - 1e-9


def test_the_first_direction_is_the_mean_over_the_ties():
    rows = np.array([[1.0], [2.0], [4.0]])
    matrix = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
    value, direction = _Loss(rows, matrix).evaluate_start(np.zeros((2, 4)))
    third = 2 / 3
    expected = [[2.5, 0.5 - third, -0.5 - third, -0.5 - third]]
    expected.append([1.5, 0.5 - third / 2, -0.5 - third / 2, -0.5 - third / 2])
    np.testing.assert_allclose(direction, np.array(expected) / 3, atol=1e-15)
    np.testing.assert_allclose(value, 2 / 3)


@pytest.mark.parametrize("lam", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_result_is_the_best_iteration(lam, fit_intercept):
    model = PLSVMClassifier(lam, fit_intercept=fit_intercept).fit(X, Y)
    found = objective(X, Y, solution(model), lam)
    np.testing.assert_allclose(found, model.history_["objective"].min(), rtol=1e-12)
    assert found < objective(X, Y, np.zeros((5, 5)), lam)
    assert model.history_["objective"].shape == (model.n_iter_,)
    assert fit_intercept or not model.intercept_.any()


def test_with_one_candidate_each_it_comes_near_the_minimum():
    """The problem is convex then, and has a smooth dual that a general solver can do."""
    lam, matrix = 0.1, np.eye(5, dtype=bool)[y]
    model = PLSVMClassifier(lam, tol=1e-6, max_iter=20_000).fit(X, matrix)
    assert (model.history_["objective"].min() - dual_bound(matrix, lam)) < 1e-3


def dual_bound(matrix, lam):
    """The dual objective after many Frank-Wolfe steps with exact line search.

    The dual variables of a row are a distribution over its rivals and "no violation".
    """
    rows = np.hstack([X, np.ones((len(X), 1))])
    n = len(rows)
    W, level = np.zeros((5, 5)), 0.0
    for _ in range(3000):
        Z = rows @ W
        rival = np.where(matrix, -np.inf, Z).argmax(axis=1)
        violated = 1 - Z[np.arange(n), y] + Z[np.arange(n), rival] > 0
        signs = np.zeros((n, 5))
        signs[violated, y[violated]] = 1
        signs[violated, rival[violated]] -= 1
        target, target_level = rows.T @ signs / (lam * n), violated.mean()
        change = target - W
        gain = target_level - level - lam * (W * change).sum()
        size = np.clip(gain / (lam * (change**2).sum()), 0, 1)
        W, level = W + size * change, level + size * (target_level - level)
    return level - lam / 2 * (W**2).sum()


def test_it_learns_from_candidates():
    model = PLSVMClassifier().fit(X, Y)
    assert (model.transduction_ == y).mean() > 0.9
    assert (model.predict(X) == y).mean() > 0.9


@both_dtypes
def test_sparse_rows_are_like_dense_ones(dtype):
    rows = np.where(np.abs(X) > 1, X, 0).astype(dtype)
    dense = PLSVMClassifier().fit(rows, Y)
    thin = PLSVMClassifier().fit(sparse.csr_array(rows), Y)
    assert dense.coef_.dtype == thin.coef_.dtype == thin.intercept_.dtype == dtype
    assert dense.decision_function(rows).dtype == dtype
    tolerance = 1e-10 if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=tolerance)
    np.testing.assert_allclose(thin.intercept_, dense.intercept_, atol=tolerance)


def test_an_intercept_is_a_constant_feature():
    constant = np.hstack([X, np.ones((80, 1))])
    plain = PLSVMClassifier(fit_intercept=False).fit(constant, Y)
    model = PLSVMClassifier().fit(X, Y)
    np.testing.assert_allclose(plain.coef_[:, -1], model.intercept_, atol=1e-9)
    np.testing.assert_allclose(plain.coef_[:, :-1], model.coef_, atol=1e-9)


def test_rows_for_which_all_labels_are_candidates_change_nothing():
    """They count as rows without loss, which makes the penalty weigh more."""
    more = np.vstack([X, 7 * X])
    matrix = np.vstack([Y, np.ones_like(Y)])
    kept = np.flatnonzero(~Y.all(axis=1))
    share = len(kept) / len(more)
    one = PLSVMClassifier(0.02).fit(X[kept], Y[kept])
    two = PLSVMClassifier(0.02 * share).fit(more, matrix)
    np.testing.assert_allclose(two.coef_, one.coef_, atol=1e-9)


def test_nothing_to_learn():
    model = PLSVMClassifier().fit(X, np.ones_like(Y))
    assert not model.coef_.any()
    assert not model.history_["objective"].any()
    assert PLSVMClassifier().fit(X, ["a"] * 80).predict(X).tolist() == ["a"] * 80


def test_one_row():
    model = PLSVMClassifier().fit([[1.0, -2.0]], np.array([[False, True, True]]))
    assert model.predict([[1.0, -2.0]]).tolist() == [1]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_number_of_threads_changes_no_bit(dtype, kind):
    rows, matrix, _ = clusters(3000, 20, 9)
    found = [
        PLSVMClassifier(max_iter=15, n_threads=n_threads).fit(kind(rows.astype(dtype)), matrix)
        for n_threads in (1, 2)
    ]
    assert found[0].coef_.tobytes() == found[1].coef_.tobytes()
    assert found[0].intercept_.tobytes() == found[1].intercept_.tobytes()


def test_steadiness():
    down = [1.0 / t for t in range(1, 40)]
    assert not _is_steady(down, 1e-3)
    assert _is_steady([*down, *[0.02] * 20], 0.0)
    assert not _is_steady([0.5] * 19, 1.0)
    # A step up is no reason to go on, nor is it one to stop.
    assert _is_steady([*[0.5] * 25, 0.9, 0.5], 1e-3)


def test_a_short_run_warns():
    with pytest.warns(ConvergenceWarning, match="max_iter=3 iterations to tol=0.0001") as caught:
        model = PLSVMClassifier(max_iter=3).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_iter_ == 3


@pytest.mark.parametrize("change", [{"lam": 0}, {"max_iter": 0}, {"tol": -1}, {"n_threads": 0}])
def test_bad_parameters_are_named(change):
    with pytest.raises(ValueError, match=f"The '{next(iter(change))}' parameter"):
        PLSVMClassifier(**change).fit(X, Y)
