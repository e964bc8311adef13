"""The ranking loss and its gradients, one pass over the pairs of labels that matter.

For a row with scores z and confidences p over q labels, with d = z_j - z_k,

    loss            1/q^2  sum_jk (p_j - p_k)^2 log(1 + exp(-d^2))
    score grad_j   -4/q^2  sum_k  (p_j - p_k)^2 d / (1 + exp(d^2))
    confid. grad_j  4/q^2  sum_k  (p_j - p_k)   log(1 + exp(-d^2))

A pair of labels without confidence contributes nothing. With A the labels of non-zero confidence
(the support), a row therefore costs |A| q pairs: a label in A meets all q labels and adds to its
own sum and to the one of its partner; at the end, the labels in A take their own sums, which are
complete. When A is most of the labels, every pair is computed once instead.

Every pair needs exp, a division and perhaps a logarithm. They come from `_inline`, written so that
LLVM vectorises the loops here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hera_fast.kernels._check import check_arrays
from hera_fast.kernels._inline import (
    exponential,
    near_or_zero,
    pair_loss,
    reach,
    two_artanh,
    zero_if_far,
)
from hera_fast.kernels._jit import inline_helper, kernel
from hera_fast.kernels._launch import launch

__all__ = [
    "ranking_confidence_gradient",
    "ranking_gradients",
    "ranking_loss",
    "ranking_score_gradient",
]

Array = NDArray[Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline


def ranking_loss(Z: Array, P: Array, row_loss: Array) -> None:
    """Ranking loss of every row.

    Parameters
    ----------
    Z : ndarray of shape (n, q), float32 or float64
        Scores, finite.
    P : ndarray of shape (n, q), same dtype
        Confidences, finite. Zeros make it fast, nothing else about them is assumed.
    row_loss : ndarray of shape (n,), same dtype
        Receives the loss of each row. Sum it in this order for a total that does not depend on
        the number of threads.
    """
    sizes = check_arrays("Z[n,q] P[n,q] -> row_loss[n]", Z, P, row_loss)
    _launch(_loss_rows, sizes, Z, P, row_loss)


def ranking_score_gradient(Z: Array, P: Array, grad: Array) -> None:
    """Gradient of the ranking loss in the scores.

    Parameters
    ----------
    Z, P : ndarray of shape (n, q), float32 or float64
        Scores and confidences, finite.
    grad : ndarray of shape (n, q), same dtype
        Receives dL/dZ.
    """
    sizes = check_arrays("Z[n,q] P[n,q] -> grad[n,q]", Z, P, grad)
    _launch(_score_gradient_rows, sizes, Z, P, grad)


def ranking_confidence_gradient(Z: Array, P: Array, grad: Array) -> None:
    """Gradient of the ranking loss in the confidences, for all labels.

    Parameters
    ----------
    Z, P : ndarray of shape (n, q), float32 or float64
        Scores and confidences, finite.
    grad : ndarray of shape (n, q), same dtype
        Receives dL/dP.
    """
    sizes = check_arrays("Z[n,q] P[n,q] -> grad[n,q]", Z, P, grad)
    _launch(_confidence_gradient_rows, sizes, Z, P, grad)


def ranking_gradients(
    Z: Array, P: Array, row_loss: Array, score_grad: Array, confidence_grad: Array
) -> None:
    """Loss and both gradients in one pass, which costs far less than three.

    Parameters
    ----------
    Z, P : ndarray of shape (n, q), float32 or float64
        Scores and confidences, finite.
    row_loss : ndarray of shape (n,), same dtype
        Receives the loss of each row.
    score_grad, confidence_grad : ndarray of shape (n, q), same dtype
        Receive dL/dZ and dL/dP.
    """
    sizes = check_arrays(
        "Z[n,q] P[n,q] -> row_loss[n] score_grad[n,q] confidence_grad[n,q]",
        Z,
        P,
        row_loss,
        score_grad,
        confidence_grad,
    )
    _launch(_gradients_rows, sizes, Z, P, row_loss, score_grad, confidence_grad)


def _launch(
    kernel: Callable[..., None], sizes: dict[str, int], Z: Array, P: Array, *outputs: Array
) -> None:
    n, q = sizes["n"], sizes["q"]
    if q == 0:
        raise ValueError(f"Z must have at least one column, got shape {Z.shape}")
    # As integers, confidences are tested for zero eight at a time.
    P_bits = P.view(np.int64 if P.dtype == np.float64 else np.int32)
    # About two labels per row have confidence, and a pair takes a few operations.
    launch(kernel, n, 8 * q, Z, P, P_bits, *outputs)


@kernel
def _loss_rows(start: int, stop: int, Z: Array, P: Array, P_bits: Array, row_loss: Array) -> None:
    q = Z.shape[1]
    support = np.empty(q, np.int64)
    y = np.empty(q, Z.dtype)
    outside = np.empty(q, Z.dtype)
    scale = 1.0 / q**2
    for i in range(start, stop):
        m = _find_support(i, P, P_bits, support)
        if 2 * m > q:
            row_loss[i] = 2 * scale * _dense_loss(i, Z, P)
            continue
        wide = _is_wide(i, Z)
        _mark_outside(i, P, outside)
        total = 0.0
        for b in range(m):
            _log_arguments(i, support[b], wide, Z, y)
            pj = P[i, support[b]]
            share = Z.dtype.type(0)
            for k in range(q):
                weight = pj - P[i, k]
                share += weight * (weight + pj * outside[k]) * two_artanh(y[k])
            total += share
        row_loss[i] = scale * total


@kernel
def _score_gradient_rows(
    start: int, stop: int, Z: Array, P: Array, P_bits: Array, grad: Array
) -> None:
    q = Z.shape[1]
    support = np.empty(q, np.int64)
    own = np.empty(q, Z.dtype)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(i, P, P_bits, support)
        if 2 * m > q:
            _dense_score(i, Z, P, scale, grad)
            continue
        wide = _is_wide(i, Z)
        if m == 0:
            _clear(i, grad)
        for b in range(m):
            own[b] = -_score_pairs(i, support[b], wide, Z, P, b == 0, grad)
        _finish_row(i, scale, support, m, own, grad)


@kernel
def _confidence_gradient_rows(
    start: int, stop: int, Z: Array, P: Array, P_bits: Array, grad: Array
) -> None:
    q = Z.shape[1]
    support = np.empty(q, np.int64)
    own = np.empty(q, Z.dtype)
    y = np.empty(q, Z.dtype)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(i, P, P_bits, support)
        if 2 * m > q:
            _dense_confidence(i, Z, P, scale, grad)
            continue
        wide = _is_wide(i, Z)
        if m == 0:
            _clear(i, grad)
        for b in range(m):
            _log_arguments(i, support[b], wide, Z, y)
            own[b] = -_log_pairs(i, support[b], y, P, b == 0, grad)
        _finish_row(i, scale, support, m, own, grad)


@kernel
def _gradients_rows(
    start: int,
    stop: int,
    Z: Array,
    P: Array,
    P_bits: Array,
    row_loss: Array,
    score_grad: Array,
    confidence_grad: Array,
) -> None:
    q = Z.shape[1]
    support = np.empty(q, np.int64)
    own_score = np.empty(q, Z.dtype)
    own_confidence = np.empty(q, Z.dtype)
    y = np.empty(q, Z.dtype)
    outside = np.empty(q, Z.dtype)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(i, P, P_bits, support)
        if 2 * m > q:
            row_loss[i] = _dense_gradients(i, Z, P, scale, score_grad, confidence_grad)
            continue
        wide = _is_wide(i, Z)
        _mark_outside(i, P, outside)
        if m == 0:
            _clear(i, score_grad)
            _clear(i, confidence_grad)
        loss = 0.0
        for b in range(m):
            own_score[b] = -_score_pairs_and_log_arguments(
                i, support[b], wide, Z, P, y, b == 0, score_grad
            )
            total, share = _log_pairs_and_loss(
                i, support[b], y, P, outside, b == 0, confidence_grad
            )
            own_confidence[b] = -total
            loss += share
        row_loss[i] = scale / 4 * loss
        _finish_row(i, scale, support, m, own_score, score_grad)
        _finish_row(i, scale, support, m, own_confidence, confidence_grad)


@inline_helper
def _find_support(i: int, P: Array, P_bits: Array, support: Array) -> int:
    """List the labels with confidence; return how many."""
    q = P_bits.shape[1]
    block = 8
    whole = q - q % block
    m = 0
    for first in range(0, whole, block):
        # Most blocks hold no confidence: one vector test rules them out. (A block with nothing
        # but a negative zero passes it, and does no harm.)
        bits = P_bits[i, first]
        for k in range(first + 1, first + block):
            bits |= P_bits[i, k]
        if bits != 0:
            for k in range(first, first + block):
                # No branch, it could not be predicted.
                support[m] = k
                m += P[i, k] != 0
    for k in range(whole, q):
        support[m] = k
        m += P[i, k] != 0
    return m


@inline_helper
def _is_wide(i: int, Z: Array) -> bool:
    """Whether the difference of two scores of the row may be out of reach."""
    half = reach(Z.dtype.type(0)) / 2
    n_large = 0
    for k in range(Z.shape[1]):
        n_large += abs(Z[i, k]) >= half
    return n_large != 0


@inline_helper
def _mark_outside(i: int, P: Array, outside: Array) -> None:
    """1 for the labels outside the support, 0 for those inside.

    A pair inside the support comes up twice, a pair with a label outside once: the weight of the
    latter in the loss is doubled.
    """
    for k in range(outside.size):
        outside[k] = P[i, k] == 0


@inline_helper
def _clear(i: int, out: Array) -> None:
    for k in range(out.shape[1]):
        out[i, k] = 0


@inline_helper
def _finish_row(i: int, scale: Any, support: Array, m: int, own: Array, out: Array) -> None:
    """Put the complete sums of the support in place and scale the row."""
    for b in range(m):
        out[i, support[b]] = own[b]
    for k in range(out.shape[1]):
        out[i, k] *= scale


@inline_helper
def _score_pairs(i: int, j: int, wide: bool, Z: Array, P: Array, first: bool, out: Array) -> Any:
    """Add t = (p_j - p_k)^2 d/(1 + exp(d^2)) to every label k; return the sum of t.

    The first label of the support overwrites what is there.
    """
    zj = Z[i, j]
    pj = P[i, j]
    total = Z.dtype.type(0)
    for k in range(Z.shape[1]):
        d = zj - Z[i, k]
        if wide:
            d = near_or_zero(d)
        weight = pj - P[i, k]
        x, denominator = exponential(d)
        t = (d * weight) * (x * weight) / (denominator + x)
        total += t
        out[i, k] = t if first else out[i, k] + t
    return total


@inline_helper
def _score_pairs_and_log_arguments(
    i: int, j: int, wide: bool, Z: Array, P: Array, y: Array, first: bool, out: Array
) -> Any:
    """Do what _score_pairs does and leave the arguments of the logarithm in y."""
    zj = Z[i, j]
    pj = P[i, j]
    total = Z.dtype.type(0)
    for k in range(Z.shape[1]):
        d = zj - Z[i, k]
        near = d
        if wide:
            near = near_or_zero(d)
        x, denominator = exponential(near)
        if wide:
            x = zero_if_far(d, x)
        weight = pj - P[i, k]
        y[k] = x / (denominator + denominator + x)
        t = (near * weight) * (x * weight) / (denominator + x)
        total += t
        out[i, k] = t if first else out[i, k] + t
    return total


@inline_helper
def _log_arguments(i: int, j: int, wide: bool, Z: Array, y: Array) -> None:
    """Fill y with log(1 + exp(-d^2)) = 2 artanh(y_k), for every label k.

    In a loop of its own: together with the logarithm the chain of operations would be longer than
    what a processor keeps in flight.
    """
    zj = Z[i, j]
    for k in range(Z.shape[1]):
        d = zj - Z[i, k]
        near = d
        if wide:
            near = near_or_zero(d)
        x, denominator = exponential(near)
        if wide:
            x = zero_if_far(d, x)
        y[k] = x / (denominator + denominator + x)


@inline_helper
def _log_pairs(i: int, j: int, y: Array, P: Array, first: bool, out: Array) -> Any:
    """Add t = (p_k - p_j) log(1 + exp(-d^2)) to every label k; return the sum of t."""
    pj = P[i, j]
    total = P.dtype.type(0)
    for k in range(P.shape[1]):
        t = (P[i, k] - pj) * two_artanh(y[k])
        total += t
        out[i, k] = t if first else out[i, k] + t
    return total


@inline_helper
def _log_pairs_and_loss(
    i: int, j: int, y: Array, P: Array, outside: Array, first: bool, out: Array
) -> tuple[Any, Any]:
    """Do what _log_pairs does and return q^2 times the loss of the pairs as well.

    Half of <P, dL/dP> would be the same number, but pairs of nearly equal confidences would
    leave a difference of large ones.
    """
    pj = P[i, j]
    total = P.dtype.type(0)
    loss = P.dtype.type(0)
    for k in range(P.shape[1]):
        weight = P[i, k] - pj
        t = weight * two_artanh(y[k])
        total += t
        loss += t * (weight - pj * outside[k])
        out[i, k] = t if first else out[i, k] + t
    return total, loss


@inline_helper
def _dense_score(i: int, Z: Array, P: Array, scale: Any, grad: Array) -> None:
    """Gradient in the scores from every pair once, right for any support."""
    for j in range(Z.shape[1]):
        total = Z.dtype.type(0)
        for k in range(j):
            d = near_or_zero(Z[i, j] - Z[i, k])
            x, denominator = exponential(d)
            weight = P[i, j] - P[i, k]
            t = scale * weight * weight * d * x / (denominator + x)
            total += t
            grad[i, k] += t
        grad[i, j] = -total


@inline_helper
def _dense_confidence(i: int, Z: Array, P: Array, scale: Any, grad: Array) -> None:
    """Gradient in the confidences from every pair once."""
    for j in range(Z.shape[1]):
        total = Z.dtype.type(0)
        for k in range(j):
            t = scale * (P[i, j] - P[i, k]) * pair_loss(Z[i, j] - Z[i, k])
            total += t
            grad[i, k] -= t
        grad[i, j] = total


@inline_helper
def _dense_gradients(
    i: int, Z: Array, P: Array, scale: Any, score_grad: Array, confidence_grad: Array
) -> Any:
    """Both gradients from every pair once; return the loss."""
    loss = 0.0
    for j in range(Z.shape[1]):
        score = Z.dtype.type(0)
        confidence = Z.dtype.type(0)
        share = Z.dtype.type(0)
        for k in range(j):
            difference = Z[i, j] - Z[i, k]
            d = near_or_zero(difference)
            x, denominator = exponential(d)
            x = zero_if_far(difference, x)
            weight = P[i, j] - P[i, k]
            t = scale * weight * two_artanh(x / (denominator + denominator + x))
            confidence += t
            share += t * weight
            confidence_grad[i, k] -= t
            t = scale * weight * weight * d * x / (denominator + x)
            score += t
            score_grad[i, k] += t
        confidence_grad[i, j] = confidence
        score_grad[i, j] = -score
        loss += share
    return loss / 2


@inline_helper
def _dense_loss(i: int, Z: Array, P: Array) -> Any:
    total = 0.0
    for j in range(Z.shape[1]):
        share = Z.dtype.type(0)
        for k in range(j):
            weight = P[i, j] - P[i, k]
            share += weight * weight * pair_loss(Z[i, j] - Z[i, k])
        total += share
    return total
