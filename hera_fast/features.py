"""The features as the solver sees them: centred, weighted, dense or sparse.

With Xc = X - mean the solver needs three products only: Xc' diag(w) Xc, Xc W and Xc' diag(w) R.
Dense features are centred once, in a copy, which keeps every digit of features that vary little
around a large mean. Sparse features would no longer be sparse; there the mean enters each product
as a correction of rank one. Features that vary too little for that count as constant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from hera_fast.kernels._check import check_arrays
from hera_fast.products import (
    SparseBlocks,
    column_sums,
    cross_product,
    each_block,
    multiply_rows,
    row_blocks,
    sum_blocks,
)
from hera_fast.rows import WHOLE, Rows

__all__ = ["CentredRows", "DenseRows", "Features", "make_features"]

_Array = np.ndarray[Any, Any]

# Products that are centred afterwards say nothing about features whose variance is at most this
# part of their squared mean.
_LOST = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


class Features:
    """Features Xc = X - mean with row weights w.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows n and of features d.
    dtype : dtype
        float32 or float64, as in X.
    sample_weight : ndarray of shape (n,) or None
        The weights w, or None when all are one.
    total_weight : float
        The sum of the weights.
    mean : ndarray of shape (d,), float64
        What is subtracted from every row.
    rows : Rows
        Where the rows are.
    centred : object
        The rows themselves, as an argument for functions that work on them.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        sample_weight: Any,
        total_weight: float,
        mean: _Array,
        rows: Rows,
        centred: Any,
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.sample_weight, self.total_weight = sample_weight, total_weight
        self.mean = mean
        self.rows, self.centred = rows, centred
        self._remembered: dict[Hashable, Any] = {}

    def remember(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Make something once for all runs on these features: the first result of that name."""
        if name not in self._remembered:
            self._remembered[name] = make()
        return self._remembered[name]

    def gram(self) -> _Array:
        """The weighted sum of xc_i xc_i', float64 of shape (d, d)."""
        gram: _Array = self.rows.sum(_gram, self.centred)
        return gram

    def scores(self, W: _Array, offset: _Array, out: _Array) -> None:
        """Write Xc W + offset to `out`.

        Parameters
        ----------
        W : ndarray of shape (d, q)
            Rounded to the dtype of the features.
        offset : ndarray of shape (q,)
            Added to every row.
        out : ndarray of shape (n, q)
            Of the dtype of the features.
        """
        self.rows.do(_write_scores, self.centred, W, offset, out)

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        """The weighted sum of xc_i r_i', float64 of shape (d, q), for R of shape (n, q)."""
        product: _Array = self.rows.sum(_correlation, self.centred, R)
        return product

    def rotated(self, rotation: _Array, *, keep: bool = True) -> Features:
        """Features Xc R; or nothing but zeros.

        Parameters
        ----------
        rotation : ndarray of shape (d, m)
            R.
        keep : bool, default=True
            Whether to put them there instead of zeros.

        Returns
        -------
        Features
            Dense, with the mean zero.
        """
        n_features = rotation.shape[1]
        centred = self.rows.make(_rotated, self.centred, rotation, keep)
        return Features(
            *((self.shape[0], n_features), self.dtype, self.sample_weight, self.total_weight),
            *(np.zeros(n_features), self.rows, centred),
        )

    def release(self) -> None:
        """Forget the rows; sizes, weights and mean remain."""
        self.centred = None


def _gram(centred: CentredRows) -> _Array:
    """Return the weighted sum of xc_i xc_i'."""
    return centred.gram()


def _write_scores(centred: CentredRows, W: _Array, offset: _Array, out: _Array) -> None:
    """Write Xc W + offset to `out`."""
    centred.scores(W, offset, out)


def _correlation(centred: CentredRows, R: _Array | SparseBlocks) -> _Array:
    """Return the weighted sum of xc_i r_i'."""
    return centred.correlate(R)


def _rotated(centred: CentredRows, rotation: _Array, keep: bool) -> DenseRows:
    rotated = np.zeros((centred.shape[0], rotation.shape[1]), centred.dtype)
    if keep:
        centred.scores(rotation, np.zeros(rotation.shape[1]), rotated)
    return DenseRows(rotated, centred.weights)


class CentredRows(Protocol):
    """Rows in one place with the three products of :class:`Features`."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    weights: _Array | None

    def gram(self) -> _Array:
        """The weighted sum of xc_i xc_i'."""

    def scores(self, W: _Array, offset: _Array, out: _Array) -> None:
        """Write Xc W + offset to `out`."""

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        """The weighted sum of xc_i r_i'."""


def make_features(
    X: Any, *, fit_intercept: bool, sample_weight: Any = None, rows: Rows = WHOLE
) -> Features:
    """Prepare features for the solver.

    Parameters
    ----------
    X : C-contiguous ndarray or CSR matrix of shape (n, d), float32 or float64
        Not to be changed while the result is in use.
    fit_intercept : bool
        Whether to subtract the mean of the rows; otherwise the mean counts as zero.
    sample_weight : ndarray of shape (n,), float64, optional
        Not negative. The mean is weighted, too.
    rows : Rows, default=WHOLE
        Where the rows are. In blocks, `X` and `sample_weight` stand for their pieces.

    Returns
    -------
    Features
        The products of the centred and weighted features. Each has the same bits for every number
        of threads.

    Raises
    ------
    TypeError
        For an array of the wrong kind or dtype.
    ValueError
        For an array of the wrong shape or memory order.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.features import make_features
    >>> features = make_features(np.array([[1.0], [3.0]]), fit_intercept=True)
    >>> features.mean.tolist(), features.gram().tolist()
    ([2.0], [[2.0]])
    """
    kinds = rows.gather(_check, X, sample_weight)
    n, (_, d, dtype, is_sparse) = sum(kind[0] for kind in kinds), kinds[0]
    weight = float(n) if sample_weight is None else float(rows.sum(column_sums, sample_weight))
    mean = np.zeros(d)
    if fit_intercept and weight > 0:
        mean = rows.sum(_sum_of_rows, X, sample_weight) / weight
    if is_sparse:
        squares = rows.sum(_squares, X, sample_weight)
        # Of these, all products would be rounding errors.
        lost = squares <= (1 + _LOST[dtype]) * weight * mean**2
        centred = rows.make(_SparseRows, X, mean, sample_weight, lost)
    else:
        if fit_intercept:
            _correct_constant_means(rows, X, sample_weight, mean)
        centred = rows.make(_dense_rows, X, mean if fit_intercept else None, sample_weight)
    return Features((n, d), dtype, sample_weight, weight, mean, rows, centred)


def _check(X: Any, sample_weight: Any) -> tuple[int, int, np.dtype[Any], bool]:
    """Raise an error unless these are rows and their weights; say how many and of what kind."""
    if sparse.issparse(X):
        if X.format != "csr":
            raise TypeError(f"X must be a CSR matrix if it is sparse, got {X.format}")
        if X.dtype not in (np.float32, np.float64):
            raise TypeError(f"X must be float32 or float64, got {X.dtype}")
    else:
        check_arrays("X[n,d] ->", X)
    if sample_weight is not None:
        check_arrays("sample_weight[n]:float64 ->", sample_weight)
        if len(sample_weight) != X.shape[0]:
            raise ValueError(
                f"sample_weight must have shape ({X.shape[0]},) like the rows of X, "
                f"got {sample_weight.shape}"
            )
    return *X.shape, X.dtype, sparse.issparse(X)


def _sum_of_rows(X: Any, weights: _Array | None) -> _Array:
    return column_sums(row_blocks(X), weights)


def _correct_constant_means(rows: Rows, X: Any, weights: Any, mean: _Array) -> None:
    """Make means of equal numbers exact, so that constant features are zero when centred."""
    firsts = [first for first in rows.gather(_first_counted, X, weights) if first is not None]
    if not firsts:
        return
    first = firsts[0].astype(np.float64)
    close = np.flatnonzero(np.abs(mean - first) <= 1e-10 * np.abs(first))
    if len(close):
        differing = rows.sum(_count_differing, X, weights, close, first[close])
        constant = close[differing == 0]
        mean[constant] = first[constant]


def _first_counted(X: _Array, weights: _Array | None) -> _Array | None:
    counted = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
    return X[counted[0]] if len(counted) else None


def _count_differing(X: _Array, weights: _Array | None, features: _Array, values: _Array) -> _Array:
    counted = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
    numbers = [
        np.count_nonzero(X[counted, feature] != value)
        for feature, value in zip(features, values, strict=True)
    ]
    return np.array(numbers)


def _dense_rows(X: _Array, mean: _Array | None, weights: _Array | None) -> DenseRows:
    return DenseRows(X if mean is None else _centred(X, mean), weights)


def _centred(X: _Array, mean: _Array) -> _Array:
    centred = np.empty_like(X)

    def subtract(rows: slice) -> None:
        np.subtract(X[rows], mean, out=centred[rows], casting="same_kind")

    each_block(subtract, *X.shape)
    return centred


class DenseRows:
    """Rows that are centred already."""

    def __init__(self, X: _Array, weights: _Array | None) -> None:
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.X, self.weights = X, weights

    def gram(self) -> _Array:
        n, d = self.X.shape

        def add(rows: slice, total: _Array) -> None:
            block = self.X[rows].astype(np.float64, copy=False)
            if self.weights is not None:
                block = block * np.sqrt(self.weights[rows, np.newaxis])
            total += block.T @ block

        return sum_blocks(add, n, (d, d), d * d)

    def scores(self, W: _Array, offset: _Array, out: _Array) -> None:
        multiply_rows(self.X, np.ascontiguousarray(W, self.X.dtype), out, offset)

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        return cross_product(self.X, R, self.weights)


class _SparseRows:
    """Rows whose products are centred afterwards."""

    def __init__(self, X: Any, mean: _Array, weights: _Array | None, lost: _Array) -> None:
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.weights = weights
        self._X, self._mean, self._lost = SparseBlocks(X), mean, lost
        n = X.shape[0]
        self._total_weight = float(n) if weights is None else float(column_sums(weights))

    def gram(self) -> _Array:
        n, d = self._X.shape

        def add(rows: slice, total: _Array) -> None:
            block = self._X[rows].astype(np.float64)
            weighted = block
            if self.weights is not None:
                weights = np.repeat(self.weights[rows], np.diff(block.indptr))
                parts = (block.data * weights, block.indices, block.indptr)
                weighted = sparse.csr_array(parts, shape=block.shape)
            total += (block.T @ weighted).toarray()

        # A product of two sparse matrices is faster than the sum of many of them.
        total = sum_blocks(add, n, (d, d), d, large=True)
        total -= self._total_weight * np.outer(self._mean, self._mean)
        total[self._lost] = total[:, self._lost] = 0
        return total

    def scores(self, W: _Array, offset: _Array, out: _Array) -> None:
        shift = offset - self._mean @ W
        multiply_rows(self._X, np.ascontiguousarray(W, self._X.dtype), out, shift)

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        sums = column_sums(R, self.weights)
        product = cross_product(self._X, R, self.weights)
        product -= np.outer(self._mean, sums)
        product[self._lost] = 0
        return product


def _squares(X: Any, weights: _Array | None) -> _Array:
    """Return the weighted sum of the squares of sparse rows."""
    blocks, (n, d) = SparseBlocks(X), X.shape

    def add(rows: slice, total: _Array) -> None:
        block = blocks[rows].copy()
        block.sum_duplicates()
        squares = block.astype(np.float64).power(2)
        total += (np.ones(block.shape[0]) if weights is None else weights[rows]) @ squares

    return sum_blocks(add, n, (d,), d)
