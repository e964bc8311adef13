"""How far the candidates of a row are from its other labels, for PL-SVM."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays
from hera_fast.kernels._jit import kernel
from hera_fast.kernels._launch import launch

__all__ = ["candidate_margins"]

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
