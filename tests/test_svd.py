"""Singular value thresholding against LAPACK, against its optimality conditions, and in traps."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from strategies import dtypes, seeds

import hera_fast.svd as svd_module
from hera_fast.rows import WHOLE
from hera_fast.svd import shrink_singular_values, singular_value_threshold
from hera_fast.threads import threads

METHODS = ["auto", "gram", "full", "truncated", "randomized"]
ITERATIVE = ["truncated", "randomized"]

every_method = pytest.mark.parametrize("method", METHODS)
iterative_method = pytest.mark.parametrize("method", ITERATIVE)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Two BLAS threads would wait for each other wherever other processes keep a core busy."""
    with threads(1):
        yield


@pytest.fixture
def eigh_sizes(monkeypatch):
    """Sizes of the eigenproblems that are solved: q stands for giving up the iteration."""
    sizes = []
    eigh = np.linalg.eigh

    def noting(matrix):
        sizes.append(len(matrix))
        return eigh(matrix)

    monkeypatch.setattr(svd_module.np.linalg, "eigh", noting)
    return sizes


def orthonormal(rng, n, r):
    return np.linalg.qr(rng.standard_normal((n, r)))[0]


def with_spectrum(values, n, q, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    left, right = orthonormal(rng, n, len(values)), orthonormal(rng, q, len(values))
    return ((left * values) @ right.T).astype(dtype)


def reference(A, threshold):
    U, s, Vt = linalg.svd(A.astype(np.float64), full_matrices=False)
    return (U * np.maximum(s - threshold, 0)) @ Vt, int((s > threshold).sum())


def assert_right(A, threshold, method, **options):
    E, rank = singular_value_threshold(A, threshold, method, **options)
    expected, expected_rank = reference(A, threshold)
    assert type(rank) is int
    assert rank == expected_rank
    assert E.dtype == A.dtype
    assert E.shape == A.shape
    tolerance = 2e-6 if A.dtype == np.float32 else 1e-11 if method in ITERATIVE else 1e-12
    # What is left after subtracting nearly equal numbers is no more accurate than they are.
    rounding = 2 * np.finfo(A.dtype).eps * np.linalg.norm(A.astype(np.float64))
    assert np.linalg.norm(E - expected) <= max(tolerance * np.linalg.norm(expected), rounding)


def spectrum(kind, size):
    rng = np.random.default_rng(5)
    return {
        "decaying": np.logspace(2, -1, size),
        "spiked": np.r_[np.linspace(90, 40, 6), np.sort(rng.uniform(0, 2, size - 6))[::-1]],
        "repeated": np.r_[np.full(9, 7.0), np.full(size - 9, 1.0)],
        "deficient": np.r_[np.linspace(9, 1, 10), np.zeros(size - 10)],
        "graded": np.logspace(0, -12, size),
        "bulk": np.sort(rng.uniform(0.5, 1, size))[::-1],
    }[kind]


# ---- against LAPACK ----------------------------------------------------------------------------


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(300, 120), (120, 300), (130, 120)])
@pytest.mark.parametrize("kind", ["decaying", "spiked", "repeated", "deficient", "graded", "bulk"])
def test_agrees_with_lapack(method, dtype, shape, kind):
    values = spectrum(kind, min(shape))
    A = with_spectrum(values, *shape, dtype)
    for rank in (0, 1, 5, 9, 60):
        threshold = 1.1 * values[0] if rank == 0 else (values[rank - 1] + values[rank]) / 2
        if 0 < threshold < values[0] and not (values == threshold).any():
            assert_right(A, threshold, method)


@every_method
@both_dtypes
def test_both_sides_large(method, dtype, eigh_sizes):
    values = np.r_[np.linspace(90, 40, 12), np.linspace(2, 0, 508)]
    A = with_spectrum(values, 560, 520, dtype)
    assert_right(A, 10.0, method)
    assert (520 in eigh_sizes) == (method == "gram")
    assert_right(A, 1.0, method)


@every_method
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 6, 8, 10, 13])
@pytest.mark.parametrize("shape", [(400, 60), (70, 60)])
def test_threshold_far_below_the_largest_value(method, exponent, shape):
    """The Gram matrix alone would lose up to half of the digits here."""
    values = np.logspace(0, -14, min(shape))
    A = with_spectrum(values, *shape)
    threshold = 0.55 * 10.0**-exponent
    E, rank = singular_value_threshold(A, threshold, method)
    expected, _ = reference(A, threshold)
    tolerance = 1e-11 if method in ITERATIVE else 1e-13
    assert np.linalg.norm(E - expected) <= tolerance * np.linalg.norm(expected)
    if exponent <= 10:
        assert rank == (values > threshold).sum()


@every_method
@pytest.mark.parametrize("n", [300, 130, 50])
def test_low_rank_with_a_tiny_threshold(method, n):
    A = with_spectrum([3.0, 2.0, 1.0], n, 120)
    for threshold in (0.0, 1e-300, 1e-14, 1e-9):
        E, rank = singular_value_threshold(A, threshold, method)
        assert rank == 3
        assert np.linalg.norm(E - A) <= 1e-13 * np.linalg.norm(A) + 3 * threshold


@every_method
@both_dtypes
def test_zero_threshold_returns_the_matrix(method, dtype):
    A = np.random.default_rng(0).standard_normal((50, 40)).astype(dtype)
    E, rank = singular_value_threshold(A, 0, method)
    assert rank == 40
    assert np.linalg.norm(E - A) <= 20 * np.finfo(dtype).eps * np.linalg.norm(A)


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty(method, dtype, shape):
    E, rank = singular_value_threshold(np.empty(shape, dtype), 1.0, method)
    assert (E.shape, E.dtype, rank) == (shape, dtype, 0)


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (60, 50)])
@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_all_zeros(method, dtype, shape, threshold):
    E, rank = singular_value_threshold(np.zeros(shape, dtype), threshold, method)
    assert rank == 0
    assert (E == 0).all()


@every_method
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1)])
def test_one_row_or_column(method, shape):
    A = np.arange(1.0, 1 + max(shape)).reshape(shape)
    norm = np.linalg.norm(A)
    E, rank = singular_value_threshold(A, 0.25 * norm, method)
    np.testing.assert_allclose(E, 0.75 * A, rtol=1e-14)
    assert rank == 1


@every_method
@pytest.mark.parametrize("threshold", [7.0, 7.5, 1e300])
def test_threshold_at_or_above_everything(method, threshold):
    A = with_spectrum(spectrum("repeated", 40), 60, 40)
    E, rank = singular_value_threshold(A, threshold, method)
    assert np.abs(E).max() <= 1e-13
    if threshold > 7:
        assert rank == 0
        assert (E == 0).all()


# ---- scale and memory order --------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("exponent", [-1040, -1000, -500, 500, 1000, 1018])
def test_extreme_scales(method, exponent):
    A = with_spectrum(np.linspace(5, 0.01, 50), 80, 50)
    E, rank = singular_value_threshold(A, 4.0, method)
    scaled = singular_value_threshold(np.ldexp(A, exponent), float(np.ldexp(4.0, exponent)), method)
    lost = 1e-13 if exponent > -1000 else 1e-9  # subnormal numbers have fewer digits
    assert scaled[1] == rank
    np.testing.assert_allclose(np.ldexp(scaled[0], -exponent), E, rtol=0, atol=lost)


@every_method
@pytest.mark.parametrize("exponent", [-120, -70, 70, 120])
def test_extreme_scales_in_single_precision(method, exponent):
    A = with_spectrum(np.linspace(5, 0.01, 50), 80, 50, np.float32)
    E, rank = singular_value_threshold(A, 4.0, method)
    scaled = singular_value_threshold(np.ldexp(A, exponent), float(np.ldexp(4.0, exponent)), method)
    assert scaled[1] == rank
    np.testing.assert_allclose(np.ldexp(scaled[0], -exponent), E, rtol=0, atol=1e-5)


@every_method
def test_threshold_beyond_the_scale_of_the_matrix(method):
    A = with_spectrum(np.linspace(5, 1, 50), 80, 50)
    E, rank = singular_value_threshold(np.ldexp(A, -600), 1e308, method)
    assert rank == 0
    assert (E == 0).all()
    E, rank = singular_value_threshold(np.ldexp(A, 900), 1e-308, method)
    assert rank == 50
    np.testing.assert_allclose(np.ldexp(E, -900), A, rtol=0, atol=1e-13)


def rearranged(A):
    wide = np.zeros((2 * A.shape[0], 3 * A.shape[1]), A.dtype)
    wide[::2, ::3] = A
    packed = np.empty(A.nbytes + 1, np.uint8)[1:].view(A.dtype).reshape(A.shape)
    packed[...] = A
    return [
        np.asfortranarray(A),
        wide[::2, ::3],
        A[::-1, ::-1].copy()[::-1, ::-1],
        np.hstack([A, A])[:, : A.shape[1]],
        packed,
    ]


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(90, 50), (50, 90)])
def test_any_memory_order(method, dtype, shape):
    A = with_spectrum(spectrum("decaying", 50), *shape, dtype)
    threshold = 40.0
    for other in rearranged(A):
        before = other.copy()
        assert_right(other, threshold, method)
        assert (other == before).all()


# ---- mathematics -------------------------------------------------------------------------------


def small_matrix(n, q, seed, magnitude, rank_cut):
    rng = np.random.default_rng(seed)
    r = max(1, min(n, q) - rank_cut)
    return magnitude * rng.standard_normal((n, r)) @ rng.standard_normal((r, q))


small = {
    "n": st.integers(1, 9),
    "q": st.integers(1, 9),
    "seed": seeds,
    "magnitude": st.sampled_from([1e-9, 1.0, 1e6]),
    "rank_cut": st.integers(0, 4),
    "share": st.floats(0, 1.2),
    "method": st.sampled_from(METHODS),
}


@given(**small, dtype=dtypes)
def test_optimality(n, q, seed, magnitude, rank_cut, share, method, dtype):
    """A - E is the threshold times a subgradient of the nuclear norm at E."""
    A = small_matrix(n, q, seed, magnitude, rank_cut).astype(dtype)
    norm = float(np.linalg.norm(A.astype(np.float64), 2))
    threshold = share * norm
    E, rank = singular_value_threshold(A, threshold, method)
    rest = A.astype(np.float64) - E
    allowed = 50 * np.finfo(dtype).eps * norm
    assert np.linalg.norm(rest, 2) <= threshold + allowed
    U, s, Vt = linalg.svd(E.astype(np.float64), full_matrices=False)
    # Directions that rounding alone could have made are not in the range of E.
    kept = s > 1e4 * allowed
    assert kept.sum() <= rank
    inner = U[:, kept].T @ rest @ Vt[kept].T
    error = np.abs(inner - threshold * np.eye(kept.sum())).max(initial=0)
    assert error <= allowed * (1 + norm / max(s[kept].min(initial=norm), allowed))


@given(**small, other_seed=seeds, distance=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_nonexpansive(n, q, seed, magnitude, rank_cut, share, method, other_seed, distance):
    A = small_matrix(n, q, seed, magnitude, rank_cut)
    B = A + distance * small_matrix(n, q, other_seed, magnitude, 0)
    threshold = share * float(np.linalg.norm(A, 2))
    moved = np.linalg.norm(
        singular_value_threshold(A, threshold, method)[0]
        - singular_value_threshold(B, threshold, method)[0]
    )
    allowed = 1e-14 * (np.linalg.norm(A) + np.linalg.norm(B))
    assert moved <= np.linalg.norm(A - B) + allowed


@given(**small)
def test_transpose_and_sign(n, q, seed, magnitude, rank_cut, share, method):
    A = small_matrix(n, q, seed, magnitude, rank_cut)
    norm = float(np.linalg.norm(A, 2))
    E, _ = singular_value_threshold(A, share * norm, method)
    for other, back in ((A.T, lambda E: E.T), (-A, np.negative)):
        F, _ = singular_value_threshold(other, share * norm, method)
        np.testing.assert_allclose(back(F), E, rtol=0, atol=1e-13 * norm)


@given(
    size=st.integers(1, 12),
    seed=seeds,
    hollow=st.booleans(),
    below=st.integers(0, 12),
)
def test_count_above(size, seed, hollow, below):
    """Also for indefinite matrices that need pivots of two rows."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-3, 4, (size, size)).astype(float)
    matrix += matrix.T
    if hollow:
        np.fill_diagonal(matrix, 0)
    values = np.linalg.eigvalsh(matrix)
    shift = values[min(below, size - 1)] + 1e-6
    assert svd_module._count_above(matrix, shift) == (values > shift).sum()


# ---- nothing is missed -------------------------------------------------------------------------


@iterative_method
@both_dtypes
@pytest.mark.parametrize("kind", ["spiked", "repeated", "deficient", "decaying"])
def test_few_values_are_found_by_iteration(method, dtype, kind, eigh_sizes):
    values = spectrum(kind, 200)
    A = with_spectrum(values, 260, 200, dtype)
    threshold = 0.3 * values[0] + 0.7 * values[9]
    assert_right(A, threshold, method)
    assert max(eigh_sizes) < 200


@iterative_method
def test_no_gap_at_the_threshold(method):
    values = np.r_[5.0, 4.0, 3.0, np.linspace(2, 1.99, 197)]
    A = with_spectrum(values, 260, 200)
    threshold = (values[7] + values[8]) / 2
    assert_right(A, threshold, method)


@iterative_method
def test_many_values_above_the_threshold(method, eigh_sizes):
    A = with_spectrum(spectrum("decaying", 100), 150, 100)
    assert_right(A, 0.2, method)
    assert eigh_sizes[-1] == 100


@iterative_method
@pytest.mark.parametrize("multiplicity", [2, 10, 25])
def test_multiplicities(method, multiplicity):
    """A Krylov space of one vector holds one direction for each distinct value."""
    values = np.r_[
        np.full(multiplicity, 3.0), np.full(multiplicity, 2.0), np.ones(40), np.zeros(90)
    ]
    A = np.zeros((220, len(values)))
    np.fill_diagonal(A, values)
    for threshold in (2.5, 1.5, 0.5):
        assert_right(A, threshold, method)


class NeverAlong(np.random.RandomState):
    """Random vectors without any component along given directions."""

    def __new__(cls, *arguments):
        return super().__new__(cls)

    def __init__(self, directions):
        super().__init__(0)
        self.directions = directions

    def standard_normal(self, size=None):
        draws = super().standard_normal(size)
        return draws - self.directions @ (self.directions.T @ draws)


@iterative_method
def test_start_without_a_component_along_a_singular_vector(method, monkeypatch):
    A = np.zeros((150, 100))
    np.fill_diagonal(A, np.linspace(5, 0.1, 100))
    monkeypatch.setattr(svd_module, "svds", failing_svds)
    random_state = NeverAlong(np.eye(100)[:, :2])
    assert_right(A, 4.7, method, random_state=random_state)


def failing_svds(*arguments, **options):
    raise np.linalg.LinAlgError("no convergence")


def svds_that_returns(change):
    def svds(gram, k, **options):
        vectors = np.linalg.eigh(gram)[1][:, ::-1]
        return None, None, np.ascontiguousarray(change(vectors, k).T)

    return svds


@pytest.mark.parametrize(
    "svds",
    [
        failing_svds,
        svds_that_returns(lambda V, k: V[:, 1 : k + 1]),  # the largest is missing
        svds_that_returns(lambda V, k: V[:, [*range(k - 1), k + 30]]),  # the smallest is missing
        svds_that_returns(lambda V, k: V[:, [0] * k]),  # one vector many times
        svds_that_returns(lambda V, k: 0 * V[:, :k]),
        svds_that_returns(lambda V, k: np.nan * V[:, :k]),
        svds_that_returns(lambda V, k: V[:, :k] + 1e-5 * V[:, k : 2 * k]),  # inaccurate
    ],
    ids=["error", "no largest", "no smallest", "copies", "zeros", "nan", "inaccurate"],
)
@pytest.mark.parametrize("kind", ["spiked", "repeated", "decaying"])
def test_what_svds_misses_is_found(svds, kind, monkeypatch):
    values = spectrum(kind, 120)
    A = with_spectrum(values, 150, 120)
    threshold = (values[5] + values[9]) / 2
    monkeypatch.setattr(svd_module, "svds", svds)
    assert_right(A, threshold, "truncated")


def test_an_exactly_invariant_start_that_misses_a_value(monkeypatch):
    """All residuals are zero then, and lead nowhere."""
    A = np.zeros((150, 100))
    np.fill_diagonal(A, np.linspace(5, 0.1, 100))
    monkeypatch.setattr(svd_module, "svds", svds_that_returns(lambda V, k: V[:, 1 : k + 1]))
    assert_right(A, 4.7, "truncated")


def test_copies_of_a_vector_do_not_count():
    vectors = np.eye(5)[:, [0, 0]]
    squares, residuals = np.array([4.0, 4.0]), np.zeros((5, 2))
    assert not svd_module._accurate(squares, vectors, residuals, 1.0, 1e-12)
    assert svd_module._accurate(squares, np.eye(5)[:, :2], residuals, 1.0, 1e-12)


@every_method
def test_values_that_the_gram_matrix_does_not_show(method):
    """Their squares drown in its rounding errors."""
    values = np.r_[1.0, np.full(10, 2e-8), np.zeros(89)]
    A = with_spectrum(values, 150, 100)
    assert_right(A, 1e-8, method)


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(600, 120), (120, 600), (150, 120)])
@pytest.mark.parametrize(
    ("threshold", "distance"),
    [
        (1e-5, 3e-6),
        (1e-5, -3e-6),
        (1e-4, 3e-8),
        (1e-4, -3e-8),
        (1e-3, 3e-10),
        (1e-2, 1e-11),
        (0.1, 3e-13),
        (0.1, -3e-13),
    ],
)
def test_values_closer_to_the_threshold_than_the_gram_matrix_shows(
    method, dtype, shape, threshold, distance, monkeypatch
):
    monkeypatch.setattr(svd_module, "_AUTO_SIZE", 100)  # "auto" counts, too
    monkeypatch.setattr(svd_module, "_AUTO_SHARE", 0.2)
    values = np.r_[1.0, 0.5, np.full(10, threshold), np.full(min(shape) - 12, 0.1 * threshold)]
    A = with_spectrum(values, *shape, dtype)
    # Rounding has moved the values, so the threshold is put beside them.
    middle = linalg.svdvals(A.astype(np.float64))[2:12]
    threshold = (middle.min() if distance > 0 else middle.max()) / (1 + distance)
    E, rank = singular_value_threshold(A, threshold, method)
    expected, expected_rank = reference(A, threshold)
    assert rank == expected_rank == (12 if distance > 0 else 2)
    allowed = 1e-14 if dtype == np.float64 else 2e-6
    assert np.linalg.norm(E - expected) <= allowed * np.linalg.norm(expected)


@iterative_method
def test_values_equal_to_the_threshold(method):
    A = np.zeros((150, 100))
    np.fill_diagonal(A, np.r_[[4.0, 3.0], np.full(98, 2.0)])
    E, rank = singular_value_threshold(A, 2.0, method)
    assert rank == 2
    np.testing.assert_allclose(E.diagonal(), np.r_[[2.0, 1.0], np.zeros(98)], rtol=0, atol=1e-14)


# ---- repeatable --------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("random_state", [None, 3])
@pytest.mark.parametrize("kind", ["decaying", "repeated"])
def test_same_call_same_bits(method, random_state, kind):
    values = spectrum(kind, 100)
    A = with_spectrum(values, 150, 100)
    if kind == "repeated":  # exactly, so that Krylov spaces end early
        A[:] = 0
        np.fill_diagonal(A, values)
    first, *others = (
        singular_value_threshold(A, 0.6 * values[0], method, random_state=random_state)[0]
        for _ in range(3)
    )
    assert all((other == first).all() for other in others)


@iterative_method
def test_random_state_instance(method):
    A = with_spectrum(spectrum("decaying", 100), 150, 100)
    results = [
        singular_value_threshold(A, 60.0, method, random_state=np.random.RandomState(7))[0]
        for _ in range(2)
    ]
    assert (results[0] == results[1]).all()


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize(
    ("shape", "method"),
    [
        ((22_991, 219), "gram"),
        ((219, 22_991), "gram"),
        ((3000, 80), "gram"),
        ((3000, 80), "full"),
        ((700, 600), "auto"),
        ((700, 600), "randomized"),
    ],
)
@both_dtypes
def test_same_bits_for_every_number_of_threads(shape, method, dtype):
    A = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    A *= np.logspace(0, -2, shape[1], dtype=dtype)
    largest = float(linalg.norm(A.astype(np.float64) if min(shape) < 300 else A, "fro"))
    for threshold in (0.2 * largest, 0.02 * largest, 1e-9 * largest):
        results = []
        for n_threads in (1, 2):
            with threads(n_threads):
                results.append(singular_value_threshold(A, threshold, method))
        assert results[0][1] == results[1][1]
        assert (results[0][0] == results[1][0]).all()


@iterative_method
def test_many_python_threads(method):
    A = with_spectrum(spectrum("decaying", 100), 150, 100)
    expected, _ = singular_value_threshold(A, 60.0, method)
    barrier = threading.Barrier(8)

    def call(_):
        barrier.wait()
        return [singular_value_threshold(A, 60.0, method)[0] for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(call, range(8)):
            assert all((expected == E).all() for E in results)


FORK_WHILE_ANOTHER_THREAD_ITERATES = """
import os, signal, threading
import numpy as np
import hera_fast.svd as svd

entered, leave = threading.Event(), threading.Event()

def hold():
    with svd._svds_lock:
        entered.set()
        leave.wait()

other = threading.Thread(target=hold)
other.start()
entered.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    _, rank = svd.singular_value_threshold(np.diag(np.arange(100.0)), 96.5, "truncated")
    os._exit(rank)
_, status = os.waitpid(child, 0)
leave.set()
other.join()
assert os.waitstatus_to_exitcode(status) == 3
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_fork_while_another_thread_iterates():
    completed = subprocess.run(
        [sys.executable, "-c", FORK_WHILE_ANOTHER_THREAD_ITERATES],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert completed.returncode == 0, completed.stderr[-3000:]


# ---- arguments ---------------------------------------------------------------------------------


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(90, 50), (50, 90)])
def test_out_is_filled_and_returned(method, dtype, shape):
    A = with_spectrum(spectrum("decaying", 50), *shape, dtype)
    out = np.full(shape, np.nan, dtype)
    for threshold in (1e3, 40.0, 1.0, 0.0):
        E, _ = singular_value_threshold(A, threshold, method, out)
        assert E is out
        assert (out == singular_value_threshold(A, threshold, method)[0]).all()


@both_dtypes
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(40_000, 60), (60, 40_000)])
@pytest.mark.parametrize("threshold", [0.5, 0.02, 1e-7])
def test_nothing_of_the_size_of_the_matrix_is_allocated(dtype, order, shape, threshold):
    A = with_spectrum(np.logspace(0, -3, 60), *shape, dtype).copy(order=order)
    out = np.empty(shape, dtype)
    singular_value_threshold(A, threshold, out=out)
    tracemalloc.start()
    singular_value_threshold(A, threshold, out=out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.15 * A.nbytes


@pytest.mark.parametrize(
    "A",
    [
        [[1.0]],
        None,
        np.ma.masked_array(np.ones((2, 2))),
        np.ones((2, 2), int),
        np.ones((2, 2), ">f8"),
    ],
    ids=["list", "None", "masked", "integer", "big-endian"],
)
def test_wrong_matrix_type(A):
    with pytest.raises(TypeError, match=r"^A must be"):
        singular_value_threshold(A, 1.0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_wrong_matrix_dimensions(shape):
    with pytest.raises(ValueError, match=r"^A must have 2 dimensions"):
        singular_value_threshold(np.ones(shape), 1.0)


@every_method
@both_dtypes
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(60, 50), (50, 60), (5, 1)])
def test_matrix_that_is_not_finite(method, dtype, value, shape):
    A = np.ones(shape, dtype)
    A[-1, -1] = value
    with pytest.raises(ValueError, match=r"^A must be finite"):
        singular_value_threshold(A, 1.0, method)


@pytest.mark.parametrize("threshold", [-1.0, np.nan, np.inf])
def test_threshold_out_of_range(threshold):
    with pytest.raises(ValueError, match=r"^threshold must be"):
        singular_value_threshold(np.ones((2, 2)), threshold)


@pytest.mark.parametrize("threshold", [None, "1", True, 1j, np.ones(1)])
def test_threshold_that_is_not_a_number(threshold):
    with pytest.raises(TypeError, match=r"^threshold must be a number"):
        singular_value_threshold(np.ones((2, 2)), threshold)


@pytest.mark.parametrize("threshold", [1, np.float32(1), np.int64(1)])
def test_threshold_of_any_kind_of_number(threshold):
    E, rank = singular_value_threshold(np.diag([3.0, 0.5]), threshold)
    assert rank == 1
    np.testing.assert_allclose(E, np.diag([2.0, 0.0]), rtol=0, atol=1e-15)


def test_unknown_method():
    names = "auto, gram, full, truncated, randomized"
    with pytest.raises(ValueError, match=f"^method must be one of {names}, got 'exact'"):
        singular_value_threshold(np.ones((2, 2)), 1.0, "exact")


def test_wrong_random_state():
    with pytest.raises(ValueError, match="seed"):
        singular_value_threshold(np.ones((2, 2)), 1.0, random_state="seed")


@pytest.mark.parametrize(
    ("out", "error"),
    [
        ([[0.0]], TypeError),
        (np.empty((3, 2), np.float32), TypeError),
        (np.empty((3, 2), int), TypeError),
        (np.empty((2, 3)), ValueError),
        (np.empty(6), ValueError),
        (np.empty((3, 2), order="F"), ValueError),
    ],
    ids=["list", "single", "integer", "shape", "dimensions", "order"],
)
def test_wrong_out(out, error):
    with pytest.raises(error, match=r"^out must"):
        singular_value_threshold(np.ones((3, 2)), 1.0, out=out)


def test_out_that_is_read_only_or_shared():
    out = np.empty((3, 2))
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"^out is written to, but it is read-only"):
        singular_value_threshold(np.ones((3, 2)), 1.0, out=out)
    A = np.ones((3, 2))
    with pytest.raises(ValueError, match=r"^out shares memory with A"):
        singular_value_threshold(A, 1.0, out=A)
    memory = np.ones(8)
    with pytest.raises(ValueError, match=r"^out shares memory with A"):
        singular_value_threshold(memory[:6].reshape(3, 2), 1.0, out=memory[2:].reshape(3, 2))


@pytest.mark.parametrize("keep", [1, 5, 30])
def test_a_large_value_at_the_threshold_counts_as_below(keep, monkeypatch):
    def second_pass(*arguments):
        raise AssertionError("a tie needs no second pass")

    monkeypatch.setattr(svd_module, "_refined", second_pass)
    A = np.random.default_rng(3).normal(size=(600, 40))
    U, s, Vt = linalg.svd(A, full_matrices=False)
    E, rank = singular_value_threshold(A, s[keep], method="gram")
    assert rank == keep
    np.testing.assert_allclose(E, (U * np.maximum(s - s[keep], 0)) @ Vt, rtol=0, atol=1e-12)


@every_method
@both_dtypes
@pytest.mark.parametrize("shape", [(300, 120), (120, 300)])
@pytest.mark.parametrize("exponent", [-70, 0, 70])
def test_nuclear_norm(method, dtype, shape, exponent):
    values = spectrum("decaying", 120)
    A = np.ldexp(with_spectrum(values, *shape, dtype), exponent)
    for threshold in (200.0, 60.0, 1.0, 0.0):
        out = np.empty_like(A)
        scaled = float(np.ldexp(threshold, exponent))
        rank, nuclear_norm = shrink_singular_values(A, scaled, method, out)
        E, expected_rank = singular_value_threshold(A, scaled, method)
        assert rank == expected_rank
        assert (out == E).all()
        assert type(nuclear_norm) is float
        expected = np.maximum(values - threshold, 0).sum()
        tolerance = 1e-11 if dtype == np.float64 else 1e-5
        assert np.ldexp(nuclear_norm, -exponent) == pytest.approx(expected, rel=tolerance)


def test_nuclear_norm_of_nothing():
    empty = np.empty((0, 3))
    assert shrink_singular_values(empty, 1.0, "auto", empty) == (0, 0.0)


@both_dtypes
@pytest.mark.parametrize("method", ["auto", "gram"])
@pytest.mark.parametrize("threshold", [2.0, 0.5, 0.02, 1e-7])
def test_nothing_with_a_row_for_each_row_is_allocated(dtype, method, threshold):
    A = with_spectrum(np.logspace(0, -3, 10), 100_000, 10, dtype)
    out = np.empty_like(A)
    shrink_singular_values(A, threshold, method, out)
    tracemalloc.start()
    shrink_singular_values(A, threshold, method, out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * 8 * len(A)


# ---- single precision --------------------------------------------------------------------------


@pytest.fixture
def double_products(monkeypatch):
    """Shapes of matrices that were multiplied in double precision."""
    shapes = []
    gram = svd_module._gram

    def noting(tall, *arguments):
        shapes.append(tall.A.shape)
        return gram(tall, *arguments)

    monkeypatch.setattr(svd_module, "_gram", noting)
    return shapes


def rows_like(kind, n, q):
    rng = np.random.default_rng(1)
    A = {
        "normal": lambda: rng.standard_normal((n, q)),
        "graded": lambda: rng.standard_normal((n, q)) * np.logspace(0, -2, q),
        "positive": lambda: rng.random((n, q)),
        "sparse": lambda: rng.random((n, q)) * (rng.random((n, q)) < 0.05),
        "offset": lambda: rng.standard_normal((n, q)) + 5,
        "one large row": lambda: np.r_[np.full((1, q), 1e3), rng.standard_normal((n - 1, q))],
        "constant": lambda: np.full((n, q), 1 / 3) + 1e-3 * rng.standard_normal((n, q)),
    }[kind]()
    return A.astype(np.float32)


KINDS = ["normal", "graded", "positive", "sparse", "offset", "one large row", "constant"]


@pytest.mark.parametrize("kind", KINDS)
def test_error_of_a_gram_matrix_in_single_precision_is_known(kind):
    A = rows_like(kind, 5000, 60)
    gram, error = svd_module._gram_in_single(svd_module._Tall(A, *A.shape, A.dtype, WHOLE))
    true_error = np.linalg.norm(gram - A.astype(float).T @ A.astype(float))
    assert true_error <= svd_module._SINGLE_MARGIN * error
    assert error <= 20 * true_error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_single_precision_is_accurate(kind, share):
    A = rows_like(kind, 5000, 60)
    threshold = share * float(np.linalg.norm(A.astype(float), 2))
    assert_right(A, threshold, "auto")


@pytest.mark.parametrize("kind", ["normal", "graded", "positive", "sparse", "offset"])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 2.0])
def test_single_precision_suffices(kind, share, double_products):
    A = rows_like(kind, 5000, 60)
    singular_value_threshold(A, share * float(np.linalg.norm(A.astype(float), 2)))
    assert not double_products


@pytest.mark.parametrize("share", [0.0, 1e-30, 1e-5, 1e-3])
def test_single_precision_does_not_suffice_for_small_values(share, double_products):
    A = with_spectrum(np.logspace(0, -4, 60), 3000, 60, np.float32)
    assert_right(A, share, "auto")
    assert double_products


def test_single_precision_does_not_suffice_at_the_threshold(double_products):
    A = rows_like("normal", 3000, 60)
    values = linalg.svdvals(A.astype(float))
    for rank in (3, 30):
        for threshold in values[rank] * (1 + np.array([-1e-12, 1e-12])):
            double_products.clear()
            assert_right(A, float(threshold), "auto")
            assert double_products


def test_single_precision_does_not_suffice_for_a_large_error(monkeypatch, double_products):
    monkeypatch.setattr(svd_module, "_SINGLE_TOLERANCE", 1e-12)
    A = rows_like("normal", 3000, 60)
    assert_right(A, 20.0, "auto")
    assert double_products
