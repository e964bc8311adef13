"""The simplex formulation: every step and the end of a run."""

from __future__ import annotations

import os
import tracemalloc
import warnings
from itertools import product
from operator import attrgetter
from pathlib import Path
from unittest import mock

import naive_confidence
import naive_solver as naive
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Problem, clusters, iteration_peaks, make_options, problems
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier, hera, models, solver, svd
from hera_fast.kernels import confidence_step
from hera_fast.solver import equal_confidence, solve

FOLDER = os.environ.get("HERA_FAST_DATA")
LOST = Path(FOLDER, "realworld", "lost.npz") if FOLDER else None

on_off = {
    "calibration": st.sampled_from(["gaussian", None]),
    "ranking": st.booleans(),
    "fit_intercept": st.booleans(),
}


def run(problem, n_iter, *, fit_intercept=True, dtype=np.float64, **changes):
    """That many iterations, or fewer if nothing changes any more."""
    options = make_options(fit_intercept=fit_intercept, tol=0, max_iter=n_iter, **changes)
    features = problem.features(fit_intercept, dtype)
    # An observer that ends the run keeps it from complaining.
    return solve(features, problem.Y, options, None, lambda state: state.iteration == n_iter)


def assert_confidences(P, Y, accuracy=1e-14):
    assert (P >= 0).all()
    assert (P[~Y] == 0).all()
    np.testing.assert_allclose(P.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=accuracy)


class CheckedConfidenceStep:
    """The P step, with a look at every row before and after."""

    def __init__(self):
        self.n_steps = 0
        self.largest_gap = 0.0

    def __call__(self, Z, Y, E, M, fit, mu, penalty, ranking, P, row_objective):
        before = P.copy()
        confidence_step(Z, Y, E, M, fit, mu, penalty, ranking, P, row_objective)
        self.n_steps += 1
        assert_confidences(P, Y)
        nothing = np.zeros_like(P)
        E, M = (E, M) if penalty > 0 else (nothing, nothing)
        for i, y in enumerate(Y):
            row = (Z[i], y, E[i], M[i], fit, mu, penalty, ranking)
            old, new = (naive_confidence.augmented_objective(*row, p[i]) for p in (before, P))
            assert new <= old + 1e-13 * (1 + abs(old))
            H = naive_confidence.hessian(Z[i], fit - mu + penalty, ranking)
            g = naive_confidence.linear_part(Z[i], E[i], M[i], fit, penalty)
            slopes = (H @ P[i] - g)[y]
            gap = slopes[P[i, y] > 0].max() - slopes.min()
            self.largest_gap = max(self.largest_gap, gap / (1 + np.abs(g).max()))


@given(
    problem=problems(),
    alpha=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    mu=st.sampled_from([0.0, 0.5, 0.99]),
    nu=st.sampled_from([0.0, 0.05, 0.5]),
    growth=st.sampled_from(["balance", 1.5]),
    **on_off,
)
@settings(max_examples=200)
def test_the_confidence_step_is_optimal_in_every_iteration(problem, alpha, mu, growth, **changes):
    step = CheckedConfidenceStep()
    with mock.patch.object(solver, "confidence_step", step):
        run(problem, 3, alpha=alpha, mu=mu * alpha, penalty_growth=growth, **changes)
    assert step.n_steps >= 2
    assert step.largest_gap <= 1e-10


def scores(problem, solution, calibration):
    """The scores that the model of a solution gives, in plain NumPy."""
    X = problem.X
    mean = problem.features().mean
    Z = (X - mean) @ solution.W + solution.offset
    if calibration is None:
        return Z
    Z = np.exp(Z - Z.max(axis=1, keepdims=True))
    return Z / Z.sum(axis=1, keepdims=True)


def absolute_nu(problem, nu, first_penalty):
    """The weight of the nuclear norm in the objective."""
    noise = problem.Y - equal_confidence(problem.Y, np.dtype(np.float64))
    return nu * first_penalty * np.linalg.norm(np.sqrt(problem.w)[:, np.newaxis] * noise, 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.0, 0.1])
@pytest.mark.parametrize("calibration", ["gaussian", None])
@pytest.mark.parametrize("ranking", [False, True])
@pytest.mark.parametrize("n_iter", [1, 4])
def test_the_objective_that_is_recorded(weighted, nu, calibration, ranking, n_iter):
    X, Y, _ = clusters(50, 3, 5)
    weights = np.random.default_rng(0).exponential(size=50) if weighted else None
    problem = Problem(X, Y, weights)
    parts = {"alpha": 0.8, "beta": 0.3, "mu": 0.2, "ranking": ranking}
    found = run(problem, n_iter, nu=nu, calibration=calibration, **parts)
    P, E, penalty = found.P, found.E, found.history["penalty"][-1]
    weight = absolute_nu(problem, nu, found.history["penalty"][0])
    if nu:
        (M,) = found.multipliers
        target = Y - P + (M - penalty * (Y - P - E)) / penalty
        low_rank = naive.shrink(target, problem.w, weight / penalty)
        np.testing.assert_allclose(E, low_rank, rtol=0, atol=1e-9)
        assert found.history["rank"][-1] == np.linalg.matrix_rank(low_rank)
    else:
        np.testing.assert_array_equal(E, Y - P)
    if calibration:
        parts["beta"] = 0  # its coefficients are not penalised
    Z = scores(problem, found, calibration)
    expected = naive.simplex_objective(Z, problem.w, found.W, P, E, weight, **parts)
    assert found.history["objective"][-1] == pytest.approx(expected, rel=1e-9)


def assert_converged(P, E, Y, history, tol, w=None):
    w = np.ones(len(Y)) if w is None else w
    assert_confidences(P, Y)
    last = {name: history[name][-1] for name in ("primal_residual", "dual_residual", "change")}
    assert max(last.values()) <= tol
    gap = np.sqrt((w @ (Y - P - E) ** 2).sum() / (w @ Y).sum())
    # The noise of an estimator has no negative entries, which brings it nearer to Y - P.
    assert gap <= last["primal_residual"] * (1 + 1e-6) + 1e-12
    assert gap <= tol


@given(
    problem=problems(most_rows=30),
    mu=st.sampled_from([0.0, 0.5]),
    nu=st.sampled_from([0.0, 0.05, 0.3]),
    tol=st.sampled_from([1e-3, 1e-6]),
    **on_off,
)
@settings(max_examples=60)
def test_a_run_that_converged_keeps_the_constraints(problem, tol, **changes):
    options = make_options(tol=tol, max_iter=20_000, **changes)
    features = problem.features(changes["fit_intercept"])
    found = solve(features, problem.Y, options)  # a warning would be an error
    assert_converged(found.P, found.E, problem.Y, found.history, tol, problem.w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_a_convex_problem_does_not_depend_on_the_penalty(weighted, seed):
    X, Y, _ = clusters(40, 3, 6, seed, noise=0.6)
    weights = np.random.default_rng(seed).exponential(size=40) if weighted else None
    problem = Problem(X, Y, weights)
    parts = {"alpha": 1.0, "beta": 0.3, "mu": 0.0, "ranking": False}
    ends = []
    for factor, growth in [(1, "balance"), (0.1, "balance"), (10, 1.0)]:
        nu, penalty = 0.2 / factor, 0.1 * factor
        options = make_options(
            **parts,
            calibration=None,
            nu=nu,
            penalty=penalty,
            penalty_growth=growth,
            tol=1e-10,
            max_iter=50_000,
        )
        found = solve(problem.features(), Y, options)
        Z = scores(problem, found, None)
        weight = absolute_nu(problem, nu, penalty)
        assert found.history["rank"][-1] > 0
        expected = naive.simplex_objective(
            Z, problem.w, found.W, found.P, Y - found.P, weight, **parts
        )
        assert found.history["objective"][-1] == pytest.approx(expected, rel=1e-7)
        ends.append(found)
    for end in ends[1:]:
        np.testing.assert_allclose(end.P, ends[0].P, rtol=0, atol=1e-7)
        assert end.history["objective"][-1] == pytest.approx(
            ends[0].history["objective"][-1], rel=1e-8
        )


@pytest.mark.skipif(LOST is None, reason="HERA_FAST_DATA does not say where the data sets are")
@pytest.mark.parametrize("calibration", ["gaussian", None])
@pytest.mark.parametrize("ranking", [False, True])
@pytest.mark.parametrize("nu", [0.0, 0.1])
def test_convergence_on_lost(calibration, ranking, nu):
    with np.load(LOST, allow_pickle=False) as data:
        X, Y, y = data["X"].astype(np.float64), data["Y"] != 0, data["y"]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    tol = 1e-5
    parts = {"calibration": calibration, "ranking": ranking, "nu": nu}
    _, P, E, history = hera(X, Y, **parts, tol=tol, max_iter=5000)
    assert_converged(P, E, Y, history, tol)
    assert (history["rank"][-1] > 0) == (nu > 0)
    equal = 1 / Y.sum(axis=1)  # what a guess among the candidates gets right
    assert (P.argmax(axis=1) == y).mean() > equal.mean() + 0.1


@pytest.mark.parametrize("calibration", ["gaussian", None])
@pytest.mark.parametrize(("n", "q"), [(150, 6), (20, 30)])
def test_all_svd_methods_end_at_the_same_confidences(calibration, n, q):
    X, Y, _ = clusters(n, 4, q, noise=0.6)
    results = {}
    for method in ("full", "gram", "truncated", "randomized", "auto"):
        parts = {"calibration": calibration, "nu": 0.05, "svd": method, "random_state": 0}
        _, P, _, history = hera(X, Y, **parts, tol=1e-10, max_iter=50_000)
        assert history["rank"][-1] > 0
        results[method] = P
    for P in results.values():
        np.testing.assert_allclose(P, results["full"], rtol=0, atol=1e-8)


def repeated_patterns(n, q, n_patterns, seed=0):
    """False candidates that follow few patterns."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, q, n)
    X = 2 * rng.standard_normal((q, 6))[y] + 0.5 * rng.standard_normal((n, 6))
    Y = (rng.random((n_patterns, q)) < 0.1)[rng.integers(0, n_patterns, n)]
    Y[np.arange(n), y] = True
    return X, Y


@pytest.mark.parametrize(("n", "q"), [(140, 120), (120, 140)])
def test_iterative_svd_methods_end_at_the_same_confidences(monkeypatch, n, q):
    X, Y = repeated_patterns(n, q, n_patterns=4)
    grow, n_calls = svd._grow, 0

    def counting(*arguments):
        nonlocal n_calls
        n_calls += 1
        return grow(*arguments)

    monkeypatch.setattr(svd, "_grow", counting)
    results = {}
    for method in ("full", "truncated", "randomized"):
        n_calls = 0
        parts = {"calibration": None, "nu": 1.0, "svd": method, "random_state": 0}
        _, P, _, history = hera(X, Y, **parts, tol=1e-10, max_iter=1000)
        assert n_calls == (0 if method == "full" else np.count_nonzero(history["rank"]))
        assert history["rank"][-1] > 0
        results[method] = P
    for P in results.values():
        np.testing.assert_allclose(P, results["full"], rtol=0, atol=1e-8)


def fitted(X, Y, **parameters):
    """Coefficients, intercept, confidences and noise, after a few iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W, P, E, history, intercept = hera(X, Y, return_intercept=True, **parameters)
    return W, intercept, P, E, history["objective"]


CONFIGURATIONS = [
    {"calibration": calibration, "nu": nu}
    for calibration, nu in product(["mixture", "gaussian", None], [0.0, 0.1])
]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("noise", [0.05, 0.5], ids=["few candidates", "many candidates"])
@pytest.mark.parametrize(
    ("dtype", "is_sparse", "weighted"),
    [(np.float64, False, False), (np.float32, False, True), (np.float64, True, True)],
    ids=["double", "single, weighted", "sparse, weighted"],
)
def test_same_bits_for_every_number_of_threads(parameters, noise, dtype, is_sparse, weighted):
    X, Y, _ = clusters(9000, 30, 40, noise=noise)
    X = (X * (np.abs(X) > 1)).astype(dtype)
    X = sparse.csr_array(X) if is_sparse else X
    weights = np.random.default_rng(0).random(9000) if weighted else None
    parameters = {**parameters, "max_iter": 3, "n_components": 30, "random_state": 0}
    one, two = (
        fitted(X, Y, **parameters, sample_weight=weights, n_threads=n_threads)
        for n_threads in (1, 2)
    )
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
def test_single_precision_stays_single(parameters):
    X, Y, _ = clusters(200, 4, 5)
    W, intercept, P, E, objective = fitted(X.astype(np.float32), Y, **parameters)
    assert W.dtype == intercept.dtype == P.dtype == E.dtype == np.float32
    assert objective.dtype == np.float64
    expected = fitted(X, Y, **parameters)
    assert_confidences(P, Y, accuracy=1e-6)
    np.testing.assert_allclose(P, expected[2], rtol=0, atol=1e-3)
    np.testing.assert_allclose(objective[-1], expected[4][-1], rtol=1e-4)


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_weight_counts_like_repeated_rows(parameters, is_sparse):
    X, Y, _ = clusters(60, 3, 5)
    counts = np.random.default_rng(0).integers(1, 4, 60)
    weighted = Problem(X, Y, counts.astype(np.float64), is_sparse)
    one, two = (run(problem, 10, **parameters) for problem in (weighted, weighted.repeated(counts)))
    np.testing.assert_allclose(two.P, np.repeat(one.P, counts, axis=0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(two.E, np.repeat(one.E, counts, axis=0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(two.W, one.W, rtol=1e-7, atol=1e-9)
    for name in ("objective", "primal_residual", "dual_residual", "penalty", "rank"):
        np.testing.assert_allclose(two.history[name], one.history[name], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("calibration", ["gaussian", None])
def test_nu_serves_data_of_every_size(calibration):
    X, Y, _ = clusters(60, 3, 5)
    problem = Problem(X, Y)
    copies = 9
    parts = {"calibration": calibration, "nu": 0.1}
    few = run(problem, 10, **parts, beta=0.1)
    many = run(problem.repeated(np.full(60, copies)), 10, **parts, beta=0.1 * copies)
    assert few.history["rank"][-1] > 0
    np.testing.assert_allclose(many.P[::copies], few.P, rtol=0, atol=1e-9)
    np.testing.assert_allclose(many.E[::copies], few.E, rtol=0, atol=1e-9)


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("growth", ["balance", 1.2])
def test_a_start_goes_on_exactly(parameters, growth):
    X, Y, _ = clusters(80, 3, 5)
    problem = Problem(X, Y)
    parameters = {**parameters, "penalty_growth": growth}
    whole = run(problem, 10, **parameters)
    first = run(problem, 4, **parameters)
    options = make_options(tol=0, max_iter=6, **parameters)
    second = solve(*(problem.features(), Y, options, first), lambda state: state.iteration == 6)
    for name in ("W", "offset", "P", "E"):
        np.testing.assert_array_equal(getattr(second, name), getattr(whole, name))
    for one, two in zip(second.multipliers, whole.multipliers, strict=True):
        np.testing.assert_array_equal(one, two)
    assert second.penalty == whole.penalty
    for name in ("objective", "primal_residual", "dual_residual", "penalty"):
        np.testing.assert_array_equal(second.history[name], whole.history[name][4:])


@pytest.mark.parametrize(
    ("calibration", "function"),
    [("gaussian", "np.einsum"), ("gaussian", "softmax"), (None, "column_sums")],
)
def test_an_interrupt_of_the_model_costs_no_accuracy(monkeypatch, calibration, function):
    X, Y, y = clusters(200, 4, 5, noise=0.5)
    X *= [1, 10, 100, 1000]
    parameters = {"calibration": calibration, "prediction": "linear", "tol": 0.0}
    stopped = HERAClassifier(**parameters, callback=lambda state: state.iteration == 3).fit(X, Y)
    original = attrgetter(function)(models)
    is_late = False

    def interrupt(*arguments):
        if is_late:
            raise KeyboardInterrupt
        return original(*arguments)

    def wait(state):
        nonlocal is_late
        is_late = state.iteration == 3

    monkeypatch.setattr(f"hera_fast.models.{function}", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted after 3 of"):
        model = HERAClassifier(**parameters, callback=wait).fit(X, Y)
    assert model.score(X, y) >= stopped.score(X, y) - 0.01
    assert_confidences(model.confidence_, Y)


def test_each_part_of_the_objective_has_an_effect():
    X, Y, _ = clusters(100, 3, 5, spread=2.0)
    base = {"calibration": None, "alpha": 1.0, "mu": 0.0, "nu": 0.0, "ranking": False}
    P = run(Problem(X, Y), 20, **base).P
    for change in (
        {"ranking": True},
        {"mu": 0.5},
        {"nu": 0.1},
        {"beta": 100.0},
        {"calibration": "gaussian"},
        {"fit_intercept": False},
    ):
        assert np.abs(run(Problem(X, Y), 20, **{**base, **change}).P - P).max() > 1e-4


def test_mu_draws_confidences_to_one_candidate():
    X, Y, _ = clusters(100, 3, 5, spread=2.0)
    sizes = [(run(Problem(X, Y), 30, calibration=None, mu=mu).P ** 2).sum() for mu in (0, 0.4, 0.8)]
    assert sizes[0] < sizes[1] < sizes[2] <= 100


def test_without_fit_and_constraint_the_rows_stay_confidences():
    X, Y, _ = clusters(50, 3, 5)
    for parameters in ({"nu": 0.0}, {"nu": 0.1}):
        for calibration in ("gaussian", None):
            found = run(Problem(X, Y), 5, alpha=0.0, calibration=calibration, **parameters)
            assert_confidences(found.P, Y)


def test_one_label():
    X = np.arange(4.0)[:, np.newaxis]
    Y = np.ones((4, 1), bool)
    for parameters in CONFIGURATIONS:
        found = run(Problem(X, Y), 3, **parameters)
        assert (found.P == 1).all()
        assert (found.E == 0).all()


def test_equal_confidence():
    Y = np.array([[True, False, False], [True, True, False], [True, True, True]])
    P = equal_confidence(Y, np.dtype(np.float32))
    assert P.dtype == np.float32
    np.testing.assert_array_equal(P, (Y / Y.sum(axis=1, keepdims=True)).astype(np.float32))


def test_time_goes_on():
    X, Y, _ = clusters(100, 3, 5)
    history = run(Problem(X, Y), 8).history
    assert (np.diff(history["seconds"]) > 0).all()
    assert history["seconds"][0] > 0


MEMORY_CONFIGURATIONS = {
    "gaussian": {"calibration": "gaussian"},
    "gaussian, low rank": {"calibration": "gaussian", "nu": 0.1},
    "least squares": {"calibration": None},
    "least squares, low rank": {"calibration": None, "nu": 0.1, "penalty_growth": 1.05},
}


@pytest.mark.parametrize("parameters", MEMORY_CONFIGURATIONS.values(), ids=MEMORY_CONFIGURATIONS)
@pytest.mark.parametrize(
    ("dtype", "is_sparse", "weighted"),
    [
        (np.float64, False, False),
        (np.float32, False, False),
        (np.float64, False, True),
        (np.float64, True, True),
    ],
    ids=["double", "single", "weighted", "sparse, weighted"],
)
def test_iterations_allocate_nothing_with_a_row_for_each_sample(
    parameters, dtype, is_sparse, weighted
):
    n = 200_000
    X, Y, _ = clusters(n, 3, 4)
    X = X.astype(dtype)
    peaks = iteration_peaks(
        HERAClassifier(ranking=True, tol=0, n_threads=1, **parameters),
        *(sparse.csr_array(X) if is_sparse else X, Y),
        np.random.default_rng(0).random(n) if weighted else None,
    )
    assert max(peaks[1:]) < n  # not even a byte for each row


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_iterations_with_few_candidates_allocate_no_more(dtype):
    n = 300_000
    X, Y, _ = clusters(n, 3, 20, noise=0.02)
    model = HERAClassifier(calibration="gaussian", ranking=True, tol=0, n_threads=1)
    assert max(iteration_peaks(model, X.astype(dtype), Y)[1:]) < n


@pytest.mark.parametrize(
    ("dtype", "is_sparse", "weighted"),
    [(np.float64, False, False), (np.float32, False, True), (np.float64, True, True)],
    ids=["double", "single, weighted", "sparse, weighted"],
)
def test_iterations_of_a_mixture_allocate_nothing_for_each_label(dtype, is_sparse, weighted):
    n, q = 40_000, 40
    X, Y, _ = clusters(n, 3, q)
    X = X.astype(dtype)
    peaks = iteration_peaks(
        HERAClassifier(n_components=10, random_state=0, n_threads=1),
        *(sparse.csr_array(X) if is_sparse else X, Y),
        np.random.default_rng(0).random(n) if weighted else None,
    )
    # A row has a probability in each of three members, and a few arrays hold these.
    assert max(peaks[1:]) < 4 * n * 3 * 8 < n * q * dtype().itemsize


def peak_of_fit(model, X, Y):
    model.fit(X[:500], Y[:500])  # loads compiled code
    tracemalloc.start()
    try:
        model.fit(X, Y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "parameters",
    [
        {"calibration": "gaussian"},
        {"calibration": "gaussian", "nu": 0.1},
        {"calibration": None, "nu": 0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_needs_no_more_than_eight_arrays_of_confidences(parameters, dtype):
    n, d, q = 10_000, 82, 110
    X, Y, _ = clusters(n, d, q, noise=0.01)
    X = X.astype(dtype)
    model = HERAClassifier(
        prediction="hybrid",
        ranking=True,
        tol=0,
        n_threads=1,
        callback=lambda state: state.iteration == 3,
        **parameters,
    )
    assert peak_of_fit(model, X, Y) <= 8 * n * q * X.itemsize


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mixture_needs_its_features_twice_and_ten_arrays_of_confidences(dtype):
    n, d, q, n_components = 10_000, 82, 110, 100
    X, Y, _ = clusters(n, d, q, noise=0.01)
    X = X.astype(dtype)
    model = HERAClassifier(n_components=n_components, random_state=0, n_threads=1)
    n_features = d + 2 * n_components
    assert peak_of_fit(model, X, Y) <= (2 * n_features + 10 * q) * n * X.itemsize
