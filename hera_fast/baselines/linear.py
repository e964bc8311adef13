"""Linear models whose loss is a sum over rows: scores, and the way back to the coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.baselines.base import Baseline, linear_scores
from hera_fast.products import row_blocks, sum_blocks

__all__ = ["LinearBaseline", "sum_derivatives"]

_Array = np.ndarray[Any, Any]


class LinearBaseline(Baseline):
    """A method that learns coefficients W, the last row of which is the intercept if it has one.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.baselines.linear import LinearBaseline
    >>> class Means(LinearBaseline):
    ...     _parameter_constraints = {}
    ...     n_threads = None
    ...     fit_intercept = False
    ...
    ...     def _learn(self, X, Y):
    ...         self._keep(X.T @ Y / len(X), X.dtype)
    >>> Means().fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"]).predict([[2.0, 1.0]]).tolist()
    ['a']
    """

    fit_intercept: bool
    coef_: _Array
    intercept_: _Array

    def _keep(self, W: _Array, dtype: np.dtype[Any]) -> None:
        """Set the fitted attributes, in the precision of X."""
        coef = W[:-1] if self.fit_intercept else W
        self.coef_ = np.ascontiguousarray(coef.T, dtype=dtype)
        self.intercept_ = (W[-1] if self.fit_intercept else np.zeros(W.shape[1])).astype(dtype)

    def _scores(self, X: Any) -> _Array:
        return linear_scores(X, self.coef_, self.intercept_)


def sum_derivatives(X: Any, W: _Array, differentiate: Callable[[slice, _Array], Any]) -> _Array:
    """Return the derivative by W of a loss that is a sum over rows, block by block.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    W : ndarray of shape (d, q) or (d + 1, q)
        Coefficients. One row more than there are features belongs to a feature that is 1 in every
        row.
    differentiate : callable
        ``differentiate(rows, Z)`` returns the derivatives of the loss by the scores Z of the rows
        of a slice, as an array or a sparse array. It may overwrite Z, and is called on several
        threads.

    Returns
    -------
    ndarray of the shape of W, float64
        The same bits on any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.baselines.linear import sum_derivatives
    >>> X, W = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0], [0.0], [10.0]])
    >>> sum_derivatives(X, W, lambda rows, Z: Z).tolist()  # of the sum of squares, halved
    [[50.0], [74.0], [24.0]]
    """
    n, d = X.shape
    blocks = row_blocks(X)
    coef, intercept = W[:d].astype(X.dtype), W[d:].astype(X.dtype)

    def add(rows: slice, total: _Array) -> None:
        block = blocks[rows]
        Z = block @ coef
        for constant in intercept:
            Z += constant
        derivatives = differentiate(rows, Z)
        product = block.T @ derivatives
        total[:d] += product.toarray() if sparse.issparse(product) else product
        total[d:] += derivatives.sum(axis=0)

    return sum_blocks(add, n, W.shape, 2 * d * W.shape[1])
