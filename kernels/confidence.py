"""The confidence (P) step: for fixed scores an exact quadratic programme in every row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays, check_number
from hera_fast.kernels._inline import list_candidates, log_argument, two_artanh
from hera_fast.kernels._jit import helper, inline_helper, kernel
from hera_fast.kernels._launch import launch

__all__ = ["confidence_step"]

_Array = np.ndarray[Any, Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline


def confidence_step(
    Z: _Array,
    Y: _Array,
    E: _Array,
    M: _Array,
    fit: float,
    sparsity: float,
    penalty: float,
    ranking: bool,
    P: _Array,
    row_objective: _Array,
) -> None:
    """Find the best confidences of every row for fixed scores, noise and multiplier.

    ``P[i]`` minimises, over the probability simplex on the row's candidates, the objective
    ``L(Z[i], p) + fit/2 |p - Z[i]|^2 - sparsity/2 |p|^2`` plus the augmented part
    ``-<M[i], p> + penalty/2 |Y[i] - p - E[i]|^2``, where ``L`` is the ranking loss
    ``1/q^2 sum_jk (p_j - p_k)^2 log(1 + exp(-(z_j - z_k)^2))``.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Scores. NaN or infinity in a row makes its objective NaN, and its confidences too when
        there are several candidates.
    Y : ndarray of shape (n, q)
        Non-zero marks a candidate and counts as 1. Floating, bool or uint8.
    E, M : ndarray of shape (n, q)
        Noise and multiplier. Read at the candidates only, where NaN or infinity makes objective
        and confidences of a row with several candidates NaN. When `penalty` is zero nothing of
        them is read, and `Z` may be passed for both.
    fit, sparsity, penalty : float
        Not negative, and ``fit - sparsity + penalty`` positive.
    ranking : bool
        Whether the ranking loss is part of the objective.
    P : ndarray of shape (n, q)
        Overwritten. A row without candidates becomes zero.
    row_objective : ndarray of shape (n,), float64
        Overwritten with the objective at the new confidences, without the augmented part.
    """
    sizes = check_arrays(
        "Z[n,q] Y[n,q]:candidates E[n,q] M[n,q] -> P[n,q] row_objective[n]:float64",
        *(Z, Y, E, M, P, row_objective),
    )
    fit = check_number("fit", fit, positive=False)
    sparsity = check_number("sparsity", sparsity, positive=False)
    penalty = check_number("penalty", penalty, positive=False)
    check_number("fit - sparsity + penalty", fit - sparsity + penalty, positive=True)
    if not isinstance(ranking, (bool, np.bool_)):
        raise TypeError(f"ranking must be True or False, got {type(ranking).__name__}")
    # Numba leaves out what None rules out: a step without ranking loss is compiled in a third of
    # the time.
    launch(
        *(_confidence_step_rows, sizes["n"], 8 * sizes["q"]),
        *(Z, candidate_bytes(Y), E, M, fit, sparsity, penalty, True if ranking else None),
        *(P, row_objective),
    )


@kernel
def _confidence_step_rows(
    start: int,
    stop: int,
    Z: Any,
    Y: Any,
    E: Any,
    M: Any,
    fit: float,
    sparsity: float,
    penalty: float,
    ranking: bool | None,
    P: Any,
    row_objective: Any,
) -> None:
    q = Z.shape[1]
    labels = np.empty(q, np.int64)
    free = np.empty(q, np.int64)
    is_free = np.empty(q, np.bool_)
    losses = np.empty(q, Z.dtype)
    work = np.empty((5, q), np.float64)
    gains, diagonal, p = work[0], work[1], work[2]
    H = np.empty((2, 2), np.float64)
    factor = np.empty((2, 2), np.float64)
    curvature = fit - sparsity + penalty
    for i in range(start, stop):
        P[i, :] = 0
        n_labels = list_candidates(i, Y, labels)
        finite = _all_finite(Z[i], q)
        if n_labels > 1:
            _linear_part(i, Z, E, M, fit, penalty, labels, n_labels, gains)
            finite &= _all_finite(gains, n_labels)
        if not finite:
            for c in range(n_labels):
                P[i, labels[c]] = 1 if n_labels == 1 else np.nan
            row_objective[i] = np.nan
            continue
        if n_labels > 1:
            n_labels = _possible_labels(gains, labels, n_labels, q, curvature, ranking is not None)
        if n_labels == 1:
            p[0] = 1.0
        loss = 0.0
        if ranking is None:
            if n_labels > 1:
                _project(gains, n_labels, curvature, p)
        elif n_labels > 0:
            if n_labels > H.shape[0]:
                H = np.empty((n_labels, n_labels), np.float64)
                factor = np.empty((n_labels, n_labels), np.float64)
            _hessian(Z[i], labels, n_labels, curvature, losses, H, diagonal)
            if n_labels > 1:
                _simplex_qp(H, gains, n_labels, factor, work[3], work[4], free, is_free, p)
            loss = _loss(H, diagonal, n_labels, p)
        for c in range(n_labels):
            P[i, labels[c]] = p[c]
        fit_loss = fit / 2 * _squared_distance(P[i], Z[i], q)
        row_objective[i] = loss + fit_loss - sparsity / 2 * _dot(p, p, n_labels)


@inline_helper
def _linear_part(
    i: int,
    Z: Any,
    E: Any,
    M: Any,
    fit: float,
    penalty: float,
    labels: Any,
    n_labels: int,
    gains: Any,
) -> None:
    """Minus the derivatives of all but the ranking loss by the candidates, at zero."""
    for c in range(n_labels):
        k = labels[c]
        gains[c] = fit * np.float64(Z[i, k])
        if penalty > 0:
            gains[c] += np.float64(M[i, k]) + penalty * (1 - np.float64(E[i, k]))


@inline_helper
def _all_finite(values: Any, size: int) -> Any:
    finite = True
    for k in range(size):
        finite &= np.isfinite(values[k])
    return finite


@inline_helper
def _squared_distance(p: Any, z: Any, size: int) -> float:
    total = 0.0
    for k in range(size):
        total += (np.float64(p[k]) - np.float64(z[k])) ** 2
    return total


@helper
def _possible_labels(
    gains: Any, labels: Any, n_labels: int, q: int, curvature: float, ranking: bool
) -> Any:
    """Drop the labels that cannot be positive, and subtract the largest of `gains` from all.

    At the solution ``H p - gains`` is smallest on the support. On the simplex two entries of
    ``H p`` differ by less than a diagonal entry of H plus one off it, at most
    ``4 log(2) / q + curvature``, and so do the gains on the support.
    """
    reach = curvature + (4 * math.log(2) / q if ranking else 0.0)
    top = gains[0]
    for c in range(1, n_labels):
        top = max(top, gains[c])
    n_kept = 0
    for c in range(n_labels):
        gain = gains[c]
        labels[n_kept] = labels[c]
        gains[n_kept] = gain - top
        n_kept += int(gain >= top - reach)
    return n_kept


@helper
def _project(gains: Any, size: int, curvature: float, p: Any) -> None:
    """Minimise ``curvature/2 |p|^2 - <gains, p>`` over the simplex; the largest gain is zero.

    The solution is ``max(gains/curvature - threshold, 0)``. The threshold that fits all positive
    entries is too low, so entries at or below it are zero; drop them and repeat. The last pass
    drops nothing and removes the rounding of the threshold.
    """
    for c in range(size):
        p[c] = 1 + gains[c] / curvature
    n_before, n_positive = 0, -1
    while n_positive != n_before:
        n_before = n_positive
        n_positive = 0
        excess = -1.0
        for c in range(size):
            n_positive += int(p[c] > 0)
            excess += max(p[c], 0.0)
        shift = excess / n_positive
        for c in range(size):
            p[c] = max(p[c] - shift, 0.0) if p[c] > 0 else 0.0


@helper
def _hessian(
    z: Any, labels: Any, n_labels: int, curvature: float, losses: Any, H: Any, diagonal: Any
) -> None:
    """Second derivatives of ``L(z, p) + curvature/2 |p|^2`` between the labels.

    The diagonal of those of ``L`` alone is written to `diagonal` as well.
    """
    q = z.shape[0]
    scale = 4 / q**2
    largest = 0.0
    for a in range(n_labels):
        _pair_losses(z, q, labels[a], losses)
        # The pair of a label with itself has no weight.
        losses[labels[a]] = 0.0
        total = 0.0
        for k in range(q):
            total += np.float64(losses[k])
        for b in range(n_labels):
            H[a, b] = -scale * np.float64(losses[labels[b]])
        diagonal[a] = scale * total
        H[a, a] = diagonal[a] + curvature
        largest = max(largest, H[a, a])
    # Below this the matrix is singular up to rounding, and the solution hardly determined. What
    # is found instead violates the conditions of optimality by 1e-12 at most.
    for a in range(n_labels):
        H[a, a] += max(1e-12 * largest - curvature, 0.0)


@helper
def _loss(H: Any, diagonal: Any, size: int, p: Any) -> float:
    """The ranking loss, a quadratic form in the confidences."""
    total = 0.0
    for a in range(size):
        total += p[a] * (diagonal[a] / 2 * p[a] + _dot(H[a], p, a))
    return total


@helper
def _pair_losses(z: Any, q: int, j: int, losses: Any) -> None:
    """``losses[k] = log(1 + exp(-(z_j - z_k)^2))`` for every label k.

    In two loops: in one, the chain of operations would be longer than what a processor keeps in
    flight.
    """
    for k in range(q):
        losses[k] = log_argument(z[j] - z[k])
    for k in range(q):
        losses[k] = two_artanh(losses[k])


@helper
def _simplex_qp(
    H: Any,
    g: Any,
    size: int,
    factor: Any,
    ones: Any,
    target: Any,
    free: Any,
    is_free: Any,
    p: Any,
) -> None:
    """Minimise ``p'Hp/2 - g'p`` over ``p >= 0``, ``sum(p) = 1``, exactly.

    `H` is the leading block of that size: symmetric, positive definite, no positive entry off the
    diagonal. The largest of `g` is zero. All arrays after `size` are scratch but for `p`.

    For any set F of labels and any multiplier t of the sum, let ``p_F(t)`` solve
    ``H_FF p = g_F + t``. The inverse of such a matrix has no negative entry, therefore ``p_F(t)``
    never exceeds the solution ``p(t) >= 0`` of the problem with t in place of the sum. Hence

    - the t at which ``p_F`` sums to one is never below the optimal one: take the lowest seen;
    - labels that are positive in ``p_F(t)`` are positive in ``p(t)``: keep just these;
    - when all are, labels with ``(H p)_j < g_j + t`` are positive in ``p(t)`` too: add them.

    For one t the set only grows, and no t comes twice, so this ends; with a good first set mostly
    at once.
    """
    if size == 2:
        share = (H[1, 1] - H[0, 1] + g[0] - g[1]) / (H[0, 0] + H[1, 1] - 2 * H[0, 1])
        p[0] = min(max(share, 0.0), 1.0)
        p[1] = 1 - p[0]
        return
    tolerance = 1e-13 * _guess_support(H, g, size, is_free)
    lowest = np.inf
    while True:
        n_free = _pack(is_free, size, free)
        _factorise(H, free, n_free, factor)
        for c in range(n_free):
            ones[c] = 1.0
            target[c] = g[free[c]]
        _solve_lower(factor, n_free, ones)
        _solve_lower(factor, n_free, target)
        weight = _dot(ones, ones, n_free)
        t = (1 - _dot(ones, target, n_free)) / weight
        is_lower = t < lowest
        lowest = min(t, lowest)
        for c in range(n_free):
            target[c] += lowest * ones[c]
        _solve_upper(factor, n_free, target)
        for c in range(size):
            p[c] = 0.0
        for c in range(n_free):
            p[free[c]] = target[c]
        if is_lower and _drop_below(p, 0.0, size, is_free):
            continue
        if not _add_violating(H, g, size, lowest, tolerance, p, is_free):
            break
    # Rounding moves the sum most along the direction in which H is weakest. Moving it back along
    # the same direction only changes t.
    _solve_upper(factor, n_free, ones)
    missing = 1.0
    for c in range(n_free):
        missing -= target[c]
    for c in range(n_free):
        p[free[c]] = max(target[c] + missing / weight * ones[c], 0.0)


@helper
def _guess_support(H: Any, g: Any, size: int, is_free: Any) -> Any:
    """Mark the support of the solution for the diagonal of H alone; return its largest entry."""
    largest = 0.0
    for c in range(size):
        largest = max(largest, H[c, c])
        is_free[c] = True
    while True:
        weight = total = 0.0
        for c in range(size):
            if is_free[c]:
                weight += 1 / H[c, c]
                total += g[c] / H[c, c]
        t = (1 - total) / weight
        if not _drop_below(g, -t, size, is_free):
            return largest


@helper
def _drop_below(values: Any, threshold: float, size: int, is_free: Any) -> bool:
    """Unmark the labels whose value is below the threshold; tell whether there was one."""
    dropped = False
    for c in range(size):
        if is_free[c] and values[c] < threshold:
            is_free[c] = False
            dropped = True
    return dropped


@helper
def _add_violating(
    H: Any, g: Any, size: int, t: float, tolerance: float, p: Any, is_free: Any
) -> bool:
    """Mark the labels that would lower the objective; tell whether there was one."""
    added = False
    for c in range(size):
        if not is_free[c] and _dot(H[c], p, size) < g[c] + t - tolerance:
            is_free[c] = True
            added = True
    return added


@helper
def _pack(is_free: Any, size: int, free: Any) -> int:
    n_free = 0
    for c in range(size):
        if is_free[c]:
            free[n_free] = c
            n_free += 1
    return n_free


@helper
def _factorise(H: Any, free: Any, n_free: int, factor: Any) -> None:
    """Cholesky factor of the free block, with the inverses of its diagonal on the diagonal."""
    for a in range(n_free):
        source, row = H[free[a]], factor[a]
        for b in range(a):
            row[b] = (source[free[b]] - _dot(row, factor[b], b)) * factor[b, b]
        row[a] = 1 / math.sqrt(source[free[a]] - _dot(row, row, a))


@helper
def _solve_lower(factor: Any, size: int, x: Any) -> None:
    for a in range(size):
        x[a] = (x[a] - _dot(factor[a], x, a)) * factor[a, a]


@helper
def _solve_upper(factor: Any, size: int, x: Any) -> None:
    for a in range(size - 1, -1, -1):
        row = factor[a]
        x[a] *= row[a]
        for b in range(a):
            x[b] -= x[a] * row[b]


@helper
def _dot(x: Any, y: Any, size: int) -> float:
    total = 0.0
    for c in range(size):
        total += x[c] * y[c]
    return total
