"""The paper's formulation: every step of OP(4), when it stops, and the collapse."""

from __future__ import annotations

from typing import NamedTuple

import naive_solver as naive
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import (
    Problem,
    clusters,
    interrupted_calls,
    iteration_peaks,
    paper_options,
    problems,
)
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from strategies import seeds

from hera_fast import HERAClassifier
from hera_fast.models import GradientDescent
from hera_fast.paper import Splitting, _descend, _warn_of_collapse, solve_paper
from hera_fast.run import Solution

penalties = st.sampled_from([1e-6, 0.01, 1.0, 30.0])
parameters = {
    "alpha": st.sampled_from([0.0, 0.02, 1.0]),
    "mu": st.sampled_from([0.0, 0.1, 1.0]),
    "nu": st.sampled_from([0.0, 0.3, 1.0]),
    "ranking": st.booleans(),
}


class Point(NamedTuple):
    """Somewhere in the middle of a run."""

    problem: Problem
    options: object
    features: object
    splitting: Splitting
    W: np.ndarray
    P: np.ndarray
    Z: np.ndarray

    def lagrangian(self, P=None, W=None):
        """The augmented Lagrangian, here or for another P or W."""
        s = self.splitting
        J, M, N = s.multipliers
        return naive.augmented_lagrangian(
            *(self.problem.X, self.problem.w, self.problem.Y),
            self.W if W is None else W,
            self.P if P is None else P,
            *(J, s.E, M, N, (s.penalty, s.split_penalty)),
            *(naive.nuclear_norm(s.E, self.problem.w), self.options),
        )


def make_point(problem, seed, penalty=1.0, split_penalty=0.5, least=0.0, **changes):
    rng = np.random.default_rng(seed)
    options = paper_options(penalty=penalty, split_penalty=split_penalty, **changes)
    features = problem.features(fit_intercept=False)
    shape = problem.Y.shape
    P = least + rng.random(shape)
    W = rng.standard_normal((problem.X.shape[1], shape[1])) / max(1, np.abs(problem.X).max())
    splitting = Splitting(features, problem.Y, P, np.empty(shape), options)
    E, J, M, N = rng.random((4, *shape))
    N *= options.mu
    splitting.resume(
        Solution(W, np.zeros(shape[1]), P, E, (J, M - 0.5, N), penalty, split_penalty, {})
    )
    return Point(problem, options, features, splitting, W, P, problem.X @ W)


@given(problem=problems(), seed=seeds, penalty=penalties, split_penalty=penalties, **parameters)
@settings(max_examples=200)
def test_descending_never_raises_the_lagrangian(problem, seed, **changes):
    point = make_point(problem, seed, inner_iter=1, **changes)
    for _ in range(3):
        before = point.lagrangian()
        point.splitting.descend(point.Z, point.P)
        assert (point.P >= 0).all()
        assert point.lagrangian() <= before + 1e-13 * (1 + abs(before))


def test_confidences_are_never_negative_whenever_a_user_interrupts():
    X, Y, _ = clusters(30, 3, 4)

    def prepare():
        # So long a step would make many confidences negative.
        point = make_point(Problem(X, Y), 0, inner_iter=2, step_size=5.0)
        return point.splitting, point.Z, point.P

    is_projected = []
    for _, _, P in interrupted_calls(Splitting.descend, prepare, inside=_descend):
        assert (P >= 0).all()
        is_projected.append((P == 0).any())
    assert not is_projected[0]
    assert is_projected[-1]


@given(problem=problems(), seed=seeds, **parameters)
@settings(max_examples=200)
def test_the_step_of_the_coefficients_never_raises_the_lagrangian(problem, seed, **changes):
    point = make_point(problem, seed, **changes)
    options = point.options
    model = GradientDescent(
        *(point.features, point.P.shape[1], np.empty_like(point.P)),
        alpha=options.alpha,
        beta=options.beta,
        ranking=options.ranking,
        n_steps=2,
        step_size=options.step_size,
    )
    model.W[...] = point.W
    before = point.lagrangian()
    model.update(point.P, point.Z)
    assert point.lagrangian(W=model.W) <= before + 1e-13 * (1 + abs(before))


@given(problem=problems(most_rows=5, most_labels=4), seed=seeds, **parameters)
@settings(max_examples=50)
def test_descending_follows_the_gradient_by_the_confidences(problem, seed, **changes):
    step, h = 1e-3, 1e-5
    # Far enough from the boundary for the projection to do nothing.
    point = make_point(problem, seed, least=1.0, step_size=step, inner_iter=1, **changes)
    start = point.P.copy()
    slopes = np.empty_like(start)
    for i, j in np.ndindex(start.shape):
        ahead, behind = start.copy(), start.copy()
        ahead[i, j] += h
        behind[i, j] -= h
        slopes[i, j] = (point.lagrangian(P=ahead) - point.lagrangian(P=behind)) / (2 * h)
    point.splitting.descend(point.Z, point.P)
    assert (point.P > 0).all()
    # The rows are separate problems: a step does not depend on their weights.
    expected = problem.w[:, np.newaxis] * (start - point.P) / step
    size = 1 + abs(point.lagrangian(P=start))
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-8 * size)


@given(
    problem=problems(zero_weights=False),
    seed=seeds,
    penalty=st.sampled_from([0.1, 1.0, 30.0]),
    split_penalty=st.sampled_from([0.1, 1.0, 30.0]),
    **parameters,
)
def test_noise_and_sparse_confidences_are_minimisers(problem, seed, **changes):
    rng = np.random.default_rng(seed)
    point = make_point(problem, seed, **changes)
    s, o, w = point.splitting, point.options, problem.w
    _, M, N = (array.copy() for array in s.multipliers)
    low_rank = naive.shrink(problem.Y - point.P + M / s.penalty, w, o.nu / s.penalty)

    def lagrangian(J, E):
        return naive.augmented_lagrangian(
            *(problem.X, w, problem.Y, point.W, point.P, J, E, M, N),
            *((s.penalty, s.split_penalty), naive.nuclear_norm(E, w), o),
        )

    s.update(point.Z, point.P)
    J, _, _ = s.multipliers
    np.testing.assert_allclose(s.E, np.maximum(low_rank, 0), rtol=0, atol=1e-7)
    best = lagrangian(J, low_rank)
    for size in (1e-3, 0.1):
        for _ in range(5):
            step = size * rng.standard_normal(J.shape)
            assert lagrangian(J + step, low_rank) >= best - 1e-10 * (1 + abs(best))
            assert lagrangian(J, low_rank + step) >= best - 1e-10 * (1 + abs(best))


@given(
    problem=problems(zero_weights=False),
    seed=seeds,
    penalty=penalties,
    split_penalty=penalties,
    **parameters,
)
def test_the_loss_and_the_residuals_against_numpy(problem, seed, **changes):
    point = make_point(problem, seed, **changes)
    s, o, w, Y, P = point.splitting, point.options, problem.w, problem.Y, point.P
    old_J, M, N = (array.copy() for array in s.multipliers)
    old_E = s.E.copy()
    residuals = s.update(point.Z, P)
    J, new_M, new_N = s.multipliers
    # The nuclear norm is that of the noise before its negative entries are cut.
    low_rank = naive.shrink(Y - P + M / s.penalty, w, o.nu / s.penalty)
    expected = naive.augmented_lagrangian(
        *(problem.X, w, Y, point.W, P, J, s.E, M, N, (s.penalty, s.split_penalty)),
        *(naive.nuclear_norm(low_rank, w), o),
    )
    expected -= o.beta * (point.W**2).sum()
    size = 1 + abs(expected) + (w @ M**2).sum() / s.penalty
    assert s.loss == pytest.approx(expected, rel=0, abs=1e-9 * size)
    rounding = {"rtol": 0, "atol": 1e-12 * (1 + s.penalty + s.split_penalty)}
    np.testing.assert_allclose(new_M, M + s.penalty * (Y - P - s.E), **rounding)
    np.testing.assert_allclose(new_N, N + s.split_penalty * (P - J), **rounding)
    norms = [np.sqrt((w @ A**2).sum()) for A in (Y - P - s.E, P - J, s.E - old_E, J - old_J, Y)]
    primal = np.hypot(norms[0], norms[1]) / norms[4]
    dual = np.hypot(s.penalty * norms[2], s.split_penalty * norms[3]) / norms[4]
    assert residuals == pytest.approx((primal, dual), rel=1e-9)
    assert s.mass == pytest.approx((w @ P).sum() / w.sum())


def run(problem, n_iter, start=None, dtype=np.float64, **changes):
    """That many iterations, with penalties that act from the beginning."""
    options = paper_options(**{"penalty": 0.3, "max_iter": n_iter, "tol": 0, **changes})
    features = problem.features(options.fit_intercept, dtype)
    observe = lambda state: state.iteration == n_iter  # no warning that it did not converge
    return solve_paper(features, problem.Y, options, start, observe)


def naive_run(problem, n_iter, o):
    """The algorithm box, in plain NumPy."""
    X, Y, w = problem.X, problem.Y, problem.w
    q = Y.shape[1]
    P = Y / Y.sum(axis=1, keepdims=True) if o.init == "equal" else Y.astype(float)
    W = np.zeros((X.shape[1], q))
    J, E, M, N = np.zeros((4, *Y.shape))
    penalty = split_penalty = o.penalty
    largest = np.linalg.eigvalsh((X.T * w) @ X)[-1]
    losses = []
    for _ in range(n_iter):
        curvature = o.alpha + 1.21 / q * P.max() ** 2
        for _ in range(o.inner_iter):
            slope = X.T @ (w[:, np.newaxis] * score_slopes(X @ W, P, o)) + 2 * o.beta * W
            W = W - slope / (curvature * largest + 2 * o.beta)
        curvature = o.alpha + penalty + split_penalty + 4 * np.log(2) / q
        for _ in range(o.inner_iter):
            slope = confidence_slopes(X @ W, P, o) - M + penalty * (P - Y + E)
            slope += N + split_penalty * (P - J)
            P = np.maximum(P - slope / curvature, 0)
        low_rank = naive.shrink(Y - P + M / penalty, w, o.nu / penalty)
        E = np.maximum(low_rank, 0)
        J = P + N / split_penalty
        J = np.sign(J) * np.maximum(np.abs(J) - o.mu / split_penalty, 0)
        nuclear = naive.nuclear_norm(low_rank, w)
        losses.append(
            naive.augmented_lagrangian(
                *(X, w, Y, W, P, J, E, M, N, (penalty, split_penalty), nuclear, o)
            )
        )
        M = M + penalty * (Y - P - E)
        N = N + split_penalty * (P - J)
        penalty = min(o.penalty_growth * penalty, o.max_penalty)
        split_penalty = min(o.penalty_growth * split_penalty, o.max_split_penalty or o.max_penalty)
    return W, P, E, (J, M, N), losses


def score_slopes(Z, P, o):
    d = Z[:, :, np.newaxis] - Z[:, np.newaxis]
    p = P[:, :, np.newaxis] - P[:, np.newaxis]
    ranking = (-4 / Z.shape[1] ** 2 * p**2 * d / (1 + np.exp(d**2))).sum(axis=2)
    return ranking + o.alpha * (Z - P)


def confidence_slopes(Z, P, o):
    d = Z[:, :, np.newaxis] - Z[:, np.newaxis]
    p = P[:, :, np.newaxis] - P[:, np.newaxis]
    ranking = (4 / Z.shape[1] ** 2 * p * np.log1p(np.exp(-(d**2)))).sum(axis=2)
    return ranking + o.alpha * (P - Z)


@pytest.mark.parametrize("init", ["equal", "candidates"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_run_against_numpy(init, weighted, is_sparse):
    X, Y, _ = clusters(30, 3, 4)
    weights = np.random.default_rng(0).random(30) + 0.1 if weighted else None
    problem = Problem(X / 3, Y, weights, is_sparse)
    # Growth past both bounds, which differ.
    changes = {"init": init, "mu": 0.02, "alpha": 0.5, "inner_iter": 3, "penalty_growth": 1.3}
    changes |= {"penalty": 0.3, "max_penalty": 0.8, "max_split_penalty": 0.6}
    found = run(problem, 6, **changes)
    W, P, E, multipliers, losses = naive_run(problem, 6, paper_options(**changes))
    np.testing.assert_allclose(found.W, W, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.P, P, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.E, E, rtol=0, atol=1e-10)
    for one, two in zip(found.multipliers, multipliers, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.history["objective"], losses, rtol=1e-9)
    assert found.history["rank"][-1] > 0
    assert (found.penalty, found.split_penalty) == (0.8, 0.6)


def test_the_preset_is_that_of_the_paper():
    o = paper_options()
    assert (o.beta, o.mu, o.nu) == (1e-3, 0.1, 1.0)
    assert (o.penalty, o.penalty_growth, o.tol) == (1e-6, 1.05, 1e-6)
    assert o.split_penalty is None  # the same as the penalty
    model = HERAClassifier.paper()
    assert (model.formulation, model.n_neighbors) == ("paper", 10)
    assert model.alpha in (2e-3, 2e-2, 2e-1, 2e0)


def test_a_run_does_not_stop_before_the_penalties_act():
    X, Y, _ = clusters(60, 3, 4)
    tol = 1e-2
    options = paper_options(tol=tol, max_iter=1000)
    found = solve_paper(Problem(X, Y).features(False), Y, options)
    history = found.history
    J, _, _ = found.multipliers
    acts = np.flatnonzero(history["rank"] > 0)[0]
    assert acts > 100  # 1e-6 takes that many steps of five per cent to become large enough
    assert (history["change"][1:acts] <= tol).any(), "nothing was tempted to stop"
    assert history["change"][-1] <= tol
    assert len(history["change"]) > acts
    assert found.E.max() > 0
    assert J.max() > 0


def test_a_run_ends_where_there_is_no_noise():
    X, Y, _ = clusters(60, 3, 4)
    model = HERAClassifier.paper(alpha=0.02, mu=1e-4, nu=10, penalty=0.01, max_iter=1000)
    model.fit(X, Y)
    assert (model.noise_ == 0).all()
    assert model.history_["change"][-1] <= 1e-6
    np.testing.assert_allclose(model.confidence_, Y, rtol=0, atol=1e-5)


def test_a_run_ends_where_there_are_no_confidences():
    X, Y, _ = clusters(60, 3, 4)
    model = HERAClassifier.paper(mu=0.1, nu=0.0, penalty=0.01, max_iter=1000)
    with pytest.warns(ConvergenceWarning, match="No nuclear norm resists the l1 norm") as caught:
        model.fit(X, Y)
    assert len(caught) == 1
    np.testing.assert_allclose(model.confidence_, 0, rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.noise_, Y, rtol=0, atol=1e-5)


def test_the_collapse_is_told_with_its_reason_and_its_cures():
    X, Y, _ = clusters(200, 3, 4)
    with pytest.warns(ConvergenceWarning) as caught:
        model = HERAClassifier.paper(max_iter=1000).fit(X, Y)
    (message,) = (str(warning.message) for warning in caught)
    mass = model.confidence_.sum(axis=1).mean()
    assert mass < 0.1
    assert model.history_["mass"][-1] == pytest.approx(mass)
    for part in (
        "The confidences collapsed",
        f"a row of P sums to {mass:.1g} on average, down from 1.",
        "The nuclear norm (nu) is outweighed by the l1 norm (mu) and the fit (alpha), so",
        "Use formulation='simplex'",
        "a smaller mu, a larger nu, or a smaller max_iter",
    ):
        assert part in message
    assert caught[0].filename == __file__
    assert model.noise_.sum() == pytest.approx(Y.sum(), rel=0.1)  # explains all candidates


def test_confidences_that_nothing_holds_yet_are_another_reason():
    X, Y, _ = clusters(60, 3, 4)
    X *= 0.01
    model = HERAClassifier.paper(callback=lambda state: state.iteration == 30)
    with pytest.warns(ConvergenceWarning, match="Nothing fixes their scale") as caught:
        model.fit(X, Y)
    assert "that E or J is zero" in str(caught[0].message)
    assert "a larger penalty or more iterations" in str(caught[0].message)
    assert (model.noise_ == 0).all()


@pytest.mark.parametrize("explained", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize(("mu", "nu"), [(0.1, 1.0), (0.1, 0.0), (0.0, 1.0)])
def test_the_collapse_is_not_told_with_parts_that_take_no_part(mu, nu, alpha, explained):
    options = paper_options(mu=mu, nu=nu, alpha=alpha)
    with pytest.warns(ConvergenceWarning, match="collapsed") as caught:
        _warn_of_collapse(0.01, 1.0, options, explained=explained)
    message = str(caught[0].message)
    assert ("(mu)" in message) == (explained and mu > 0)
    assert ("smaller mu" in message) == (explained and mu > 0)
    assert ("(nu)" in message) == (explained and nu > 0)
    assert ("(alpha)" in message) == (explained and alpha > 0)
    assert ("ranking loss" in message) == (explained and mu == alpha == 0)
    assert (" J " in message) == (not explained and mu > 0)
    assert (" E " in message) == (explained or nu > 0)


def test_no_collapse_with_a_small_mu():
    X, Y, _ = clusters(60, 3, 4)
    model = HERAClassifier.paper(alpha=0.02, mu=1e-4, max_iter=2000)
    model.fit(X, Y)  # a warning is an error
    assert model.history_["mass"][-1] > 0.5
    assert model.history_["rank"][-1] > 0
    assert model.history_["change"][-1] <= 1e-6
    gap = np.linalg.norm(Y - model.confidence_ - model.noise_) / np.linalg.norm(Y)
    assert gap <= 1e-4


def test_a_weight_counts_like_repeated_rows():
    X, Y, _ = clusters(40, 3, 4)
    counts = np.random.default_rng(0).integers(1, 4, 40)
    weighted = Problem(X, Y, counts.astype(np.float64))
    one, two = (run(p, 10, mu=0.01) for p in (weighted, weighted.repeated(counts)))
    np.testing.assert_allclose(two.P, np.repeat(one.P, counts, axis=0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(two.E, np.repeat(one.E, counts, axis=0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(two.W, one.W, rtol=0, atol=1e-9)
    for name in ("objective", "primal_residual", "dual_residual", "mass"):
        np.testing.assert_allclose(two.history[name], one.history[name], rtol=1e-8)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"penalty": 5.0}, (3.0, 3.0)),
        ({"penalty": 5.0, "max_split_penalty": 4.0}, (3.0, 4.0)),
        ({"penalty": 0.5, "split_penalty": 7.0}, (0.5, 3.0)),
        ({"penalty": 0.5, "split_penalty": 7.0, "max_split_penalty": 2.0}, (0.5, 2.0)),
    ],
)
def test_the_first_penalties_obey_their_bounds(changes, expected):
    problem = Problem(*clusters(20, 3, 4)[:2])
    changes = {**changes, "penalty_growth": 1.0}
    bounded = run(problem, 2, max_penalty=3.0, **changes)
    assert (bounded.penalty, bounded.split_penalty) == expected
    assert (bounded.history["penalty"] == expected[0]).all()
    # The penalties of another run are bounded as well.
    free = run(problem, 1, **{**changes, "max_split_penalty": None})
    bounded = run(problem, 1, free, max_penalty=3.0, **changes)
    assert (bounded.penalty, bounded.split_penalty) == expected


def test_a_start_goes_on_exactly():
    problem = Problem(*clusters(40, 3, 4)[:2])
    whole = run(problem, 9, mu=0.01)
    first = run(problem, 4, mu=0.01)
    second = run(problem, 5, mu=0.01, start=first)
    for name in ("W", "P", "E", "penalty", "split_penalty"):
        np.testing.assert_array_equal(getattr(second, name), getattr(whole, name))
    for one, two in zip(second.multipliers, whole.multipliers, strict=True):
        np.testing.assert_array_equal(one, two)
    for name in ("objective", "penalty", "mass", "rank"):
        np.testing.assert_array_equal(second.history[name], whole.history[name][4:])


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_same_bits_for_every_number_of_threads(dtype, is_sparse):
    X, Y, _ = clusters(4000, 20, 16)
    X = (X * (np.abs(X) > 1)).astype(dtype)
    X = sparse.csr_array(X) if is_sparse else X
    models = [
        HERAClassifier.paper(
            mu=1e-3,
            penalty=0.5,
            inner_iter=2,
            n_threads=n_threads,
            callback=lambda state: state.iteration == 3,
        ).fit(X, Y)
        for n_threads in (1, 2)
    ]
    for name in ("coef_", "confidence_", "noise_"):
        one, two = (getattr(model, name) for model in models)
        assert one.dtype == dtype
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(*(model.history_["objective"] for model in models))


def test_single_precision_is_close_to_double():
    problem = Problem(*clusters(60, 3, 4)[:2])
    single, double = (run(problem, 20, mu=0.01, dtype=t) for t in (np.float32, np.float64))
    assert single.P.dtype == single.E.dtype == np.float32
    np.testing.assert_allclose(single.P, double.P, rtol=0, atol=1e-4)
    np.testing.assert_allclose(single.history["objective"], double.history["objective"], rtol=1e-4)


def test_features_may_be_centred():
    X, Y, _ = clusters(60, 3, 4)
    one, two = (
        HERAClassifier.paper(
            mu=1e-4, penalty=0.5, fit_intercept=centred, callback=lambda s: s.iteration == 5
        ).fit(rows, Y)
        for rows, centred in ((X + 7, True), (X - X.mean(axis=0), False))
    )
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.intercept_, -two.coef_ @ (X + 7).mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_iterations_allocate_nothing_with_a_row_for_each_sample(dtype, weighted):
    n = 200_000
    X, Y, _ = clusters(n, 3, 4)
    model = HERAClassifier.paper(
        prediction="linear", mu=1e-3, penalty=0.5, inner_iter=2, tol=0, n_threads=1
    )
    weights = np.random.default_rng(0).random(n) if weighted else None
    peaks = iteration_peaks(model, X.astype(dtype), Y, weights)
    assert max(peaks[1:]) < n  # not even a byte for each row
