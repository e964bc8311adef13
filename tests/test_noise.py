"""The E step, its multiplier and its penalty, against plain NumPy."""

from __future__ import annotations

import naive_solver as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Problem, clusters, confidences, make_options, problems
from strategies import seeds

from hera_fast.noise import LowRankNoise, WeightedShrinkage
from hera_fast.run import Residuals, Solution
from hera_fast.solver import equal_confidence


def make_noise(problem, dtype=np.float64, start=None, **changes):
    P = equal_confidence(problem.Y, np.dtype(dtype))
    options = make_options(**changes)
    workspace = np.full_like(P, np.nan)
    return LowRankNoise(problem.features(dtype=dtype), problem.Y, P, workspace, options, start), P


def largest_singular_value(problem):
    """Of Y minus equal confidences."""
    roots = np.sqrt(problem.w)[:, np.newaxis]
    Y = problem.Y
    return np.linalg.norm(roots * (Y - Y / Y.sum(axis=1, keepdims=True)), 2)


@given(
    problem=problems(most_rows=20, zero_weights=False),
    seed=seeds,
    nu=st.sampled_from([0.05, 0.3, 2.0]),
    alpha=st.sampled_from([0.0, 0.5, 3.0]),
    penalty=st.sampled_from([None, 0.7]),
)
def test_updates_against_numpy(problem, seed, nu, alpha, penalty):
    rng = np.random.default_rng(seed)
    noise, P = make_noise(problem, nu=nu, alpha=alpha, penalty=penalty)
    Y, w = problem.Y, problem.w
    current = penalty or 0.1 * (alpha or 1)
    weight = nu * current * largest_singular_value(problem)
    E, M = np.zeros(Y.shape), np.zeros(Y.shape)
    norm_Y = np.sqrt((w @ Y).sum())
    for factor in (1, 2, 0.5):
        current *= factor
        noise.penalty = current
        residuals = noise.update(P)
        target = Y - P + M / current
        # Values that tie with the threshold may end on either side.
        low_rank = naive.shrink(target, w, weight / current)
        previous, E = E, low_rank
        M = M + current * (Y - P - E)
        np.testing.assert_allclose(noise.E, E, rtol=0, atol=1e-7)
        np.testing.assert_allclose(noise.M, M, rtol=0, atol=1e-7 * (1 + current))
        norms = [np.sqrt((w @ A**2).sum()) for A in (Y - P - E, E - previous, M)]
        scale = max(norms[2], alpha * norm_Y)
        assert residuals.primal == pytest.approx(norms[0] / norm_Y, rel=1e-6, abs=1e-7)
        dual = current * norms[1] / scale if scale > 1e-9 else 0
        assert residuals.dual == pytest.approx(dual, rel=1e-5, abs=1e-6)
        expected = weight * naive.nuclear_norm(low_rank, w)
        assert noise.objective == pytest.approx(expected, rel=1e-6, abs=1e-7)
        P = confidences(rng, Y, 1)


@given(problem=problems(zero_weights=False), seed=seeds, nu=st.sampled_from([0.1, 0.5]))
@settings(max_examples=50)
def test_the_low_rank_part_is_the_minimiser(problem, seed, nu):
    """No perturbation of it lowers nu |E|_* + penalty/2 |E - B|^2."""
    rng = np.random.default_rng(seed)
    shrinkage = WeightedShrinkage(problem.weights, make_options())
    B = rng.standard_normal(problem.Y.shape)
    E = np.empty_like(B)
    rank, nuclear = shrinkage.shrink(B.copy(), nu, E)

    def objective(A):
        return nu * naive.nuclear_norm(A, problem.w) + (problem.w @ (A - B) ** 2).sum() / 2

    assert nuclear == pytest.approx(naive.nuclear_norm(E, problem.w), rel=1e-9, abs=1e-9)
    assert rank <= min(B.shape)
    best = objective(E)
    for size in (1e-3, 0.1, 1):
        for _ in range(5):
            perturbed = E + size * rng.standard_normal(B.shape)
            assert objective(perturbed) >= best * (1 - 1e-12)
            assert objective((1 - size) * E) >= best * (1 - 1e-12)


@pytest.mark.parametrize("copies", [1, 2, 7])
@pytest.mark.parametrize("penalty", [None, 3.0])
@pytest.mark.parametrize("nu", [0.05, 0.4])
def test_the_first_threshold_is_nu_times_the_largest_singular_value(
    monkeypatch, copies, penalty, nu
):
    thresholds = []
    shrink = WeightedShrinkage.shrink

    def spy(self, A, threshold, out):
        thresholds.append(threshold)
        return shrink(self, A, threshold, out)

    monkeypatch.setattr(WeightedShrinkage, "shrink", spy)
    X, Y, _ = clusters(30, 2, 5)
    problem = Problem(X, Y).repeated(np.full(30, copies))
    noise, P = make_noise(problem, nu=nu, penalty=penalty)
    noise.update(P)
    expected = nu * np.sqrt(copies) * largest_singular_value(Problem(X, Y))
    assert thresholds == [pytest.approx(expected, rel=1e-12)]


@pytest.mark.parametrize(("penalty", "alpha"), [(50.0, 1.0), (None, 100.0)])
def test_the_first_penalty_obeys_its_bound_and_nu_goes_with_it(penalty, alpha):
    problem = Problem(*clusters(30, 2, 5)[:2])
    noise, P = make_noise(problem, nu=0.2, penalty=penalty, alpha=alpha, max_penalty=3.0)
    expected, _ = make_noise(problem, nu=0.2, penalty=3.0, alpha=alpha)
    assert noise.penalty == expected.penalty == 3
    assert noise.update(P) == expected.update(P)
    assert noise.objective == expected.objective > 0
    (M,) = noise.multipliers
    start = Solution(np.zeros((2, 5)), np.zeros(5), P, noise.E, (M,), 50.0, 0.0, {})
    noise, _ = make_noise(problem, start=start, nu=0.2, alpha=alpha, max_penalty=3.0)
    assert noise.penalty == 3


@pytest.mark.parametrize("nu", [1.0 + 1e-9, 1.5, 100.0])
@pytest.mark.parametrize("copies", [1, 20])
def test_from_one_on_nu_leaves_no_noise_in_equal_confidences(nu, copies):
    X, Y, _ = clusters(30, 2, 5)
    problem = Problem(X, Y).repeated(np.full(30, copies))
    noise, P = make_noise(problem, nu=nu)
    noise.update(P)
    assert (noise.E == 0).all()
    assert noise.rank == noise.objective == 0
    noise, P = make_noise(problem, nu=0.9)
    noise.update(P)
    assert noise.rank == 1
    assert (noise.E > 0).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_weight_counts_like_repeated_rows(dtype):
    X, Y, _ = clusters(40, 2, 5)
    counts = np.random.default_rng(0).integers(1, 5, 40)
    weighted = Problem(X, Y, counts.astype(float))
    one, P = make_noise(weighted, dtype, nu=0.2)
    two, repeated_P = make_noise(weighted.repeated(counts), dtype, nu=0.2)
    accuracy = 1e-10 if dtype == np.float64 else 1e-4
    rng = np.random.default_rng(1)
    for _ in range(3):
        residuals = one.update(P), two.update(repeated_P)
        np.testing.assert_allclose(*residuals, rtol=100 * accuracy)
        repeated_E = np.repeat(one.E, counts, axis=0)
        np.testing.assert_allclose(two.E, repeated_E, rtol=0, atol=accuracy)
        np.testing.assert_allclose(two.objective, one.objective, rtol=accuracy)
        assert one.rank == two.rank
        assert one.E.dtype == one.M.dtype == dtype
        P = confidences(rng, Y, 1).astype(dtype)
        repeated_P = np.repeat(P, counts, axis=0)


def test_rows_without_weight_get_noise_but_give_none():
    X, Y, _ = clusters(40, 2, 5)
    weights = np.ones(40)
    weights[30:] = 0
    with_zeros, P = make_noise(Problem(X, Y, weights), nu=0.2)
    without, few_P = make_noise(Problem(X[:30], Y[:30]), nu=0.2)
    np.testing.assert_allclose(with_zeros.update(P), without.update(few_P), rtol=1e-9)
    np.testing.assert_allclose(with_zeros.E[:30], without.E, rtol=0, atol=1e-9)
    assert np.isfinite(with_zeros.E).all()
    assert (with_zeros.E[30:] > 0).any()


def test_without_nu_nothing_is_kept():
    X, Y, _ = clusters(20, 2, 4)
    noise, P = make_noise(Problem(X, Y), nu=0)
    assert not noise.is_active
    assert noise.update(P) == Residuals(0, 0)
    assert noise.multipliers == ()
    assert (noise.penalty, noise.objective, noise.rank) == (0, 0, 0)
    noise.adapt_penalty(Residuals(0, 0))
    assert noise.penalty == 0


def test_rows_with_one_candidate_have_no_noise():
    Y = np.eye(4, dtype=bool)[[0, 1, 2, 3, 0]]
    noise, P = make_noise(Problem(np.arange(5.0)[:, np.newaxis], Y), nu=0.1)
    assert noise.update(P) == Residuals(0, 0)
    assert (noise.E == 0).all()


def test_a_start_is_taken_over():
    X, Y, _ = clusters(20, 2, 4)
    one, P = make_noise(Problem(X, Y), nu=0.1)
    for _ in range(3):
        one.update(P)
    (M,) = one.multipliers
    start = Solution(
        *(np.zeros((2, 4)), np.zeros(4), P, one.E.copy(), (M.copy(),)),
        penalty=one.penalty,
        split_penalty=0.0,
        history={},
    )
    two, _ = make_noise(Problem(X, Y), nu=0.1, start=start)
    assert one.update(P) == two.update(P)
    np.testing.assert_array_equal(one.E, two.E)
    np.testing.assert_array_equal(one.M, two.M)


def test_a_start_without_noise_begins_anew():
    X, Y, _ = clusters(20, 2, 4)
    fresh, P = make_noise(Problem(X, Y), nu=0.1)
    start = Solution(
        *(np.zeros((2, 4)), np.zeros(4), P, Y - P, ()),
        penalty=0.0,
        split_penalty=0.0,
        history={},
    )
    noise, _ = make_noise(Problem(X, Y), nu=0.1, start=start)
    assert noise.penalty == fresh.penalty > 0
    assert noise.update(P) == fresh.update(P)
