"""The models of the W step: descent, optimality, and plain NumPy."""

from __future__ import annotations

import naive_ranking
import naive_solver as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Problem, clusters, confidences, interrupted_calls, problems, sharpnesses
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from strategies import seeds

from hera_fast import models
from hera_fast.features import make_features
from hera_fast.models import (
    GaussianDiscriminant,
    GradientDescent,
    LeastSquares,
    ranking_curvature,
)
from hera_fast.products import SparseBlocks

fits = st.sampled_from([0.0, 0.02, 1.0, 10.0])
ridges = st.sampled_from([0.0, 1e-3, 1.0])


def score_hessian(z, p):
    """Second derivatives of a row's ranking loss by its scores, by central differences."""
    h = 1e-4
    columns = []
    for j in range(len(z)):
        step = h * (np.arange(len(z)) == j)
        ahead, behind = (naive_ranking.score_terms(z + s, p).sum(axis=1) for s in (step, -step))
        columns.append((ahead - behind) / (2 * h))
    return np.array(columns, dtype=np.float64)


@given(q=st.integers(2, 12), seed=seeds, sharpness=sharpnesses, scale=st.floats(0.1, 3))
def test_curvature_bounds_the_hessian(q, seed, sharpness, scale):
    rng = np.random.default_rng(seed)
    z = scale * rng.standard_normal(q)
    (p,) = confidences(rng, np.ones((1, q), bool), sharpness)
    assert np.linalg.eigvalsh(score_hessian(z, p))[-1] <= ranking_curvature(q)


@pytest.mark.parametrize("q", [2, 3, 10, 50])
def test_curvature_is_reached_by_one_hot_rows(q):
    one_hot = np.eye(q)[0]
    z = np.sqrt(1.98) * one_hot
    largest = np.linalg.eigvalsh(score_hessian(z, one_hot))[-1]
    assert 0.99 * ranking_curvature(q) < largest <= ranking_curvature(q)


class Fit:
    """A linear model that is being fitted to a problem, and its objective in plain NumPy."""

    def __init__(self, problem, fit_intercept, dtype, alpha, beta, ranking):
        self.problem = problem
        self.features = problem.features(fit_intercept, dtype)
        self.parameters = {"alpha": alpha, "beta": beta, "ranking": ranking}
        self.Z, self.workspace = np.empty((2, *problem.Y.shape), dtype)

    def make(self, model, **parameters):
        n_labels = self.Z.shape[1]
        self.model = model(self.features, n_labels, self.workspace, **self.parameters, **parameters)
        return self

    def start_at(self, W, offset):
        self.model.W[...], self.model.offset[...] = W, offset

    def update(self, P):
        self.model.update(P.astype(self.Z.dtype), self.Z)

    @property
    def intercept(self):
        return self.model.offset - self.features.mean @ self.model.W

    def objective(self, P):
        return self.objective_at(self.problem.X, self.model.W, self.intercept, P)

    def objective_at(self, X, W, intercept, P):
        return naive.model_objective(X, self.problem.w, W, intercept, P, **self.parameters)

    def gradient(self, P, h=1e-5):
        """By W and by the intercept of centred features, by central differences."""
        X = self.problem.X - self.features.mean
        W, offset = self.model.W, self.model.offset
        slopes = []
        for array in (W, offset):
            slope = np.empty_like(array)
            for index in np.ndindex(array.shape):
                step = np.zeros_like(array)
                step[index] = h
                ahead, behind = (
                    self.objective_at(X, W + s, offset, P)
                    if array is W
                    else self.objective_at(X, W, offset + s, P)
                    for s in (step, -step)
                )
                slope[index] = (ahead - behind) / (2 * h)
            slopes.append(slope)
        return slopes


def least_squares(
    problem, *, alpha=1.0, beta=0.1, ranking=True, fit_intercept=True, dtype=np.float64
):
    fit = Fit(problem, fit_intercept, dtype, alpha, beta, ranking)
    return fit.make(LeastSquares, fit_intercept=fit_intercept)


def gradient_descent(problem, *, alpha=1.0, beta=0.1, ranking=True, n_steps=1, step_size=None):
    fit = Fit(problem, False, np.float64, alpha, beta, ranking)
    return fit.make(GradientDescent, n_steps=n_steps, step_size=step_size)


@given(
    problem=problems(),
    seed=seeds,
    sharpness=sharpnesses,
    alpha=fits,
    beta=ridges,
    ranking=st.booleans(),
    fit_intercept=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float64, np.float32]),
)
@settings(max_examples=200)
def test_least_squares_never_raises_its_objective(
    problem, seed, sharpness, alpha, beta, ranking, fit_intercept, dtype
):
    rng = np.random.default_rng(seed)
    problem = problem._replace(X=problem.X.astype(dtype).astype(np.float64))
    fit = least_squares(
        problem, alpha=alpha, beta=beta, ranking=ranking, fit_intercept=fit_intercept, dtype=dtype
    )
    for _ in range(4):
        P = confidences(rng, problem.Y, sharpness).astype(dtype)
        before = fit.objective(P)
        fit.update(P)
        assert fit.objective(P) <= before + 100 * np.finfo(dtype).eps * (1 + before)


@given(
    problem=problems(),
    seed=seeds,
    alpha=st.sampled_from([0.02, 1.0, 10.0]),
    fit_intercept=st.booleans(),
)
def test_without_ranking_one_update_reaches_the_ridge_optimum(problem, seed, alpha, fit_intercept):
    rng = np.random.default_rng(seed)
    P = confidences(rng, problem.Y, 1)
    fit = least_squares(problem, alpha=alpha, ranking=False, fit_intercept=fit_intercept)
    fit.start_at(rng.standard_normal(fit.model.W.shape), fit.model.offset)
    fit.update(P)
    w, X = problem.w[:, np.newaxis], problem.X
    residual = X @ fit.model.W + fit.intercept - P
    size = 1 + (w * X**2).sum()
    slope = alpha * X.T @ (w * residual) + 2 * 0.1 * fit.model.W
    np.testing.assert_allclose(slope, 0, rtol=0, atol=1e-9 * size)
    if fit_intercept:
        np.testing.assert_allclose((w * residual).sum(axis=0), 0, rtol=0, atol=1e-10 * size)


@given(problem=problems(most_rows=6, most_labels=4), seed=seeds, ranking=st.booleans())
@settings(max_examples=30)
def test_least_squares_steps_along_the_gradient(problem, seed, ranking):
    """A step is H^-1 times the gradient; H times the step is compared with differences."""
    rng = np.random.default_rng(seed)
    alpha, beta = 0.7, 0.3
    P = confidences(rng, problem.Y, 1)
    fit = least_squares(problem, alpha=alpha, beta=beta, ranking=ranking)
    scale = max(1, np.abs(problem.X).max())
    W = rng.standard_normal(fit.model.W.shape) / scale
    offset = rng.standard_normal(fit.model.offset.shape)
    fit.start_at(W, offset)
    W_slope, offset_slope = fit.gradient(P)
    fit.update(P)
    curvature = alpha + ranking * ranking_curvature(P.shape[1])
    H = curvature * fit.features.gram() + 2 * beta * np.eye(len(W))
    size = problem.w.sum() * scale**2 + 1
    np.testing.assert_allclose(H @ (W - fit.model.W), W_slope, rtol=0, atol=1e-8 * size)
    found = curvature * problem.w.sum() * (offset - fit.model.offset)
    np.testing.assert_allclose(found, offset_slope, rtol=0, atol=1e-8 * size)


def test_many_updates_of_least_squares_end_where_the_gradient_vanishes():
    X, Y, _ = clusters(40, 3, 4)
    P = confidences(np.random.default_rng(0), Y, 3)
    fit = least_squares(Problem(X, Y))
    for _ in range(200):
        fit.update(P)
    for slope in fit.gradient(P):
        np.testing.assert_allclose(slope, 0, rtol=0, atol=1e-7)


def test_coefficients_stay_small_where_single_precision_says_nothing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 60))
    Y = rng.random((30, 4)) < 0.5
    Y[:, 0] = True
    P = confidences(rng, Y, 1)
    sizes = []
    for dtype in (np.float32, np.float64):
        fit = least_squares(Problem(X, Y), beta=0.0, dtype=dtype)
        for _ in range(20):
            fit.update(P)
        sizes.append(np.linalg.norm(fit.model.W))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)


@given(
    problem=problems(),
    seed=seeds,
    alpha=fits,
    beta=ridges,
    ranking=st.booleans(),
    size=st.sampled_from([0.01, 1, 3]),
)
@settings(max_examples=200)
def test_gradient_descent_never_raises_its_objective(problem, seed, alpha, beta, ranking, size):
    rng = np.random.default_rng(seed)
    fit = gradient_descent(problem, alpha=alpha, beta=beta, ranking=ranking)
    for _ in range(4):
        P = size * rng.random(problem.Y.shape)  # anywhere, not on the simplex
        before = fit.objective(P)
        fit.update(P)
        assert fit.objective(P) <= before + 1e-13 * (1 + before)


@given(problem=problems(most_rows=6, most_labels=4), seed=seeds, ranking=st.booleans())
@settings(max_examples=30)
def test_gradient_descent_steps_along_the_gradient(problem, seed, ranking):
    rng = np.random.default_rng(seed)
    P = rng.random(problem.Y.shape)
    fit = gradient_descent(problem, alpha=0.7, beta=0.3, ranking=ranking, step_size=0.01)
    scale = max(1, np.abs(problem.X).max())
    W = rng.standard_normal(fit.model.W.shape) / scale
    fit.start_at(W, 0)
    slope, _ = fit.gradient(P)
    fit.update(P)
    size = problem.w.sum() * scale**2 + 1
    np.testing.assert_allclose((W - fit.model.W) / 0.01, slope, rtol=0, atol=1e-8 * size)


def test_gradient_descent_takes_as_many_steps_as_it_is_told():
    X, Y, _ = clusters(20, 3, 4)
    P = Y / Y.sum(axis=1, keepdims=True)
    ends = []
    for n_steps, n_updates in [(6, 1), (2, 3)]:
        fit = gradient_descent(Problem(X, Y), n_steps=n_steps)
        for _ in range(n_updates):
            fit.update(P)
        np.testing.assert_allclose(fit.Z, X @ fit.model.W, rtol=1e-12)
        ends.append(fit.model.W)
    np.testing.assert_array_equal(*ends)


@given(problem=problems(), seed=seeds, fit_intercept=st.booleans())
@settings(max_examples=30)
def test_scores_are_those_of_the_new_coefficients(problem, seed, fit_intercept):
    fit = least_squares(problem, fit_intercept=fit_intercept)
    rng = np.random.default_rng(seed)
    for _ in range(2):
        fit.update(confidences(rng, problem.Y, 1))
        expected = problem.X @ fit.model.W + fit.intercept
        np.testing.assert_allclose(fit.Z, expected, rtol=1e-9, atol=1e-9)
    assert fit.model.penalty() == pytest.approx(0.1 * (fit.model.W**2).sum())
    if not fit_intercept:
        assert (fit.intercept == 0).all()


def make_model(name, features, Y):
    n_labels = Y.shape[1]
    workspace = np.empty(Y.shape)
    fit = {"alpha": 1.0, "beta": 0.1, "ranking": True}
    if name == "gaussian":
        return GaussianDiscriminant(features, Y, shrinkage=0.1)
    if name == "least squares":
        return LeastSquares(features, n_labels, workspace, **fit, fit_intercept=True)
    return GradientDescent(features, n_labels, workspace, **fit, n_steps=3, step_size=None)


@pytest.mark.parametrize("name", ["gaussian", "least squares", "gradient descent"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_weight_counts_like_repeated_rows(name, is_sparse):
    X, Y, _ = clusters(30, 3, 4)
    counts = np.random.default_rng(1).integers(0, 4, 30)
    weighted = Problem(X, Y, counts.astype(float), is_sparse)
    P = confidences(np.random.default_rng(2), Y, 1)
    models = []
    repeated = weighted.repeated(counts)
    for problem, confidence in [(weighted, P), (repeated, np.repeat(P, counts, axis=0))]:
        model = make_model(name, problem.features(), problem.Y)
        Z = np.empty_like(confidence)
        for _ in range(3):
            model.update(confidence, Z)
        models.append(model)
    np.testing.assert_allclose(models[0].W, models[1].W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(models[0].offset, models[1].offset, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "least squares"])
def test_coefficients_and_intercept_belong_together_whenever_a_user_interrupts(name):
    X, Y, _ = clusters(30, 3, 4)
    rng = np.random.default_rng(0)
    P, later_P = (confidences(rng, Y, sharpness) for sharpness in (1, 3))
    features = make_features(X * [1.0, 10.0, 100.0], fit_intercept=True)
    Z = np.empty(Y.shape)

    def fitted_once():
        model = make_model(name, features, Y)
        model.update(P, Z)
        return model, later_P, Z

    before, after = fitted_once()[0], fitted_once()[0]
    after.update(later_P, Z)
    known = [(model.W.tolist(), model.offset.tolist()) for model in (before, after)]
    seen = [
        known.index((model.W.tolist(), model.offset.tolist()))
        for model, *_ in interrupted_calls(type(before).update, fitted_once)
    ]
    assert seen.count(0) >= 3
    assert seen == sorted(seen)


def posterior(problem, P, shrinkage, dtype=np.float64):
    features = problem.features(dtype=dtype)
    model = GaussianDiscriminant(features, P > 0, shrinkage=shrinkage)
    Z = np.full(P.shape, np.nan, dtype)
    model.update(P.astype(dtype), Z)
    return model, Z


@given(
    problem=problems(most_rows=20),
    seed=seeds,
    sharpness=sharpnesses,
    shrinkage=st.sampled_from([0.03, 0.1, 1.0]),
)
def test_gaussian_discriminant_against_numpy(problem, seed, sharpness, shrinkage):
    P = confidences(np.random.default_rng(seed), problem.Y, sharpness)
    model, Z = posterior(problem, P, shrinkage)
    expected = naive.gaussian_posterior(problem.X, problem.w, P, shrinkage)
    counts = problem.w > 0  # the others may be far from everything
    np.testing.assert_allclose(Z[counts], expected[counts], rtol=0, atol=1e-8)
    assert model.penalty() == 0


def test_the_coefficients_of_the_gaussians_are_those_of_the_log_odds():
    X, Y, _ = clusters(40, 3, 4, spread=2.0)
    model, Z = posterior(Problem(X, Y), confidences(np.random.default_rng(0), Y, 1), 0.1)
    odds = (X - X.mean(axis=0)) @ model.W + model.offset
    expected = np.log(Z / Z[:, :1])
    np.testing.assert_allclose(odds - odds[:, :1], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_without_confidence_get_no_probability(dtype):
    X, Y, _ = clusters(50, 3, 5)
    Y[:, 2] = False
    Y[:, 0] |= ~Y.any(axis=1)
    P = confidences(np.random.default_rng(0), Y, 1)
    model, Z = posterior(Problem(X, Y), P, 0.1, dtype)
    assert Z.dtype == dtype
    assert (Z[:, 2] == 0).all()
    assert (Z[:, [0, 1, 3, 4]] > 0).all()
    assert model.offset[2] == -np.inf
    assert np.isfinite(model.W).all()
    np.testing.assert_allclose(Z.sum(axis=1), 1, rtol=0, atol=8 * np.finfo(dtype).eps)


def test_one_hot_confidences_give_linear_discriminant_analysis():
    X, Y, y = clusters(400, 4, 5, spread=2.0)
    _, Z = posterior(Problem(X, Y), np.eye(5)[y], 1e-9)
    reference = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_allclose(Z, reference.predict_proba(X), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(Z.argmax(axis=1), reference.predict(X))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e5 / 7])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_features_tell_nothing(value, is_sparse, dtype):
    X, Y, _ = clusters(3000, 2, 4)
    P = confidences(np.random.default_rng(0), Y, 1)
    _, expected = posterior(Problem(X, Y, None, is_sparse), P, 0.1, dtype)
    X = np.insert(X, 1, value, axis=1)
    model, Z = posterior(Problem(X, Y, None, is_sparse), P, 0.1, dtype)
    assert (model.W[1] == 0).all()
    np.testing.assert_allclose(Z, expected, rtol=0, atol=8 * np.finfo(dtype).eps)


def test_all_features_constant_leave_the_shares():
    Y = np.array([[True, False], [True, True]])
    P = np.array([[1.0, 0.0], [0.5, 0.5]])
    _, Z = posterior(Problem(np.full((2, 3), 0.1), Y), P, 0.1)
    np.testing.assert_allclose(Z, [[0.75, 0.25]] * 2, rtol=1e-14)


def test_the_scale_of_a_feature_does_not_matter_to_the_gaussians():
    X, Y, _ = clusters(60, 3, 4)
    P = confidences(np.random.default_rng(0), Y, 1)
    _, expected = posterior(Problem(X, Y), P, 0.3)
    _, Z = posterior(Problem(X * [1e-4, 1.0, 1e5], Y), P, 0.3)
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-10)


def test_features_that_repeat_each_other():
    X, Y, _ = clusters(60, 2, 4)
    X = np.take(X, [0, 1, 0, 0], axis=1)
    P = confidences(np.random.default_rng(0), Y, 1)
    _, Z = posterior(Problem(X, Y), P, 0.1)
    expected = naive.gaussian_posterior(X, np.ones(60), P, 0.1)
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shrinkage", [5e-324, 1e-17, 1e-11])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [0, 100])
@pytest.mark.parametrize(("n", "d", "q"), [(50, 3, 4), (1000, 50, 5), (300, 200, 100)])
def test_a_tiny_shrinkage_keeps_the_covariance_definite(n, d, q, shift, dtype, shrinkage):
    rng = np.random.default_rng(0)
    y = rng.integers(0, q, n)
    # Rows of a label are equal, and each feature is there twice: nothing but shrinkage is left.
    X = np.tile(rng.standard_normal((q, d))[y] + shift, 2)
    P = np.eye(q)[y]
    model, Z = posterior(Problem(X, P > 0), P, shrinkage, dtype)  # a warning would be an error
    assert np.isfinite(model.W).all()
    np.testing.assert_array_equal(Z.argmax(axis=1), y)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 50))
    Y = rng.random((10, 3)) < 0.6
    Y[:, 0] = True
    P = confidences(rng, Y, 1)
    _, Z = posterior(Problem(X, Y), P, 0.1)
    expected = naive.gaussian_posterior(X, np.ones(10), P, 0.1)
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-9)


def test_the_gaussians_do_not_change_what_they_are_given():
    X, Y, _ = clusters(30, 2, 3)
    features = make_features(X, fit_intercept=True)
    model = GaussianDiscriminant(features, Y, shrinkage=0.1)
    P = confidences(np.random.default_rng(0), Y, 1)
    before = P.copy()
    first, second = np.empty_like(P), np.empty_like(P)
    model.update(P, first)
    model.update(P, second)
    np.testing.assert_array_equal(P, before)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_candidates_are_multiplied_as_a_sparse_matrix(is_sparse, is_weighted, dtype):
    rng = np.random.default_rng(0)
    n, q = 3000, 40
    X, Y, _ = clusters(n, 3, q)
    Y = np.zeros((n, q), bool)
    Y[np.arange(n), rng.integers(q, size=n)] = Y[np.arange(n), rng.integers(q, size=n)] = True
    weights = rng.random(n) if is_weighted else None
    features = Problem(X, Y, weights, is_sparse).features(dtype=dtype)
    results = []
    for candidates in (Y, np.ones_like(Y)):
        model = GaussianDiscriminant(features, candidates, shrinkage=0.1)
        taken = model._support.take(np.empty(Y.shape, dtype))
        assert isinstance(taken, SparseBlocks) == (candidates is Y)
        Z = np.empty(Y.shape, dtype)
        for seed in range(2):  # the second must not see values of the first
            model.update(confidences(np.random.default_rng(seed), Y, 1).astype(dtype), Z)
        results.append((model.W, Z))
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    for sparse_result, dense_result in zip(*results, strict=True):
        np.testing.assert_allclose(sparse_result, dense_result, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shrinkage", [1e-3, 0.1, 10])
@pytest.mark.parametrize(("d", "q"), [(12, 6), (30, 4), (7, 1)])
def test_few_labels_are_solved_for_by_fewer_equations(d, q, shrinkage, dtype, monkeypatch):
    X, Y, _ = clusters(90, d, q, noise=0.6)
    Y[:, -1] = q == 1  # a label that is nobody's candidate
    Y[~Y.any(axis=1), 0] = True
    P = confidences(np.random.default_rng(1), Y, 1)
    few, Z = posterior(Problem(X, Y), P, shrinkage, dtype)
    assert few._factor is not None
    monkeypatch.setattr(models, "_FEW_LABELS", d + 1)
    many, expected = posterior(Problem(X, Y), P, shrinkage, dtype)
    assert many._factor is None
    precision = 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(few.W, many.W, rtol=0, atol=precision * np.abs(many.W).max())
    np.testing.assert_allclose(Z, expected, rtol=0, atol=precision)
    assert few.W.flags.c_contiguous


def test_models_of_the_same_features_share_what_does_not_depend_on_the_confidences():
    X, Y, _ = clusters(30, 8, 3)
    features = Problem(X, Y).features()
    gram = features.remember("gram", features.gram)
    assert features.remember("gram", features.gram) is gram
    workspace = np.empty(Y.shape)
    options = {"beta": 0.1, "ranking": True, "fit_intercept": True}
    factors = [
        LeastSquares(features, 3, workspace, alpha=alpha, **options)._factor
        for alpha in (1.0, 2.0, 1.0)
    ]
    assert factors[0] is factors[2]
    assert not np.allclose(factors[0][0], factors[1][0])
    discriminants = [
        GaussianDiscriminant(features, Y, shrinkage=shrinkage)._factor
        for shrinkage in (0.1, 0.3, 0.1)
    ]
    assert discriminants[0] is discriminants[2]
    assert not np.allclose(discriminants[0][0], discriminants[1][0])
    np.testing.assert_array_equal(gram, features.gram())
