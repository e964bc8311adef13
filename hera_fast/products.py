"""Matrix products over blocks of rows that have the same bits for every number of threads.

BLAS runs on one thread and the blocks are spread over the threads. Where blocks begin, and in
which order their contributions are added, depends on the sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.kernels._launch import blas_threads, launch

__all__ = [
    "BLOCK_ROWS",
    "SparseBlocks",
    "column_sums",
    "cross_product",
    "each_block",
    "multiply_rows",
    "row_blocks",
    "sum_blocks",
]

_Array = np.ndarray[Any, Any]

#: Rows that stay in the cache from one step to the next; products of blocks are summed in double
#: precision.
BLOCK_ROWS = 1024
# Sums are made in this many parts, or in two if all parts were more than this many numbers.
_PARTS = 8
_PART_NUMBERS = 1 << 23


class SparseBlocks:
    """A CSR matrix whose blocks of rows share its memory.

    Parameters
    ----------
    matrix : CSR matrix or array of shape (n, d)
        Not to be changed afterwards.

    Examples
    --------
    >>> from scipy import sparse
    >>> from hera_fast.products import SparseBlocks
    >>> blocks = SparseBlocks(sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]))
    >>> blocks[1:2].toarray().tolist()
    [[0.0, 2.0]]
    """

    def __init__(self, matrix: Any) -> None:
        self.shape: tuple[int, int] = matrix.shape
        self.dtype: np.dtype[Any] = matrix.dtype
        self._matrix = matrix

    def __getitem__(self, rows: slice) -> Any:
        """The rows of a slice with a start, a stop and no step."""
        matrix = self._matrix
        pointers = matrix.indptr[rows.start : rows.stop + 1]
        entries = slice(pointers[0], pointers[-1])
        block = sparse.csr_array((len(pointers) - 1, self.shape[1]), dtype=self.dtype)
        # Given to the constructor, these would be copied.
        block.data, block.indices = matrix.data[entries], matrix.indices[entries]
        block.indptr = pointers - pointers[0]
        return block


def row_blocks(X: Any) -> Any:
    """Return rows whose slices share their memory: X itself if it is dense.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows.

    Returns
    -------
    ndarray or SparseBlocks of shape (n, d)

    Examples
    --------
    >>> from scipy import sparse
    >>> from hera_fast.products import row_blocks
    >>> row_blocks(sparse.csr_array([[1.0, 0.0]])).shape
    (1, 2)
    """
    return SparseBlocks(X) if sparse.issparse(X) else X


def _cut(start: int, stop: int, step: int) -> list[slice]:
    return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]


def each_block(work: Callable[[slice], None], n_rows: int, row_cost: int) -> None:
    """Call ``work(rows)`` for blocks of rows, on several threads.

    Parameters
    ----------
    work : callable
        Gets a slice and touches no other rows of its outputs.
    n_rows : int
        Number of rows.
    row_cost : int
        Rough number of basic operations per row.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.products import each_block
    >>> A = np.ones((3, 2))
    >>> def double(rows):
    ...     A[rows] *= 2
    >>> each_block(double, 3, 2)
    >>> A.tolist()
    [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]
    """
    blocks = _cut(0, n_rows, BLOCK_ROWS)

    def work_on(first: int, last: int) -> None:
        for rows in blocks[first:last]:
            work(rows)

    with blas_threads(1):
        launch(work_on, len(blocks), BLOCK_ROWS * row_cost)


def sum_blocks(
    add: Callable[[slice, _Array], None],
    n_rows: int,
    shape: tuple[int, ...],
    row_cost: int,
    *,
    large: bool = False,
) -> _Array:
    """Sum arrays that blocks of rows contribute, on several threads.

    Parameters
    ----------
    add : callable
        ``add(rows, total)`` adds what the rows of a slice contribute to `total`.
    n_rows : int
        Number of rows.
    shape : tuple of ints
        Shape of the sum.
    row_cost : int
        Rough number of basic operations per row.
    large : bool, default=False
        Call `add` once for each part of the sum, for one that makes no dense copy of its rows.

    Returns
    -------
    ndarray of shape `shape`, float64
        The sum.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.products import sum_blocks
    >>> A = np.ones((3, 2))
    >>> def add(rows, total):
    ...     total += A[rows].sum(axis=0)
    >>> sum_blocks(add, 3, (2,), 2).tolist()
    [3.0, 3.0]
    """
    n_blocks = -(-n_rows // BLOCK_ROWS)
    # All parts together are no larger than what is multiplied, give or take.
    most = 2 * n_rows // max((1, *shape))
    affordable = max(2, _PART_NUMBERS // max(1, math.prod(shape)))
    n_parts = max(1, min(_PARTS, n_blocks, most, affordable))
    bounds = [min(BLOCK_ROWS * (n_blocks * p // n_parts), n_rows) for p in range(n_parts + 1)]
    totals = np.zeros((n_parts, *shape))

    def add_parts(first: int, last: int) -> None:
        for part in range(first, last):
            start, stop = bounds[part], bounds[part + 1]
            for rows in _cut(start, stop, max(1, stop - start) if large else BLOCK_ROWS):
                add(rows, totals[part, ...])

    with blas_threads(1):
        launch(add_parts, n_parts, n_rows // n_parts * row_cost)
    with np.errstate(all="ignore"):  # as in the parts, the caller looks at the result
        total: _Array = totals.sum(axis=0)
    return total


def multiply_rows(A: _Array | SparseBlocks, B: _Array, out: _Array, offset: _Array) -> None:
    """Write A B + offset to `out`.

    Parameters
    ----------
    A : ndarray or SparseBlocks of shape (n, d)
        The left factor.
    B : ndarray of shape (d, q)
        The right factor, of the dtype of A.
    out : ndarray of shape (n, q)
        Receives the result, of the dtype of A.
    offset : ndarray of shape (q,)
        Added to every row.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.products import multiply_rows
    >>> out = np.empty((1, 1))
    >>> multiply_rows(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]), out, np.array([0.5]))
    >>> out.tolist()
    [[11.5]]
    """
    n, d = A.shape
    shift = offset.astype(out.dtype)
    is_shifted = bool(shift.any())

    def multiply_block(rows: slice) -> None:
        if isinstance(A, SparseBlocks):
            np.add(A[rows] @ B, shift, out=out[rows])
        else:
            np.matmul(A[rows], B, out=out[rows])
            if is_shifted:
                out[rows] += shift

    each_block(multiply_block, n, d * B.shape[1])


def cross_product(
    A: _Array | SparseBlocks, B: _Array | SparseBlocks, weights: _Array | None = None
) -> _Array:
    """Return A'B, or A' diag(weights) B.

    The products of blocks have the precision of A and B, their sum is made in double precision.

    Parameters
    ----------
    A : ndarray or SparseBlocks of shape (n, d)
        The left factor.
    B : ndarray or SparseBlocks of shape (n, q)
        The right factor, of the dtype of A.
    weights : ndarray of shape (n,), optional
        One for each row.

    Returns
    -------
    ndarray of shape (d, q), float64
        The product.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.products import cross_product
    >>> A, B = np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]])
    >>> cross_product(A, B, weights=np.array([1.0, 10.0])).tolist()
    [[83.0]]
    """
    n, d = A.shape
    q = B.shape[1]

    def add(rows: slice, total: _Array) -> None:
        block: Any = B[rows]
        if weights is not None:
            factors = weights[rows, np.newaxis].astype(B.dtype, copy=False)
            block = block.multiply(factors).tocsr() if sparse.issparse(block) else block * factors
        product: Any = A[rows].T @ block
        total += product.toarray() if sparse.issparse(product) else product

    return sum_blocks(add, n, (d, q), d * q)


def column_sums(A: _Array | SparseBlocks, weights: _Array | None = None) -> _Array:
    """Return the sum of the rows of A, in double precision.

    Parameters
    ----------
    A : ndarray of shape (n, ...) with one or two dimensions, or SparseBlocks
        The rows.
    weights : ndarray of shape (n,), optional
        One for each row.

    Returns
    -------
    ndarray of shape (...), float64
        The weighted sum.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.products import column_sums
    >>> column_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [31.0, 42.0]
    """
    n, *shape = A.shape

    def add(rows: slice, total: _Array) -> None:
        block = A[rows]
        total += (np.ones(block.shape[0]) if weights is None else weights[rows]) @ block

    return sum_blocks(add, n, tuple(shape), math.prod(shape))
