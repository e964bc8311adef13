from __future__ import annotations

import tracemalloc
from contextlib import nullcontext

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import dtypes, seeds

from hera_fast import neighborhood as module
from hera_fast.neighborhood import nearest_rows, neighbor_scores
from hera_fast.threads import threads

COMPILED = not numba.config.DISABLE_JIT
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
both_kinds = pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-10}


def naive_weights(x, neighbors, rank, normalize):
    group = np.vstack([neighbors, x]).astype(np.float64)
    distances = np.sqrt(((group[:, np.newaxis] - group) ** 2).sum(axis=2))
    sigma = np.sort(distances, axis=1)[:, rank].mean()
    excess = distances[-1, :-1] ** 2
    if normalize:
        excess = excess - excess.min()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weights = np.where(excess == 0, 1, np.exp(-excess / sigma**2))
    return weights / weights.sum() if normalize else weights


def naive_scores(
    queries, points, confidence, n_neighbors, neighbor_rank=None, multiplicity=None, normalize=True
):
    if multiplicity is not None:
        points = np.repeat(points, multiplicity, axis=0)
        confidence = np.repeat(confidence, multiplicity, axis=0)
    k = min(n_neighbors, len(points))
    rank = -(-k // 2) if neighbor_rank is None else min(neighbor_rank, k)
    scores = np.empty((len(queries), confidence.shape[1]))
    for i, x in enumerate(queries):
        differences = points.astype(np.float64) - x
        nearest = np.argsort((differences**2).sum(axis=1), kind="stable")[:k]
        weights = naive_weights(x, points[nearest], rank, normalize)
        scores[i] = weights @ confidence[nearest].astype(np.float64)
    return scores


def scores_of(queries, points, confidence, **options):
    out = np.full((queries.shape[0], confidence.shape[1]), np.nan, confidence.dtype)
    neighbor_scores(queries, points, confidence, out, **options)
    return out


def close(comp, ref, dtype):
    np.testing.assert_allclose(comp, ref, rtol=0, atol=TOLERANCE[np.dtype(dtype)])


def random_problem(rng, m, n, d, q, dtype=np.float64):
    queries, points = rng.normal(size=(m, d)), rng.normal(size=(n, d))
    return queries.astype(dtype), points.astype(dtype), rng.random((n, q)).astype(dtype)


@st.composite
def problems(draw):
    """Small problems; integers make many ties, equal rows and zeros."""
    rng = np.random.default_rng(draw(seeds))
    m, n = draw(st.integers(0, 7)), draw(st.integers(1, 12))
    d, q = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    queries, points, confidence = random_problem(rng, m, n, d, q, draw(dtypes))
    if draw(st.booleans()):
        queries, points = np.round(queries), np.round(points)
    multiplicity = draw(st.none() | st.just(rng.integers(0, 4, n)))
    if multiplicity is not None:
        multiplicity[rng.integers(n)] += 1
    options = {
        "n_neighbors": draw(st.integers(1, 15)),
        "neighbor_rank": draw(st.none() | st.integers(1, 15)),
        "multiplicity": multiplicity,
        "normalize": draw(st.booleans()),
    }
    return queries, points, confidence, options


@given(problem=problems())
def test_dense_rows_match_the_naive_twin(problem):
    queries, points, confidence, options = problem
    comp = scores_of(queries, points, confidence, **options)
    assert comp.dtype == confidence.dtype
    close(comp, naive_scores(queries, points, confidence, **options), confidence.dtype)


@given(problem=problems())
def test_sparse_rows_match_dense_rows(problem):
    queries, points, confidence, options = problem
    dense = scores_of(queries, points, confidence, **options)
    comp = scores_of(sparse.csr_array(queries), sparse.csr_array(points), confidence, **options)
    assert comp.dtype == confidence.dtype
    close(comp, dense, confidence.dtype)


@given(problem=problems(), kind=st.sampled_from([np.asarray, sparse.csr_array]))
def test_multiplicity_is_repetition_bit_by_bit(problem, kind):
    queries, points, confidence, options = problem
    if options["multiplicity"] is None:
        options["multiplicity"] = np.arange(len(points)) % 3 + (np.arange(len(points)) == 0)
    comp = scores_of(kind(queries), kind(points), confidence, **options)
    multiplicity = options.pop("multiplicity")
    points = np.repeat(points, multiplicity, axis=0)
    confidence = np.repeat(confidence, multiplicity, axis=0)
    ref = scores_of(kind(queries), kind(points), confidence, **options)
    np.testing.assert_array_equal(comp, ref)


@both_kinds
def test_multiplicity_beyond_any_sum_is_fine(kind):
    queries, points, confidence = random_problem(np.random.default_rng(0), 3, 5, 2, 4)
    comp = scores_of(
        kind(queries),
        kind(points),
        confidence,
        n_neighbors=4,
        multiplicity=np.full(5, np.iinfo(np.int64).max),
    )
    close(comp, scores_of(queries, points, confidence, n_neighbors=1), np.float64)


@both_dtypes
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_blocks_do_not_matter(monkeypatch, dtype, kind):
    rng = np.random.default_rng(1)
    queries, points, confidence = random_problem(rng, 40, 60, 4, 5, dtype)
    queries, points = kind(np.round(2 * queries)), kind(np.round(2 * points))
    options = {"n_neighbors": 7, "multiplicity": rng.integers(0, 3, 60)}
    ref = scores_of(queries, points, confidence, **options)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 30)
    monkeypatch.setattr(module, "_SPARSE_ENTRIES", 30)
    monkeypatch.setattr(module, "_SPARSE_POINTS", 9)
    np.testing.assert_array_equal(scores_of(queries, points, confidence, **options), ref)
    one_by_one = [scores_of(queries[i : i + 1], points, confidence, **options) for i in range(40)]
    np.testing.assert_array_equal(np.concatenate(one_by_one), ref)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
@both_dtypes
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_thread_counts_give_the_same_bits(dtype, kind):
    size = (700, 900) if COMPILED and kind is np.asarray else (30, 40)
    queries, points, confidence = random_problem(np.random.default_rng(2), *size, 60, 7, dtype)
    found = []
    for n_threads in (1, 2):
        with threads(n_threads):
            found.append(scores_of(kind(queries), kind(points), confidence, n_neighbors=10))
    np.testing.assert_array_equal(*found)


@both_kinds
@both_dtypes
def test_ties_go_to_the_lower_index(kind, dtype):
    """Different rows at one distance, which rounding in a product would tell apart."""
    rng = np.random.default_rng(3)
    query = rng.integers(0, 1 << (40 if dtype is np.float64 else 20), (1, 30)).astype(dtype)
    points = query + np.eye(30, dtype=dtype)[rng.permutation(30)]
    confidence = np.eye(30, dtype=dtype)
    comp = scores_of(kind(query), kind(points), confidence, n_neighbors=4)
    np.testing.assert_array_equal(comp, [[0.25] * 4 + [0] * 26])


@both_kinds
def test_neighbors_far_from_the_origin_are_told_apart(kind):
    """The products cancel: only differences of the coordinates order these points."""
    offsets = np.random.default_rng(4).permutation(200).astype(float)
    points = np.column_stack([1e9 + offsets, np.full(200, 1e9)])
    query = np.array([[1e9 - 1.0, 1e9]])
    comp = scores_of(kind(query), kind(points), np.eye(200), n_neighbors=3, normalize=False)
    np.testing.assert_array_equal(np.flatnonzero(comp[0]), np.sort(np.argsort(offsets)[:3]))


@both_kinds
@both_dtypes
@pytest.mark.parametrize("normalize", [True, False])
def test_queries_equal_to_all_their_neighbors(kind, dtype, normalize):
    rows = np.full((6, 3), 0.7, dtype)
    confidence = np.random.default_rng(5).random((6, 4)).astype(dtype)
    comp = scores_of(kind(rows[:2]), kind(rows), confidence, n_neighbors=4, normalize=normalize)
    ref = confidence[:4].mean(axis=0) * (1 if normalize else 4)
    close(comp, [ref, ref], dtype)


@both_kinds
@pytest.mark.parametrize(("k", "dtype"), [(10, np.float32), (60, np.float32), (60, np.float64)])
def test_a_query_so_far_away_that_all_weights_vanish(kind, k, dtype):
    rng = np.random.default_rng(6)
    points = (1e-3 * rng.normal(size=(k, 2))).astype(dtype)
    query = np.array([[1e3, 0], [0, -1e3]], dtype)
    confidence = rng.random((k, 3)).astype(dtype)
    options = {"n_neighbors": k, "neighbor_rank": 1}
    plain = scores_of(kind(query), kind(points), confidence, normalize=False, **options)
    assert plain.max() < np.finfo(dtype).tiny
    comp = scores_of(kind(query), kind(points), confidence, **options)
    close(comp, naive_scores(query, points, confidence, **options), dtype)


@both_kinds
@pytest.mark.parametrize("magnitude", [1e-250, 1e-160, 1e-30, 1e30, 1e160])
def test_no_unit_of_length_is_special(kind, magnitude):
    rng = np.random.default_rng(7)
    queries, points, confidence = random_problem(rng, 4, 5, 3, 2)
    options = {"n_neighbors": 5}
    ref = naive_scores(queries, points, confidence, **options)
    with nullcontext() if COMPILED else np.errstate(over="ignore"):
        comp = scores_of(kind(magnitude * queries), kind(magnitude * points), confidence, **options)
    close(comp, ref, np.float64)


@both_kinds
@pytest.mark.parametrize("normalize", [True, False])
def test_one_point(kind, normalize):
    queries = np.array([[0.0], [3.0]])
    comp = scores_of(
        kind(queries), kind(queries[:1]), np.ones((1, 2)), n_neighbors=9, normalize=normalize
    )
    ref = [[1, 1], [1, 1]] if normalize else [[1, 1], [np.exp(-1)] * 2]
    close(comp, ref, np.float64)


@both_kinds
def test_no_query(kind):
    comp = scores_of(kind(np.ones((0, 2))), kind(np.ones((3, 2))), np.ones((3, 2)), n_neighbors=2)
    assert comp.shape == (0, 2)


def test_sparse_rows_with_unsorted_and_repeated_columns():
    rng = np.random.default_rng(8)
    queries, points, confidence = random_problem(rng, 5, 9, 3, 2)
    columns = np.tile([2, 0, 1, 0], 9)
    parts = points[:, [2, 0, 1, 0]] - [0, 1e3, 0, 0]
    parts[:, 3] = 1e3
    parts[0] = [points[0, 2], points[0, 0], points[0, 1], 0]
    untidy = sparse.csr_array((parts.ravel(), columns, np.arange(0, 37, 4)), shape=(9, 3))
    comp = scores_of(sparse.csr_array(queries), untidy, confidence, n_neighbors=3)
    close(comp, scores_of(queries, points, confidence, n_neighbors=3), np.float64)
    np.testing.assert_array_equal(untidy.indices, columns)


def test_sparse_points_in_many_blocks(monkeypatch):
    """Many equal distances, 0 among them, within and across the blocks."""
    monkeypatch.setattr(module, "_SPARSE_POINTS", 7)
    rng = np.random.default_rng(12)
    queries, points = rng.integers(0, 2, (30, 6)) * 1.0, rng.integers(0, 2, (100, 6)) * 1.0
    for k in (1, 2, 3, 20):
        comp = scores_of(
            sparse.csr_array(queries), sparse.csr_array(points), np.eye(100), n_neighbors=k
        )
        close(comp, scores_of(queries, points, np.eye(100), n_neighbors=k), np.float64)


def test_sparse_rows_without_entries():
    queries, points = np.zeros((2, 4)), np.zeros((3, 4))
    points[2, 1] = 1
    comp = scores_of(sparse.csr_array(queries), sparse.csr_array(points), np.eye(3), n_neighbors=2)
    close(comp, [[0.5, 0.5, 0]] * 2, np.float64)


def peak_memory(work):
    work()  # what is made once for all calls does not count
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@both_dtypes
def test_nothing_but_zeros(dtype):
    zeros = sparse.csr_array((3, 2), dtype=dtype)
    confidence = np.array([[1, 0], [0, 1], [0, 1]], dtype)
    found = scores_of(zeros[:1], zeros, confidence, n_neighbors=2)
    close(found, [[0.5, 0.5]], dtype)


@pytest.mark.skipif(not COMPILED, reason="too slow without compilation")
def test_memory_does_not_grow_with_queries_times_points():
    m, n = 50_000, 5_000
    queries, points, confidence = random_problem(np.random.default_rng(9), m, n, 3, 4)
    out = np.empty((m, 4))
    peak = peak_memory(lambda: neighbor_scores(queries, points, confidence, out, n_neighbors=10))
    assert peak < 20e6  # a matrix of all distances would have 2 GB


def test_memory_for_sparse_rows_with_many_ties():
    rng = np.random.default_rng(10)
    queries, points = (
        sparse.csr_array(rng.random((n, 50)) * (rng.random((n, 50)) < 0.04)) for n in (400, 20_000)
    )
    queries.data[:], points.data[:] = 1, 1
    confidence, out = np.ones((20_000, 1)), np.empty((400, 1))
    peak = peak_memory(lambda: neighbor_scores(queries, points, confidence, out, n_neighbors=10))
    assert peak < 50e6  # a matrix of all distances would have 64 MB


def naive_nearest(points, queries, k):
    """The nearest points, without the row of the same number if there are no queries."""
    rows = points if queries is None else queries
    squares = ((rows[:, np.newaxis].astype(np.float64) - points) ** 2).sum(axis=2)
    if queries is None:
        np.fill_diagonal(squares, np.inf)
    k = min(k, len(points) - (queries is None))
    indices = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squares, indices, axis=1)), indices


@given(
    problem=problems(),
    leave_out=st.booleans(),
    kind=st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_nearest_rows_match_the_naive_twin(problem, leave_out, kind):
    queries, points, _, options = problem
    k = options["n_neighbors"]
    distances, indices = nearest_rows(
        kind(points), None if leave_out else kind(queries), n_neighbors=k
    )
    ref_distances, ref_indices = naive_nearest(points, None if leave_out else queries, k)
    assert distances.dtype == points.dtype
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices, ref_indices)
    np.testing.assert_allclose(distances, ref_distances, rtol=4 * np.finfo(points.dtype).eps)


@both_kinds
def test_a_row_is_left_out_by_its_number(kind):
    """There are more equal rows than neighbours, so that a search need not find the row itself."""
    distances, indices = nearest_rows(kind(np.full((5, 2), 0.3)), n_neighbors=2)
    assert indices.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    assert not distances.any()


@both_kinds
def test_one_row_has_no_other(kind):
    distances, indices = nearest_rows(kind(np.ones((1, 2))), n_neighbors=3)
    assert distances.shape == indices.shape == (1, 0)


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_blocks_and_threads_do_not_matter_to_nearest_rows(monkeypatch, kind, leave_out):
    points = kind(np.round(2 * np.random.default_rng(11).normal(size=(60, 4))))
    queries = None if leave_out else points[:30]
    ref = nearest_rows(points, queries, n_neighbors=7)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 30)
    monkeypatch.setattr(module, "_SPARSE_ENTRIES", 30)
    monkeypatch.setattr(module, "_SPARSE_POINTS", 9)
    with threads(1):
        found = nearest_rows(points, queries, n_neighbors=7)
    for first, second in zip(found, ref, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_bad_number_of_neighbors_is_named():
    with pytest.raises(ValueError, match=r"^n_neighbors must be at least 1"):
        nearest_rows(np.ones((2, 2)), n_neighbors=0)


GOOD = {
    "queries": np.ones((2, 3)),
    "points": np.ones((4, 3)),
    "confidence": np.ones((4, 5)),
    "out": np.ones((2, 5)),
    "n_neighbors": 2,
}
CSR = {"queries": sparse.csr_array((2, 3)), "points": sparse.csr_array((4, 3))}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be at least 1"),
        ({"n_neighbors": 1.5}, TypeError, "n_neighbors must be an integer"),
        ({"n_neighbors": True}, TypeError, "n_neighbors must be an integer"),
        ({"neighbor_rank": 0}, ValueError, "neighbor_rank must be at least 1"),
        ({"queries": np.ones((2, 4))}, ValueError, "points must have shape"),
        ({"queries": np.ones((2, 3), int)}, TypeError, "queries must be float32 or float64"),
        ({"out": np.ones((3, 5))}, ValueError, "out must have shape"),
        ({"multiplicity": np.ones(4)}, TypeError, "multiplicity must be an array of integers"),
        ({"multiplicity": [1, 1, 1, 1]}, TypeError, "multiplicity must be an array of integers"),
        ({"multiplicity": np.ones(3, int)}, ValueError, "multiplicity must have shape"),
        ({"multiplicity": np.array([1, -1, 1, 1])}, ValueError, "multiplicity must not be neg"),
        ({"multiplicity": np.zeros(4, int)}, ValueError, "at least one row that counts"),
        ({"points": np.ones((0, 3)), "confidence": np.ones((0, 5))}, ValueError, "at least one"),
        (CSR | {"queries": GOOD["queries"]}, TypeError, "queries must be a CSR matrix"),
        (CSR | {"points": sparse.csc_array((4, 3))}, TypeError, "points must be a CSR.*csc"),
        (CSR | {"points": CSR["points"].astype(np.float32)}, TypeError, "points must be float64"),
        (CSR | {"queries": sparse.csr_array((1, 3))}, ValueError, "queries must have 2 rows"),
        (CSR | {"points": sparse.csr_array((4, 2))}, ValueError, "points must have 3 columns"),
        (CSR | {"confidence": np.ones((4, 6))}, ValueError, "out must have shape"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        neighbor_scores(**(GOOD | changes))
