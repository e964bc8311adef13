"""Rows in blocks: the same bits as all rows at once."""

from __future__ import annotations

import itertools
import tracemalloc

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import dtypes, seeds

from hera_fast import block_neighbors as module
from hera_fast.block_neighbors import (
    RowBlocks,
    as_kind_of,
    block_neighbor_scores,
    merge_nearest,
    score_nearest,
    search_rows,
    take_rows,
)
from hera_fast.neighborhood import neighbor_scores

COMPILED = not numba.config.DISABLE_JIT
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
both_kinds = pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
kinds = st.sampled_from([np.asarray, sparse.csr_matrix, sparse.csr_array])


def whole_scores(queries, points, confidence, **options):
    out = np.full((queries.shape[0], confidence.shape[1]), np.nan, confidence.dtype)
    neighbor_scores(queries, points, confidence, out, **options)
    return out


def block_scores(queries, points, confidence, bounds, **options):
    blocks = [
        (start, points[start:stop], confidence[start:stop])
        for start, stop in itertools.pairwise(bounds)
    ]
    out = np.full((queries.shape[0], confidence.shape[1]), np.nan, confidence.dtype)
    block_neighbor_scores(queries, blocks, out, **options)
    return out


def random_problem(rng, m, n, d, q, dtype=np.float64):
    queries, points = rng.normal(size=(m, d)).astype(dtype), rng.normal(size=(n, d)).astype(dtype)
    confidence = rng.random((n, q)) * (rng.random((n, q)) < 0.5)
    return queries, points, confidence.astype(dtype)


@st.composite
def problems(draw):
    """Queries, points, confidences, where blocks begin, options; with ties and equal rows."""
    rng = np.random.default_rng(draw(seeds))
    m, n = draw(st.integers(0, 7)), draw(st.integers(1, 25))
    d, q = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    queries, points, confidence = random_problem(rng, m, n, d, q, draw(dtypes))
    roughness = draw(st.sampled_from([None, 1, 0]))
    if roughness is not None:
        queries, points = np.round(queries, roughness), np.round(points, roughness)
    if draw(st.booleans()):
        points = points[rng.integers(0, n, n)]
    multiplicity = draw(st.none() | st.just(rng.integers(0, 4, n)))
    if multiplicity is not None:
        multiplicity[rng.integers(n)] += 1
    cuts = draw(st.lists(st.integers(0, n), max_size=6))
    options = {
        "n_neighbors": draw(st.integers(1, 30)),
        "neighbor_rank": draw(st.none() | st.integers(1, 15)),
        "multiplicity": multiplicity,
        "normalize": draw(st.booleans()),
    }
    return queries, points, confidence, [0, *sorted(cuts), n], options


@given(problem=problems(), kind=kinds, is_sparse=st.booleans())
def test_blocks_change_no_bit(problem, kind, is_sparse):
    queries, points, confidence, bounds, options = problem
    ref = whole_scores(kind(queries), kind(points), confidence, **options)
    if is_sparse:
        confidence = sparse.csr_array(confidence)
    comp = block_scores(kind(queries), kind(points), confidence, bounds, **options)
    assert comp.dtype == ref.dtype
    np.testing.assert_array_equal(comp, ref)


@both_kinds
@both_dtypes
def test_many_rows_in_blocks(kind, dtype):
    m, n = (500, 3000) if COMPILED and kind is np.asarray else (40, 120)
    rng = np.random.default_rng(0)
    queries, points, confidence = random_problem(rng, m, n, 20, 7, dtype)
    points[::5] = points[0]
    queries[::7] = points[0]
    bounds = [0, n // 3, n // 3 + 2, n // 2, n]
    for k in (1, 10):
        options = {"n_neighbors": k, "multiplicity": rng.integers(0, 3, n)}
        ref = whole_scores(kind(queries), kind(points), confidence, **options)
        comp = block_scores(
            kind(queries), kind(points), sparse.csr_array(confidence), bounds, **options
        )
        np.testing.assert_array_equal(comp, ref)


def test_distances_that_float32_cannot_tell_apart():
    """Their order is that of the exact distances, also across blocks."""
    query = np.zeros((1, 2), np.float32)
    rest = np.float32(1e-5) * np.arange(5, 0, -1, dtype=np.float32)
    points = np.column_stack([np.ones(5, np.float32), rest])
    ref = whole_scores(query, points, np.eye(5, dtype=np.float32), n_neighbors=2)
    assert np.flatnonzero(ref).tolist() == [3, 4]
    comp = block_scores(query, points, np.eye(5, dtype=np.float32), range(6), n_neighbors=2)
    np.testing.assert_array_equal(comp, ref)


@both_kinds
def test_groups_of_queries_do_not_matter(monkeypatch, kind):
    queries, points, confidence = random_problem(np.random.default_rng(1), 20, 30, 4, 3)
    arguments = kind(queries), kind(points), sparse.csr_array(confidence), [0, 10, 30]
    ref = block_scores(*arguments, n_neighbors=3)
    for most in (1, 50):
        monkeypatch.setattr(module, "_TAKEN_NUMBERS", most)
        np.testing.assert_array_equal(block_scores(*arguments, n_neighbors=3), ref)


@both_kinds
def test_steps_one_by_one(kind):
    """What tasks elsewhere do."""
    queries, points, confidence = random_problem(np.random.default_rng(2), 6, 20, 3, 4)
    queries, points, confidence = kind(queries), kind(points), sparse.csr_array(confidence)
    blocks = [
        (start, points[start : start + 5], confidence[start : start + 5])
        for start in (0, 5, 10, 15)
    ]
    found = [search_rows(queries, start, rows, n_neighbors=7) for start, rows, _ in blocks]
    assert [each.numbers.shape[1] for each in found] == [5] * 4
    nearest = merge_nearest([merge_nearest(found[:3], 7), found[3]], 7)
    taken = [take_rows(nearest, *block) for block in blocks]
    assert sum(len(each.numbers) for each in taken) == len(np.unique(nearest.numbers))
    comp = score_nearest(queries, nearest, taken, neighbor_rank=2)
    ref = whole_scores(queries, points, confidence.toarray(), n_neighbors=7, neighbor_rank=2)
    np.testing.assert_array_equal(comp, ref)


def test_rows_that_are_no_longer_needed_are_let_go(monkeypatch):
    queries, points, confidence = random_problem(np.random.default_rng(4), 5, 200, 2, 3)
    kept = []

    def score(queries, nearest, taken, **options):
        kept.append(sum(len(each.numbers) for each in taken))
        assert kept[-1] == len(np.unique(nearest.numbers))
        return score_nearest(queries, nearest, taken, **options)

    monkeypatch.setattr(module, "score_nearest", score)
    block_scores(queries, points, confidence, range(0, 201, 10), n_neighbors=4)
    assert 4 <= kept[0] <= 20


def test_sparse_rows_with_unsorted_and_repeated_columns():
    rng = np.random.default_rng(5)
    _, points, confidence = random_problem(rng, 0, 90, 20, 2)
    columns = np.tile([*rng.permutation(20), 0], 90)
    starts = np.arange(0, 90 * 21 + 1, 21)
    points = np.column_stack([points, np.full(90, 1e3)])
    untidy = sparse.csr_array((points.ravel(), columns, starts), shape=(90, 20))
    ref = whole_scores(untidy[:40], untidy, confidence, n_neighbors=5)
    comp = block_scores(untidy[:40], untidy, confidence, [0, 40, 90], n_neighbors=5)
    np.testing.assert_array_equal(comp, ref)
    np.testing.assert_array_equal(untidy.indices, columns)


class CountingRows:
    """Rows in chunks, like those of a Zarr array, that know what was read of them."""

    def __init__(self, rows, chunk):
        self.rows, self.chunks = rows, (chunk, rows.shape[1])
        self.shape, self.dtype = rows.shape, rows.dtype
        self.read = []

    def __getitem__(self, part):
        self.read.append((part.start, part.stop))
        return self.rows[part]


@pytest.mark.parametrize(
    ("n_bytes", "read"),
    [
        (1 << 20, [(0, 23)]),
        (24 * 12, [(0, 12), (12, 23)]),
        (24 * 11, [(0, 8), (8, 16), (16, 23)]),
        (1, [(start, min(start + 4, 23)) for start in range(0, 23, 4)]),
    ],
)
def test_files_are_read_in_whole_chunks(monkeypatch, n_bytes, read):
    monkeypatch.setattr(module, "_BLOCK_BYTES", n_bytes)
    rows = CountingRows(np.arange(69).reshape(23, 3), 4)
    confidence = sparse.csr_array(np.eye(23, dtype=np.float32))
    blocks = RowBlocks(rows, confidence, np.dtype(np.float64))
    for _ in range(2):
        firsts, parts, parts_of_confidence = zip(*blocks, strict=True)
        assert list(firsts) == [start for start, _ in read]
        np.testing.assert_array_equal(np.concatenate(parts), rows.rows)
        np.testing.assert_array_equal(sparse.vstack(parts_of_confidence).toarray(), np.eye(23))
        assert {part.dtype for part in (*parts, *parts_of_confidence)} == {np.dtype(np.float64)}
    assert rows.read == 2 * read


def test_rows_of_csr_matrices_are_as_wide_as_they_are_full(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 8 * 2 * 10)
    rows = sparse.eye_array(25, format="csr")
    blocks = RowBlocks(rows, np.ones((25, 1)), np.dtype(np.float64))
    assert [first_row for first_row, *_ in blocks] == [0, 10, 20]


@pytest.mark.skipif(not COMPILED, reason="too slow without compilation")
def test_memory_map_is_never_all_in_memory(tmp_path, monkeypatch):
    m, n, d = 100, 40_000, 25
    rng = np.random.default_rng(3)
    queries, points, confidence = random_problem(rng, m, n, d, 3)
    np.save(tmp_path / "rows.npy", points)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    confidence = sparse.csr_array(confidence)
    ref = whole_scores(queries, points, confidence.toarray(), n_neighbors=10)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 19)
    out = np.empty_like(ref)

    def score():
        blocks = RowBlocks(rows, confidence, rows.dtype)
        block_neighbor_scores(queries, blocks, out, n_neighbors=10)

    score()  # what is made once for all calls does not count
    tracemalloc.start()
    try:
        score()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(out, ref)
    assert peak < 4e6  # the rows have 8 MB, a matrix of all distances would have 32 MB


def test_queries_become_dense_or_sparse():
    dense, thin = np.eye(2), sparse.csr_array(np.eye(2))
    assert as_kind_of(dense, dense) is dense
    assert as_kind_of(thin, thin) is thin
    np.testing.assert_array_equal(as_kind_of(thin, dense), dense)
    np.testing.assert_array_equal(as_kind_of(dense, thin).toarray(), dense)
    assert as_kind_of(dense, CountingRows(dense, 1)) is dense


GOOD = {
    "queries": np.ones((2, 3)),
    "blocks": [(0, np.ones((4, 3)), np.ones((4, 5)))],
    "out": np.ones((2, 5)),
    "n_neighbors": 2,
}
CSR = {
    "queries": sparse.csr_array((2, 3)),
    "blocks": [(0, sparse.csr_array((4, 3)), np.ones((4, 5)))],
}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be at least 1"),
        ({"neighbor_rank": 1.0}, TypeError, "neighbor_rank must be an integer"),
        ({"queries": np.ones((2, 4))}, ValueError, "points must have shape"),
        ({"queries": np.ones((2, 3), np.float32)}, TypeError, "points must be float32"),
        ({"queries": CSR["queries"]}, TypeError, "points must be a CSR matrix"),
        (CSR | {"queries": GOOD["queries"]}, TypeError, "queries must be a CSR matrix"),
        (CSR | {"out": np.ones((2, 5), np.float32)}, TypeError, "queries must be float32"),
        ({"out": np.ones((3, 5))}, ValueError, "out must have shape"),
        ({"out": np.ones((2, 6))}, ValueError, "confidence must have shape"),
        ({"blocks": [(0, np.ones((4, 3)), np.ones((4, 5), int))]}, TypeError, "confidence must be"),
        ({"blocks": []}, ValueError, "at least one row that counts"),
        ({"multiplicity": np.zeros(4, int)}, ValueError, "at least one row that counts"),
        ({"multiplicity": np.ones(4)}, TypeError, "multiplicity must be an array of integers"),
        ({"multiplicity": np.ones(3, int)}, ValueError, "multiplicity must have shape"),
        ({"multiplicity": np.ones(5, int)}, ValueError, "multiplicity must have shape"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        block_neighbor_scores(**(GOOD | changes))
