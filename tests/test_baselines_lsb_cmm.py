from __future__ import annotations

import itertools
import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import clusters, problems
from scipy import sparse
from scipy.integrate import quad
from scipy.special import digamma, expit, gammaln
from scipy.stats import beta
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from strategies import seeds

from hera_fast.baselines.lsb_cmm import LSBCMMClassifier, _Breaks, _Labels

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
# Many runs are short on purpose.
may_end_early = pytest.mark.filterwarnings("ignore:LSBCMMClassifier did not converge")
X, Y, y = clusters(120, 4, 5, noise=0.4)


def rows_of(problem, dtype=np.float64):
    rows = problem.X.astype(dtype)
    return sparse.csr_array(rows) if problem.is_sparse else rows


def candidates_of(problem):
    """As a sparse matrix: a dense one with one column would be taken for labels."""
    return sparse.csr_array(problem.Y)


def shares(Z):
    """Mixture weights by their definition."""
    goes, stays = expit(Z), expit(-Z)
    columns = [goes[:, k] * stays[:, :k].prod(axis=1) for k in range(Z.shape[1])]
    return np.column_stack([*columns, stays.prod(axis=1)])


def joint_probabilities(model, X, Y):
    """Probabilities of components and labels given the candidates, and the bound, by loops."""
    a = model.concentration_
    log_theta = digamma(a) - digamma(a.sum(axis=1, keepdims=True))
    phi = shares(X @ model.coef_.T + model.intercept_)
    joint = np.zeros((len(X), *a.shape))
    for i, k, l in itertools.product(*(range(size) for size in joint.shape)):
        if Y[i, l]:
            joint[i, k, l] = phi[i, k] * math.exp(log_theta[k, l])
    totals = joint.sum(axis=(1, 2))
    alpha0, q = model.alpha0, a.shape[1]
    divergence = sum(
        (gammaln(row.sum()) - gammaln(row).sum())
        - (gammaln(q * alpha0) - q * gammaln(alpha0))
        + ((row - alpha0) * expected).sum()
        for row, expected in zip(a, log_theta, strict=True)
    )
    prior = -(model.coef_**2).sum() / (2 * model.variance)
    return joint / totals[:, None, None], np.log(totals).sum() - divergence + prior


component_counts = st.sampled_from([None, 1, 2, 3, 9])


@may_end_early
@settings(max_examples=60)
@given(problems(), component_counts, st.sampled_from([0.01, 0.05, 2.0]), st.floats(-3, 3))
def test_the_bound_never_falls(problem, n_components, alpha0, log_variance):
    model = LSBCMMClassifier(
        n_components, alpha0=alpha0, variance=10**log_variance, tol=0, max_iter=20
    ).fit(rows_of(problem), candidates_of(problem))
    bounds = model.history_["bound"]
    assert bounds.shape == (model.n_iter_,)
    assert (np.diff(bounds) >= -1e-11 * np.abs(bounds[1:]).max(initial=1)).all()


@may_end_early
@settings(max_examples=30)
@given(problems())
def test_the_bound_never_falls_in_single_precision_but_for_rounding(problem):
    model = LSBCMMClassifier(tol=0, max_iter=20).fit(
        rows_of(problem, np.float32), candidates_of(problem)
    )
    bounds = model.history_["bound"]
    assert (np.diff(bounds) >= -1e-4 * np.abs(bounds[1:]).max(initial=1)).all()


@may_end_early
@settings(max_examples=40)
@given(problems(most_rows=8, most_labels=5), component_counts)
def test_posterior_and_bound_equal_the_loops(problem, n_components):
    model = LSBCMMClassifier(n_components, max_iter=8).fit(rows_of(problem), candidates_of(problem))
    joint, bound = joint_probabilities(model, problem.X, problem.Y)
    np.testing.assert_allclose(model.confidence_, joint.sum(axis=1), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.history_["bound"][-1], bound, rtol=1e-8, atol=1e-8)
    assert (model.confidence_[~problem.Y] == 0).all()
    np.testing.assert_allclose(model.confidence_.sum(axis=1), 1, rtol=1e-12)
    best = np.searchsorted(model.classes_, model.transduction_)
    np.testing.assert_array_equal(best, model.confidence_.argmax(axis=1))


def test_a_round_updates_concentrations_with_the_expected_counts():
    breaks, labels = _Breaks(X, 5, 1.0), _Labels(Y, 5, 0.05, X.dtype)
    labels.find_posterior(breaks.Z)
    log_theta = digamma(labels.concentration) - digamma(labels.concentration.sum(axis=0))
    r = shares(breaks.Z)[:, None, :] * np.exp(log_theta) * Y[:, :, None]
    r /= r.sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(labels.mass, r.sum(axis=1), rtol=1e-12)
    labels.improve()
    np.testing.assert_allclose(labels.concentration, 0.05 + r.sum(axis=0), rtol=1e-12)


def test_the_bound_is_below_the_evidence_and_not_far():
    # One component: theta has a Dirichlet prior, and each row one label or any.
    Y = np.array([[1, 0], [1, 0], [0, 1], [1, 1]], bool)
    model = LSBCMMClassifier(n_components=1, alpha0=1.5).fit(np.zeros((4, 1)), Y)
    evidence, _ = quad(lambda t: t**2 * (1 - t) * beta.pdf(t, 1.5, 1.5), 0, 1)
    assert -0.1 < model.history_["bound"][-1] - math.log(evidence) < 0


def random_mass(n, n_components, seed, sharpness=3):
    mass = np.exp(sharpness * np.random.default_rng(seed).normal(size=(n, n_components)))
    return mass / mass.sum(axis=1, keepdims=True)


@settings(max_examples=30)
@given(problems(), seeds, st.integers(2, 5))
def test_the_gradient_agrees_with_finite_differences(problem, seed, n_components):
    breaks = _Breaks(rows_of(problem), n_components, 0.7)
    mass = random_mass(len(problem.X), n_components, seed)
    rng = np.random.default_rng(seed)
    scale = 1 / (1 + np.abs(problem.X).max())
    breaks.W, V = scale * rng.normal(size=(2, *breaks.W.shape))
    h = 1e-5

    def objectives(W):
        Z = np.ascontiguousarray(problem.X @ W[:-1] + W[-1])
        return breaks.objectives(W, Z, mass)

    breaks._score(breaks.W, breaks.Z)
    slopes = (breaks.gradient(mass) * V).sum(axis=0)
    expected = (objectives(breaks.W + h * V) - objectives(breaks.W - h * V)) / (2 * h)
    np.testing.assert_allclose(slopes, expected, rtol=1e-5, atol=1e-6)


@settings(max_examples=30)
@given(problems(), seeds, st.integers(2, 5))
def test_curvature_agrees_with_finite_differences_of_the_gradient(problem, seed, n_components):
    breaks = _Breaks(rows_of(problem), n_components, 0.7)
    mass = random_mass(len(problem.X), n_components, seed)
    scale = 1 / (1 + np.abs(problem.X).max())
    W, V = scale * np.random.default_rng(seed).normal(size=(2, *breaks.W.shape))
    h = 1e-5

    def gradient(W):
        breaks.W = W
        breaks._score(W, breaks.Z)
        return breaks.gradient(mass)

    expected = -(gradient(W + h * V) - gradient(W - h * V)) / (2 * h)
    gradient(W)
    size = 1 + np.abs(expected).max()
    np.testing.assert_allclose(breaks._hessian_product(V), expected, rtol=0, atol=1e-7 * size)
    for j, diagonal in enumerate(breaks._diagonal()):
        unit = np.zeros_like(V)
        unit[j] = 1
        np.testing.assert_allclose(breaks._hessian_product(unit)[j], diagonal, rtol=1e-9)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_repeated_steps_equal_logistic_regression(as_rows):
    mass, variance = random_mass(len(X), 4, 0), 0.3
    breaks = _Breaks(as_rows(X), 4, variance)
    for _ in range(30):
        breaks.improve(mass)
    for k in range(3):
        weights = np.concatenate([mass[:, k], mass[:, k + 1 :].sum(axis=1)])
        target = np.repeat([1, 0], len(X))
        ref = LogisticRegression(C=variance, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
        ref.fit(np.vstack([X, X]), target, sample_weight=weights)
        np.testing.assert_allclose(breaks.W[:-1, k], ref.coef_[0], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(breaks.W[-1, k], ref.intercept_[0], rtol=1e-6, atol=1e-9)


@settings(max_examples=40)
@given(problems(), seeds, st.sampled_from([1.0, 30.0]), st.floats(-3, 3))
def test_no_step_makes_a_component_worse(problem, seed, sharpness, log_variance):
    breaks = _Breaks(rows_of(problem), 4, 10**log_variance)
    mass = random_mass(len(problem.X), 4, seed, sharpness)
    before = breaks.objectives(breaks.W, breaks.Z, mass)
    for _ in range(5):
        breaks.improve(mass)
        after = breaks.objectives(breaks.W, breaks.Z, mass)
        assert (after >= before - 1e-14 * (1 + np.abs(before))).all()
        before = after


def test_steps_that_are_too_long_are_halved():
    # From far on the wrong side, where the curvature is tiny, the full Newton step is enormous.
    rows = np.array([[-1.0], [1.0], [1.0]])
    breaks, mass = _Breaks(rows, 2, 1e6), np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    breaks.W = np.array([[0.0], [12.0]])
    breaks._score(breaks.W, breaks.Z)
    before = breaks.objectives(breaks.W, breaks.Z, mass)
    full_step = breaks.W + breaks._newton_direction(mass)
    assert breaks.objectives(full_step, rows @ full_step[:-1] + full_step[-1], mass) < before
    breaks.improve(mass)
    assert breaks.objectives(breaks.W, breaks.Z, mass) > before


def test_where_no_step_helps_none_is_taken(monkeypatch):
    breaks, mass = _Breaks(X, 3, 1.0), random_mass(len(X), 3, 0)
    W = breaks.W.copy()
    descent = -breaks.gradient(mass)
    monkeypatch.setattr(breaks, "_newton_direction", lambda mass: descent)
    breaks.improve(mass)
    np.testing.assert_array_equal(breaks.W, W)


def test_components_start_equally_likely():
    np.testing.assert_allclose(shares(_Breaks(X, 5, 1.0).Z), 0.2, rtol=1e-12)


def test_probabilities_are_a_mixture():
    model = LSBCMMClassifier(n_components=7).fit(X, Y)
    theta = model.concentration_ / model.concentration_.sum(axis=1, keepdims=True)
    expected = shares(X @ model.coef_.T + model.intercept_) @ theta
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))


def test_it_learns():
    model = LSBCMMClassifier().fit(X, Y)
    assert model.score(X, y) > 0.85
    assert (model.transduction_ == y).mean() > 0.85
    assert model.coef_.shape == (9, 4)
    assert model.intercept_.shape == (9,)
    assert model.concentration_.shape == (10, 5)


@may_end_early
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_the_number_of_threads_changes_no_bit(dtype, as_rows):
    rows, candidates, _ = clusters(3000, 12, 15)
    rows = as_rows(rows.astype(dtype))
    models = [
        LSBCMMClassifier(max_iter=4, n_threads=n_threads).fit(rows, candidates)
        for n_threads in (1, 2)
    ]
    for name in ("coef_", "intercept_", "concentration_", "confidence_"):
        one, two = (getattr(model, name).tobytes() for model in models)
        assert one == two, name
    assert models[0].history_["bound"].tobytes() == models[1].history_["bound"].tobytes()
    one, two = (model.predict_proba(rows).tobytes() for model in models)
    assert one == two


@may_end_early
def test_single_precision_stays_single():
    model = LSBCMMClassifier(max_iter=5).fit(X.astype(np.float32), Y)
    ref = LSBCMMClassifier(max_iter=5).fit(X, Y)
    for name in ("coef_", "intercept_", "concentration_", "confidence_"):
        found, expected = getattr(model, name), getattr(ref, name)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3)
    assert model.predict_proba(X).dtype == np.float32
    assert model.decision_function(X).dtype == np.float32


@may_end_early
def test_sparse_rows_give_the_same():
    rows = np.where(np.abs(X) > 1, X, 0)
    dense = LSBCMMClassifier(max_iter=10).fit(rows, Y)
    found = LSBCMMClassifier(max_iter=10).fit(sparse.csr_matrix(rows), Y)
    np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        found.predict_proba(sparse.csr_array(rows)), dense.predict_proba(rows), rtol=1e-6
    )


@pytest.mark.parametrize("n_components", [None, 1, 3])
def test_one_label_is_certain(n_components):
    model = LSBCMMClassifier(n_components).fit(X, ["only"] * len(X))
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), 1)
    np.testing.assert_array_equal(model.confidence_, 1)
    assert model.coef_.shape == ((n_components or 2) - 1, 4)


def test_one_component_knows_frequencies_only():
    single = np.eye(5, dtype=bool)[y]
    model = LSBCMMClassifier(n_components=1).fit(X, single)
    expected = (0.05 + single.sum(axis=0)) / (0.25 + len(X))
    np.testing.assert_allclose(model.predict_proba(X), np.tile(expected, (len(X), 1)))
    assert model.n_iter_ == 2


def test_one_row():
    model = LSBCMMClassifier().fit([[1.0, 2.0]], [{"a", "b"}])
    assert model.transduction_[0] in {"a", "b"}
    np.testing.assert_allclose(model.confidence_.sum(axis=1), 1)


def test_rows_with_all_labels_are_filled_in():
    candidates = Y.copy()
    candidates[::4] = True
    model = LSBCMMClassifier().fit(X, candidates)
    assert (model.transduction_[::4] == y[::4]).mean() > 0.7
    everything = LSBCMMClassifier().fit(X, np.ones_like(Y))
    assert np.isfinite(everything.predict_proba(X)).all()


def test_constant_features():
    single = np.eye(5, dtype=bool)[y]
    model = LSBCMMClassifier(tol=1e-9, max_iter=1000).fit(np.ones((len(X), 3)), single)
    expected = single.mean(axis=0)
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 3)))[0], expected, atol=0.01)


@may_end_early
@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_features_of_any_scale(scale):
    model = LSBCMMClassifier().fit(scale * X, Y)
    assert np.isfinite(model.predict_proba(scale * X)).all()
    assert (np.diff(model.history_["bound"]) >= 0).all()


@may_end_early
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_features_of_any_scale_in_single_precision(scale):
    rows = (scale * X).astype(np.float32)
    assert np.isfinite(LSBCMMClassifier(variance=1e8).fit(rows, Y).predict_proba(rows)).all()


def test_a_run_that_does_not_converge_warns():
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=2 ") as caught:
        model = LSBCMMClassifier(max_iter=2).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_iter_ == 2


def test_it_stops_when_the_bound_hardly_grows():
    bounds = LSBCMMClassifier(tol=1e-3).fit(X, Y).history_["bound"]
    changes = np.diff(bounds) / len(X)
    assert changes[-1] <= 1e-3
    assert (changes[:-1] > 1e-3).all()


def test_concentrations_that_would_underflow_are_refused():
    with pytest.raises(ValueError, match="The 'alpha0' parameter"):
        LSBCMMClassifier(alpha0=0.001).fit(X, Y)
