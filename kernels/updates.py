"""Elementwise steps of the augmented Lagrangian method, each in one pass over memory.

The constraint is ``Y = P + E`` with the multiplier ``M``; the ``paper`` formulation adds
``P = J`` with the multiplier ``N``. The updates of the multipliers also write, for every row, the
sums of squares and products from which residuals and objective follow without reading the arrays
again. These sums are float64 whatever the arrays are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays, check_number
from hera_fast.kernels._jit import kernel
from hera_fast.kernels._launch import launch

__all__ = [
    "PAPER_UPDATE_PARTS",
    "UPDATE_PARTS",
    "fit_gradient",
    "low_rank_target",
    "soft_threshold",
    "update_multipliers",
    "update_multipliers_paper",
]

_Array = np.ndarray[Any, Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline

#: Columns of `row_parts` in :func:`update_multipliers`.
UPDATE_PARTS = (
    "primal",  # |Y - P - E|^2
    "dual",  # |E - previous E|^2; times the squared penalty the squared dual residual
    "multiplier_squares",  # |M|^2 after the update
)

#: Columns of `row_parts` in :func:`update_multipliers_paper`.
PAPER_UPDATE_PARTS = (
    "primal",  # |Y - P - E|^2
    "dual",  # |E - previous E|^2
    "multiplier",  # <M, Y - P - E> with M from before the update
    "split_primal",  # |P - J|^2
    "split_dual",  # |J - previous J|^2
    "split_multiplier",  # <N, P - J> with N from before the update
    "sparsity",  # |J|_1
    "fit",  # |P - Z|^2
)


def soft_threshold(V: _Array, threshold: float, out: _Array) -> None:
    """Shrink every entry towards zero: ``out = sign(V) max(|V| - threshold, 0)``.

    Parameters
    ----------
    V : ndarray of shape (n, q)
    threshold : float
        Not negative.
    out : ndarray of shape (n, q)
        Overwritten; an array of its own.
    """
    sizes = check_arrays("V[n,q] -> out[n,q]", V, out)
    cut = check_number("threshold", threshold, positive=False, dtype=V.dtype)
    launch(_soft_threshold_rows, sizes["n"], sizes["q"], V, cut, out)


@kernel
def _soft_threshold_rows(start: int, stop: int, V: Any, threshold: Any, out: Any) -> None:
    entries, results = V[start:stop].ravel(), out[start:stop].ravel()
    for k in range(entries.size):
        v = entries[k]
        # What is cut off lies between -threshold and threshold. NaN stays NaN.
        cut = threshold if v > threshold else (-threshold if v < -threshold else v)
        results[k] = v - cut


def fit_gradient(Z: _Array, P: _Array, weight: float, grad: _Array) -> None:
    """Add ``weight (Z - P)``, the derivative of ``weight/2 |P - Z|^2`` by the scores, to `grad`.

    Parameters
    ----------
    Z, P : ndarray of shape (n, q)
        Scores and confidences.
    weight : float
        Not negative.
    grad : ndarray of shape (n, q)
        Updated in place.
    """
    sizes = check_arrays("Z[n,q] P[n,q] -> grad[n,q]", Z, P, grad)
    factor = check_number("weight", weight, positive=False, dtype=Z.dtype)
    launch(_fit_gradient_rows, sizes["n"], sizes["q"], Z, P, factor, grad)


@kernel
def _fit_gradient_rows(start: int, stop: int, Z: Any, P: Any, weight: Any, grad: Any) -> None:
    z, p, sums = Z[start:stop].ravel(), P[start:stop].ravel(), grad[start:stop].ravel()
    for k in range(z.size):
        sums[k] += weight * (z[k] - p[k])


def low_rank_target(Y: _Array, P: _Array, M: _Array, penalty: float, out: _Array) -> None:
    """Write ``out = Y - P + M / penalty``, whose singular values the E step thresholds.

    Parameters
    ----------
    Y : ndarray of shape (n, q)
        The candidates. Floating, bool or uint8.
    P, M : ndarray of shape (n, q)
        Confidences and multiplier.
    penalty : float
        Positive.
    out : ndarray of shape (n, q)
        Overwritten.
    """
    sizes = check_arrays("Y[n,q]:candidates P[n,q] M[n,q] -> out[n,q]", Y, P, M, out)
    step = 1 / check_number("penalty", penalty, positive=True, dtype=P.dtype)
    launch(_low_rank_target_rows, sizes["n"], sizes["q"], candidate_bytes(Y), P, M, step, out)


@kernel
def _low_rank_target_rows(
    start: int, stop: int, Y: Any, P: Any, M: Any, step: Any, out: Any
) -> None:
    number = P.dtype.type
    y, p, m = Y[start:stop].ravel(), P[start:stop].ravel(), M[start:stop].ravel()
    results = out[start:stop].ravel()
    for k in range(p.size):
        results[k] = number(y[k]) - p[k] + step * m[k]


def update_multipliers(
    Y: _Array,
    P: _Array,
    low_rank: _Array,
    penalty: float,
    E: _Array,
    M: _Array,
    row_parts: _Array,
) -> None:
    """End an iteration of the simplex formulation.

    ``E = low_rank``, then ``M += penalty (Y - P - E)``.

    Parameters
    ----------
    Y : ndarray of shape (n, q)
        The candidates. Floating, bool or uint8.
    P : ndarray of shape (n, q)
        Confidences.
    low_rank : ndarray of shape (n, q)
        What singular value thresholding made of :func:`low_rank_target`.
    penalty : float
        Positive.
    E, M : ndarray of shape (n, q)
        Updated in place. `E` holds the noise of the iteration before.
    row_parts : ndarray of shape (n, len(UPDATE_PARTS)), float64
        Overwritten with the sums over each row that `UPDATE_PARTS` names.
    """
    sizes = check_arrays(
        "Y[n,q]:candidates P[n,q] low_rank[n,q] -> E[n,q] M[n,q] row_parts[n,parts]:float64",
        *(Y, P, low_rank, E, M, row_parts),
    )
    _check_parts(row_parts, UPDATE_PARTS)
    step = check_number("penalty", penalty, positive=True, dtype=P.dtype)
    arguments = (candidate_bytes(Y), P, low_rank, step, E, M, row_parts)
    launch(_update_multipliers_rows, sizes["n"], 4 * sizes["q"], *arguments)


@kernel
def _update_multipliers_rows(
    start: int,
    stop: int,
    Y: Any,
    P: Any,
    low_rank: Any,
    penalty: Any,
    E: Any,
    M: Any,
    row_parts: Any,
) -> None:
    number = P.dtype.type
    wide = np.float64
    for i in range(start, stop):
        primal = dual = multiplier_squares = 0.0
        for k in range(P.shape[1]):
            e = low_rank[i, k]
            residual = number(Y[i, k]) - P[i, k] - e
            m = M[i, k] + penalty * residual
            primal += wide(residual) ** 2
            dual += wide(e - E[i, k]) ** 2
            multiplier_squares += wide(m) ** 2
            E[i, k] = e
            M[i, k] = m
        row_parts[i, 0] = primal
        row_parts[i, 1] = dual
        row_parts[i, 2] = multiplier_squares


def update_multipliers_paper(
    Y: _Array,
    P: _Array,
    Z: _Array,
    low_rank: _Array,
    penalty: float,
    split_penalty: float,
    sparsity: float,
    E: _Array,
    J: _Array,
    M: _Array,
    N: _Array,
    row_parts: _Array,
) -> None:
    """End an iteration of the paper formulation.

    ``J = S(P + N / split_penalty)`` with the soft threshold ``sparsity / split_penalty``,
    ``E = max(low_rank, 0)``, then ``M += penalty (Y - P - E)`` and
    ``N += split_penalty (P - J)``. When ``P >= 0`` and ``N`` started at zero, ``J >= 0`` and
    ``0 <= N <= sparsity`` hold in every iteration.

    Parameters
    ----------
    Y : ndarray of shape (n, q)
        The candidates. Floating, bool or uint8.
    P, Z : ndarray of shape (n, q)
        Confidences and scores.
    low_rank : ndarray of shape (n, q)
        What singular value thresholding made of :func:`low_rank_target`.
    penalty, split_penalty : float
        The paper's lambda and rho, positive.
    sparsity : float
        The paper's mu, not negative.
    E, J, M, N : ndarray of shape (n, q)
        Updated in place. `E` and `J` hold the values of the iteration before.
    row_parts : ndarray of shape (n, len(PAPER_UPDATE_PARTS)), float64
        Overwritten with the sums over each row that `PAPER_UPDATE_PARTS` names.
    """
    sizes = check_arrays(
        "Y[n,q]:candidates P[n,q] Z[n,q] low_rank[n,q]"
        " -> E[n,q] J[n,q] M[n,q] N[n,q] row_parts[n,parts]:float64",
        *(Y, P, Z, low_rank, E, J, M, N, row_parts),
    )
    _check_parts(row_parts, PAPER_UPDATE_PARTS)
    step = check_number("penalty", penalty, positive=True, dtype=P.dtype)
    split_step = check_number("split_penalty", split_penalty, positive=True, dtype=P.dtype)
    cut = check_number("sparsity", sparsity, positive=False, dtype=P.dtype)
    penalties = (step, split_step, cut)
    arguments = (candidate_bytes(Y), P, Z, low_rank, *penalties, E, J, M, N, row_parts)
    launch(_update_multipliers_paper_rows, sizes["n"], 6 * sizes["q"], *arguments)


@kernel
def _update_multipliers_paper_rows(
    start: int,
    stop: int,
    Y: Any,
    P: Any,
    Z: Any,
    low_rank: Any,
    penalty: Any,
    split_penalty: Any,
    sparsity: Any,
    E: Any,
    J: Any,
    M: Any,
    N: Any,
    row_parts: Any,
) -> None:
    number = P.dtype.type
    wide = np.float64
    inverse = number(1) / split_penalty
    for i in range(start, stop):
        primal = dual = multiplier = fit = 0.0
        split_primal = split_dual = split_multiplier = norm = 0.0
        for k in range(P.shape[1]):
            p = P[i, k]
            low = low_rank[i, k]
            e = number(0) if low < 0 else low
            residual = number(Y[i, k]) - p - e
            m = M[i, k]
            primal += wide(residual) ** 2
            dual += wide(e - E[i, k]) ** 2
            multiplier += wide(m) * wide(residual)
            fit += wide(p - Z[i, k]) ** 2
            E[i, k] = e
            M[i, k] = m + penalty * residual
            # N + rho (P - J) is what the threshold cuts off N + rho P: no difference of large
            # numbers is needed for it, however small rho is.
            n = N[i, k]
            raised = n + split_penalty * p
            kept = sparsity if raised > sparsity else (-sparsity if raised < -sparsity else raised)
            j = (raised - kept) * inverse
            difference = p - j
            split_primal += wide(difference) ** 2
            split_dual += wide(j - J[i, k]) ** 2
            split_multiplier += wide(n) * wide(difference)
            norm += wide(abs(j))
            J[i, k] = j
            N[i, k] = kept
        row_parts[i, 0] = primal
        row_parts[i, 1] = dual
        row_parts[i, 2] = multiplier
        row_parts[i, 3] = split_primal
        row_parts[i, 4] = split_dual
        row_parts[i, 5] = split_multiplier
        row_parts[i, 6] = norm
        row_parts[i, 7] = fit


def _check_parts(row_parts: _Array, names: tuple[str, ...]) -> None:
    if row_parts.shape[1] != len(names):
        raise ValueError(f"row_parts must have {len(names)} columns, got {row_parts.shape[1]}")
