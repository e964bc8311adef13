"""Projection onto the probability simplex over each row's candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays
from hera_fast.kernels._inline import all_finite, list_candidates
from hera_fast.kernels._jit import helper, kernel, ordered_helper
from hera_fast.kernels._launch import launch

__all__ = ["project_simplex"]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline


def project_simplex(
    V: np.ndarray[Any, Any], Y: np.ndarray[Any, Any], out: np.ndarray[Any, Any]
) -> None:
    """Move each row of `V` to the nearest point of the simplex over its candidates.

    ``out[i] = argmin |p - V[i]|^2`` subject to ``p >= 0``, ``sum(p) = 1`` and ``p[j] = 0`` where
    ``Y[i, j] = 0``.

    Parameters
    ----------
    V : ndarray of shape (n, q)
        Those outside the candidates are not read. With NaN or infinity among
        several candidates, these become NaN.
    Y : ndarray of shape (n, q)
        Non-zero marks a candidate. Floating, bool or uint8.
    out : ndarray of shape (n, q)
        Overwritten. A row without candidates becomes zero.
    """
    sizes = check_arrays("V[n,q] Y[n,q]:candidates -> out[n,q]", V, Y, out)
    launch(_project_simplex_rows, sizes["n"], 2 * sizes["q"], V, candidate_bytes(Y), out)


@kernel
def _project_simplex_rows(start: int, stop: int, V: Any, Y: Any, out: Any) -> None:
    q = V.shape[1]
    labels = np.empty(q, np.int64)
    values = np.empty(q, np.float64)
    for i in range(start, stop):
        out[i, :] = 0
        n_labels = list_candidates(i, Y, labels)
        if n_labels == 1:
            out[i, labels[0]] = 1
        elif not all_finite(i, V, labels, n_labels):
            for c in range(n_labels):
                out[i, labels[c]] = np.nan
        elif n_labels > 1:
            n_labels = _near_the_top(V[i], labels, n_labels, values)
            _project(labels, values, n_labels, out[i])


@helper
def _near_the_top(v: Any, labels: Any, n_labels: int, values: Any) -> Any:
    """Keep the labels less than 1 below the row's maximum, which are all that can be positive.

    Their distances to the maximum go to `values`: small numbers, however large those in `v`.
    """
    top = v[labels[0]]
    for c in range(1, n_labels):
        top = max(top, v[labels[c]])
    top = np.float64(top)
    n_kept = 0
    for c in range(n_labels):
        value = np.float64(v[labels[c]])
        labels[n_kept] = labels[c]
        values[n_kept] = value - top
        n_kept += int(value >= top - 1)
    return n_kept


@helper
def _project(labels: Any, values: Any, n_labels: int, p: Any) -> None:
    """Write ``max(values - threshold, 0)`` with the threshold that makes the sum 1.

    Michelot's method: the threshold that fits all remaining labels is too low, so labels at or
    below it are zero; drop them and repeat. Each pass drops a third of the labels or at least
    halves the distance of the next dropped ones to the threshold, so that the number of passes is
    bounded by the precision of a double.

    The values are replaced by their distances to the threshold. One more pass at the end, when
    the distances sum to almost 1, removes the rounding of the threshold.
    """
    passes_left = 2
    while passes_left > 0:
        threshold = _excess(values, n_labels) / n_labels
        n_kept = 0
        for c in range(n_labels):
            value = values[c] - threshold
            labels[n_kept] = labels[c]
            values[n_kept] = value
            n_kept += int(value > 0)
        passes_left = passes_left - 1 if n_kept == n_labels else 2
        n_labels = n_kept
    for c in range(n_labels):
        p[labels[c]] = values[c]


@helper
def _excess(values: Any, n_values: int) -> float:
    """Return the sum minus 1, free of rounding when it is small."""
    coarse_total = fine_total = 0.0
    for c in range(n_values):
        coarse, fine = _split(values[c])
        coarse_total += coarse
        fine_total += fine
    return (coarse_total - 1) + fine_total


@ordered_helper
def _split(value: float) -> tuple[float, float]:
    """Split a number up to 1 into a multiple of 2^-40 and the rest, without rounding.

    Such multiples add up without rounding, and the rests are too small for theirs to matter.
    """
    coarse = (value + 6144.0) - 6144.0
    return coarse, value - coarse
