"""The mixture: rows really left out, optima that are optima, stages, and what comes back."""

from __future__ import annotations

import naive_mixture as naive
import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import (
    Problem,
    clusters,
    confidences,
    interrupted_calls,
    make_options,
    problems,
    sharpnesses,
)
from scipy.optimize import minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from strategies import seeds

from hera_fast import HERAClassifier
from hera_fast import mixture as module
from hera_fast.features import make_features
from hera_fast.mixture import STAGES, Mixture, MixtureState, _Discriminant, _link
from hera_fast.models import GaussianDiscriminant
from hera_fast.solver import equal_confidence, solve
from hera_fast.threads import threads

two_threads = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2"
)
shrinkages = st.sampled_from([0.1, 1e-2, 1e-3])
stages = st.integers(0, len(STAGES) - 1)


def fitted(problem, P, shrinkage, **attributes):
    """A discriminant after one fit."""
    discriminant = _Discriminant(problem.features(), problem.Y, naive.n_rows(problem.w))
    discriminant.set_shrinkage(shrinkage)
    for name, value in attributes.items():
        setattr(discriminant, name, value)
    shares = np.maximum(problem.w @ P / problem.w.sum(), 1e-6)
    discriminant.fit(P, P, shares, np.empty_like(P))
    return discriminant, shares


def mixing_weights(masses, row_weight):
    return module._mixing_weights(masses, row_weight, masses.shape[1])


@st.composite
def small_fits(draw):
    """Rows that are none of them alone in the world, labels with confidence, and weights."""
    n, d, q = draw(st.integers(4, 12)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(seeds))
    is_sparse = draw(st.booleans())
    X = rng.standard_normal((n, d)) * draw(st.sampled_from([0.01, 1.0, 30.0]))
    if not is_sparse:  # where it would cost digits
        X += 5
    Y = rng.random((n, q)) < 0.6
    Y[np.arange(n), np.arange(n) % q] = True
    weights = {
        "none": None,
        "whole": rng.integers(0, 4, n).astype(float),
        "fractional": 2 * rng.random(n),
    }[draw(st.sampled_from(["none", "whole", "fractional"]))]
    if weights is not None:
        weights[:q] += 1
    P = confidences(rng, Y, draw(st.sampled_from([0.0, 1.0, 5.0])))
    return Problem(X, Y, weights, is_sparse), P


# ---- rows that were left out -------------------------------------------------------------------


@given(fit=small_fits(), shrinkage=shrinkages)
@settings(max_examples=150)
def test_scores_come_from_regressions_without_the_row(fit, shrinkage):
    """The closed form is the regression on the other rows, exactly.

    It keeps three things of all rows: the penalty, the origin (which the intercept, estimated
    without the row, makes irrelevant), and the shares that are subtracted afterwards. The
    leverage that makes this exact has the part 1/n of the intercept.
    """
    problem, P = fit
    discriminant, shares = fitted(problem, P, shrinkage)
    # Rows beyond are cut off; another test looks at them.
    assume(discriminant._leverages.leverages.max() < 0.99)
    assume(shares.min() > 1e-3)
    expected = naive.scores(problem.X, problem.w, P, shrinkage)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(discriminant._scores, expected, rtol=0, atol=1e-9 * (1 + scale))


@given(fit=small_fits(), shrinkage=shrinkages)
def test_held_out_fits_are_those_of_regressions_without_the_row(fit, shrinkage):
    """As above, but with the identity for the link and no rows added."""
    problem, P = fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_COMMON_ROWS", 0.0)
        patch.setattr(module, "_link", lambda explained, shares: np.eye(len(shares)))
        discriminant, shares = fitted(problem, P, shrinkage)
    assume(discriminant._leverages.leverages.max() < 0.99)
    expected = naive.held_out_fits(problem.X, problem.w, P, shrinkage)
    np.testing.assert_allclose(discriminant._scores + shares, expected, rtol=0, atol=1e-9)


def test_a_rows_own_confidences_do_not_matter_to_its_fit(monkeypatch):
    """Whatever a row believes, the others say the same about it."""
    monkeypatch.setattr(module, "_COMMON_ROWS", 0.0)
    monkeypatch.setattr(module, "_link", lambda explained, shares: np.eye(len(shares)))
    X, Y, _ = clusters(12, 3, 3, noise=1.0)
    Y[0] = True
    fits = []
    for own in np.eye(3):
        P = confidences(np.random.default_rng(0), Y, 1)
        P[0] = own
        discriminant, shares = fitted(Problem(X, Y), P, 0.01)
        fits.append(discriminant._scores[0] + shares)
    np.testing.assert_allclose(fits[1:], fits[:1] * np.ones((2, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_with_its_own_part_the_scores_are_those_of_a_discriminant(monkeypatch, is_weighted):
    """A linear map of regressions gives the log-odds of Gaussians with covariance S + t I.

    Ten rows that are in the middle of everything contribute to the mean of each label, which
    costs the most frequent label nothing.
    """
    monkeypatch.setattr(module, "_LARGEST_LEVERAGE", 0.0)
    X, Y, _ = clusters(40, 4, 3, spread=2.0)
    rng = np.random.default_rng(0)
    w = rng.random(40) if is_weighted else np.ones(40)
    P = confidences(rng, Y, 1)
    discriminant, _ = fitted(Problem(X, Y, w if is_weighted else None), P, 0.1)
    centred = X - w @ X / w.sum()
    mass = w @ P
    means = (w[:, np.newaxis] * P).T @ centred / mass[:, np.newaxis]
    within = sum(
        w[i] * P[i, j] * np.outer(centred[i] - means[j], centred[i] - means[j])
        for i, j in np.ndindex(P.shape)
    )
    covariance = within / w.sum() + 0.1 * naive.total_variance(X, w) * np.eye(4)
    rows = naive.n_rows(w) * mass / w.sum()
    with_average_rows = (rows * means.T + 10 * np.zeros((4, 1))) / (rows + 10)
    expected = centred @ np.linalg.solve(covariance, with_average_rows)
    expected *= (rows.max() + 10) / rows.max()
    np.testing.assert_allclose(discriminant._scores, expected, rtol=0, atol=1e-10)


def test_the_member_has_the_coefficients_of_the_fit_to_all_rows():
    """Rows that were not there are predicted with everything known, at the temperature."""
    X, Y, _ = clusters(30, 3, 4)
    P = confidences(np.random.default_rng(0), Y, 1)
    discriminant, _ = fitted(Problem(X, Y), P, 0.1, temperature=0.5)
    centred = X - X.mean(axis=0)
    link = _link(P.T @ (naive.held_out_fits(X, np.ones(30), P, 0.1) - P.mean(0)) / 30, P.mean(0))
    _, B = naive.ridge(centred, np.ones(30), P, 30 * 0.1 * naive.total_variance(X, np.ones(30)))
    own = P.sum(0) / (P.sum(0) + 30 / 4)
    link *= own / own.max()
    member = discriminant.member(0.25)
    np.testing.assert_allclose(member.W, 0.5 * B @ link, rtol=0, atol=1e-9)
    np.testing.assert_allclose(member.offset, 0.5 * discriminant.offset, rtol=1e-14)
    assert member.weight == 0.25


def test_a_row_that_decides_alone_has_a_bounded_leverage():
    """Two rows far from the rest, with as good as no penalty: their fits are their targets."""
    X = np.zeros((6, 2))
    X[0, 0] = X[1, 1] = 1e6
    Y = np.ones((6, 2), bool)
    P = confidences(np.random.default_rng(0), Y, 1)
    discriminant, _ = fitted(Problem(X, Y), P, 1e-9)
    np.testing.assert_allclose(discriminant._leverages.leverages[:2], 0.999)
    assert discriminant._leverages.leverages[2:].max() < 0.5
    assert np.isfinite(discriminant._scores).all()


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e5 / 7])
def test_constant_features_leave_the_shares(value, dtype, is_sparse):
    rng = np.random.default_rng(0)
    Y = rng.random((20, 3)) < 0.5
    Y[:, 0] = True
    P = confidences(rng, Y, 1).astype(dtype)
    features = Problem(np.full((20, 2), value), Y, None, is_sparse).features(dtype=dtype)
    discriminant = _Discriminant(features, Y, 20)
    for shrinkage in (0.3, 1e-2, 1e-4, 1e-6):
        discriminant.set_shrinkage(shrinkage)
        shares = P.mean(axis=0, dtype=np.float64)
        discriminant.fit(P, P, shares, np.empty_like(P))
        # Of a regression without features the intercept is left, that of the other rows.
        expected = (P.sum(axis=0) - P) / 19 - shares
        own = 20 * shares / (20 * shares + 20 / 3)
        link = _link(P.T @ expected / 20, shares) * own / own.max()
        np.testing.assert_allclose(discriminant._scores, expected @ link, rtol=0, atol=1e-4)
        assert (discriminant.member(1.0).W == 0).all()


# ---- from regressions to log-odds --------------------------------------------------------------


@given(q=st.integers(1, 8), seed=seeds, strength=st.floats(0, 0.95))
def test_the_link_is_an_inverse(q, seed, strength):
    """Nothing is cut off where the fits leave 5 % of each direction unexplained."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(q)) + 1e-3
    vectors, _ = np.linalg.qr(rng.standard_normal((q, q)))
    roots = np.sqrt(shares)
    parts = strength * rng.uniform(-1, 1, q)
    explained = np.outer(roots, roots) * (vectors * parts @ vectors.T)
    skew = rng.standard_normal((q, q))
    comp = _link(explained + (skew - skew.T), shares)
    expected = np.linalg.inv(np.diag(shares) - explained)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(comp, expected, rtol=0, atol=1e-9 * scale)


@given(
    q=st.integers(1, 8),
    seed=seeds,
    size=st.sampled_from([0, 1, 1e3]),
    least=st.sampled_from([1e-6, 1e-2]),
)
def test_the_link_is_positive_definite_whatever_the_fits_say(q, seed, size, least):
    rng = np.random.default_rng(seed)
    shares = np.maximum(rng.dirichlet(np.ones(q)), least)
    explained = size * rng.standard_normal((q, q))
    link = _link(explained, shares)
    scale = np.abs(link).max()
    np.testing.assert_allclose(link, link.T, rtol=0, atol=1e-12 * scale)
    roots = np.sqrt(shares)
    relative = np.linalg.eigvalsh(roots[:, np.newaxis] * link * roots)
    assert relative[0] > 0
    # One over the part that is left unexplained at least.
    assert relative[-1] <= 100 * (1 + 1e-9)
    expected = naive.link(explained, shares)
    np.testing.assert_allclose(link, expected, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_mean_probability_of_each_label_becomes_its_share(monkeypatch, is_weighted):
    monkeypatch.setattr(module, "_SHARE_STEPS", 3000)
    X, Y, _ = clusters(60, 2, 4, spread=2.0)
    rng = np.random.default_rng(1)
    problem = Problem(X, Y, rng.random(60) if is_weighted else None)
    P = confidences(rng, Y, 1)
    discriminant, shares = fitted(problem, P, 0.1)
    probabilities = np.empty_like(P)
    module._write_probabilities(discriminant._scores, discriminant.offset, probabilities)
    means = problem.w @ probabilities / problem.w.sum()
    np.testing.assert_allclose(means, shares, rtol=1e-8)
    # It is not there from the start.
    expected = naive.match_shares(discriminant._scores, problem.w, shares, np.zeros(4), 0)
    start = naive.probabilities(discriminant._scores + expected)
    assert np.abs(problem.w @ start / problem.w.sum() - shares).max() > 1e-3


def test_each_fit_brings_the_probabilities_closer_to_the_shares():
    X, Y, _ = clusters(60, 3, 5, noise=0.6)
    P = confidences(np.random.default_rng(1), Y, 1)
    discriminant, shares = fitted(Problem(X, Y), P, 0.01)
    probabilities = np.empty_like(P)
    gaps = []
    for _ in range(20):
        module._write_probabilities(discriminant._scores, discriminant.offset, probabilities)
        gaps.append(np.abs(probabilities.mean(axis=0) - shares).sum())
        discriminant._match_shares(shares, np.empty_like(P))
    assert np.all(np.diff(gaps) < 1e-12)
    assert gaps[-1] < 0.1 * gaps[0]


def test_labels_that_nobody_has_as_a_candidate_get_no_probability():
    X, Y, _ = clusters(50, 3, 5)
    Y[:, 2] = False
    Y[:, 0] |= ~Y.any(axis=1)
    P = confidences(np.random.default_rng(0), Y, 1)
    discriminant, _ = fitted(Problem(X, Y), P, 0.1)
    probabilities = np.empty_like(P)
    for _ in range(3):
        discriminant._match_shares(P.mean(axis=0), np.empty_like(P))
        module._write_probabilities(discriminant._scores, discriminant.offset, probabilities)
        assert (probabilities[:, 2] == 0).all()
    assert discriminant.offset[2] == -np.inf
    assert np.isfinite(np.delete(discriminant.offset, 2)).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)


def test_a_label_that_has_lost_its_confidence_can_come_back():
    X, Y, y = clusters(200, 3, 3, noise=0.6)
    P = np.eye(3)[np.where(y == 2, 0, y)] * Y
    P[P.sum(axis=1) == 0] = [0, 1, 0]
    Y[P > 0] = True
    model = Mixture([make_features(X, fit_intercept=True)], Y)
    Z = np.empty_like(P)
    model.update(P, Z)
    assert (Z[Y[:, 2], 2] > 0).all()
    assert np.isfinite(model.W).all()


# ---- temperatures ------------------------------------------------------------------------------


def scored(values, Y, temperature=1.0):
    """A discriminant whose log-odds are given."""
    discriminant = _Discriminant(make_features(np.ones((len(Y), 1)), fit_intercept=True), Y, len(Y))
    discriminant._scores[...] = values
    discriminant.temperature = temperature
    return discriminant


@given(seed=seeds, temperature=st.sampled_from([0.05, 0.3, 1.0, 3.0]), size=st.floats(0.1, 20))
def test_the_temperature_moves_uphill(seed, temperature, size):
    rng = np.random.default_rng(seed)
    values = size * rng.standard_normal((8, 4))
    Y = rng.random((8, 4)) < 0.4
    Y[np.arange(8), (values + rng.standard_normal((8, 4))).argmax(axis=1)] = True
    w = rng.random(8)
    discriminant = scored(values, Y, temperature)
    masses = discriminant.temper(w / w.sum())
    expected = naive.candidate_masses(values, Y, temperature)
    np.testing.assert_allclose(masses, expected, rtol=1e-9)
    after = discriminant.temperature
    assert after == pytest.approx(naive.next_temperature(values, w, Y, temperature), rel=1e-6)
    h = 1e-4 * temperature
    ahead, behind = (naive.log_mass(values, w, Y, temperature + step) for step in (h, -h))
    slope = (ahead - behind) / (2 * h)
    if abs(slope) > 1e-6:
        at_bound = after in (module._COLDEST, module._HOTTEST) and after == temperature
        assert at_bound or (after - temperature) * slope > 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("start", [0.05, 1.0, 3.0])
def test_repeated_steps_reach_the_best_temperature(seed, start):
    X, Y, _ = clusters(60, 3, 4, seed, spread=1.0 + seed / 2)
    rng = np.random.default_rng(seed)
    w = rng.random(60)
    fit, _ = fitted(Problem(X, Y, w), confidences(rng, Y, 1), 0.03)
    values = fit._scores + fit.offset
    discriminant = scored(values, Y, start)
    levels = []
    for _ in range(40):
        levels.append(naive.log_mass(values, w, Y, discriminant.temperature))
        discriminant.temper(w / w.sum())
    assert np.all(np.diff(levels) >= -1e-12)
    best = minimize_scalar(
        lambda t: -naive.log_mass(values, w, Y, t),
        bounds=(module._COLDEST, module._HOTTEST),
        method="bounded",
        options={"xatol": 1e-8},
    )
    assert discriminant.temperature == pytest.approx(best.x, rel=1e-4)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_temperature_stays_within_its_bounds(sign):
    """Where all candidates are the best labels, or the worst, there is no best temperature."""
    values = sign * np.eye(3)[np.arange(30) % 3]
    Y = np.eye(3, dtype=bool)[np.arange(30) % 3]
    discriminant = scored(values, Y)
    for _ in range(30):
        discriminant.temper(np.full(30, 1 / 30))
        assert module._COLDEST <= discriminant.temperature <= module._HOTTEST
    assert discriminant.temperature == (module._HOTTEST if sign == 1 else module._COLDEST)


def test_impossible_candidates_have_a_probability():
    discriminant = scored(np.array([[0.0, 1e5], [0.0, 1e5]]), np.eye(2, dtype=bool))
    masses = discriminant.temper(np.full(2, 0.5))
    np.testing.assert_allclose(masses, [np.exp(-700.0), 1], rtol=1e-12)


# ---- weights of the members --------------------------------------------------------------------


@st.composite
def mass_tables(draw, most_members=4):
    n, n_members = draw(st.integers(1, 12)), draw(st.integers(1, most_members))
    rng = np.random.default_rng(draw(seeds))
    masses = rng.random((n, n_members)) ** draw(st.sampled_from([1, 10, 300]))
    w = rng.random(n)
    return np.maximum(masses, np.exp(-700)), w / w.sum()


@given(table=mass_tables())
def test_weights_against_one_row_after_the_other(table):
    masses, row_weight = table
    weights, likelihood = mixing_weights(masses, row_weight)
    expected = naive.mixing_weights(masses, row_weight)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-12)
    assert weights.sum() == pytest.approx(1, rel=1e-14)
    assert (weights >= 0).all()
    assert likelihood == pytest.approx(naive.likelihood(masses, row_weight, expected), rel=1e-9)


@given(table=mass_tables())
def test_no_step_lowers_the_likelihood(table):
    likelihoods = []
    with pytest.MonkeyPatch.context() as patch:
        for n_steps in range(20):
            patch.setattr(module, "_WEIGHT_STEPS", n_steps)
            weights, likelihood = mixing_weights(*table)
            assert likelihood == pytest.approx(naive.likelihood(*table, weights), rel=1e-12)
            likelihoods.append(likelihood)
    rounding = 1e-12 * (1 + np.abs(likelihoods).max())
    assert np.all(np.diff(likelihoods) >= -rounding)


@pytest.mark.parametrize("n_members", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_many_steps_reach_the_best_weights(monkeypatch, n_members, seed):
    monkeypatch.setattr(module, "_WEIGHT_STEPS", 20000)
    rng = np.random.default_rng(seed)
    masses, row_weight = rng.random((12, n_members)), rng.random(12)
    row_weight /= row_weight.sum()
    weights, likelihood = mixing_weights(masses, row_weight)
    best = minimize(
        lambda v: -naive.likelihood(masses, row_weight, v),
        np.full(n_members, 1 / n_members),
        bounds=[(0, 1)] * n_members,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-14},
    )
    assert likelihood == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(weights, best.x, rtol=0, atol=2e-3)
    # The conditions of Karush, Kuhn and Tucker: the problem is concave.
    slopes = (row_weight / (masses @ weights)) @ masses
    assert (slopes <= 1 + 1e-3).all()
    np.testing.assert_allclose(slopes[weights > 1e-2], 1, rtol=0, atol=1e-3)


def test_one_member_has_all_the_weight():
    weights, likelihood = mixing_weights(np.array([[0.5], [0.25]]), np.array([0.5, 0.5]))
    assert weights.tolist() == [1.0]
    assert likelihood == pytest.approx(1.5 * np.log(0.5))


@given(table=mass_tables(), seed=seeds)
def test_rows_without_weight_do_not_matter(table, seed):
    masses, row_weight = table
    others = np.random.default_rng(seed).random((5, masses.shape[1]))
    more = np.vstack([others, masses]), np.concatenate([np.zeros(5), row_weight])
    weights, likelihood = mixing_weights(masses, row_weight)
    comp, comp_likelihood = mixing_weights(*more)
    np.testing.assert_allclose(comp, weights, rtol=0, atol=1e-12)
    assert comp_likelihood == pytest.approx(likelihood, rel=1e-12)


# ---- the mixture as a whole --------------------------------------------------------------------


def feature_sets(X):
    """Two kinds of features of the same rows."""
    return X, np.tanh(X @ np.random.default_rng(5).standard_normal((X.shape[1], 6)))


def make_mixture(problem, dtype=np.float64, state=None):
    features = [problem._replace(X=rows).features(dtype=dtype) for rows in feature_sets(problem.X)]
    return Mixture(features, problem.Y, state)


def run(problem, n_updates, dtype=np.float64, model=None):
    """Confidences and the model after some updates and no stage but the first."""
    model = make_mixture(problem, dtype) if model is None else model
    P = equal_confidence(problem.Y, np.dtype(dtype))
    Z = np.empty_like(P)
    for _ in range(n_updates):
        model.update(P, Z)
        P, Z = Z, P
    return P, model


def solve_all(problem, max_iter=100, start=None, observe=None, dtype=np.float64, rows=None):
    features, *more = (
        problem._replace(X=each).features(dtype=dtype)
        for each in (feature_sets(problem.X) if rows is None else rows)
    )
    options = make_options(calibration="mixture", ranking=False, max_iter=max_iter)
    return solve(features, problem.Y, options, start, observe, more)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_updates_against_plain_numpy(is_weighted):
    X, Y, _ = clusters(25, 2, 3, noise=0.6)
    rng = np.random.default_rng(3)
    problem = Problem(X, Y, 2 * rng.random(25) if is_weighted else None)
    model = make_mixture(problem)
    P = equal_confidence(Y, np.dtype(float))
    Z = np.empty_like(P)
    offsets, temperatures = (np.zeros(3), np.zeros(3)), (1.0, 1.0)
    for _ in range(5):
        model.update(P, Z)
        expected, offsets, temperatures, weights, likelihood = naive.update(
            *(feature_sets(X), problem.w, Y, P, 0.03),
            *(offsets, temperatures),
        )
        np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-9)
        assert model.state.likelihood == pytest.approx(likelihood, rel=1e-9)
        assert model.penalty() == pytest.approx(-problem.w.sum() * likelihood, rel=1e-9)
        for place, member in enumerate(model.members):
            assert member.weight == pytest.approx(weights[place], abs=1e-9)
            expected = temperatures[place] * offsets[place]
            np.testing.assert_allclose(member.offset, expected, rtol=0, atol=1e-9)
        P = Z.copy()


@given(problem=problems(), seed=seeds, sharpness=sharpnesses, stage=stages)
@settings(max_examples=150)
def test_probabilities_are_those_of_the_candidates(problem, seed, sharpness, stage):
    rng = np.random.default_rng(seed)
    model = make_mixture(problem, state=MixtureState(stage=stage))
    Z = np.full(problem.Y.shape, np.nan)
    P = confidences(rng, problem.Y, sharpness)
    for _ in range(3):
        model.update(P, Z)
        assert (Z[~problem.Y] == 0).all()
        assert (Z >= 0).all()
        np.testing.assert_allclose(Z.sum(axis=1), 1, rtol=1e-12)
        assert model.state.likelihood <= 1e-12
        assert sum(member.weight for member in model.members) == pytest.approx(1)
        assert all(np.isfinite(member.W).all() for member in model.members)
        P = Z.copy()
    seen = problem.Y.any(axis=0)
    for member in model.members:
        np.testing.assert_array_equal(np.isneginf(member.offset), ~seen)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_weight_counts_like_repeated_rows(is_sparse):
    X, Y, _ = clusters(40, 3, 4)
    counts = np.random.default_rng(1).integers(0, 4, 40)
    weighted = Problem(X, Y, counts.astype(float), is_sparse)
    comp, ref = solve_all(weighted), solve_all(weighted.repeated(counts))
    assert len(comp.history["seconds"]) == len(ref.history["seconds"])
    np.testing.assert_allclose(np.repeat(comp.P, counts, axis=0), ref.P, rtol=0, atol=1e-8)
    same_members(comp.members, ref.members, 1e-8)


@pytest.mark.parametrize("size", [1e-6, 0.1])
def test_small_weights_count_relative_to_each_other(size):
    """Weights that sum to one, for example, are not less than one row."""
    X, Y, _ = clusters(60, 3, 4)
    comp, ref = solve_all(Problem(X, Y, np.full(60, size))), solve_all(Problem(X, Y))
    np.testing.assert_allclose(comp.P, ref.P, rtol=0, atol=1e-8)
    same_members(comp.members, ref.members, 1e-8)


def same_members(members, expected, tolerance, labels=slice(None)):
    for member, other in zip(members, expected, strict=True):
        scale = 1 + np.abs(other.W).max()
        np.testing.assert_allclose(member.W, other.W[:, labels], rtol=0, atol=tolerance * scale)
        scale = 1 + np.abs(other.offset).max()
        np.testing.assert_allclose(
            member.offset, other.offset[labels], rtol=0, atol=tolerance * scale
        )
        assert member.weight == pytest.approx(other.weight, abs=tolerance)


def test_the_order_of_rows_does_not_matter():
    X, Y, _ = clusters(80, 3, 4)
    rng = np.random.default_rng(0)
    order, w = rng.permutation(80), rng.random(80)
    plain = solve_all(Problem(X, Y, w))
    permuted = solve_all(Problem(X[order], Y[order], w[order]))
    np.testing.assert_allclose(permuted.P, plain.P[order], rtol=0, atol=1e-8)
    same_members(permuted.members, plain.members, 1e-8)


def test_the_order_of_labels_does_not_matter():
    X, Y, _ = clusters(80, 3, 4)
    order = [2, 0, 3, 1]
    plain = solve_all(Problem(X, Y))
    permuted = solve_all(Problem(X, Y[:, order].copy()))
    np.testing.assert_allclose(permuted.P, plain.P[:, order], rtol=0, atol=1e-8)
    same_members(permuted.members, plain.members, 1e-8, order)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_scale_of_the_features_does_not_matter(factor):
    X, Y, _ = clusters(60, 3, 4)
    comp, ref = (solve_all(Problem(each, Y), rows=[each]) for each in (factor * X, X))
    np.testing.assert_allclose(comp.P, ref.P, rtol=0, atol=1e-8)
    np.testing.assert_allclose(factor * comp.W, ref.W, rtol=1e-6, atol=1e-8)


def test_few_candidates_are_multiplied_as_a_sparse_matrix():
    """The confidences then are a sparse matrix, which changes nothing but rounding errors."""
    rng = np.random.default_rng(0)
    n, q = 300, 40
    X, _, y = clusters(n, 3, q)
    Y = np.zeros((n, q), bool)
    Y[np.arange(n), y] = Y[np.arange(n), rng.integers(q, size=n)] = True
    w = rng.random(n)
    comp, model = run(Problem(X, Y, w), 3)
    dense = make_mixture(Problem(X, Y, w))
    dense._support._blocks = None
    ref, _ = run(Problem(X, Y, w), 3, model=dense)
    assert model._support._blocks is not None
    np.testing.assert_allclose(comp, ref, rtol=0, atol=1e-9)


def test_single_precision_stays_single():
    X, Y, y = clusters(300, 6, 4, noise=0.5)
    single, double = (solve_all(Problem(X, Y), dtype=dtype) for dtype in (np.float32, np.float64))
    assert single.P.dtype == np.float32
    assert len(single.history["seconds"]) == len(double.history["seconds"])
    np.testing.assert_allclose(single.P, double.P, rtol=0, atol=1e-3)
    same_members(single.members, double.members, 1e-2)
    assert (single.P.argmax(axis=1) == y).mean() > 0.95


@two_threads
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thread_counts_give_the_same_bits(dtype, is_sparse):
    X, Y, _ = clusters(3000, 20, 8)
    problem = Problem(X, Y, np.random.default_rng(0).random(3000), is_sparse)
    solutions = []
    for n_threads in (1, 2):
        with threads(n_threads):
            # Until the shrinkage has fallen for the first time.
            solutions.append(solve_all(problem, observe=lambda s: s.iteration == 12, dtype=dtype))
    same_bits(*solutions)


def same_bits(solution, expected):
    np.testing.assert_array_equal(solution.P, expected.P)
    for member, other in zip(solution.members, expected.members, strict=True):
        np.testing.assert_array_equal(member.W, other.W)
        np.testing.assert_array_equal(member.offset, other.offset)
        assert member.weight == other.weight


# ---- stages ------------------------------------------------------------------------------------


class Likelihoods:
    """A mixture that is told its likelihoods, and what became of its stages."""

    def __init__(self, n_rows=20):
        X, Y, _ = clusters(n_rows, 2, 3)
        self.model = make_mixture(Problem(X, Y))
        self.P = equal_confidence(Y, np.dtype(float))
        self.n = 0

    def tell(self, likelihood):
        """Returns whether that ended a stage."""
        self.n += 1
        stage = self.model.state.stage
        members = tuple(m._replace(weight=self.n) for m in self.model.members)
        self.model._finish_iteration(likelihood, members)
        self.P = np.full_like(self.P, self.n)
        self.model.advance(self.P)
        return self.model.state.stage != stage

    def tell_stage(self, likelihood):
        """Two iterations with the same likelihood end a stage."""
        self.tell(likelihood)
        if self.model.state.iterations:
            assert self.tell(likelihood)


def test_a_stage_ends_after_its_iterations():
    told = Likelihoods()
    # Every iteration makes a difference.
    ends = [told.tell(-2.0 / n) for n in range(1, 19)]
    assert [n for n, ended in enumerate(ends, 1) if ended] == [10, 14, 18]


def test_a_stage_ends_when_the_likelihood_settles():
    told = Likelihoods()
    assert not told.tell(-1.0)
    assert not told.tell(-0.9)
    assert not told.tell(-0.9 * (1 - 1.1 * module.TOLERANCE))
    assert told.tell(told.model.state.likelihood * (1 - 0.9 * module.TOLERANCE))
    # Also at the first iteration of a stage, when a smaller shrinkage changes nothing.
    assert told.tell(told.model.state.likelihood)


def test_candidates_that_say_nothing_end_every_stage_at_once():
    """The likelihood of all labels is 1."""
    X, _, _ = clusters(20, 2, 3)
    solution = solve_all(Problem(X, np.ones((20, 3), bool)))
    assert solution.model_state.best.likelihood == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(solution.P, 1 / 3, rtol=0, atol=0.05)


def test_the_run_ends_when_the_shrinkage_has_not_helped_twice():
    told = Likelihoods()
    for likelihood in (-1.0, -0.8, -0.9):
        told.tell_stage(likelihood)
        assert not told.model.is_settled
    told.tell_stage(-0.7)  # better again: that counts from the beginning
    told.tell_stage(-0.75)
    assert not told.model.is_settled
    told.tell_stage(-0.8)
    assert told.model.is_settled
    assert told.model.state.best.stage == 3
    assert told.model.state.best.likelihood == -0.7


def test_the_run_ends_with_the_last_shrinkage():
    told = Likelihoods()
    for stage in range(len(STAGES)):
        assert not told.model.is_settled
        assert told.model.state.stage == stage
        told.tell_stage(-1 / (1 + stage))
    assert told.model.is_settled
    assert told.model.state.best.stage == len(STAGES) - 1


@pytest.mark.parametrize("n_rows", [20, 2000])
def test_the_shrinkage_is_that_of_the_stage(n_rows):
    """It is worth a number of rows, the same for few rows and for many, but begins below 0.03."""
    told = Likelihoods(n_rows)
    for stage, part in enumerate((1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)):
        shrinkage = part * min(20 / n_rows, 0.03)
        for discriminant in told.model._discriminants:
            smallest = 1 / discriminant._inverse
            expected = discriminant._values + shrinkage * discriminant._values.sum()
            np.testing.assert_allclose(smallest, expected, rtol=1e-12)
        told.tell_stage(-1 / (1 + stage))


def test_the_best_stage_comes_back():
    told = Likelihoods()
    told.tell_stage(-1.0)
    before = told.n
    assert told.model.finish(told.P) is told.P  # nothing is over
    told.tell_stage(-0.5)
    best = told.n
    assert best > before
    told.tell_stage(-0.7)
    assert told.model.members[0].weight == told.n
    assert told.model.finish(told.P) is told.P
    told.tell_stage(-0.6)
    assert (told.model.finish(told.P) == best).all()
    assert [member.weight for member in told.model.members] == [best, best]
    assert told.model.W is told.model.members[0].W
    assert told.model.offset is told.model.members[0].offset


def watched(problem):
    """A whole run, and the confidences after each of its iterations."""
    seen = []
    solution = solve_all(problem, observe=lambda state: seen.append(state.confidence.copy()))
    return solution, seen


def test_a_run_returns_the_stage_with_the_largest_likelihood():
    X, Y, _ = clusters(120, 3, 4, spread=2.0, noise=0.7)
    solution, seen = watched(Problem(X, Y))
    best = solution.model_state.best
    objective = solution.history["objective"]
    # The end of a stage is the only place where the likelihood is compared.
    at = np.flatnonzero([np.array_equal(P, solution.P) for P in seen])
    assert len(at) == 1
    assert objective[at[0]] == pytest.approx(-120 * best.likelihood, rel=1e-12)
    assert at[0] < len(seen) - 1
    assert solution.P is best.P
    assert solution.members == best.members
    np.testing.assert_array_equal(solution.E, Y - solution.P)


def stops():
    X, Y, _ = clusters(120, 3, 4, spread=2.0, noise=0.7)
    return Problem(X, Y, np.random.default_rng(0).random(120))


def test_going_on_gives_the_bits_of_a_run_without_a_stop():
    problem = stops()
    whole = solve_all(problem)
    n_iterations = len(whole.history["seconds"])
    assert n_iterations > 12
    for n_first in range(1, n_iterations):
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            first = solve_all(problem, max_iter=n_first)
        rest = solve_all(problem, start=first)
        assert len(rest.history["seconds"]) == n_iterations - n_first
        same_bits(rest, whole)


def test_going_on_after_every_iteration():
    problem = stops()
    whole = solve_all(problem)
    solution = None
    for _ in whole.history["seconds"]:
        assert solution is None or solution.model_state.stage < len(STAGES)
        solution = solve_all(problem, start=solution, observe=lambda state: True)
    same_bits(solution, whole)


def test_going_on_from_the_end_begins_with_the_best_stage():
    problem = stops()
    first = solve_all(problem)
    best = first.model_state.best
    P = first.P.copy()
    again = make_mixture(problem, state=first.model_state)
    assert again.state == MixtureState(
        stage=best.stage,
        offsets=first.model_state.offsets,
        temperatures=first.model_state.temperatures,
    )
    solution = solve_all(problem, start=first)
    assert solution.model_state is not first.model_state
    assert solution.model_state.best.stage >= best.stage
    # It had come to rest there.
    assert np.abs(solution.P - P).max() < 0.3


# ---- interrupts --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [Mixture.update, Mixture._finish_iteration])
def test_everything_belongs_together_whenever_a_user_interrupts(function):
    X, Y, _ = clusters(30, 3, 4)
    rng = np.random.default_rng(0)
    P, later_P = (confidences(rng, Y, sharpness) for sharpness in (1, 3))
    Z = np.empty(Y.shape)

    def content(model):
        return [
            [(m.W.tolist(), m.offset.tolist(), m.weight) for m in model.members],
            model.W.tolist(),
            model.offset.tolist(),
        ]

    def fitted_once():
        model = make_mixture(Problem(X, Y))
        model.update(P, Z)
        if function is Mixture.update:
            return model, later_P, Z
        return model, -1.0, after.members

    after = make_mixture(Problem(X, Y))
    after.update(P, Z)
    known = [content(after)]
    after.update(later_P, Z)
    known.append(content(after))
    seen = [known.index(content(model)) for model, *_ in interrupted_calls(function, fitted_once)]
    assert seen.count(0) >= 3
    assert seen == sorted(seen)


def test_an_interrupt_of_the_first_update_leaves_a_model():
    """All labels are equally likely, and the fit can be used and continued."""
    X, Y, _ = clusters(40, 3, 4)
    whole = HERAClassifier(random_state=0).fit(X, Y)
    model = HERAClassifier(random_state=0, warm_start=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Discriminant, "fit", interrupt)
        with pytest.warns(ConvergenceWarning, match="interrupted after 0"):
            model.fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), 0.25, rtol=1e-12)
    np.testing.assert_array_equal(model.fit(X, Y).confidence_, whole.confidence_)


def interrupt(*arguments):
    raise KeyboardInterrupt


def test_an_interrupt_right_after_going_on_keeps_what_there_was(monkeypatch):
    problem = stops()
    first = solve_all(problem, observe=lambda state: state.iteration == 3)
    P, members = first.P.copy(), first.members
    monkeypatch.setattr(_Discriminant, "fit", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted after 0"):
        second = solve_all(problem, start=first)
    np.testing.assert_array_equal(second.P, P)
    assert second.members == members
    assert second.W is members[0].W


# ---- what it is for ----------------------------------------------------------------------------


def noise_problem(seed, n=300, d=200, q=5):
    """Features that know nothing of the labels; enough of them to explain any confidences."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, q, n)
    Y = rng.random((n, q)) < 0.4
    Y[np.arange(n), y] = True
    return rng.standard_normal((n, d)), Y, y


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stage", [0, len(STAGES) - 1])
def test_noise_does_not_confirm_what_a_row_believes(seed, stage):
    """Each row believes in a candidate of its own choice; only the others could support it."""
    X, Y, _ = noise_problem(seed)
    rng = np.random.default_rng(100 + seed)
    chosen = np.where(Y, rng.random(Y.shape), -1).argmax(axis=1)
    P = np.eye(Y.shape[1])[chosen]
    features = make_features(X, fit_intercept=True)
    Z, gaussian = np.empty_like(P), np.empty_like(P)
    Mixture([features], Y, MixtureState(stage=stage)).update(P, Z)
    GaussianDiscriminant(features, Y, shrinkage=0.1).update(P, gaussian)
    gaussian = np.where(Y, gaussian, 0)
    gaussian /= gaussian.sum(axis=1, keepdims=True)
    several = Y.sum(axis=1) > 1
    chance = 1 / Y[several].sum(axis=1)
    believed, misled = (each[several, chosen[several]] for each in (Z, gaussian))
    assert believed.mean() < chance.mean() + 4 * believed.std() / np.sqrt(len(chance))
    assert misled.mean() > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_noise_does_not_make_candidates_likely(monkeypatch, seed):
    """From equal confidences; with its own part, a row looks as if it was explained."""
    X, Y, _ = noise_problem(seed)
    P = equal_confidence(Y, np.dtype(float))
    # What is known without any features.
    without = np.log(Y @ P.mean(axis=0)).mean()
    features = make_features(X, fit_intercept=True)
    likelihoods = []
    for largest in (module._LARGEST_LEVERAGE, 0.0):
        monkeypatch.setattr(module, "_LARGEST_LEVERAGE", largest)
        model = Mixture([features], Y, MixtureState(stage=3))  # flexible enough
        model.update(P, np.empty_like(P))
        likelihoods.append(model.state.likelihood)
    assert likelihoods[0] < without
    assert likelihoods[1] > without + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_no_better_than_chance(seed):
    X, Y, y = noise_problem(seed, d=60)
    solution = solve_all(Problem(X, Y))
    several = Y.sum(axis=1) > 1
    chance = 1 / Y[several].sum(axis=1)
    right = (solution.P.argmax(axis=1) == y)[several].mean()
    error = np.sqrt((chance * (1 - chance)).sum()) / len(chance)
    assert abs(right - chance.mean()) < 4 * error


@pytest.mark.parametrize(("n", "d", "q"), [(24, 10, 3), (40, 8, 10)])
def test_few_rows_are_enough_where_labels_are_apart(n, d, q):
    """Rows that are added to all labels alike are no reason to be in doubt."""
    right = []
    for seed in range(8):
        X, Y, y = clusters(n, d, q, seed, noise=0.5, spread=0.5)
        right.append((solve_all(Problem(X, Y)).P.argmax(axis=1) == y).mean())
    assert np.mean(right) > 0.9


def test_structure_decides():
    X, Y, y = clusters(400, 4, 5, noise=0.8)
    solution = solve_all(Problem(X, Y))
    first = equal_confidence(Y, np.dtype(float))
    assert (solution.P.argmax(axis=1) == y).mean() > 0.95
    assert (first.argmax(axis=1) == y).mean() < 0.8
