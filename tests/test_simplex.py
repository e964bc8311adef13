from __future__ import annotations

import math

import naive_simplex as naive
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import candidate_matrices, dtypes, label_counts, row_counts, seeds

from hera_fast.kernels.simplex import project_simplex
from hera_fast.threads import threads

candidate_dtypes = st.sampled_from([np.float32, np.float64, np.bool_, np.uint8])


def projected(V, Y):
    out = np.full_like(V, np.nan)
    project_simplex(V, Y, out)
    return out


def one_row(values, dtype=np.float64):
    V = np.array([values], dtype)
    return projected(V, np.ones(V.shape, bool))[0]


@st.composite
def problems(draw):
    n, q = draw(row_counts), draw(label_counts)
    candidates = draw(candidate_matrices(n, q))
    rng = np.random.default_rng(draw(seeds))
    V = rng.normal(0, draw(st.sampled_from([1e-3, 0.1, 1, 100, 1e9, 1e30])), (n, q))
    if draw(st.booleans()):
        V = V.round(1)
    V += draw(st.sampled_from([0, 1, -1e3, 1e20]))
    return V.astype(draw(dtypes)), candidates.astype(draw(candidate_dtypes))


@given(problems())
def test_agrees_with_the_twin(problem):
    V, Y = problem
    ref = np.empty_like(V)
    naive.project_simplex(V, Y, ref)
    comp = projected(V, Y)
    assert comp.dtype == V.dtype
    # The shift by the maximum rounds to the precision of V itself, in both.
    np.testing.assert_allclose(comp, ref, rtol=0, atol=4 * np.finfo(V.dtype).eps)


@given(problems())
def test_rows_are_probabilities_over_the_candidates(problem):
    V, Y = problem
    P = projected(V, Y)
    assert (P >= 0).all()
    assert (P[Y == 0] == 0).all()
    for p in P:
        assert abs(math.fsum(p) - 1) <= np.finfo(V.dtype).eps


@given(problems())
def test_no_point_of_the_simplex_is_nearer(problem):
    # <V - P, Q - P> <= 0 for every corner Q of the simplex is exactly optimality.
    V, Y = problem
    P = projected(V, Y).astype(np.float64)
    for v, candidates, p in zip(V, Y != 0, P, strict=True):
        v = v[candidates].astype(np.float64)
        p = p[candidates]
        towards = (v - v.max()) - p
        accuracy = 8 * np.finfo(V.dtype).eps
        assert (towards[p > 0] >= towards.max() - accuracy).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_known_projections(dtype):
    assert one_row([0.2, 0.3, 0.5], dtype).tolist() == pytest.approx([0.2, 0.3, 0.5])
    assert one_row([0.5, 0.75], dtype).tolist() == [0.375, 0.625]
    assert one_row([3, 1, 1], dtype).tolist() == [1, 0, 0]
    assert one_row([-7, -7, -7, -7], dtype).tolist() == [0.25] * 4
    assert one_row([1, 0.5, -3], dtype).tolist() == [0.75, 0.25, 0]


@pytest.mark.parametrize("value", [0, -0.0, 1, -1e150, 1e150, 1e300, 5e-324])
def test_one_candidate_is_certain(value):
    V = np.array([[1e150, value, 3.0]])
    assert projected(V, np.array([[0.0, 1.0, 0.0]])).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("scale", [1e16, 1e38, 1e150, 1e300])
def test_large_values_give_the_limit(scale):
    assert one_row([scale, -scale, 0]).tolist() == [1, 0, 0]
    assert one_row([scale, scale, 0, -scale]).tolist() == [0.5, 0.5, 0, 0]
    assert one_row([-scale, -scale, -scale * 2]).tolist() == [0.5, 0.5, 0]


def test_a_row_without_candidates_becomes_zero():
    V = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert projected(V, np.array([[False, False], [True, False]])).tolist() == [[0, 0], [1, 0]]


def test_values_outside_the_candidates_are_ignored():
    V = np.array([[0.2, np.nan, 0.4, np.inf]])
    P = projected(V, np.array([[1, 0, 1, 0]], np.uint8))
    np.testing.assert_allclose(P, [[0.4, 0, 0.6, 0]])


@pytest.mark.parametrize("rest", [0, -1e-9, -1e-4, -0.5, -1 + 1e-6, -1 + 1e-12])
def test_many_labels_still_sum_to_one(rest):
    values = np.full(10_000, rest)
    values[17] = 0
    p = one_row(values)
    assert abs(math.fsum(p) - 1) <= np.finfo(np.float64).eps


def test_a_label_at_the_threshold_is_not_negative():
    # Half of the labels sit on the threshold of the others, up to rounding.
    rng = np.random.default_rng(1)
    for size in range(2, 60):
        inside = rng.normal(0, 0.3 / size, size)
        threshold = (inside.sum() - 1) / size
        p = one_row(np.concatenate([inside, threshold + rng.integers(-3, 4, size) * 1e-17]))
        assert p.min() >= 0
        assert abs(math.fsum(p) - 1) <= np.finfo(np.float64).eps


def test_labels_dropped_one_after_the_other():
    # Michelot's worst case: every pass finds only the next label too small.
    values, threshold, gap = [], -0.5, 0.1
    for size in range(12, 1, -1):
        values.append(threshold - gap)
        step = gap / (size - 1)
        threshold, gap = threshold + step, step / 2
    values.append(1 + threshold)
    ref = np.empty((1, len(values)))
    V = np.array([values])
    naive.project_simplex(V, np.ones(V.shape), ref)
    np.testing.assert_allclose(projected(V, np.ones(V.shape)), ref, rtol=0, atol=1e-15)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(700, 219))
    Y = rng.random(V.shape) < 0.1
    with threads(1):
        one = projected(V, Y)
    with threads(2):
        two = projected(V, Y)
    assert one.tobytes() == two.tobytes()


def test_bad_arguments_are_named():
    V, Y, out = np.zeros((3, 4)), np.ones((3, 4), bool), np.zeros((3, 4))
    with pytest.raises(TypeError, match=r"^V must be float32 or float64"):
        project_simplex(V.astype(int), Y, out)
    with pytest.raises(TypeError, match=r"^V must be a NumPy array"):
        project_simplex(V.tolist(), Y, out)
    with pytest.raises(TypeError, match=r"^Y must be"):
        project_simplex(V, Y.astype(np.int64), out)
    with pytest.raises(TypeError, match=r"^out must be float64 like V"):
        project_simplex(V, Y, out.astype(np.float32))
    with pytest.raises(ValueError, match=r"^Y must have shape"):
        project_simplex(V, Y[:, :3].copy(), out)
    with pytest.raises(ValueError, match=r"^V must be C-contiguous"):
        project_simplex(np.asfortranarray(V), Y, out)
    with pytest.raises(ValueError, match=r"^out is written to, but it shares memory with V"):
        project_simplex(V, Y, V)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows(bad):
    V = np.array([[0.1, bad, 0.3], [bad, bad, 0.3], [0.2, 0.5, bad]])
    Y = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0]], dtype=bool)
    out = np.empty_like(V)
    project_simplex(V, Y, out)
    np.testing.assert_array_equal(out, [[np.nan, np.nan, 0], [1, 0, 0], [0.35, 0.65, 0]])
