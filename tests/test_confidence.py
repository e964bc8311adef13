from __future__ import annotations

import math
from typing import NamedTuple

import naive_confidence as naive
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import candidate_matrices, dtypes, seeds

from hera_fast.kernels.confidence import _simplex_qp, confidence_step
from hera_fast.threads import threads

MANY_LABELS = 24 if numba.config.DISABLE_JIT else 219
curvatures = st.floats(-6, 6).map(lambda exponent: 10.0**exponent)
scales = st.sampled_from([0, 0.1, 1, 30, 1e30])


class Problem(NamedTuple):
    """All arguments but the outputs."""

    Z: np.ndarray
    Y: np.ndarray
    E: np.ndarray
    M: np.ndarray
    fit: float
    sparsity: float
    penalty: float
    ranking: bool

    @property
    def curvature(self):
        return self.fit - self.sparsity + self.penalty

    def solve(self):
        P, row_objective = np.full_like(self.Z, np.nan), np.full(len(self.Z), np.nan)
        confidence_step(*self, P, row_objective)
        assert not np.isnan(row_objective).any()
        return P, row_objective

    def rows(self):
        """Scores, linear part, candidates of each row."""
        for z, y, e, m in zip(self.Z, self.Y != 0, self.E, self.M, strict=True):
            yield z.astype(np.float64), naive.linear_part(z, e, m, self.fit, self.penalty), y

    def optimality_gaps(self, P):
        """How far the slopes on the support are above their minimum, relative to their terms."""
        for i, (z, g, y) in enumerate(self.rows()):
            H = naive.hessian(z, self.curvature, self.ranking)
            slopes = (H @ P[i] - g)[y]
            terms = self.fit * np.abs(z[y])
            if self.penalty > 0:
                terms += np.abs(self.M[i, y]) + self.penalty * (1 + np.abs(self.E[i, y]))
            support = P[i, y] > 0
            yield (slopes[support].max() - slopes.min()) / (H[y, y].max() + terms.max())


def with_linear_part(Z, G, Y, curvature, ranking=True):
    """The problem to minimise ``L(Z[i], p) + curvature/2 |p|^2 - <G[i], p>``."""
    return Problem(Z, Y, np.ones_like(Z), G, 0.0, 0.0, curvature, ranking)


def solved(*arguments):
    return with_linear_part(*arguments).solve()[0]


@st.composite
def problems(draw, most_labels, dtypes=dtypes, curvatures=curvatures, scales=scales):
    """Problems with ties and numbers of every size."""
    n, q = draw(st.integers(0, 4)), draw(st.integers(1, most_labels))
    candidate_dtype = draw(st.sampled_from([np.float32, np.float64, np.bool_, np.uint8]))
    Y = draw(candidate_matrices(n, q)).astype(candidate_dtype)
    dtype = draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    ranking = draw(st.booleans())
    curvature = draw(curvatures)
    sparsity = curvature * draw(st.sampled_from([0, 0.3, 3]))
    share = draw(st.sampled_from([0, 0.4, 1]))
    fit, penalty = share * (curvature + sparsity), (1 - share) * (curvature + sparsity)
    Z, E, M = rng.normal(size=(3, n, q))
    # Linear parts that leave some, but not all labels positive are as large as the Hessian.
    M *= (curvature + 2.8 / q) * draw(st.sampled_from([1e-3, 0.05, 1]))
    if draw(st.booleans()):
        Z = Z.round()
    if draw(st.booleans()):
        E[...] = 1
    if draw(st.booleans()):
        copied = rng.integers(0, q, q)
        Z, E, M = Z[:, copied], E[:, copied], M[:, copied]
    Z *= draw(scales)
    M += draw(st.sampled_from([0, 1, -100]))
    Z, E, M = (np.ascontiguousarray(array, dtype) for array in (Z, E, M))
    return Problem(Z, Y, E, M, fit, sparsity, penalty, ranking)


@given(problems(most_labels=24 if numba.config.DISABLE_JIT else 60))
def test_the_solution_is_optimal(problem):
    P, _ = problem.solve()
    assert P.dtype == problem.Z.dtype
    assert (P >= 0).all()
    assert (P[problem.Y == 0] == 0).all()
    for p in P:
        assert abs(math.fsum(p) - 1) <= 8 * np.finfo(P.dtype).eps
    # In float32 the solution is as exact, but is rounded when it is stored.
    bound = 1e-12 if P.dtype == np.float64 else 1e-6
    assert max(problem.optimality_gaps(P), default=0) <= bound


@given(problems(most_labels=7))
@settings(max_examples=50)
def test_agrees_with_the_twin(problem):
    P, row_objective = problem.solve()
    ref, ref_objective = np.empty(P.shape), np.empty(len(P))
    naive.confidence_step(*problem, ref, ref_objective)
    largest = max((np.abs(g).max() for _, g, _ in problem.rows()), default=0)
    # The weaker the curvature the less the objective tells solutions apart.
    rounding = np.finfo(np.float64).eps * (1 + largest) / problem.curvature
    tolerance = 100 * (rounding + np.finfo(P.dtype).eps)
    np.testing.assert_allclose(P, ref, rtol=0, atol=tolerance)
    for z, found, expected in zip(problem.Z, row_objective, ref_objective, strict=True):
        size = 1 + problem.sparsity + problem.fit * (1 + np.linalg.norm(z.astype(np.float64)) ** 2)
        assert abs(found - expected) <= tolerance * size


@given(problems(most_labels=40))
def test_the_objective_is_that_of_the_solution(problem):
    P, row_objective = problem.solve()
    for z, p, found in zip(problem.Z, P, row_objective, strict=True):
        ref = naive.objective(z, problem.fit, problem.sparsity, problem.ranking, p)
        terms = 1 + problem.sparsity + problem.fit * ((p - z.astype(np.float64)) ** 2).sum()
        assert abs(found - ref) <= 4 * np.finfo(P.dtype).eps * terms


@given(problems(16, st.just(np.float64), scales=st.sampled_from([0, 0.1, 1, 30])), seeds)
def test_the_step_never_raises_the_augmented_objective(problem, seed):
    rng = np.random.default_rng(seed)
    P, _ = problem.solve()
    for z, y, e, m, p in zip(*problem[:4], P, strict=True):
        candidates = y != 0

        def value(p, z=z, y=y, e=e, m=m):
            return naive.augmented_objective(z, y, e, m, *problem[4:], p)

        terms = problem.fit * (1 + z @ z) + problem.sparsity + 1
        terms += problem.penalty * (4 + e @ e) + np.abs(m[candidates]).max()
        for concentration in (0.1, 1, 10):
            other = np.zeros_like(p)
            other[candidates] = rng.dirichlet(np.full(candidates.sum(), concentration))
            for step in (1, 1e-3):
                assert value(p) <= value(p + step * (other - p)) + 1e-14 * terms


@given(problems(16, st.just(np.float64)), seeds)
def test_no_point_of_the_simplex_is_better(problem, seed):
    rng = np.random.default_rng(seed)
    P, _ = problem.solve()
    for (z, g, y), p in zip(problem.rows(), P, strict=True):
        # A common part of g is a constant, which would hide the rest.
        g = np.where(y, g - g[y].max(), 0)
        best = naive.quadratic(z, g, problem.curvature, problem.ranking, p)
        slack = 1e-13 * (problem.curvature + 3 + np.abs(g).max())
        for concentration in (0.1, 1, 10):
            other = np.zeros_like(p)
            other[y] = rng.dirichlet(np.full(y.sum(), concentration))
            for step in (1, 1e-3):
                moved = p + step * (other - p)
                value = naive.quadratic(z, g, problem.curvature, problem.ranking, moved)
                assert best <= value + slack


@given(problems(8, st.just(np.float64), scales=st.just(1)))
@settings(max_examples=20)
def test_the_twin_is_a_quadratic_programme(problem):
    """The augmented objective differs from the quadratic by a constant."""
    rng = np.random.default_rng(1)
    for (z, g, y), e, m in zip(problem.rows(), problem.E, problem.M, strict=True):
        one, other = np.zeros((2, len(z)))
        one[y], other[y] = rng.random((2, y.sum()))
        change = naive.augmented_objective(z, y, e, m, *problem[4:], other)
        change -= naive.augmented_objective(z, y, e, m, *problem[4:], one)
        ref = naive.quadratic(z, g, problem.curvature, problem.ranking, other)
        ref -= naive.quadratic(z, g, problem.curvature, problem.ranking, one)
        size = 1 + (problem.fit + problem.penalty) * len(z) + np.abs(m).sum()
        np.testing.assert_allclose(change, ref, rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("curvature", [1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("spread", [1e-3, 0.03, 0.5])
@pytest.mark.parametrize("ranking", [True, False])
def test_every_label_may_be_a_candidate(curvature, spread, ranking):
    rng = np.random.default_rng(5)
    q = MANY_LABELS
    Z = rng.normal(size=(2, q))
    G = spread * (curvature + 2.8 / q) * rng.normal(size=(2, q))
    problem = with_linear_part(Z, G, np.ones((2, q), bool), curvature, ranking)
    P, _ = problem.solve()
    assert max(problem.optimality_gaps(P)) <= 1e-13
    for p in P:
        assert abs(math.fsum(p) - 1) <= 1e-14


@given(problems(12, st.just(np.float64), st.sampled_from([1e-307, 1e-300, 1e-100, 1e-30, 1e-15])))
def test_vanishing_curvature_is_no_trouble(problem):
    P, _ = problem.solve()
    assert (P >= 0).all()
    assert max(problem.optimality_gaps(P), default=0) <= 1e-10
    for p in P:
        assert abs(math.fsum(p) - 1) <= 1e-14


@st.composite
def stieltjes_matrices(draw):
    """Strongly and unevenly coupled, so that the diagonal says little about the support."""
    size = draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(seeds))
    coupling = 10.0 ** rng.uniform(-6, 2, (size, size))
    coupling *= rng.random((size, size)) < draw(st.sampled_from([0.2, 0.5, 1]))
    coupling = np.tril(coupling, -1)
    coupling += coupling.T
    ridge = 10.0 ** draw(st.integers(-6, 0))
    g = rng.normal(size=size) * 10.0 ** draw(st.integers(-3, 2))
    return np.diag(coupling.sum(axis=1) + ridge) - coupling, g - g.max()


def quadratic_solution(H, g):
    size = len(g)
    p, ones, target = np.empty((3, size))
    labels, flags = np.empty(size, np.int64), np.empty(size, bool)
    _simplex_qp(H, g, size, np.empty((size, size)), ones, target, labels, flags, p)
    return p


@given(stieltjes_matrices())
@settings(max_examples=300)
def test_quadratic_programmes_with_strong_coupling(problem):
    H, g = problem
    p = quadratic_solution(H, g)
    assert (p >= 0).all()
    assert abs(math.fsum(p) - 1) <= 1e-13
    slopes = H @ p - g
    assert slopes[p > 0].max() - slopes.min() <= 1e-11 * (H.max() + np.abs(g).max())


def test_a_label_held_up_by_another_is_found():
    # Alone the last label would stay at zero; the first pulls it up.
    H = np.array([[10.0, 0, -9], [0, 10, 0], [-9, 0, 10]])
    g = np.array([0, -8.0, -9])
    np.testing.assert_allclose(quadratic_solution(H, g), naive.simplex_qp(H, g), atol=1e-15)
    assert quadratic_solution(H, g)[2] > 0.1


@pytest.mark.parametrize("excess", [1e-2, 1e-5, 1e-8, 1e-11])
def test_a_label_held_up_by_another_a_little_is_found(excess):
    # Of the first two alone p = (0.9, 0.1) and t = 9, so that the last one enters at -17.1.
    H = np.array([[10.0, 0, -9], [0, 10, 0], [-9, 0, 10]])
    p = quadratic_solution(H, np.array([0, -8.0, -17.1 + excess]))
    np.testing.assert_allclose(p[2], excess * 20 / 399, rtol=2e-3)


def test_a_label_at_the_threshold_is_not_negative():
    # Half of the labels are zero in the solution with a zero gradient, up to rounding.
    rng = np.random.default_rng(1)
    for size in range(2, 12 if numba.config.DISABLE_JIT else 60):
        inside = rng.normal(0, 0.3 / size, size)
        threshold = (inside.sum() - 1) / size
        G = np.concatenate([inside, threshold + rng.integers(-3, 4, size) * 1e-17])[None]
        P = solved(1e3 * np.arange(G.size)[None], G, np.ones(G.shape, bool), 1.0)
        assert P.min() >= 0
        assert abs(math.fsum(P[0]) - 1) <= 1e-14


def test_one_candidate_is_certain():
    Z, G = np.array([[1e150, -1e150, 0.0]]), np.array([[np.nan, -1e150, np.inf]])
    assert solved(Z, G, np.array([[False, True, False]]), 1e-6).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("ranking", [True, False])
def test_rows_with_one_possible_label_have_an_objective(ranking):
    rng = np.random.default_rng(2)
    Z, E = rng.normal(size=(2, 2, 9))
    M = np.zeros((2, 9))
    Y = np.zeros((2, 9), bool)
    Y[:, 3] = Y[1, 5] = True
    M[1, 5] = -100  # a candidate that is ruled out beforehand
    P, row_objective = Problem(Z, Y, E, M, 0.5, 0.25, 0.125, ranking).solve()
    assert P[:, 3].tolist() == [1, 1]
    ref = [naive.objective(Z[i], 0.5, 0.25, ranking, P[i]) for i in range(2)]
    np.testing.assert_allclose(row_objective, ref, rtol=1e-14)


@pytest.mark.parametrize("ranking", [True, False])
def test_without_penalty_noise_and_multiplier_are_not_read(ranking):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(5, 6))
    Y = rng.random((5, 6)) < 0.6
    unread = np.full_like(Z, np.nan)
    P, row_objective = Problem(Z, Y, unread, unread, 0.5, 0.2, 0.0, ranking).solve()
    others = Problem(Z, Y, Z, Z, 0.5, 0.2, 0.0, ranking).solve()
    assert np.isfinite(row_objective).all()
    assert P.tobytes() == others[0].tobytes()
    assert row_objective.tobytes() == others[1].tobytes()


@pytest.mark.parametrize("ranking", [True, False])
def test_a_row_without_candidates_becomes_zero(ranking):
    Z = np.ones((2, 3))
    P, row_objective = Problem(Z, np.zeros((2, 3), np.uint8), Z, Z, 3.0, 1.0, 1.0, ranking).solve()
    assert P.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert row_objective.tolist() == [4.5, 4.5]


def test_equal_labels_share_equally():
    for q in (2, 3, 5, 8):
        P = solved(np.full((1, q), 1e150), np.full((1, q), -1e9), np.ones((1, q)), 1e-3)
        np.testing.assert_allclose(P, np.full((1, q), 1 / q), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e3, 1e30, 1e150])
def test_far_scores_leave_the_projection_onto_the_simplex(scale):
    Z = scale * np.arange(4.0)[None]
    G = np.array([[0.5, 0.25, 0.75, -2]])
    P = solved(Z, G, np.ones((1, 4), bool), 1.0)
    np.testing.assert_allclose(P, [[1 / 3, 1 / 12, 7 / 12, 0]], rtol=1e-14)


@pytest.mark.parametrize("scale", [1e3, 1e30, 1e150])
def test_a_large_linear_part_decides(scale):
    G = scale * np.array([[1.0, -1, 0.5, 1, 0]])
    P = solved(np.zeros((1, 5)), G, np.array([[1, 1, 1, 0, 1]], np.uint8), 1.0)
    assert P.tolist() == [[1, 0, 0, 0, 0]]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@pytest.mark.parametrize("ranking", [True, False])
def test_the_number_of_threads_changes_no_bit(ranking):
    rng = np.random.default_rng(0)
    shape = (20, 12) if numba.config.DISABLE_JIT else (500, 99)
    Z, E, M = rng.normal(size=(3, *shape))
    problem = Problem(Z, rng.random(shape) < 0.1, E, M, 0.5, 0.1, 0.2, ranking)
    with threads(1):
        one = problem.solve()
    with threads(2):
        two = problem.solve()
    for first, second in zip(one, two, strict=True):
        assert first.tobytes() == second.tobytes()


def valid():
    Z, E, M, P = np.zeros((4, 3, 4))
    return {
        **{"Z": Z, "Y": np.ones((3, 4), bool), "E": E, "M": M},
        **{"fit": 1.0, "sparsity": 0.5, "penalty": 1.0, "ranking": True},
        **{"P": P, "row_objective": np.zeros(3)},
    }


def test_bad_arguments_are_named():
    arguments = valid()
    confidence_step(**arguments)
    for name, value, error, message in [
        ("Z", np.zeros((3, 4), int), TypeError, "Z must be float32 or float64"),
        ("E", np.zeros((3, 4), np.float32), TypeError, "E must be float64 like Z"),
        ("M", np.zeros((3, 4), np.float32), TypeError, "M must be float64 like Z"),
        ("Y", np.zeros((3, 4), np.int64), TypeError, "Y must be"),
        ("M", np.zeros((2, 4)), ValueError, "M must have shape"),
        ("P", arguments["M"], ValueError, "P is written to, but it shares memory with M"),
        ("row_objective", np.zeros(3, np.float32), TypeError, "row_objective must be float64"),
        ("row_objective", np.zeros(4), ValueError, "row_objective must have shape"),
        ("ranking", 1, TypeError, "ranking must be True or False, got int"),
        ("ranking", None, TypeError, "ranking must be True or False, got NoneType"),
    ]:
        with pytest.raises(error, match="^" + message):
            confidence_step(**{**arguments, name: value})


@pytest.mark.parametrize("name", ["fit", "sparsity", "penalty"])
def test_bad_numbers_are_named(name):
    for value in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"^{name} must be a non-negative"):
            confidence_step(**{**valid(), name: value})
    with pytest.raises(TypeError, match=f"^{name} must be a number"):
        confidence_step(**{**valid(), name: None})


@pytest.mark.parametrize("sparsity", [2.0, 3.0])
def test_the_problem_must_be_convex(sparsity):
    with pytest.raises(ValueError, match=r"^fit - sparsity \+ penalty must be a positive"):
        confidence_step(**{**valid(), "sparsity": sparsity})


def test_any_boolean_says_whether_to_rank():
    # One candidate in each row: then the ranking loss is not zero.
    ranked, unranked = ({**valid(), "Y": np.eye(3, 4, dtype=bool)} for _ in range(2))
    confidence_step(**{**ranked, "ranking": np.bool_(True)})
    confidence_step(**{**unranked, "ranking": np.bool_(False)})
    assert (ranked["row_objective"] > unranked["row_objective"]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("ranking", [True, False])
def test_what_is_not_finite_shows(bad, ranking):
    Z, E, M, P = np.zeros((4, 6, 3))
    Y = np.array([[1, 1, 0]] * 4 + [[1, 0, 0]] * 2, dtype=bool)
    Z[0, 2] = M[1, 0] = E[2, 1] = M[3, 2] = Z[4, 2] = M[5, 0] = bad
    row_objective = np.empty(6)
    confidence_step(Z, Y, E, M, 0.0, 0.0, 1.0, ranking, P, row_objective)
    unknown = [np.nan, np.nan, 0]
    np.testing.assert_array_equal(P, [unknown] * 3 + [[0.5, 0.5, 0], [1, 0, 0], [1, 0, 0]])
    assert np.isnan(row_objective).tolist() == [True] * 3 + [False, True, False]
