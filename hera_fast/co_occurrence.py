"""Which labels accompany which as false candidates.

False candidates have patterns: some labels are in many sets, some come in pairs. Let c_jk be the
probability that k is a candidate of a row whose label is j. It is estimated from the confidences,

    c_jk = (sum_i w_i P_ij Y_ik + m b_k) / (sum_i w_i P_ij + m),    k != j,

where b_k is how often k accompanies any label and m makes rare labels follow it. If the false
candidates of a row were independent, its set S would have the log-likelihood

    log p(S | j) = sum_{k in S, k != j} log(c_jk / (1 - c_jk)) + sum_{k != j} log(1 - c_jk)

They are not, so this counts half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.products import SparseBlocks, cross_product
from hera_fast.rows import WHOLE, Rows

__all__ = ["CoOccurrence"]

_Array = np.ndarray[Any, Any]

# As many rows with the common pattern are added to those of each label.
_COMMON_ROWS = 5.0
# What the log-likelihood of the candidates counts beside that of the features.
_WEIGHT = 0.5
_LEAST = 1e-4


class CoOccurrence:
    """Patterns of false candidates, estimated from confidences.

    Parameters
    ----------
    Y : ndarray of shape (n, q), bool
        The candidates.
    dtype : dtype
        That of the confidences.
    sample_weight : ndarray of shape (n,), optional
        Weights of the rows.
    rows : Rows, default=WHOLE
        Where the rows are.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.co_occurrence import CoOccurrence
    >>> Y = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
    >>> P = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    >>> pairs, labels = CoOccurrence(Y, P.dtype).scores(P)
    >>> bool(pairs[0, 1] > pairs[1, 0])  # label 1 accompanies label 0, not the other way round
    True
    """

    def __init__(
        self,
        Y: _Array,
        dtype: np.dtype[Any],
        sample_weight: _Array | None = None,
        rows: Rows = WHOLE,
    ) -> None:
        self._rows = rows
        self._candidates = rows.make(_sparse_candidates, Y, dtype)
        self._weight = sample_weight

    def scores(self, P: _Array) -> tuple[_Array, _Array]:
        """Return what a pair of candidates and what a label adds to the log-likelihood.

        Parameters
        ----------
        P : ndarray of shape (n, q)
            Confidences, zero outside the candidates.

        Returns
        -------
        pairs : ndarray of shape (q, q)
            ``pairs[j, k]``: for label j with the candidate k.
        labels : ndarray of shape (q,)
            For label j with any candidates.
        """
        joint = self._rows.sum(cross_product, P, self._candidates, self._weight)
        # A label is always a candidate where it has confidence.
        mass = joint.diagonal().copy()
        np.fill_diagonal(joint, 0)
        others = mass.sum() - mass
        common = joint.sum(axis=0) / np.where(others > 0, others, 1)
        share = (joint + _COMMON_ROWS * common) / (mass[:, np.newaxis] + _COMMON_ROWS)
        share = np.clip(share, _LEAST, 1 - _LEAST)
        absent = np.log1p(-share)
        np.fill_diagonal(absent, 0)
        return _WEIGHT * (np.log(share) - np.log1p(-share)), _WEIGHT * absent.sum(axis=1)


def _sparse_candidates(Y: _Array, dtype: np.dtype[Any]) -> SparseBlocks:
    return SparseBlocks(sparse.csr_array(Y, dtype=dtype))
