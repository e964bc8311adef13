"""Sparse matrices from files, checked before compiled code trusts their indices."""

from __future__ import annotations

from typing import Any

__all__ = ["check_indices"]


def check_indices(matrix: Any) -> None:
    """Refuse a matrix whose indices lead outside of it or of its entries.

    Parameters
    ----------
    matrix : CSR or CSC matrix
        The matrix; entries behind the last one that is in use are dropped.

    Raises
    ------
    ValueError
        If an index is out of range, or a row (of CSC, a column) ends before it begins.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from hera_fast.sparse_checks import check_indices
    >>> check_indices(sparse.csr_array(np.eye(2)))
    >>> empty = sparse.csr_array((2, 2))
    >>> empty.indptr[1] = 1_000_000
    >>> check_indices(empty)
    Traceback (most recent call last):
        ...
    ValueError: index pointer values must not fall: 0 follows 1000000
    """
    matrix.check_format(full_check=True)
    # SciPy does not look at them when there are no entries, and differences may overflow.
    falls = matrix.indptr[1:] < matrix.indptr[:-1]
    if falls.any():
        place = falls.argmax()
        before, after = matrix.indptr[place : place + 2]
        raise ValueError(f"index pointer values must not fall: {after} follows {before}")
