"""The ranking loss and its gradients, one pass over the pairs of labels that matter.

For a row with scores z and confidences p over q labels, with d = z_j - z_k,

    loss            1/q^2  sum_jk (p_j - p_k)^2 log(1 + exp(-d^2))
    score grad_j   -4/q^2  sum_k  (p_j - p_k)^2 d / (1 + exp(d^2))
    confid. grad_j  4/q^2  sum_k  (p_j - p_k)   log(1 + exp(-d^2))

A pair of labels without confidence contributes nothing. With A the labels of non-zero confidence,
a row therefore costs |A| q pairs instead of q^2: pairs inside A once each, and pairs of A with the
rest, whose weight does not depend on the label outside A.

Every pair needs exp, a division and perhaps a logarithm. They are written so that LLVM vectorises
the loops: exp(-d^2) = 2^n N/D with N/D a rational function, so that its division merges with
the one of the loss: 1/(1 + exp(d^2)) = X/(D + X) with X = 2^n N. The logarithm is
2 artanh(y) with y = X/(2D + X).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._check import check_arrays
from ._jit import helper, kernel, ordered_helper
from ._launch import launch

__all__ = [
    "ranking_confidence_gradient",
    "ranking_gradients",
    "ranking_loss",
    "ranking_score_gradient",
]

Array = NDArray[Any]


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
    launch(_loss_rows, sizes["n"], _row_cost(sizes["q"]), Z, P, row_loss)


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
    launch(_score_gradient_rows, sizes["n"], _row_cost(sizes["q"]), Z, P, grad)


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
    launch(_confidence_gradient_rows, sizes["n"], _row_cost(sizes["q"]), Z, P, grad)


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
    launch(
        _gradients_rows,
        sizes["n"],
        _row_cost(sizes["q"]),
        Z,
        P,
        row_loss,
        score_grad,
        confidence_grad,
    )


def _row_cost(q: int) -> int:
    # About two labels per row have confidence, and a pair takes a few operations.
    return 8 * q


@kernel
def _loss_rows(start: int, stop: int, Z: Array, P: Array, row_loss: Array) -> None:
    q = Z.shape[1]
    zero = Z.dtype.type(0)
    support, za, pa, own = _support_scratch(Z, q)
    z, y, _ = _label_scratch(Z, q)
    scale = Z.dtype.type(2.0 / q**2)
    for i in range(start, stop):
        m = _find_support(Z[i], P[i], support, za, pa)
        total = zero
        if 0 < m < q:
            _copy_masked(Z[i], support, m, z)
            for b in range(m):
                total += pa[b] * pa[b] * _loss_pairs(za[b], z, y)
        total += _inner_loss(za, pa, m)
        row_loss[i] = scale * total


@kernel
def _score_gradient_rows(start: int, stop: int, Z: Array, P: Array, grad: Array) -> None:
    q = Z.shape[1]
    zero = Z.dtype.type(0)
    support, za, pa, own = _support_scratch(Z, q)
    z, _, c = _label_scratch(Z, q)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(Z[i], P[i], support, za, pa)
        c[:] = zero
        own[:m] = zero
        if 0 < m < q:
            _copy_masked(Z[i], support, m, z)
            for b in range(m):
                weight = scale * pa[b] * pa[b]
                own[b] = -weight * _score_pairs(za[b], weight, z, c)
        _inner_score(za, pa, m, -scale, own)
        _write_row(c, support, m, own, grad[i])


@kernel
def _confidence_gradient_rows(start: int, stop: int, Z: Array, P: Array, grad: Array) -> None:
    q = Z.shape[1]
    zero = Z.dtype.type(0)
    support, za, pa, own = _support_scratch(Z, q)
    z, y, c = _label_scratch(Z, q)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(Z[i], P[i], support, za, pa)
        c[:] = zero
        own[:m] = zero
        if 0 < m < q:
            _copy_masked(Z[i], support, m, z)
            for b in range(m):
                weight = scale * pa[b]
                own[b] = weight * _confidence_pairs(za[b], weight, z, y, c)
        _inner_confidence(za, pa, m, scale, own)
        _write_row(c, support, m, own, grad[i])


@kernel
def _gradients_rows(
    start: int,
    stop: int,
    Z: Array,
    P: Array,
    row_loss: Array,
    score_grad: Array,
    confidence_grad: Array,
) -> None:
    q = Z.shape[1]
    zero = Z.dtype.type(0)
    half = Z.dtype.type(0.5)
    support, za, pa, own = _support_scratch(Z, q)
    own_confidence = np.empty_like(own)
    z, y, c = _label_scratch(Z, q)
    c_confidence = np.empty_like(c)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(Z[i], P[i], support, za, pa)
        c[:] = zero
        c_confidence[:] = zero
        own[:m] = zero
        own_confidence[:m] = zero
        if 0 < m < q:
            _copy_masked(Z[i], support, m, z)
            for b in range(m):
                weight = scale * pa[b]
                own[b] = -weight * pa[b] * _score_and_y_pairs(za[b], weight * pa[b], z, c, y)
                own_confidence[b] = weight * _log_pairs(weight, y, c_confidence)
        _inner_score(za, pa, m, -scale, own)
        _inner_confidence(za, pa, m, scale, own_confidence)
        _write_row(c, support, m, own, score_grad[i])
        _write_row(c_confidence, support, m, own_confidence, confidence_grad[i])
        # The loss is quadratic in the confidences, so it is half of <P, dL/dP>.
        total = zero
        for b in range(m):
            total += pa[b] * own_confidence[b]
        row_loss[i] = half * total


@helper
def _support_scratch(Z: Array, q: int) -> tuple[Array, Array, Array, Array]:
    """Label, score, confidence and result of the labels in the support."""
    return (
        np.empty(q, np.int64),
        np.empty(q, Z.dtype),
        np.empty(q, Z.dtype),
        np.empty(q, Z.dtype),
    )


@helper
def _label_scratch(Z: Array, q: int) -> tuple[Array, Array, Array]:
    """Three rows, padded to whole vectors so that no loop has a scalar remainder."""
    width = (q + 15) // 16 * 16
    return np.empty(width, Z.dtype), np.empty(width, Z.dtype), np.empty(width, Z.dtype)


@helper
def _find_support(scores: Array, p: Array, support: Array, za: Array, pa: Array) -> int:
    """Gather the labels with confidence, their scores and confidences; return how many."""
    q = p.size
    block = 16
    m = 0
    whole = q - q % block
    for first in range(0, whole, block):
        # Most blocks hold no confidence: one vectorised sum rules them out.
        mass = abs(p[first])
        for offset in range(1, block):
            mass += abs(p[first + offset])
        if mass != 0:
            for k in range(first, first + block):
                if p[k] != 0:
                    support[m] = k
                    m += 1
    for k in range(whole, q):
        if p[k] != 0:
            support[m] = k
            m += 1
    for b in range(m):
        za[b] = scores[support[b]]
        pa[b] = p[support[b]]
    return m


@helper
def _copy_masked(scores: Array, support: Array, m: int, z: Array) -> None:
    """Copy the scores; the support and the padding become infinitely far from every label."""
    q = scores.size
    for k in range(q):
        z[k] = scores[k]
    z[q:] = np.inf
    for b in range(m):
        z[support[b]] = np.inf


@helper
def _write_row(c: Array, support: Array, m: int, own: Array, out: Array) -> None:
    for k in range(out.size):
        out[k] = c[k]
    for b in range(m):
        out[support[b]] = own[b]


@helper
def _score_pairs(zj: Any, weight: Any, z: Array, c: Array) -> Any:
    """Add weight d/(1 + exp(d^2)) to c[k] for every k; return the sum of d/(1 + exp(d^2))."""
    total = weight * 0
    for k in range(z.size):
        d = _near_or_zero(zj - z[k])
        x, denominator = _exponential(d)
        t = d * x / (denominator + x)
        total += t
        c[k] += weight * t
    return total


@helper
def _score_and_y_pairs(zj: Any, weight: Any, z: Array, c: Array, y: Array) -> Any:
    """Do what _score_pairs does and leave the argument of the logarithm in y."""
    total = weight * 0
    for k in range(z.size):
        difference = zj - z[k]
        d = _near_or_zero(difference)
        x, denominator = _exponential(d)
        x = _zero_if_far(difference, x)
        first = denominator + x
        second = denominator + first
        r = x / (first * second)
        y[k] = r * first
        t = d * r * second
        total += t
        c[k] += weight * t
    return total


@helper
def _log_pairs(weight: Any, y: Array, c: Array) -> Any:
    """Subtract weight log(1 + exp(-d^2)) from c[k] for every k; return the sum of the logs."""
    total = weight * 0
    for k in range(y.size):
        log = _two_artanh(y[k])
        total += log
        c[k] -= weight * log
    return total


@helper
def _y_pairs(zj: Any, z: Array, y: Array) -> None:
    """Argument of the logarithm, exp(-d^2)/(2 + exp(-d^2)), for every k.

    In a loop of its own: together with the logarithm it needs more constants than there are
    registers.
    """
    for k in range(z.size):
        difference = zj - z[k]
        x, denominator = _exponential(_near_or_zero(difference))
        x = _zero_if_far(difference, x)
        y[k] = x / (denominator + denominator + x)


@helper
def _confidence_pairs(zj: Any, weight: Any, z: Array, y: Array, c: Array) -> Any:
    _y_pairs(zj, z, y)
    return _log_pairs(weight, y, c)


@helper
def _loss_pairs(zj: Any, z: Array, y: Array) -> Any:
    """Sum of log(1 + exp(-d^2)) over all k."""
    _y_pairs(zj, z, y)
    total = zj * 0
    for k in range(y.size):
        total += _two_artanh(y[k])
    return total


@helper
def _inner_score(za: Array, pa: Array, m: int, scale: Any, own: Array) -> None:
    """Add the pairs inside the support, each computed once for both of its labels."""
    for b in range(1, m):
        total = own[b]
        for other in range(b):
            d = _near_or_zero(za[b] - za[other])
            x, denominator = _exponential(d)
            difference = pa[b] - pa[other]
            t = scale * difference * difference * d * x / (denominator + x)
            total += t
            own[other] -= t
        own[b] = total


@helper
def _inner_confidence(za: Array, pa: Array, m: int, scale: Any, own: Array) -> None:
    for b in range(1, m):
        total = own[b]
        for other in range(b):
            t = scale * (pa[b] - pa[other]) * _pair_loss(za[b] - za[other])
            total += t
            own[other] -= t
        own[b] = total


@helper
def _inner_loss(za: Array, pa: Array, m: int) -> Any:
    total = za[0] * 0
    for b in range(1, m):
        for other in range(b):
            difference = pa[b] - pa[other]
            total += difference * difference * _pair_loss(za[b] - za[other])
    return total


@helper
def _pair_loss(difference: Any) -> Any:
    """log(1 + exp(-d^2)) of one pair."""
    x, denominator = _exponential(_near_or_zero(difference))
    x = _zero_if_far(difference, x)
    return _two_artanh(x / (denominator + denominator + x))


@ordered_helper
def _is_single(a: Any) -> bool:
    """Whether the number is a float32; decided at compile time."""
    T = type(a)
    return T(1) + T(1e-9) == T(1)


@ordered_helper
def _reach(a: Any) -> Any:
    """Difference beyond which exp(-d^2) counts as zero: it leaves the exponent range there."""
    T = type(a)
    return T(9) if _is_single(a) else T(26)


@ordered_helper
def _near_or_zero(difference: Any) -> Any:
    """Replace a difference out of reach by 0, where the score gradient vanishes too."""
    return type(difference)(0) if abs(difference) >= _reach(difference) else difference


@ordered_helper
def _zero_if_far(difference: Any, x: Any) -> Any:
    return type(x)(0) if abs(difference) >= _reach(difference) else x


@ordered_helper
def _exponential(d: Any) -> tuple[Any, Any]:
    """exp(-d^2) as a fraction (numerator, denominator), for |d| within reach.

    With n the integer nearest to -d^2/log 2 and r = -d^2 - n log 2, exp(r) is (A + rB)/(A - rB)
    with A, B polynomials in r^2 fitted to 1.2e-14 (float64) and 1e-10 (float32). Adding
    1.5 * 2^52 rounds to an integer and leaves n in the low bits, from where it is added to the
    exponent of A + rB.
    """
    T = type(d)
    s = d * d
    if _is_single(d):
        shifted = T(12582912.0) - s * T(1.4426950408889634)
        n = shifted - T(12582912.0)
        r = -s - n * T(0.6931471805599453)
        u = r * r
        even = u * T(0.09997486793171491) + T(1.0)
        odd = (u * T(0.00832082987538295) + T(0.4999999990620358)) * r
        bits = np.float32(even + odd).view(np.int32)
        exponent = np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
        return T(np.int32(bits + exponent).view(np.float32)), T(even - odd)
    shifted = T(6755399441055744.0) - s * T(1.4426950408889634)
    n = shifted - T(6755399441055744.0)
    r = -s - n * T(0.6931471805599453)
    u = r * r
    # Numerator and denominator share a factor chosen to make the leading coefficient 1.
    even = (u + T(180.18024893940475)) * u + T(1681.8026832164157)
    odd = (u * T(20.01501269588918) + T(840.9013416079661)) * r
    wide_bits = np.float64(even + odd).view(np.int64)
    wide_exponent = np.float64(shifted).view(np.int64) << np.int64(52)
    return T(np.int64(wide_bits + wide_exponent).view(np.float64)), T(even - odd)


@ordered_helper
def _two_artanh(y: Any) -> Any:
    """2 artanh(y) for 0 <= y <= 1/3, to 1.8e-15 (float64) and 4e-9 (float32)."""
    T = type(y)
    u = y * y
    if _is_single(y):
        p = u * T(0.28178335086734546) + T(0.27960602747171465)
        p = p * u + T(0.40024910279538123)
        p = p * u + T(0.6666631468212848)
        p = p * u + T(2.000000007921038)
        return p * y
    p = u * T(0.1877472154126214) + T(0.11737565686361047)
    p = p * u + T(0.15572043230161806)
    p = p * u + T(0.18169208630678263)
    p = p * u + T(0.22222716268732137)
    p = p * u + T(0.2857141775103447)
    p = p * u + T(0.400000001183575)
    p = p * u + T(0.6666666666616918)
    p = p * u + T(2.0000000000000036)
    return p * y
