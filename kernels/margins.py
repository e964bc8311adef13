"""How far the scores of candidates are above those of other labels: the losses of two methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays
from hera_fast.kernels._jit import kernel
from hera_fast.kernels._launch import launch

__all__ = ["candidate_margins", "mean_margin_gradient"]

_Array = np.ndarray[Any, Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline


def candidate_margins(Z: _Array, Y: _Array, best: _Array, rival: _Array, loss: _Array) -> None:
    """Find the best candidate and the best other label of every row, and the hinge loss.

    The loss of a row is ``max(0, 1 - (z_best - z_rival))``. It is zero for a row without
    candidates, or with candidates only.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Scores, finite.
    Y : ndarray of shape (n, q)
        Non-zero marks a candidate. Floating, bool or uint8.
    best, rival : ndarray of shape (n,), int64
        Receive the labels, of several with the same score the first, and -1 if there are none.
    loss : ndarray of shape (n,)
        Receives the loss.
    """
    sizes = check_arrays(
        "Z[n,q] Y[n,q]:candidates -> best[n]:index rival[n]:index loss[n]", Z, Y, best, rival, loss
    )
    launch(
        *(_candidate_margins_rows, sizes["n"], 2 * sizes["q"]),
        *(Z, candidate_bytes(Y), best, rival, loss),
    )


def mean_margin_gradient(Y: _Array, loss: _Array, Z: _Array) -> None:
    """Squared hinge loss of the candidates' mean score and of each other score, with its gradient.

    The loss of a row is ``psi(mean of z_y over the candidates) + sum of psi(-z_y) over the others``
    with ``psi(u) = max(0, 1 - u)^2``.

    Parameters
    ----------
    Y : ndarray of shape (n, q)
        Non-zero marks a candidate. Floating, bool or uint8. Without candidates, a row has no first
        term.
    loss : ndarray of shape (n,), float64
        Receives the loss of each row.
    Z : ndarray of shape (n, q)
        Scores, finite. Overwritten with the derivatives of each row's loss by its scores.
    """
    sizes = check_arrays("Y[n,q]:candidates -> loss[n]:float64 Z[n,q]", Y, loss, Z)
    launch(
        *(_mean_margin_gradient_rows, sizes["n"], 4 * sizes["q"]),
        *(candidate_bytes(Y), loss, Z),
    )


@kernel
def _candidate_margins_rows(
    start: int, stop: int, Z: Any, Y: Any, best: Any, rival: Any, loss: Any
) -> None:
    number = Z.dtype.type
    for i in range(start, stop):
        inside, outside = -1, -1
        top_inside, top_outside = number(-np.inf), number(-np.inf)
        for k in range(Z.shape[1]):
            z = Z[i, k]
            if Y[i, k] != 0:
                if z > top_inside:
                    inside, top_inside = k, z
            elif z > top_outside:
                outside, top_outside = k, z
        best[i], rival[i] = inside, outside
        both = inside >= 0 and outside >= 0
        loss[i] = max(number(0), number(1) - (top_inside - top_outside)) if both else number(0)


@kernel
def _mean_margin_gradient_rows(start: int, stop: int, Y: Any, loss: Any, Z: Any) -> None:
    number = Z.dtype.type
    for i in range(start, stop):
        n_candidates, total, squares = 0, 0.0, 0.0
        for k in range(Z.shape[1]):
            is_candidate = Y[i, k] != 0
            n_candidates += is_candidate
            total += np.float64(Z[i, k]) if is_candidate else 0.0
            hinge = number(0) if is_candidate else max(number(0), number(1) + Z[i, k])
            squares += np.float64(hinge) * np.float64(hinge)
            Z[i, k] = number(2) * hinge
        if n_candidates > 0:
            shortfall = max(0.0, 1.0 - total / n_candidates)
            squares += shortfall * shortfall
            slope = number(-2.0 * shortfall / n_candidates)
            for k in range(Z.shape[1]):
                if Y[i, k] != 0:
                    Z[i, k] = slope
        loss[i] = squares
