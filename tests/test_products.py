"""Products over row blocks against plain NumPy, and with the same bits on every thread count."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import dtypes, seeds

import hera_fast.products as products_module
from hera_fast.products import (
    SparseBlocks,
    column_sums,
    cross_product,
    each_block,
    multiply_rows,
    sum_blocks,
)
from hera_fast.threads import threads

BLOCK = products_module.BLOCK_ROWS

row_counts = st.one_of(st.integers(0, 9), st.sampled_from([BLOCK - 1, BLOCK, BLOCK + 1, 3000]))
few = st.integers(1, 7)
layouts = st.sampled_from(["dense", "fortran", "sparse", "sparse matrix"])


def laid_out(A, layout):
    return {
        "dense": lambda: A,
        "fortran": lambda: np.asfortranarray(A),
        "sparse": lambda: SparseBlocks(sparse.csr_array(A)),
        "sparse matrix": lambda: SparseBlocks(sparse.csr_matrix(A)),
    }[layout]()


def problem(n, d, q, seed, dtype):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    return A.astype(dtype), rng.standard_normal((n, q)).astype(dtype), rng.random(n)


@given(n=row_counts, d=few, q=few, seed=seeds, dtype=dtypes, layout=layouts)
def test_multiply_rows(n, d, q, seed, dtype, layout):
    A, out, _ = problem(n, d, q, seed, dtype)
    B = np.random.default_rng(seed).standard_normal((d, q)).astype(dtype)
    offset = np.arange(q) / 3
    multiply_rows(laid_out(A, layout), B, out, offset)
    allowed = 10 * np.finfo(dtype).eps * (10 + q)
    np.testing.assert_allclose(out, A.astype(float) @ B + offset, rtol=0, atol=allowed)


@given(n=row_counts, d=few, q=few, seed=seeds, dtype=dtypes, layout=layouts, weighted=st.booleans())
def test_cross_product(n, d, q, seed, dtype, layout, weighted):
    A, B, weights = problem(n, d, q, seed, dtype)
    product = cross_product(laid_out(A, layout), B, weights if weighted else None)
    expected = A.astype(float).T @ (B * (weights[:, np.newaxis] if weighted else 1))
    assert product.dtype == np.float64
    allowed = 10 * np.finfo(dtype).eps * (n + 1)
    np.testing.assert_allclose(product, expected, rtol=0, atol=allowed)


@given(n=row_counts, d=few, seed=seeds, dtype=dtypes, layout=layouts, weighted=st.booleans())
def test_column_sums(n, d, seed, dtype, layout, weighted):
    A, _, weights = problem(n, d, 1, seed, dtype)
    sums = column_sums(laid_out(A, layout), weights if weighted else None)
    expected = (weights if weighted else np.ones(n)) @ A.astype(float)
    assert sums.dtype == np.float64
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("n", [0, 1, 2500])
def test_sum_of_a_vector(dtype, n):
    vector = (np.arange(n) % 200).astype(dtype)
    assert float(column_sums(vector)) == vector.sum(dtype=float)
    assert float(column_sums(vector, np.full(n, 2.0))) == 2 * vector.sum(dtype=float)


def test_sum_of_many_small_numbers_in_single_precision():
    """Added up in single precision, they would stop counting."""
    A = np.full((200_000, 1), 1 / 3, np.float32)
    A[0] = 2.0**24
    expected = A.sum(dtype=float)
    assert column_sums(A)[0] == pytest.approx(expected, rel=1e-13)
    ones = np.ones_like(A)
    assert cross_product(A, ones)[0, 0] == pytest.approx(expected, rel=1e-4)


@given(n=st.integers(0, 20_000), large=st.booleans(), shape=st.sampled_from([(), (3,), (2, 40)]))
def test_every_row_counts_once(n, large, shape):
    seen = np.zeros(n, int)
    touched = np.zeros(n, int)

    def add(rows, total):
        seen[rows] += 1
        total += rows.stop - rows.start

    def touch(rows):
        touched[rows] += 1

    total = sum_blocks(add, n, shape, 1, large=large)
    each_block(touch, n, 1)
    assert total.shape == shape
    assert (total == n).all()
    assert (seen == 1).all()
    assert (touched == 1).all()


def test_parts_of_a_large_sum_are_limited(monkeypatch):
    monkeypatch.setattr(products_module, "_PART_NUMBERS", 100)
    A = np.ones((5000, 10))
    totals = set()

    def add(rows, total):
        totals.add(total.__array_interface__["data"][0])
        total += A[rows].T @ A[rows]

    assert (sum_blocks(add, 5000, (10, 10), 100) == 5000).all()
    assert len(totals) == 2


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (0, 40), (7, 30), (39, 40)])
def test_sparse_blocks_share_memory(start, stop):
    matrix = sparse.random(40, 30, density=0.9, format="csr", random_state=0)
    block = SparseBlocks(matrix)[start:stop]
    assert (block.toarray() == matrix[start:stop].toarray()).all()
    if start < stop:
        assert np.shares_memory(block.data, matrix.data)
        assert np.shares_memory(block.indices, matrix.indices)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_same_bits_for_every_number_of_threads(dtype, layout):
    A, R, weights = problem(20_011, 43, 57, 0, dtype)
    A = laid_out(A, layout)
    B = np.random.default_rng(1).standard_normal((43, 57)).astype(dtype)
    results = []
    for n_threads in (1, 2):
        out = np.empty_like(R)
        with threads(n_threads):
            multiply_rows(A, B, out, B[0])
            sums = [cross_product(A, R), cross_product(A, R, weights), column_sums(A, weights)]
        results.append([out, *sums])
    assert all((one == two).all() for one, two in zip(*results, strict=True))
