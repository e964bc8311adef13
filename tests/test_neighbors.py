from __future__ import annotations

import os
import platform
import subprocess
import sys
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import naive_neighbors as naive
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dtypes, seeds

from hera_fast.kernels import neighbors as module
from hera_fast.kernels.neighbors import (
    nearest_neighbors,
    neighbor_similarity,
    self_neighbors,
)
from hera_fast.threads import threads

COMPILED = not numba.config.DISABLE_JIT
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def search(queries, points, k, find=nearest_neighbors):
    distances = np.full((len(queries), k), np.nan, queries.dtype)
    indices = np.full((len(queries), k), -1, np.int64)
    find(queries, points, distances, indices)
    return distances, indices


def search_self(points, k, find=self_neighbors):
    distances = np.full((len(points), k), np.nan, points.dtype)
    indices = np.full((len(points), k), -1, np.int64)
    find(points, distances, indices)
    return distances, indices


def weights(queries, points, indices, order, find=neighbor_similarity):
    similarities = np.full(indices.shape, np.nan, queries.dtype)
    find(queries, points, indices, order, similarities)
    return similarities


def assert_same(comp, ref):
    """Equal bits: every distance is the same sum, every tie is broken the same way."""
    np.testing.assert_array_equal(comp[1], ref[1])
    np.testing.assert_array_equal(comp[0], ref[0])
    assert comp[0].dtype == ref[0].dtype


def silent():
    """Do as compiled code does: no word about overflow."""
    return np.errstate(over="ignore", invalid="ignore")


def assert_exact(queries, points, k):
    with silent():
        ref = search(queries, points, k, naive.nearest_neighbors)
    with nullcontext() if COMPILED else silent():
        comp = search(queries, points, k)
    assert_same(comp, ref)


def assert_self_exact(points, k):
    with silent():
        ref = search_self(points, k, naive.self_neighbors)
    with nullcontext() if COMPILED else silent():
        comp = search_self(points, k)
    assert_same(comp, ref)


@pytest.fixture
def small_blocks(monkeypatch):
    """Many tiles, many rounds and several ranges on little data."""
    monkeypatch.setattr(module, "_QUERY_BLOCK", 12)
    monkeypatch.setattr(module, "_POINT_BLOCK", 20)
    monkeypatch.setattr(module, "_SELF_BLOCK", 12)
    monkeypatch.setattr(module, "_OPERATIONS_PER_BLOCK", 1)


@pytest.fixture
def doubtful(monkeypatch):
    """The number of rows of each search that had to be repeated."""
    counts = []
    repeat = module._repeat_doubtful

    def count(search, is_self):
        counts.append(int((search.doubtful >= 0).sum()))
        repeat(search, is_self)

    monkeypatch.setattr(module, "_repeat_doubtful", count)
    return counts


def gaussian(rng, n):
    return rng.normal(size=(n, 9))


def low_rank(rng, n):
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, 9))


def one_column(rng, n):
    return rng.normal(size=(n, 1))


def duplicated(rng, n):
    return gaussian(rng, 1 + n // 10)[rng.integers(0, 1 + n // 10, n)]


def integers(rng, n):
    return rng.integers(0, 4, (n, 3)).astype(float)


def binary(rng, n):
    return rng.integers(0, 2, (n, 12)).astype(float)


def scaled_integers(rng, n):
    return rng.integers(0, 4, (n, 3)) / np.array([3.0, 0.7, 11.0])


def constant(rng, n):
    return np.full((n, 4), rng.normal())


def uncentred(rng, n):
    return 1e6 + gaussian(rng, n)


def outlier(rng, n):
    rows = gaussian(rng, n)
    rows[n // 2] = 1e15
    return rows


def mixed_units(rng, n):
    return gaussian(rng, n) * 10.0 ** np.arange(-9, 9, 2)


def tight_clusters(rng, n):
    """Clusters that float32 cannot look into from their common centre."""
    return 1e5 * rng.normal(size=(3, 4))[rng.integers(0, 3, n)] + 1e-3 * rng.normal(size=(n, 4))


def near_ties(rng, n):
    """Rows at almost the same distance from the origin, which is row 0."""
    rows = rng.normal(size=(n, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= 1 + 1e-12 * rng.normal(size=(n, 1))
    rows[0] = 0
    return rows


KINDS = [
    gaussian,
    low_rank,
    one_column,
    duplicated,
    integers,
    binary,
    scaled_integers,
    constant,
    uncentred,
    outlier,
    mixed_units,
    tight_clusters,
    near_ties,
]
kinds = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


# ---- agreement with the twin -------------------------------------------------------------------


@both_dtypes
@kinds
def test_neighbors_agree_with_the_twin(make, dtype):
    rng = np.random.default_rng(0)
    rows = make(rng, 170).astype(dtype)
    # The last queries are points themselves.
    assert_exact(rows[130:], rows[:150].copy(), 6)


@both_dtypes
@kinds
def test_self_neighbors_agree_with_the_twin(make, dtype):
    assert_self_exact(make(np.random.default_rng(1), 120).astype(dtype), 6)


@both_dtypes
@kinds
def test_small_blocks_agree_with_the_twin(make, dtype, small_blocks):
    rows = make(np.random.default_rng(2), 90).astype(dtype)
    assert_exact(rows[:31], rows[20:].copy(), 4)
    assert_self_exact(rows[:67].copy(), 4)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (np.float64, 1e150),
        (np.float64, 1e-150),
        (np.float64, 1e-160),
        (np.float64, 1e-300),
        (np.float64, 5e-324),
        (np.float32, 1e15),
        (np.float32, 1e30),
        (np.float32, 1e-20),
        (np.float32, 1e-44),
    ],
)
def test_every_magnitude(dtype, scale):
    rng = np.random.default_rng(3)
    rows = (scale * rng.integers(-8, 9, (60, 3))).astype(dtype)
    assert_exact(rows[:20], rows[10:].copy(), 5)
    assert_self_exact(rows, 5)


@both_dtypes
def test_queries_far_from_the_points(dtype):
    rng = np.random.default_rng(4)
    points = rng.normal(size=(50, 3)).astype(dtype)
    far = 10.0 ** np.arange(1, 18)[:, np.newaxis] * rng.normal(size=(17, 3))
    assert_exact(far.astype(dtype), points, 5)
    assert_exact(far.astype(dtype), (1e-12 * points).astype(dtype), 5)


def test_distances_beyond_the_range_are_infinite_and_tie():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(40, 2))
    assert_exact(1e200 * points[:9], 1e200 * points, 3)
    assert_self_exact(1e200 * points, 3)
    # These overflow already where they are scaled and rounded.
    assert_exact(1e300 * points[:5], 1e-300 * points, 3)
    far, near = 1e30 * points[:5], 1e-30 * points
    assert_exact(far.astype(np.float32), near.astype(np.float32), 3)


@both_dtypes
@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 30])
def test_all_points_as_neighbors(n, dtype):
    rows = integers(np.random.default_rng(6), n).astype(dtype)
    assert_exact(rows, rows, n)
    if n > 1:
        assert_self_exact(rows, n - 1)


@pytest.mark.skipif(not COMPILED, reason="block sizes are large for interpreted kernels")
@both_dtypes
@pytest.mark.parametrize("n", [511, 512, 513, 767, 768, 769, 1025, 1537])
def test_sizes_around_the_blocks(n, dtype):
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, 4)).astype(dtype)
    assert_exact(rows[:9].copy(), rows, 3)
    assert_exact(rows, rows[:40].copy(), 3)
    assert_self_exact(rows, 3)


@pytest.mark.parametrize("k", [1, 15, 16, 40])
def test_any_number_of_neighbors(k, small_blocks):
    rows = np.random.default_rng(7).normal(size=(80, 3))
    assert_exact(rows[:20].copy(), rows, k)
    assert_self_exact(rows, k)


@settings(max_examples=100 if COMPILED else 30)
@given(st.data())
def test_any_small_problem(data):
    m, n, d = (data.draw(st.integers(*limits)) for limits in [(0, 9), (1, 40), (1, 6)])
    k = data.draw(st.integers(1, n))
    rng = np.random.default_rng(data.draw(seeds))
    rows = rng.normal(size=(m + n, d))
    if data.draw(st.booleans()):
        rows = rows.round(data.draw(st.integers(0, 1)))
    rows = rows * 10.0 ** data.draw(st.integers(-15, 15))
    rows += data.draw(st.sampled_from([0.0, 1.0, -1e6]))
    rows = rows.astype(data.draw(dtypes))
    queries, points = rows[:m].copy(), rows[m:].copy()
    assert_exact(queries, points, k)
    if k < n:
        assert_self_exact(points, k)


@both_dtypes
@pytest.mark.parametrize("standardize", [False, True])
def test_letters(standardize, dtype):
    folder = os.environ.get("HERA_FAST_DATA")
    if not folder:
        pytest.skip("HERA_FAST_DATA does not say where the data sets are")
    path = Path(folder) / "uci" / "letter.npz"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    X = np.load(path)["X"][: 1500 if COMPILED else 100]
    if standardize:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_self_exact(X.astype(dtype), 10)


# ---- the certificate ---------------------------------------------------------------------------


@both_dtypes
@kinds
@pytest.mark.parametrize("product", [np.float32, np.float64])
def test_the_filter_bounds_true_distances_from_below(make, dtype, product):
    rows = make(np.random.default_rng(8), 60).astype(dtype)
    d = rows.shape[1]
    outputs = np.empty((len(rows), 1), dtype), np.empty((len(rows), 1), np.int64)
    state = module._start_search(rows, rows, *outputs)
    left, right = np.empty((2, len(rows), d + 2), product)
    module._pack(0, len(rows), state, rows, False, left)
    module._pack(0, len(rows), state, rows, True, right)
    bounds = module._multiply(left, right, np.empty(len(rows) ** 2, product))
    for x, row in zip(rows, bounds, strict=True):
        true = naive.squared_distances(x, rows) * state.scale**2
        assert (row <= true + state.margin).all()
    # And not so far below that the filter would be useless.
    norms = (left[:, :d].astype(float) ** 2).sum(axis=1)
    slack = 4 * (d + 12) * np.finfo(product).eps * (norms[:, np.newaxis] + norms)
    assert (bounds >= true_squares(rows) * state.scale**2 - slack - state.margin).all()


def true_squares(rows):
    return np.array([naive.squared_distances(x, rows) for x in rows])


def test_the_bound_needs_the_shrunk_norms():
    """Rounding errors really reach the size that the bound allows for."""
    rows = np.random.default_rng(9).normal(size=(60, 40))
    outputs = np.empty((60, 1)), np.empty((60, 1), np.int64)
    state = module._start_search(rows, rows, *outputs)
    left, right = np.empty((2, 60, 42), np.float32)
    module._pack_rows(0, 60, rows, state.centre, state.scale, 1.0, False, left)
    module._pack_rows(0, 60, rows, state.centre, state.scale, 1.0, True, right)
    products = module._multiply(left, right, np.empty(3600, np.float32))
    assert (products > true_squares(rows) * state.scale**2 + state.margin).any()


def test_continuous_data_are_certified(doubtful):
    rows = np.random.default_rng(10).normal(size=(200, 10))
    assert_exact(rows[:50].copy(), rows, 5)
    assert_self_exact(rows, 5)
    assert doubtful == [0, 0]


@both_dtypes
def test_ties_are_repeated(dtype, doubtful):
    """More points at the k-th distance than the filter keeps, some with lower indices."""
    points = np.repeat(np.arange(8.0), 10)[::-1, np.newaxis].astype(dtype).copy()
    assert_exact(points[::10].copy(), points, 14)
    assert_self_exact(points, 14)
    assert doubtful == [8, 80]


def test_near_ties_are_repeated(doubtful):
    rows = near_ties(np.random.default_rng(11), 100)
    assert_exact(rows[:1].copy(), rows[1:].copy(), 5)
    assert doubtful == [1]


def test_tight_clusters_are_repeated(doubtful):
    rows = tight_clusters(np.random.default_rng(12), 90)
    assert_self_exact(rows, 5)
    assert doubtful[0] > 45


def test_numbers_too_large_for_float32_are_repeated(doubtful):
    rng = np.random.default_rng(13)
    points = rng.normal(size=(40, 2))
    assert_exact(1e60 * rng.normal(size=(3, 2)), points, 2)
    assert doubtful == [3]


def test_the_filter_keeps_too_few_points_in_a_small_set(doubtful):
    rows = np.random.default_rng(14).normal(size=(8, 2))
    assert_exact(rows[:3].copy(), rows, 5)
    assert doubtful == [3]


# ---- threads and memory ------------------------------------------------------------------------


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@both_dtypes
@pytest.mark.parametrize("make", [gaussian, scaled_integers, tight_clusters])
def test_same_bits_for_every_number_of_threads(make, dtype, small_blocks, monkeypatch):
    used = []

    def run_ranges(work, ranges, n_threads):
        used.append(min(n_threads, len(ranges)))
        original(work, ranges, n_threads)

    original = module.run_ranges
    monkeypatch.setattr(module, "run_ranges", run_ranges)
    rows = make(np.random.default_rng(15), 400 if COMPILED else 90).astype(dtype)
    results = {}
    for n_threads in (1, 2):
        with threads(n_threads):
            found = search(rows[:60], rows, 5)
            found_self = search_self(rows, 5)
            similarities = weights(rows, rows, found_self[1], 3)
            results[n_threads] = [*found, *found_self, similarities]
        assert max(used) == n_threads
    for first, second in zip(results[1], results[2], strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n_blocks", range(1, 12))
def test_rounds_pair_all_blocks_once(n_blocks):
    rounds = list(module._rounds(n_blocks))
    pairs = [pair for pairs in rounds for pair in pairs]
    assert sorted(pairs) == [(i, j) for i in range(n_blocks) for j in range(i, n_blocks)]
    for pairs in rounds:
        blocks = [block for pair in pairs for block in set(pair)]
        assert len(blocks) == len(set(blocks))


@pytest.mark.skipif(not COMPILED, reason="takes long when interpreted")
def test_no_matrix_of_all_distances():
    rows = np.random.default_rng(16).normal(size=(6000, 2)).astype(np.float32)
    search(rows[:20], rows[:20], 2), search_self(rows[:1000], 2)  # compile
    for run in (lambda: search(rows, rows, 2), lambda: search_self(rows, 2)):
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6000 * 6000 * 4 / 8


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86-64 only")
def test_the_search_for_small_entries_is_vectorised():
    # Code from the cache cannot be inspected, so another process compiles it without one.
    script = """
import re
import numpy as np
from hera_fast.kernels import neighbors as module
tile = np.ones((8, 8), np.float32)
lists = module._empty_lists(16, 3)
module._keep_smallest(tile, 0, *lists)
module._keep_smallest_both(tile, 0, 8, *lists)
for compiled in (module._keep_smallest, module._keep_smallest_both):
    for code in compiled.inspect_asm().values():
        print(len(re.findall(r"cmp[a-z]*ps.*[xyz]mm", code)))
"""
    environment = os.environ | {"HERA_FAST_CACHE": "0"}
    output = subprocess.check_output(
        [sys.executable, "-c", script], text=True, env=environment, cwd=Path(__file__).parents[1]
    )
    counts = [int(count) for count in output.split()]
    assert len(counts) == 2
    assert min(counts) > 0


# ---- the Gaussian weights ----------------------------------------------------------------------


@settings(max_examples=100 if COMPILED else 40)
@given(st.data())
def test_similarity_agrees_with_the_twin(data):
    m, n, d, k = (data.draw(st.integers(*limits)) for limits in [(0, 6), (1, 9), (1, 9), (1, 6)])
    order = data.draw(st.integers(1, k))
    rng = np.random.default_rng(data.draw(seeds))
    rows = rng.normal(size=(m + n, d))
    if data.draw(st.booleans()):
        rows = rows.round()
    dtype = data.draw(dtypes)
    rows = rows * 10.0 ** data.draw(st.integers(-30, 30))
    rows = rows.astype(dtype)
    indices = rng.integers(0, n, (m, k))
    queries, points = rows[:m].copy(), rows[m:].copy()
    ref = weights(queries, points, indices, order, naive.neighbor_similarity)
    comp = weights(queries, points, indices, order)
    assert comp.dtype == dtype
    np.testing.assert_allclose(comp, ref, rtol=1e-11 if dtype == np.float64 else 1e-6, atol=1e-300)


def test_similarity_by_hand():
    # The distances to the nearest other are 1, 1, 2, so sigma is 4/3.
    queries, points = np.array([[0.0]]), np.array([[1.0], [3.0]])
    comp = weights(queries, points, np.array([[0, 1]]), 1)
    np.testing.assert_allclose(comp, [[np.exp(-9 / 16), np.exp(-81 / 16)]], rtol=1e-15)
    # To the second nearest: 3, 2, 3.
    comp = weights(queries, points, np.array([[1, 0]]), 2)
    np.testing.assert_allclose(comp, [[np.exp(-81 / 64), np.exp(-9 / 64)]], rtol=1e-15)


@both_dtypes
def test_identical_points_weigh_one(dtype):
    rows = np.full((4, 3), 7, dtype)
    assert (weights(rows[:1].copy(), rows, np.array([[0, 1, 2]]), 2) == 1).all()


def test_width_zero():
    # Two pairs of equal points: every nearest distance is 0, but the pairs are apart.
    points = np.array([[0.0], [5.0], [5.0]])
    comp = weights(np.array([[0.0]]), points, np.array([[0, 1, 2]]), 1)
    np.testing.assert_array_equal(comp, [[1, 0, 0]])


@pytest.mark.parametrize("exponent", [-1070, -1000, -600, 600, 1000, 1019])
def test_similarity_does_not_depend_on_the_unit(exponent):
    rows = np.random.default_rng(18).integers(-9, 10, (20, 3)).astype(float)
    indices = np.random.default_rng(19).integers(0, 20, (20, 5))
    ref = weights(rows, rows, indices, 2)
    unit = np.ldexp(2.0, exponent - 1)
    comp = weights(rows * unit, rows * unit, indices, 2)
    np.testing.assert_array_equal(comp, ref)


def test_similarity_of_the_largest_numbers():
    largest = np.finfo(float).max
    points = np.array([[-largest], [largest], [0.0]])
    comp = weights(np.array([[largest]]), points, np.array([[0, 1, 2]]), 1)
    ref = weights(np.array([[1.0]]), points / largest, np.array([[0, 1, 2]]), 1)
    np.testing.assert_allclose(comp, ref, rtol=1e-15)


def test_far_and_near_in_one_group():
    # In the unit of the far pair the near ones are as good as equal to the query.
    points = np.array([[1e-200], [2e-200], [1.0], [1.0 + 1e-9]])
    comp = weights(np.array([[0.0]]), points, np.array([[0, 1, 2, 3]]), 1)
    assert np.isfinite(comp).all()
    np.testing.assert_array_equal(comp, [[1, 1, 0, 0]])


# ---- arguments ---------------------------------------------------------------------------------


@both_dtypes
def test_no_queries(dtype):
    points = np.ones((3, 2), dtype)
    none = np.empty((0, 2), dtype)
    assert search(none, points, 3)[0].shape == (0, 3)
    assert search_self(none, 3)[0].shape == (0, 3)
    # Without queries it does not matter whether the points would be enough.
    for k in (0, 4):
        assert search(none, points, k)[0].shape == (0, k)
        assert search(none, none, k)[0].shape == (0, k)
        assert search_self(none, k)[0].shape == (0, k)
    assert weights(none, points, np.empty((0, 3), np.int64), 2).shape == (0, 3)


@both_dtypes
def test_a_row_alone_has_no_neighbors(dtype):
    alone = np.ones((1, 2), dtype)
    distances, indices = search_self(alone, 0)
    assert distances.shape == indices.shape == (1, 0)


def test_nan_is_nobodys_neighbor_and_no_danger():
    rng = np.random.default_rng(20)
    rows = rng.normal(size=(50, 3))
    rows[7, 1] = np.nan
    distances, indices = search_self(rows, 4)
    assert ((indices >= 0) & (indices < 50)).all()
    assert np.isinf(distances[7]).all()
    assert not (np.delete(indices, 7, axis=0) == 7).any()
    distances, indices = search(np.full((2, 3), np.nan), rows, 4)
    np.testing.assert_array_equal(indices, [[0, 1, 2, 3]] * 2)


def test_sizes_are_checked():
    rows = np.ones((5, 2))
    with pytest.raises(ValueError, match=r"distances and indices .* from 1 to 5 .* got 6"):
        search(rows, rows, 6)
    with pytest.raises(ValueError, match=r"distances and indices .* got 0"):
        search(rows, rows, 0)
    with pytest.raises(ValueError, match=r"distances and indices .* from 1 to 4 .* got 5"):
        search_self(rows, 5)
    with pytest.raises(ValueError, match=r"distances and indices .* got 0"):
        search_self(rows, 0)
    with pytest.raises(ValueError, match=r"distances and indices .* got 1"):
        search(rows, rows[:0], 1)
    with pytest.raises(ValueError, match=r"distances and indices .* got 1"):
        search_self(rows[:1], 1)
    with pytest.raises(ValueError, match=r"points must have from 1 .* got 0"):
        search(rows[:, :0].copy(), rows[:, :0].copy(), 1)
    wide = np.zeros((2, 1 << 23), np.float32)
    with pytest.raises(ValueError, match=r"points must have from 1 to 8388607 column"):
        search_self(wide, 1)
    with pytest.raises(ValueError, match="points must have shape"):
        search(rows, np.ones((5, 3)), 1)


def test_arrays_are_checked():
    rows = np.ones((5, 2))
    distances, indices = np.empty((5, 2)), np.empty((5, 2), np.int64)
    with pytest.raises(TypeError, match="points must be float64"):
        nearest_neighbors(rows, rows.astype(np.float32), distances, indices)
    with pytest.raises(TypeError, match="queries must be a NumPy array"):
        nearest_neighbors(rows.tolist(), rows, distances, indices)
    with pytest.raises(TypeError, match="indices must be int64"):
        nearest_neighbors(rows, rows, distances, indices.astype(np.int32))
    with pytest.raises(TypeError, match="distances must be float64"):
        self_neighbors(rows, distances.astype(np.float32), indices)
    with pytest.raises(ValueError, match="points must be C-contiguous"):
        self_neighbors(np.asfortranarray(rows), distances, indices)
    with pytest.raises(ValueError, match="shares memory with points"):
        self_neighbors(rows, rows, indices)


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_every_integer_type_of_the_order_is_the_same_to_the_compiler():
    rows = np.random.default_rng(21).normal(size=(5, 2))
    indices = search_self(rows, 3)[1]
    expected = weights(rows, rows, indices, 2)
    n_compiled = len(module._similarity_rows.signatures)
    for integer in (np.int8, np.uint8, np.int32, np.uint64):
        np.testing.assert_array_equal(weights(rows, rows, indices, integer(2)), expected)
    assert len(module._similarity_rows.signatures) == n_compiled


def test_order_and_indices_are_checked():
    rows = np.ones((5, 2))
    indices, similarities = np.zeros((5, 3), np.int64), np.empty((5, 3))
    for order in (0, 4, -1):
        with pytest.raises(ValueError, match=rf"order must be from 1 to the 3 .* got {order}"):
            neighbor_similarity(rows, rows, indices, order, similarities)
    for order in (1.0, True, None):
        with pytest.raises(TypeError, match="order must be an integer"):
            neighbor_similarity(rows, rows, indices, order, similarities)
    neighbor_similarity(rows, rows, indices, np.int32(2), similarities)
    for index in (-1, 5):
        indices[2, 1] = index
        with pytest.raises(ValueError, match=r"indices must be from 0 to 4"):
            neighbor_similarity(rows, rows, indices, 1, similarities)
