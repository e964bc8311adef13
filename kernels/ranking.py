"""The ranking loss and its gradients, one pass over the pairs of labels that matter.

For a row with scores z and confidences p over q labels, with d = z_j - z_k,

    loss            1/q^2  sum_jk (p_j - p_k)^2 log(1 + exp(-d^2))
    score grad_j   -4/q^2  sum_k  (p_j - p_k)^2 d / (1 + exp(d^2))
    confid. grad_j  4/q^2  sum_k  (p_j - p_k)   log(1 + exp(-d^2))

A pair of labels without confidence contributes nothing. With A the labels of non-zero confidence
(the support), a row therefore costs |A| q pairs: a label in A meets all q labels and adds to its
own sum and to the one of its partner; at the end, the labels in A take their own sums, which are
complete. When A is most of the labels, every pair is computed once instead.

Every pair needs g = 1/(1 + exp(d^2)), and for the loss log(1 + exp(-d^2)) = -log(1 - g). They are
written so that LLVM vectorises the loops: exp(-d^2) = X/D with D and X/2^n polynomials, so that one
division gives g = X/(D + X).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._check import check_arrays
from ._jit import helper, inline_helper, kernel, ordered_helper
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
    support, _ = _support_scratch(Z)
    z, p, g, outside = _label_scratch(Z)
    scale = Z.dtype.type(1.0 / q**2)
    for i in range(start, stop):
        m = _find_support(i, P, support)
        if 2 * m > q:
            row_loss[i] = 2 * scale * _dense_loss(i, Z, P)
            continue
        wide = _load_row(i, Z, P, support, m, z, p)
        for k in range(p.size):
            outside[k] = p[k] == 0
        total = Z.dtype.type(0)
        for b in range(m):
            pj = p[support[b]]
            zj = _center_row(i, Z, support[b], wide, z)
            _gates(zj, z, g)
            _close_gates(i, Z, support[b], wide, g)
            # A pair inside the support comes up twice, a pair with a label outside once.
            for k in range(g.size):
                weight = pj - p[k]
                total += weight * (weight + pj * outside[k]) * _log_of_gate(g[k])
        row_loss[i] = scale * total


@kernel
def _score_gradient_rows(start: int, stop: int, Z: Array, P: Array, grad: Array) -> None:
    q = Z.shape[1]
    support, own = _support_scratch(Z)
    z, p, c, _ = _label_scratch(Z)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(i, P, support)
        if 2 * m > q:
            _dense_score(i, Z, P, scale, grad)
            continue
        wide = _load_row(i, Z, P, support, m, z, p)
        _clear(c)
        for b in range(m):
            zj = _center_row(i, Z, support[b], wide, z)
            own[b] = -scale * _score_pairs(zj, p[support[b]], z, p, c)
        _write_row(i, scale, c, support, m, own, grad)


@kernel
def _confidence_gradient_rows(start: int, stop: int, Z: Array, P: Array, grad: Array) -> None:
    q = Z.shape[1]
    support, own = _support_scratch(Z)
    z, p, g, c = _label_scratch(Z)
    scale = Z.dtype.type(4.0 / q**2)
    for i in range(start, stop):
        m = _find_support(i, P, support)
        if 2 * m > q:
            _dense_confidence(i, Z, P, scale, grad)
            continue
        wide = _load_row(i, Z, P, support, m, z, p)
        _clear(c)
        for b in range(m):
            zj = _center_row(i, Z, support[b], wide, z)
            _gates(zj, z, g)
            _close_gates(i, Z, support[b], wide, g)
            own[b] = scale * _log_pairs(p[support[b]], g, p, c)
        _write_row(i, -scale, c, support, m, own, grad)


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
    support, own_score = _support_scratch(Z)
    own_confidence = np.empty_like(own_score)
    z, p, g, c_score = _label_scratch(Z)
    c_confidence = np.empty_like(c_score)
    scale = Z.dtype.type(4.0 / q**2)
    half = Z.dtype.type(0.5)
    for i in range(start, stop):
        m = _find_support(i, P, support)
        if 2 * m > q:
            _dense_score(i, Z, P, scale, score_grad)
            _dense_confidence(i, Z, P, scale, confidence_grad)
        else:
            wide = _load_row(i, Z, P, support, m, z, p)
            _clear(c_score)
            _clear(c_confidence)
            for b in range(m):
                pj = p[support[b]]
                zj = _center_row(i, Z, support[b], wide, z)
                own_score[b] = -scale * _score_pairs_and_gates(zj, pj, z, p, c_score, g)
                _close_gates(i, Z, support[b], wide, g)
                own_confidence[b] = scale * _log_pairs(pj, g, p, c_confidence)
            _write_row(i, scale, c_score, support, m, own_score, score_grad)
            _write_row(i, -scale, c_confidence, support, m, own_confidence, confidence_grad)
        # The loss is quadratic in the confidences, so it is half of <P, dL/dP>. Rounding could
        # leave it below zero.
        loss = Z.dtype.type(0)
        for b in range(m):
            loss += P[i, support[b]] * confidence_grad[i, support[b]]
        row_loss[i] = half * max(loss, Z.dtype.type(0))


@helper
def _support_scratch(Z: Array) -> tuple[Array, Array]:
    """Labels of the support, and a number for each of them."""
    q = Z.shape[1]
    return np.empty(2 * q + 2, np.int64), np.empty(q, Z.dtype)


@helper
def _label_scratch(Z: Array) -> tuple[Array, Array, Array, Array]:
    """Four rows, padded to whole pairs of vectors so that no loop has a scalar remainder."""
    lanes = 64 // Z.itemsize
    width = (Z.shape[1] + lanes - 1) // lanes * lanes
    return (
        np.empty(width, Z.dtype),
        np.empty(width, Z.dtype),
        np.empty(width, Z.dtype),
        np.empty(width, Z.dtype),
    )


@inline_helper
def _find_support(i: int, P: Array, support: Array) -> int:
    """List the labels with confidence; return how many.

    Without branches on the data, which could not be predicted: first the blocks that hold any
    confidence, kept in `support` behind the labels, then the labels of those blocks.
    """
    q = P.shape[1]
    block = 16
    n_blocks = q // block
    list_start = q + 1
    n_busy = 0
    for number in range(n_blocks):
        mass = P.dtype.type(0)
        for k in range(block):
            mass += abs(P[i, number * block + k])
        support[list_start + n_busy] = number
        n_busy += mass != 0
    m = 0
    for k in range(n_blocks * block, q):
        support[m] = k
        m += P[i, k] != 0
    for busy in range(n_busy):
        first = support[list_start + busy] * block
        for k in range(first, first + block):
            support[m] = k
            m += P[i, k] != 0
    return m


@inline_helper
def _load_row(i: int, Z: Array, P: Array, support: Array, m: int, z: Array, p: Array) -> bool:
    """Copy scores and confidences into the padded rows.

    Return whether the row is wide: whether the difference of two scores may be out of reach.
    """
    q = Z.shape[1]
    if m == 0:
        return False
    center = Z[i, support[0]]
    reach = _reach(center) / 2
    far = 0
    for k in range(q):
        z[k] = Z[i, k]
        p[k] = P[i, k]
        far += abs(Z[i, k] - center) >= reach
    for k in range(q, p.size):
        p[k] = 0
    return far != 0


@inline_helper
def _center_row(i: int, Z: Array, label: int, wide: bool, z: Array) -> Any:
    """Make `z` ready for the pairs with one label and return the score to subtract from.

    In a wide row `z` becomes the differences, with 0 for those out of reach. The padding always
    gets difference 0, where the score gradient vanishes.
    """
    q = Z.shape[1]
    zj = Z[i, label]
    if wide:
        for k in range(q):
            z[k] = _near_or_zero(Z[i, k] - Z[i, label])
        zj = Z.dtype.type(0)
    for k in range(q, z.size):
        z[k] = zj
    return zj


@inline_helper
def _close_gates(i: int, Z: Array, label: int, wide: bool, g: Array) -> None:
    """Set g to zero for the padding and for scores out of reach."""
    q = Z.shape[1]
    if wide:
        for k in range(q):
            if abs(Z[i, k] - Z[i, label]) >= _reach(Z[i, label]):
                g[k] = 0
    for k in range(q, g.size):
        g[k] = 0


@inline_helper
def _clear(row: Array) -> None:
    for k in range(row.size):
        row[k] = row.dtype.type(0)


@inline_helper
def _write_row(
    i: int, scale: Any, c: Array, support: Array, m: int, own: Array, out: Array
) -> None:
    for k in range(out.shape[1]):
        out[i, k] = scale * c[k]
    for b in range(m):
        out[i, support[b]] = own[b]


@inline_helper
def _score_pairs(zj: Any, pj: Any, z: Array, p: Array, c: Array) -> Any:
    """Add t = (p_j - p_k)^2 d/(1 + exp(d^2)) to every c[k]; return the sum of t."""
    total = type(pj)(0)
    for k in range(z.size):
        d = zj - z[k]
        weight = pj - p[k]
        x, denominator = _exponential(d)
        t = d * weight * weight * x / (denominator + x)
        total += t
        c[k] += t
    return total


@inline_helper
def _score_pairs_and_gates(zj: Any, pj: Any, z: Array, p: Array, c: Array, g: Array) -> Any:
    """Do what _score_pairs does and leave 1/(1 + exp(d^2)) in g."""
    total = type(pj)(0)
    for k in range(z.size):
        d = zj - z[k]
        weight = pj - p[k]
        gate = _gate(d)
        g[k] = gate
        t = d * weight * weight * gate
        total += t
        c[k] += t
    return total


@inline_helper
def _gates(zj: Any, z: Array, g: Array) -> None:
    """1/(1 + exp(d^2)) for every label.

    In a loop of its own: together with the logarithm it needs more constants than there are
    registers.
    """
    for k in range(z.size):
        g[k] = _gate(zj - z[k])


@inline_helper
def _log_pairs(pj: Any, g: Array, p: Array, c: Array) -> Any:
    """Add t = (p_j - p_k) log(1 + exp(-d^2)) to every c[k]; return the sum of t."""
    total = type(pj)(0)
    for k in range(g.size):
        t = (pj - p[k]) * _log_of_gate(g[k])
        total += t
        c[k] += t
    return total


@inline_helper
def _dense_score(i: int, Z: Array, P: Array, scale: Any, grad: Array) -> None:
    """Gradient in the scores from every pair once, right for any support."""
    for j in range(Z.shape[1]):
        total = Z.dtype.type(0)
        for k in range(j):
            d = _near_or_zero(Z[i, j] - Z[i, k])
            weight = P[i, j] - P[i, k]
            t = scale * weight * weight * d * _gate(d)
            total += t
            grad[i, k] += t
        grad[i, j] = -total


@inline_helper
def _dense_confidence(i: int, Z: Array, P: Array, scale: Any, grad: Array) -> None:
    for j in range(Z.shape[1]):
        total = Z.dtype.type(0)
        for k in range(j):
            t = scale * (P[i, j] - P[i, k]) * _pair_loss(Z[i, j] - Z[i, k])
            total += t
            grad[i, k] -= t
        grad[i, j] = total


@inline_helper
def _dense_loss(i: int, Z: Array, P: Array) -> Any:
    total = Z.dtype.type(0)
    for j in range(Z.shape[1]):
        for k in range(j):
            weight = P[i, j] - P[i, k]
            total += weight * weight * _pair_loss(Z[i, j] - Z[i, k])
    return total


@ordered_helper
def _pair_loss(difference: Any) -> Any:
    """log(1 + exp(-d^2)) of one pair at any distance."""
    gate = _gate(_near_or_zero(difference))
    return _log_of_gate(type(gate)(0) if abs(difference) >= _reach(difference) else gate)


@ordered_helper
def _is_single(a: Any) -> bool:
    """Whether the number is a float32; decided at compile time."""
    T = type(a)
    return T(1) + T(1e-9) == T(1)


@ordered_helper
def _reach(a: Any) -> Any:
    """Difference beyond which exp(-d^2) counts as zero: it leaves the exponent range there."""
    return type(a)(9 if _is_single(a) else 26)


@ordered_helper
def _near_or_zero(difference: Any) -> Any:
    return type(difference)(0) if abs(difference) >= _reach(difference) else difference


@ordered_helper
def _gate(d: Any) -> Any:
    """1/(1 + exp(d^2)) for |d| within reach."""
    x, denominator = _exponential(d)
    return x / (denominator + x)


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
    # A and B share a factor that makes the leading coefficient of A equal to 1.
    even = (u + T(180.18024893940475)) * u + T(1681.8026832164157)
    odd = (u * T(20.01501269588918) + T(840.9013416079661)) * r
    wide_bits = np.float64(even + odd).view(np.int64)
    wide_exponent = np.float64(shifted).view(np.int64) << np.int64(52)
    return T(np.int64(wide_bits + wide_exponent).view(np.float64)), T(even - odd)


@ordered_helper
def _log_of_gate(g: Any) -> Any:
    """-log(1 - g) for 0 <= g <= 1/2 as 2 artanh(y), y = g/(2 - g).

    The polynomial in y^2 is good to 1.8e-15 (float64) and 4e-9 (float32).
    """
    T = type(g)
    y = g / (T(2) - g)
    u = y * y
    if _is_single(g):
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
