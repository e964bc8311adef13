"""Linear support vector machines for many pairs of classes over the same rows.

A machine separates some of the rows, each with a sign s, by the vector w that minimises

    1/2 |w|^2 + C sum max(0, 1 - s w.x)^2

or, balanced, with a C of their own for the rows of each sign, so that both signs have the same
weight together. It is found by dual coordinate descent (Hsieh, Chang, Lin, Keerthi and
Sundararajan, A dual coordinate descent method for large-scale linear SVM, ICML 2008), the method of
LIBLINEAR. The dual has one variable a >= 0 for each row, and w = sum a s x throughout. A step makes
one variable optimal while the others stay: with the derivative g = s w.x - 1 + a / 2C it becomes
max(0, a - g / (|x|^2 + 1 / 2C)). A pass does that for every row, in random order. A row with a = 0
whose derivative was larger than all that mattered in the pass before is set aside until the others
have converged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._check import check_arrays, check_number
from hera_fast.kernels._jit import inline_helper, kernel
from hera_fast.kernels._launch import launch

__all__ = ["train_machines"]

_Array = np.ndarray[Any, Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline

# Machines are handed to threads in this many parts with about the same number of rows.
_PARTS = 256
# Passes that a machine needs, as a guess from which follows whether threads pay.
_USUAL_PASSES = 16


def train_machines(
    features: _Array,
    offsets: _Array,
    rows: _Array,
    signs: _Array,
    C: float,
    balanced: bool,
    tol: float,
    max_iter: int,
    coef: _Array,
    n_iter: _Array,
) -> None:
    """Minimise ``1/2 |w|^2 + C sum max(0, 1 - s w.x)^2`` for several sets of rows x and signs s.

    Parameters
    ----------
    features : ndarray of shape (n, m)
        Rows. For machines with an intercept, one column is constant.
    offsets : ndarray of shape (M + 1,), int64
        Machine k has the entries from ``offsets[k]`` to ``offsets[k + 1]`` of `rows` and `signs`.
    rows : ndarray of shape (r,), int64
        Indices of rows.
    signs : ndarray of shape (r,)
        1 or -1.
    C : float
        Weight of the errors.
    balanced : bool
        Whether C is multiplied by r / 2p for the p rows with one sign of the r rows of a machine,
        as scikit-learn's ``class_weight="balanced"`` does.
    tol : float
        A machine is done when the projected derivatives by its dual variables, which are 0 at the
        minimum, and 0 differ by at most `tol` in a pass over all its rows.
    max_iter : int
        Most passes over the rows of a machine.
    coef : ndarray of shape (M, m)
        Overwritten with the vectors w: 0 for a machine without rows of both signs.
    n_iter : ndarray of shape (M,), int64
        Overwritten with the number of passes: 0 for a machine without rows of both signs,
        `max_iter` for one that may not have converged.
    """
    sizes = check_arrays(
        "features[n,m] offsets[k]:index rows[r]:index signs[r] -> coef[M,m] n_iter[M]:index",
        features,
        offsets,
        rows,
        signs,
        coef,
        n_iter,
    )
    number = features.dtype
    ridge = number.type(1 / (2 * check_number("C", C, positive=True, dtype=number)))
    precision = check_number("tol", tol, positive=False, dtype=number)
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")
    n_machines, n_entries = sizes["M"], sizes["r"]
    _check_entries(offsets, rows, signs, n_machines, sizes["n"])
    if n_machines == 0:
        return
    targets = np.arange(_PARTS) * (n_entries / _PARTS)
    parts = np.append(np.searchsorted(offsets[:-1], targets), n_machines)
    parts[0] = 0
    launch(
        _train_parts,
        _PARTS,
        4 * _USUAL_PASSES * sizes["m"] * n_entries // _PARTS,
        parts,
        features,
        offsets,
        rows,
        signs,
        ridge,
        bool(balanced),
        precision,
        np.int64(max_iter),
        coef,
        n_iter,
    )


def _check_entries(
    offsets: _Array, rows: _Array, signs: _Array, n_machines: int, n_rows: int
) -> None:
    """Raise an error if compiled code would read beyond the end of an array."""
    if len(offsets) != n_machines + 1:
        raise ValueError(
            f"offsets must have one entry more than coef has rows, {n_machines + 1}, "
            f"got {len(offsets)}"
        )
    if offsets[0] != 0 or offsets[-1] != len(rows) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets must grow from 0 to the number of entries, {len(rows)}")
    if len(rows) and not (rows.min() >= 0 and rows.max() < n_rows):
        raise ValueError(f"rows must be from 0 to {n_rows - 1}")
    if not (np.abs(signs) == 1).all():
        raise ValueError("signs must be 1 or -1")


@kernel
def _train_parts(
    start: int,
    stop: int,
    parts: Any,
    features: Any,
    offsets: Any,
    rows: Any,
    signs: Any,
    ridge: Any,
    balanced: Any,
    tol: Any,
    max_iter: Any,
    coef: Any,
    n_iter: Any,
) -> None:
    number = features.dtype.type
    longest = 0
    for k in range(parts[start], parts[stop]):
        longest = max(longest, offsets[k + 1] - offsets[k])
    duals = np.empty(longest, features.dtype)
    curvatures = np.empty(longest, features.dtype)
    order = np.empty(longest, np.int64)
    for k in range(parts[start], parts[stop]):
        first, last = offsets[k], offsets[k + 1]
        coef[k] = 0
        n_iter[k] = 0
        size, n_positive = last - first, _count_positive(signs, first, last)
        if 0 < n_positive < size:
            ridges = ridge, ridge
            if balanced:
                share = number(n_positive) / number(size)
                ridges = ridge * number(2) * share, ridge * number(2) * (number(1) - share)
            n_iter[k] = _train(
                k,
                features,
                rows[first:last],
                signs[first:last],
                ridges,
                tol,
                max_iter,
                duals,
                curvatures,
                order,
                coef[k],
            )


@inline_helper
def _count_positive(signs: Any, first: int, last: int) -> Any:
    n_positive = 0
    for e in range(first, last):
        n_positive += signs[e] > 0
    return n_positive


@inline_helper
def _train(
    seed: int,
    features: Any,
    rows: Any,
    signs: Any,
    ridges: tuple[Any, Any],
    tol: Any,
    max_iter: Any,
    duals: Any,
    curvatures: Any,
    order: Any,
    w: Any,
) -> Any:
    """Descend from w = 0 and return the number of passes.

    The ridge 1 / 2C comes twice, for positive and for negative rows.
    """
    number = features.dtype.type
    zero, infinity = number(0), number(np.inf)
    n = rows.size
    for e in range(n):
        duals[e] = zero
        ridge = ridges[0] if signs[e] > zero else ridges[1]
        curvatures[e] = _dot(features, rows[e], features[rows[e]]) + ridge
        order[e] = e
    # The multiplicative generator of Park and Miller, whose products fit into 64 bits.
    state = np.int64(seed % 2147483646 + 1)
    n_active = n
    limit = infinity
    for n_passes in range(1, max_iter + 1):
        for p in range(n_active):
            state = state * np.int64(48271) % np.int64(2147483647)
            other = p + ((state * (n_active - p)) >> np.int64(31))
            order[p], order[other] = order[other], order[p]
        largest, smallest = zero, zero
        p = 0
        while p < n_active:
            e = order[p]
            row, sign, dual = rows[e], signs[e], duals[e]
            ridge = ridges[0] if sign > zero else ridges[1]
            slope = sign * _dot(features, row, w) - number(1) + dual * ridge
            if dual == zero and slope > limit:
                n_active -= 1
                order[p], order[n_active] = order[n_active], order[p]
                continue
            projected = min(slope, zero) if dual == zero else slope
            largest = max(largest, projected)
            smallest = min(smallest, projected)
            if projected != zero:
                duals[e] = max(dual - slope / curvatures[e], zero)
                step = (duals[e] - dual) * sign
                for j in range(w.size):
                    w[j] += step * features[row, j]
            p += 1
        limit = largest if largest > zero else infinity
        if largest - smallest <= tol:
            if n_active == n:
                return n_passes
            n_active = n
            limit = infinity
    return max_iter


@inline_helper
def _dot(features: Any, row: int, w: Any) -> Any:
    total = features.dtype.type(0)
    for j in range(w.size):
        total += features[row, j] * w[j]
    return total
