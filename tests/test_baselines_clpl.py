from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import clusters, problems
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from strategies import seeds

from hera_fast.baselines.clpl import CLPLClassifier, _Problem

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
X, Y, y = clusters(80, 4, 5, noise=0.4)


def objective_and_gradient(X, Y, W, C):
    """The definition; W has a row for the intercepts if it has one more than X has columns."""
    rows = np.hstack([X, np.ones((len(X), len(W) - X.shape[1]))])
    Z = rows @ W
    size = Y.sum(axis=1, keepdims=True)
    short = np.maximum(0, 1 - (Y * Z).sum(axis=1, keepdims=True) / size)
    excess = np.where(Y, 0, np.maximum(0, 1 + Z))
    loss = (short**2).sum() + (excess**2).sum()
    slopes = np.where(Y, -2 * short / size, 2 * excess)
    return (W**2).sum() / 2 + C * loss, W + C * rows.T @ slopes


def solution(model):
    W = model.coef_.T
    return np.vstack([W, model.intercept_]) if model.fit_intercept else W


def expanded(X, Y, fit_intercept):
    """One row for each term of the objective, and a column for each coefficient."""
    rows, signs = [], []
    for x, candidates in zip(X, Y, strict=True):
        x = np.append(x, 1) if fit_intercept else x
        outer = np.multiply.outer(np.eye(Y.shape[1]), x)
        rows.append(outer[candidates].mean(axis=0).ravel())
        signs.append(1)
        rows.extend(outer[k].ravel() for k in np.flatnonzero(~candidates))
        signs.extend([-1] * (~candidates).sum())
    return np.array(rows), np.array(signs)


# It goes as far as rounding lets it.
@pytest.mark.filterwarnings("ignore:CLPLClassifier did not converge")
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("size", [(80, 4), (10, 15)])
def test_equals_a_support_vector_machine_on_the_expanded_problem(C, fit_intercept, size):
    rows, matrix, _ = clusters(*size, 5, noise=0.4)
    machine = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-12, max_iter=10_000)
    machine.fit(*expanded(rows, matrix, fit_intercept))
    model = CLPLClassifier(C, fit_intercept=fit_intercept, tol=0).fit(rows, matrix)
    expected = machine.coef_.reshape(5, -1)
    np.testing.assert_allclose(solution(model).T, expected, rtol=0, atol=1e-6)


@given(problems(most_labels=5), seeds, st.booleans())
def test_the_gradient_is_that_of_the_objective(problem, seed, fit_intercept):
    rows = sparse.csr_array(problem.X) if problem.is_sparse else problem.X
    found = _Problem(rows, problem.Y, 0.7, fit_intercept)
    u, v = np.random.default_rng(seed).normal(size=(2, found.size))
    value, slope = found.evaluate(u)
    ref, gradient = objective_and_gradient(problem.X, problem.Y, found.coefficients(u), 0.7)
    np.testing.assert_allclose(value, ref, rtol=1e-9)
    np.testing.assert_allclose(found.gradient_norm, np.linalg.norm(gradient), rtol=1e-7)
    size = np.abs(gradient).max() * np.abs(found.coefficients(v)).max()
    expected = (gradient * found.coefficients(v)).sum()
    np.testing.assert_allclose(slope @ v, expected, rtol=1e-7, atol=1e-9 * size)


@given(problems(most_labels=5), seeds)
def test_the_gradient_agrees_with_finite_differences(problem, seed):
    found = _Problem(problem.X, problem.Y, 0.7, True)
    u, v = np.random.default_rng(seed).normal(size=(2, found.size))
    step = 1e-5
    above, below = found.evaluate(u + step * v)[0], found.evaluate(u - step * v)[0]
    slope = found.evaluate(u)[1] @ v
    # The second derivatives jump where a hinge begins, and rounding is divided by the step.
    np.testing.assert_allclose((above - below) / (2 * step), slope, rtol=1e-4, atol=1e-2)


@given(problems(most_labels=5), seeds)
def test_the_objective_is_convex(problem, seed):
    found = _Problem(problem.X, problem.Y, 0.7, True)
    u, v = np.random.default_rng(seed).normal(size=(2, found.size))
    (at_u, slope), (at_v, _) = found.evaluate(u), found.evaluate(v)
    assert at_v >= at_u + slope @ (v - u) - 1e-9 * (at_u + at_v)


@given(problems(most_labels=5), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_gradient_vanishes_at_the_solution(problem, C):
    rows = sparse.csr_array(problem.X) if problem.is_sparse else problem.X
    labels = [set(np.flatnonzero(row)) for row in problem.Y]
    model = CLPLClassifier(C, fit_intercept=True, tol=1e-6).fit(rows, labels)
    matrix = problem.Y[:, model.classes_]
    W = solution(model)
    value, gradient = objective_and_gradient(problem.X, matrix, W, C)
    start, first = objective_and_gradient(problem.X, matrix, 0 * W, C)
    assert np.linalg.norm(gradient) <= 1.1e-6 * np.linalg.norm(first)
    assert value <= start


def test_history():
    model = CLPLClassifier().fit(X, Y)
    objectives, norms = model.history_["objective"], model.history_["gradient_norm"]
    assert objectives.shape == norms.shape == (model.n_iter_,)
    assert (np.diff(objectives) <= 0).all()
    value, gradient = objective_and_gradient(X, Y, solution(model), 1.0)
    np.testing.assert_allclose(objectives[-1], value, rtol=1e-12)
    np.testing.assert_allclose(norms[-1], np.linalg.norm(gradient), rtol=1e-6)


def test_it_learns_from_candidates():
    model = CLPLClassifier().fit(X, Y)
    assert (model.transduction_ == y).mean() > 0.9
    assert (model.predict(X) == y).mean() > 0.85


@both_dtypes
@pytest.mark.parametrize("size", [(80, 4), (10, 15)])
def test_sparse_rows_are_like_dense_ones(dtype, size):
    rows, matrix, _ = clusters(*size, 5, noise=0.4)
    rows = np.where(np.abs(rows) > 1, rows, 0).astype(dtype)
    tol = 1e-8 if dtype == np.float64 else 1e-4
    dense = CLPLClassifier(fit_intercept=True, tol=tol).fit(rows, matrix)
    thin = CLPLClassifier(fit_intercept=True, tol=tol).fit(sparse.csr_array(rows), matrix)
    assert dense.coef_.dtype == thin.coef_.dtype == thin.intercept_.dtype == dtype
    assert dense.decision_function(rows).dtype == dtype
    tolerance = 1e-6 if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=tolerance)
    np.testing.assert_allclose(thin.intercept_, dense.intercept_, atol=tolerance)


def test_columns_that_depend_on_each_other_share_a_coefficient():
    twice = CLPLClassifier(tol=1e-8).fit(np.hstack([X, X, np.zeros((80, 1))]), Y)
    np.testing.assert_allclose(twice.coef_[:, :4], twice.coef_[:, 4:8], atol=1e-6)
    assert not twice.coef_[:, 8].any()
    once = CLPLClassifier(tol=1e-8).fit(np.sqrt(2) * X, Y)
    np.testing.assert_allclose(np.sqrt(2) * twice.coef_[:, :4], once.coef_, atol=1e-6)


@pytest.mark.parametrize("size", [(80, 4), (10, 15)])
def test_features_of_very_different_scales(size):
    rows, matrix, _ = clusters(*size, 5, noise=0.4)
    rows *= np.logspace(-3, 5, size[1])
    model = CLPLClassifier().fit(rows, matrix)
    assert model.n_iter_ < 300


def test_the_order_of_the_labels_does_not_matter():
    order = np.array([3, 0, 4, 2, 1])
    one = CLPLClassifier(tol=1e-8).fit(X, Y)
    two = CLPLClassifier(tol=1e-8).fit(X, Y[:, order])
    np.testing.assert_allclose(two.coef_, one.coef_[order], atol=1e-6)


def test_rows_for_which_all_labels_are_candidates():
    model = CLPLClassifier().fit(X, np.ones_like(Y))
    np.testing.assert_allclose(model.coef_, model.coef_[:1].repeat(5, axis=0), atol=1e-9)


def test_one_label():
    assert CLPLClassifier().fit(X, ["a"] * 80).predict(X).tolist() == ["a"] * 80


def test_one_row():
    model = CLPLClassifier().fit([[1.0, -2.0]], np.array([[False, True, True]]))
    assert model.predict([[1.0, -2.0]]).tolist() == [1]


def test_nothing_but_zeros():
    model = CLPLClassifier().fit(np.zeros((80, 2)), Y)
    assert model.n_iter_ == 0
    assert not model.coef_.any()


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_number_of_threads_changes_no_bit(dtype, kind):
    rows, matrix, _ = clusters(3000, 20, 9)
    rows = kind(rows.astype(dtype))
    found = [
        CLPLClassifier(fit_intercept=True, max_iter=5, n_threads=n_threads).fit(rows, matrix)
        for n_threads in (1, 2)
    ]
    assert found[0].coef_.tobytes() == found[1].coef_.tobytes()
    assert found[0].intercept_.tobytes() == found[1].intercept_.tobytes()


def test_a_short_run_warns():
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations to tol=0.0001") as caught:
        model = CLPLClassifier(max_iter=2).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_iter_ == 2


@pytest.mark.parametrize("change", [{"C": 0}, {"max_iter": 0}, {"tol": -1}, {"n_threads": 0}])
def test_bad_parameters_are_named(change):
    with pytest.raises(ValueError, match=f"The '{next(iter(change))}' parameter"):
        CLPLClassifier(**change).fit(X, Y)
