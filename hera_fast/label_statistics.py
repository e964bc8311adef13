"""Figures about labels: which are candidates together, and what the noise is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

__all__ = ["co_occurrence_shares", "noise_factors"]

_Array = np.ndarray[Any, Any]

# Rows of E that are made float64 at a time.
_BLOCK = 1 << 14
# Singular values below this part of the largest one are rounding errors: those of the Gram matrix
# are their squares.
_LEAST_FACTOR = 1e-7


def co_occurrence_shares(candidates: Any, most: int) -> tuple[_Array, _Array]:
    """Return how often the most frequent labels are candidates together.

    Parameters
    ----------
    candidates : csr_array of bool, shape (n, q)
        Which labels are candidates of which row.
    most : int
        How many labels to look at.

    Returns
    -------
    labels : ndarray of int, shape (k,)
        The columns of the labels, the most frequent one first. Those without any row are left out.
    shares : ndarray of shape (k, k)
        Share of the rows with the candidate i in which j is a candidate too.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from hera_fast.label_statistics import co_occurrence_shares
    >>> Y = sparse.csr_array(np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=bool))
    >>> labels, shares = co_occurrence_shares(Y, 2)
    >>> labels.tolist(), shares.round(2).tolist()
    ([1, 0], [[1.0, 0.33], [1.0, 1.0]])
    """
    counts = np.bincount(candidates.indices, minlength=candidates.shape[1])
    labels = np.argsort(-counts, kind="stable")[:most]
    labels = labels[counts[labels] > 0]
    # Not n times q numbers, but as many as there are candidates.
    frequent = candidates[:, labels].astype(np.float64)
    return labels, (frequent.T @ frequent).toarray() / counts[labels, None]


def noise_factors(E: _Array, n_factors: int, most: int) -> tuple[_Array, _Array, _Array]:
    """Return the leading right singular vectors of the noise: labels that are false together.

    Parameters
    ----------
    E : ndarray of shape (n, q)
        The noise.
    n_factors : int
        How many factors to return, at most the rank of E.
    most : int
        How many labels to return: those with the largest loadings.

    Returns
    -------
    singular_values : ndarray of shape (f,)
        The largest first.
    labels : ndarray of int, shape (k,)
        The columns of the labels, in ascending order.
    loadings : ndarray of shape (f, k)
        How much each label has of each factor; the largest one of a factor is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.label_statistics import noise_factors
    >>> values, labels, loadings = noise_factors(np.diag([0.0, 3.0, 1.0]), 2, 2)
    >>> values.tolist(), labels.tolist(), loadings.tolist()
    ([3.0, 1.0], [1, 2], [[1.0, 0.0], [0.0, 1.0]])
    """
    q = E.shape[1]
    gram = np.zeros((q, q))
    for start in range(0, len(E), _BLOCK):
        block = E[start : start + _BLOCK].astype(np.float64)
        gram += block.T @ block
    squares, vectors = linalg.eigh(gram, subset_by_index=(max(0, q - n_factors), q - 1))
    values = np.sqrt(np.maximum(squares[::-1], 0))
    values = values[values > _LEAST_FACTOR * values[0]]
    loadings = vectors.T[::-1][: len(values)]
    largest = np.abs(loadings).argmax(axis=1)
    loadings = loadings * np.sign(loadings[np.arange(len(values)), largest])[:, None]
    if not len(values):
        return values, np.empty(0, np.intp), loadings[:, :0]
    labels = np.sort(np.argsort(-np.abs(loadings).max(axis=0), kind="stable")[:most])
    return values, labels, loadings[:, labels]
