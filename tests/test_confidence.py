from __future__ import annotations

import math

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


def solved(Z, G, Y, curvature):
    P = np.full_like(Z, np.nan)
    confidence_step(Z, G, Y, curvature, P)
    return P


@st.composite
def problems(draw, most_labels, dtypes=dtypes, curvatures=curvatures):
    """Scores, linear part, candidates and curvature, with ties and numbers of every size."""
    n, q = draw(st.integers(0, 4)), draw(st.integers(1, most_labels))
    candidate_dtype = draw(st.sampled_from([np.float32, np.float64, np.bool_, np.uint8]))
    Y = draw(candidate_matrices(n, q)).astype(candidate_dtype)
    dtype = draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    curvature = draw(curvatures)
    Z = rng.normal(size=(n, q))
    # Linear parts that leave some, but not all labels positive are as large as the Hessian.
    G = rng.normal(size=(n, q)) * (curvature + 2.8 / q) * draw(st.sampled_from([1e-3, 0.05, 1]))
    if draw(st.booleans()):
        Z = Z.round()
    if draw(st.booleans()):
        copied = rng.integers(0, q, q)
        Z, G = Z[:, copied], G[:, copied]
    Z *= draw(st.sampled_from([0, 0.1, 1, 30, 1e30 if dtype == np.float32 else 1e150]))
    G += draw(st.sampled_from([0, 1, -100]))
    Z, G = (np.ascontiguousarray(array, dtype) for array in (Z, G))
    return Z, G, Y, curvature


def optimality_gap(z, g, y, curvature, p):
    """How far the gradient on the support is above its minimum, relative to the data."""
    candidates = y != 0
    g = g.astype(np.float64)
    slopes = naive.gradient(z, g, curvature, p.astype(np.float64))[candidates]
    steepest = naive.hessian(z, curvature)[candidates, candidates].max()
    support = p[candidates] > 0
    return (slopes[support].max() - slopes.min()) / (steepest + np.abs(g[candidates]).max())


@given(problems(most_labels=24 if numba.config.DISABLE_JIT else 60))
def test_the_solution_is_optimal(problem):
    Z, G, Y, curvature = problem
    P = solved(Z, G, Y, curvature)
    assert P.dtype == Z.dtype
    assert (P >= 0).all()
    assert (P[Y == 0] == 0).all()
    for z, g, y, p in zip(Z, G, Y, P, strict=True):
        assert abs(math.fsum(p) - 1) <= 8 * np.finfo(P.dtype).eps
        # In float32 the solution is as exact, but is rounded when it is stored.
        bound = 1e-12 if P.dtype == np.float64 else 1e-6
        assert optimality_gap(z, g, y, curvature, p) <= bound


@given(problems(most_labels=7))
@settings(max_examples=50)
def test_agrees_with_the_twin(problem):
    Z, G, Y, curvature = problem
    P, ref = solved(Z, G, Y, curvature), np.empty(Z.shape)
    naive.confidence_step(Z, G, Y, curvature, ref)
    # The weaker the curvature the less the objective tells solutions apart.
    rounding = np.finfo(np.float64).eps * (1 + np.abs(G).max(initial=0)) / curvature
    np.testing.assert_allclose(P, ref, rtol=0, atol=100 * (rounding + np.finfo(Z.dtype).eps))


@given(problems(most_labels=16, dtypes=st.just(np.float64)), seeds)
def test_no_point_of_the_simplex_is_better(problem, seed):
    Z, G, Y, curvature = problem
    rng = np.random.default_rng(seed)
    P = solved(Z, G, Y, curvature)
    for z, g, y, p in zip(Z, G, Y != 0, P, strict=True):
        best = naive.objective(z, g, curvature, p)
        slack = 1e-13 * (curvature + 3 + np.abs(g[y]).max())
        for concentration in (0.1, 1, 10):
            other = np.zeros_like(p)
            other[y] = rng.dirichlet(np.full(y.sum(), concentration))
            for step in (1, 1e-3):
                moved = p + step * (other - p)
                assert best <= naive.objective(z, g, curvature, moved) + slack


@given(seeds)
@settings(max_examples=20)
def test_the_twin_differentiates_the_loss(seed):
    rng = np.random.default_rng(seed)
    q = 6
    z, p, g = rng.normal(size=q), rng.random(q), rng.normal(size=q)
    basis = np.eye(q)
    # A central difference is exact for a quadratic, up to rounding.
    central = [
        naive.objective(z, g, 0.3, p + e) / 2 - naive.objective(z, g, 0.3, p - e) / 2 for e in basis
    ]
    slopes = naive.gradient(z, g, 0.3, p)
    np.testing.assert_allclose(slopes, central, atol=1e-13)
    changes = [naive.gradient(z, g, 0.3, p + e) - slopes for e in basis]
    np.testing.assert_allclose(naive.hessian(z, 0.3), changes, atol=1e-13)


@pytest.mark.parametrize("curvature", [1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("spread", [1e-3, 0.03, 0.5])
def test_every_label_may_be_a_candidate(curvature, spread):
    rng = np.random.default_rng(5)
    q = MANY_LABELS
    Z = rng.normal(size=(2, q))
    G = spread * (curvature + 2.8 / q) * rng.normal(size=(2, q))
    Y = np.ones((2, q), bool)
    for z, g, y, p in zip(Z, G, Y, solved(Z, G, Y, curvature), strict=True):
        assert optimality_gap(z, g, y, curvature, p) <= 1e-13
        assert abs(math.fsum(p) - 1) <= 1e-14


@given(problems(12, st.just(np.float64), st.sampled_from([2.3e-308, 1e-300, 1e-100, 1e-30, 1e-15])))
def test_vanishing_curvature_is_no_trouble(problem):
    Z, G, Y, curvature = problem
    for z, g, y, p in zip(Z, G, Y, solved(Z, G, Y, curvature), strict=True):
        assert (p >= 0).all()
        assert abs(math.fsum(p) - 1) <= 1e-14
        assert optimality_gap(z, g, y, curvature, p) <= 1e-10


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


def test_a_row_without_candidates_becomes_zero():
    Z = np.ones((2, 3))
    assert solved(Z, Z, np.zeros((2, 3), np.uint8), 1.0).tolist() == [[0, 0, 0], [0, 0, 0]]


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
def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(0)
    shape = (20, 12) if numba.config.DISABLE_JIT else (500, 99)
    Z, G = rng.normal(size=shape), rng.random(shape)
    Y = rng.random(shape) < 0.1
    with threads(1):
        one = solved(Z, G, Y, 0.5)
    with threads(2):
        two = solved(Z, G, Y, 0.5)
    assert one.tobytes() == two.tobytes()


def test_bad_arguments_are_named():
    Z, G, P = np.zeros((3, 3, 4))
    Y = np.ones((3, 4), bool)
    with pytest.raises(TypeError, match=r"^Z must be float32 or float64"):
        confidence_step(Z.astype(int), G, Y, 1.0, P)
    with pytest.raises(TypeError, match=r"^G must be float64 like Z"):
        confidence_step(Z, G.astype(np.float32), Y, 1.0, P)
    with pytest.raises(TypeError, match=r"^Y must be"):
        confidence_step(Z, G, Y.astype(np.int64), 1.0, P)
    with pytest.raises(ValueError, match=r"^G must have shape"):
        confidence_step(Z, G[:2], Y, 1.0, P)
    with pytest.raises(ValueError, match=r"^P is written to, but it shares memory with G"):
        confidence_step(Z, G, Y, 1.0, G)
    with pytest.raises(TypeError, match=r"^curvature must be a number"):
        confidence_step(Z, G, Y, None, P)
    for curvature in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^curvature must be a positive"):
            confidence_step(Z, G, Y, curvature, P)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(bad):
    Z = np.zeros((4, 3))
    G = np.zeros((4, 3))
    Y = np.array([[1, 1, 0]] * 3 + [[1, 0, 0]], dtype=bool)
    Z[0, 2] = G[1, 0] = G[2, 2] = G[3, 0] = bad
    P = np.empty_like(Z)
    confidence_step(Z, G, Y, 1.0, P)
    unknown = [np.nan, np.nan, 0]
    np.testing.assert_array_equal(P, [unknown, unknown, [0.5, 0.5, 0], [1, 0, 0]])
