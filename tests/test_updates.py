from __future__ import annotations

import naive_updates as naive
import numba
import numpy as np
import pytest
from assembly import VECTOR_FMA, VECTOR_SUM, blocks_with, listing, needs_vectors
from hypothesis import given
from hypothesis import strategies as st
from strategies import candidate_matrices, dtypes, label_counts, row_counts, seeds

from hera_fast.kernels import updates
from hera_fast.kernels.updates import (
    PAPER_UPDATE_PARTS,
    UPDATE_PARTS,
    fit_gradient,
    low_rank_target,
    soft_threshold,
    update_multipliers,
    update_multipliers_paper,
)
from hera_fast.threads import threads

penalties = st.sampled_from([1e-6, 1e-3, 0.7, 1.0, 50.0])


def accuracy(dtype):
    return 16 * np.finfo(dtype).eps


@st.composite
def states(draw, n_arrays):
    """Candidates and `n_arrays` arrays of one shape and dtype."""
    n, q = draw(row_counts), draw(label_counts)
    candidate_dtype = draw(st.sampled_from([np.float32, np.float64, np.bool_, np.uint8]))
    Y = draw(candidate_matrices(n, q)).astype(candidate_dtype)
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(dtypes)
    return Y, [rng.normal(size=(n, q)).astype(dtype) for _ in range(n_arrays)]


def wide(arrays):
    return [array.astype(np.float64) for array in arrays]


def parts_of(n, names):
    return np.full((n, len(names)), np.nan)


@given(states(1), st.sampled_from([0, 1e-3, 0.5, 2, 1e6]), st.sampled_from([1e-30, 1, 1e30]))
def test_soft_threshold(state, threshold, scale):
    _, (V,) = state
    V *= V.dtype.type(scale)
    threshold = float(V.dtype.type(threshold * scale))
    out, ref = np.full_like(V, np.nan), np.empty_like(V)
    soft_threshold(V, threshold, out)
    naive.soft_threshold(V, V.dtype.type(threshold), ref)
    np.testing.assert_array_equal(out, ref)


def test_soft_threshold_of_awkward_numbers():
    V = np.array([[0.0, -0.0, 1, -1, 1e300, -1e300, 5e-324, np.inf, -np.inf, np.nan]])
    out = np.empty_like(V)
    soft_threshold(V, 1, out)
    np.testing.assert_array_equal(out, [[0, 0, 0, 0, 1e300, -1e300, 0, np.inf, -np.inf, np.nan]])


@given(states(2), penalties)
def test_low_rank_target(state, penalty):
    Y, (P, M) = state
    out, ref = np.full_like(P, np.nan), np.empty(P.shape)
    low_rank_target(Y, P, M, penalty, out)
    naive.low_rank_target(Y, *wide([P, M]), penalty, ref)
    size = np.abs(M) / penalty + np.abs(P) + 1
    assert (np.abs(out - ref) <= accuracy(P.dtype) * size).all()


@given(states(3), st.sampled_from([0, 1e-3, 0.7, 50.0]))
def test_fit_gradient(state, weight):
    _, (Z, P, grad) = state
    weight = float(Z.dtype.type(weight))
    (ref,) = wide([grad])
    size = np.abs(grad) + weight * (np.abs(Z) + np.abs(P))
    naive.fit_gradient(*wide([Z, P]), weight, ref)
    fit_gradient(Z, P, weight, grad)
    assert (np.abs(grad - ref) <= accuracy(Z.dtype) * size).all()


@given(states(4), penalties)
def test_update_multipliers(state, penalty):
    Y, (P, low_rank, E, M) = state
    E_ref, M_ref = wide([E, M])
    ref = parts_of(len(P), UPDATE_PARTS)
    naive.update_multipliers(Y, *wide([P, low_rank]), penalty, E_ref, M_ref, ref)
    comp = parts_of(len(P), UPDATE_PARTS)
    update_multipliers(Y, P, low_rank, penalty, E, M, comp)
    np.testing.assert_array_equal(E, E_ref)
    rounding = accuracy(P.dtype) * (1 + penalty)
    np.testing.assert_allclose(M, M_ref, rtol=rounding, atol=4 * rounding)
    np.testing.assert_allclose(comp, ref, rtol=rounding, atol=4 * rounding * P.shape[1])


@given(states(7), penalties, penalties, st.sampled_from([0, 1e-6, 0.1, 1]))
def test_update_multipliers_paper(state, penalty, split_penalty, sparsity):
    Y, (P, Z, low_rank, E, J, M, N) = state
    # Multipliers as an iteration leaves them: N is at most the sparsity parameter.
    N *= N.dtype.type(sparsity / 4)
    E_ref, J_ref, M_ref, N_ref = wide([E, J, M, N])
    ref = parts_of(len(P), PAPER_UPDATE_PARTS)
    inputs = (*wide([P, Z, low_rank]), penalty, split_penalty, sparsity)
    naive.update_multipliers_paper(Y, *inputs, E_ref, J_ref, M_ref, N_ref, ref)
    comp = parts_of(len(P), PAPER_UPDATE_PARTS)
    inputs = (P, Z, low_rank, penalty, split_penalty, sparsity)
    update_multipliers_paper(Y, *inputs, E, J, M, N, comp)
    np.testing.assert_array_equal(E, E_ref)
    rounding = accuracy(P.dtype)
    tolerance = rounding * 4 * (1 + penalty)
    np.testing.assert_allclose(M, M_ref, rtol=tolerance, atol=tolerance)
    # N / rho is rounded before P is added to it.
    tolerance = rounding * (4 + 2 * sparsity / split_penalty)
    np.testing.assert_allclose(J, J_ref, rtol=tolerance, atol=tolerance)
    tolerance = rounding * (4 * split_penalty + 2 * sparsity)
    np.testing.assert_allclose(N, N_ref, rtol=rounding, atol=tolerance)
    tolerance = rounding * (1 + penalty + sparsity / split_penalty)
    scale = 1 + np.abs(J_ref).max(initial=0)
    np.testing.assert_allclose(comp, ref, rtol=tolerance, atol=8 * tolerance * scale * P.shape[1])


def test_parts_have_the_meaning_of_their_names():
    Y, P = np.array([[True, False]]), np.array([[0.25, 0.5]])
    low_rank = np.array([[0.5, -3.0]])
    E, M = np.array([[0.25, 2.0]]), np.array([[8.0, 16.0]])
    row_parts = parts_of(1, UPDATE_PARTS)
    update_multipliers(Y, P, low_rank, 2.0, E, M, row_parts)
    # The residual is (0.25, 2.5).
    assert E.tolist() == [[0.5, -3.0]]
    assert M.tolist() == [[8.5, 21.0]]
    assert dict(zip(UPDATE_PARTS, row_parts[0], strict=True)) == {
        "primal": 0.0625 + 6.25,
        "dual": 0.0625 + 25,
        "multiplier_squares": 8.5**2 + 21**2,
    }


def test_parts_of_the_paper_have_the_meaning_of_their_names():
    Y, P = np.array([[True, False]]), np.array([[0.25, 0.5]])
    Z, low_rank = np.array([[1.25, 2.5]]), np.array([[0.5, -3.0]])
    E, J = np.array([[0.25, 2.0]]), np.array([[1.0, 1.0]])
    M, N = np.array([[8.0, 16.0]]), np.array([[0.5, 0.25]])
    row_parts = parts_of(1, PAPER_UPDATE_PARTS)
    update_multipliers_paper(Y, P, Z, low_rank, 2.0, 2.0, 0.5, E, J, M, N, row_parts)
    assert E.tolist() == [[0.5, 0.0]]
    assert M.tolist() == [[8.5, 15.0]]
    # N / rho + P is (0.5, 0.625), shrunk by 0.25; the difference P - J is (0, 0.125).
    assert J.tolist() == [[0.25, 0.375]]
    assert N.tolist() == [[0.5, 0.5]]
    assert dict(zip(PAPER_UPDATE_PARTS, row_parts[0], strict=True)) == {
        "primal": 0.3125,
        "dual": 0.0625 + 4,
        "multiplier": 2.0 - 8.0,
        "split_primal": 0.015625,
        "split_dual": 0.75**2 + 0.625**2,
        "split_multiplier": 0.03125,
        "sparsity": 0.625,
        "fit": 5.0,
    }


def test_sparsity_keeps_the_second_multiplier_bounded_and_J_non_negative():
    rng = np.random.default_rng(3)
    shape = (5, 7)
    Y, low_rank, Z, M = np.ones(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    E, J, N = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    row_parts = parts_of(5, PAPER_UPDATE_PARTS)
    for _ in range(20):
        P = rng.random(shape)
        update_multipliers_paper(Y, P, Z, low_rank, 1.0, 0.05, 0.1, E, J, M, N, row_parts)
        assert (J >= 0).all()
        assert (N >= 0).all()
        assert (N <= 0.1).all()
    assert N.min() == 0.1


@pytest.mark.parametrize("spoiled", range(4))
def test_an_undefined_entry_shows_in_the_parts(spoiled):
    arrays = [np.ones((1, 5)) for _ in range(4)]
    arrays[spoiled][0, 3] = np.nan
    P, low_rank, E, M = arrays
    row_parts = np.zeros((1, len(UPDATE_PARTS)))
    update_multipliers(np.ones((1, 5)), P, low_rank, 1.0, E, M, row_parts)
    assert np.isnan(row_parts).any()


def test_row_sums_of_float32_are_made_in_float64():
    # Eighths up to 1000: every entry is exact in float32, squares and sums only in float64.
    rng = np.random.default_rng(4)
    arrays = (rng.integers(-8000, 8000, (7, 3, 219)) / 8).astype(np.float32)
    Y = np.ones((3, 219), np.uint8)
    for function, n_inputs, numbers, n_states, names in [
        (update_multipliers, 2, (1.0,), 2, UPDATE_PARTS),
        (update_multipliers_paper, 3, (1.0, 1.0, 0.5), 4, PAPER_UPDATE_PARTS),
    ]:
        inputs, states = arrays[:n_inputs], list(arrays[3 : 3 + n_states].copy())
        ref, comp = parts_of(3, names), parts_of(3, names)
        twin = getattr(naive, function.__name__)
        twin(Y, *wide(inputs), *numbers, *wide(states), ref)
        function(Y, *inputs, *numbers, *states, comp)
        np.testing.assert_array_equal(comp, ref)


def run_everything(dtype):
    rng = np.random.default_rng(0)
    # Compiled, the work is enough to be spread over threads.
    n = 20 if numba.config.DISABLE_JIT else 700
    shape = (n, 219)
    Y = rng.random(shape) < 0.1
    P, Z, low_rank, E, J, M, N = (rng.normal(size=shape).astype(dtype) for _ in range(7))
    results = [np.empty_like(P), np.empty_like(P), E, M, parts_of(n, UPDATE_PARTS)]
    soft_threshold(P, 0.3, results[0])
    low_rank_target(Y, P, M, 0.3, results[1])
    update_multipliers(Y, P, low_rank, 0.3, *results[2:])
    fit_gradient(Z, P, 0.3, results[0])
    paper = [E.copy(), J, M.copy(), N, parts_of(n, PAPER_UPDATE_PARTS)]
    update_multipliers_paper(Y, P, Z, low_rank, 0.3, 0.2, 0.1, *paper)
    return b"".join(array.tobytes() for array in results + paper)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_no_bit(dtype):
    with threads(1):
        one = run_everything(dtype)
    with threads(2):
        two = run_everything(dtype)
    assert one == two


@needs_vectors
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("candidate_dtype", [None, np.bool_, np.uint8])
def test_loops_are_vectorised(dtype, candidate_dtype):
    Y = np.zeros((2, 64), candidate_dtype or dtype)
    A = [np.zeros((2, 64), dtype) for _ in range(7)]
    number, parts = dtype(1), parts_of(2, PAPER_UPDATE_PARTS)
    for kernel, arguments in [
        (updates._soft_threshold_rows, (A[0], number, A[1])),
        (updates._low_rank_target_rows, (Y, A[0], A[1], number, A[2])),
        (updates._fit_gradient_rows, (A[0], A[1], number, A[2])),
        (updates._update_multipliers_rows, (Y, *A[:2], number, *A[2:4], parts)),
        (
            updates._update_multipliers_paper_rows,
            (Y, *A[:3], number, number, number, *A[3:], parts),
        ),
    ]:
        text = listing(kernel, 0, 2, *arguments)
        assert blocks_with(f"{VECTOR_SUM}|{VECTOR_FMA}", text) > 0, kernel


def valid(function):
    shape = (3, 4)
    arguments = {}
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    parts = PAPER_UPDATE_PARTS if "J" in names else UPDATE_PARTS
    for name in names:
        if name == "row_parts":
            arguments[name] = np.zeros((3, len(parts)))
        elif name in {"penalty", "split_penalty", "sparsity", "threshold", "weight"}:
            arguments[name] = 0.5
        else:
            arguments[name] = np.zeros(shape)
    return arguments


functions = pytest.mark.parametrize(
    "function",
    [fit_gradient, soft_threshold, low_rank_target, update_multipliers, update_multipliers_paper],
)


@functions
def test_bad_arrays_are_named(function):
    arguments = valid(function)
    function(**arguments)
    first_float = next(name for name in arguments if name != "Y")
    for name, value in arguments.items():
        if not isinstance(value, np.ndarray):
            continue
        with pytest.raises(TypeError, match=rf"^{name} must be"):
            function(**{**arguments, name: value.astype(np.int32)})
        with pytest.raises(ValueError, match=rf"^{name} must be C-contiguous"):
            function(**{**arguments, name: np.asfortranarray(value)})
        if name != next(iter(arguments)):
            with pytest.raises(ValueError, match=rf"^{name} must have shape"):
                function(**{**arguments, name: np.zeros((5, value.shape[1]))})
        if name not in {"Y", first_float, "row_parts"}:
            with pytest.raises(TypeError, match=rf"^{name} must be float64 like {first_float}"):
                function(**{**arguments, name: value.astype(np.float32)})


@functions
def test_bad_numbers_are_named(function):
    arguments = valid(function)
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            continue
        for wrong in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match=rf"^{name} must be"):
                function(**{**arguments, name: wrong})
        with pytest.raises(TypeError, match=rf"^{name} must be a number"):
            function(**{**arguments, name: "1"})
        if name.endswith("penalty"):
            with pytest.raises(ValueError, match=rf"^{name} must be a positive"):
                function(**{**arguments, name: 0})


@pytest.mark.parametrize(
    ("function", "n_parts"), [(update_multipliers, 3), (update_multipliers_paper, 8)]
)
def test_row_parts_must_have_a_column_for_each_part(function, n_parts):
    with pytest.raises(ValueError, match=rf"^row_parts must have {n_parts} columns, got 2"):
        function(**{**valid(function), "row_parts": np.zeros((3, 2))})


def test_in_place_is_refused():
    V = np.zeros((2, 2))
    with pytest.raises(ValueError, match=r"^out is written to, but it shares memory with V"):
        soft_threshold(V, 1.0, V)
