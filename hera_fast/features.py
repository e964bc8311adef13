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
    sum_blocks,
)

__all__ = ["Features", "make_features"]

_Array = np.ndarray[Any, Any]

# Products that are centred afterwards say nothing about features whose variance is at most this
# part of their squared mean.
_LOST = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


class Features(Protocol):
    """Features Xc = X - mean with row weights w."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows n and of features d."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64, as in X."""

    @property
    def sample_weight(self) -> _Array | None:
        """The weights w, or None when all are one."""

    @property
    def total_weight(self) -> float:
        """The sum of the weights."""

    @property
    def mean(self) -> _Array:
        """What is subtracted from every row, float64 of shape (d,)."""

    def gram(self) -> _Array:
        """The weighted sum of xc_i xc_i', float64 of shape (d, d)."""

    def remember(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Make something once for all runs on these features: the first result of that name."""

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

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        """The weighted sum of xc_i r_i', float64 of shape (d, q), for R of shape (n, q)."""


def make_features(X: Any, *, fit_intercept: bool, sample_weight: _Array | None = None) -> Features:
    """Prepare features for the solver.

    Parameters
    ----------
    X : C-contiguous ndarray or CSR matrix of shape (n, d), float32 or float64
        Not to be changed while the result is in use.
    fit_intercept : bool
        Whether to subtract the mean of the rows; otherwise the mean counts as zero.
    sample_weight : ndarray of shape (n,), float64, optional
        Not negative. The mean is weighted, too.

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
    rows = SparseBlocks(X) if sparse.issparse(X) else X
    weight = float(X.shape[0]) if sample_weight is None else float(column_sums(sample_weight))
    mean = np.zeros(X.shape[1])
    if fit_intercept and weight > 0:
        mean = column_sums(rows, sample_weight) / weight
    if isinstance(rows, SparseBlocks):
        return _SparseFeatures(rows, mean, sample_weight, weight)
    if fit_intercept:
        _correct_constant_means(X, sample_weight, mean)
        X = _centred(X, mean)
    return _DenseFeatures(X, mean, sample_weight, weight)


def _correct_constant_means(X: _Array, weights: _Array | None, mean: _Array) -> None:
    """Make means of equal numbers exact, so that constant features are zero when centred."""
    counted = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
    if len(counted) == 0:
        return
    first = X[counted[0]].astype(np.float64)
    for feature in np.flatnonzero(np.abs(mean - first) <= 1e-10 * np.abs(first)):
        if (X[counted, feature] == first[feature]).all():
            mean[feature] = first[feature]


def _centred(X: _Array, mean: _Array) -> _Array:
    centred = np.empty_like(X)

    def subtract(rows: slice) -> None:
        np.subtract(X[rows], mean, out=centred[rows], casting="same_kind")

    each_block(subtract, *X.shape)
    return centred


class _Memory:
    """What several runs on the same features share."""

    def __init__(self) -> None:
        self._remembered: dict[Hashable, Any] = {}

    def remember(self, name: Hashable, make: Callable[[], Any]) -> Any:
        if name not in self._remembered:
            self._remembered[name] = make()
        return self._remembered[name]


class _DenseFeatures(_Memory):
    """Features that are centred already."""

    def __init__(self, X: _Array, mean: _Array, weights: _Array | None, total: float) -> None:
        super().__init__()
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.mean = mean
        self._X = X
        self.sample_weight = weights
        self.total_weight = total

    def gram(self) -> _Array:
        n, d = self.shape

        def add(rows: slice, total: _Array) -> None:
            block = self._X[rows].astype(np.float64, copy=False)
            if self.sample_weight is not None:
                block = block * np.sqrt(self.sample_weight[rows, np.newaxis])
            total += block.T @ block

        return sum_blocks(add, n, (d, d), d * d)

    def scores(self, W: _Array, offset: _Array, out: _Array) -> None:
        multiply_rows(self._X, np.ascontiguousarray(W, self.dtype), out, offset)

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        return cross_product(self._X, R, self.sample_weight)


class _SparseFeatures(_Memory):
    """Features that are centred by correcting their products."""

    def __init__(self, X: SparseBlocks, mean: _Array, weights: _Array | None, total: float) -> None:
        super().__init__()
        self.shape = X.shape
        self.dtype = X.dtype
        self.mean = mean
        self._X = X
        self.sample_weight = weights
        self.total_weight = total
        # Of these, all products would be rounding errors.
        self._lost = self._squares() <= (1 + _LOST[self.dtype]) * total * mean**2

    def _squares(self) -> _Array:
        n, d = self.shape

        def add(rows: slice, total: _Array) -> None:
            block = self._X[rows].copy()
            block.sum_duplicates()
            squares = block.astype(np.float64).power(2)
            weights = self.sample_weight
            total += (np.ones(block.shape[0]) if weights is None else weights[rows]) @ squares

        return sum_blocks(add, n, (d,), d)

    def gram(self) -> _Array:
        n, d = self.shape

        def add(rows: slice, total: _Array) -> None:
            block = self._X[rows].astype(np.float64)
            weighted = block
            if self.sample_weight is not None:
                weights = np.repeat(self.sample_weight[rows], np.diff(block.indptr))
                parts = (block.data * weights, block.indices, block.indptr)
                weighted = sparse.csr_array(parts, shape=block.shape)
            total += (block.T @ weighted).toarray()

        # A product of two sparse matrices is faster than the sum of many of them.
        total = sum_blocks(add, n, (d, d), d, large=True)
        total -= self.total_weight * np.outer(self.mean, self.mean)
        total[self._lost] = total[:, self._lost] = 0
        return total

    def scores(self, W: _Array, offset: _Array, out: _Array) -> None:
        shift = offset - self.mean @ W
        multiply_rows(self._X, np.ascontiguousarray(W, self.dtype), out, shift)

    def correlate(self, R: _Array | SparseBlocks) -> _Array:
        sums = column_sums(R, self.sample_weight)
        product = cross_product(self._X, R, self.sample_weight)
        product -= np.outer(self.mean, sums)
        product[self._lost] = 0
        return product
