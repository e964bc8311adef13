"""Scores become probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._check import check_arrays
from hera_fast.kernels._jit import kernel, ordered_helper
from hera_fast.kernels._launch import launch

__all__ = ["softmax"]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline


def softmax(offsets: np.ndarray[Any, Any], Z: np.ndarray[Any, Any]) -> None:
    """Replace every row by ``exp(Z[i] + offsets)``, scaled to sum to one.

    Parameters
    ----------
    offsets : ndarray of shape (q,)
        Added to every row. Minus infinity makes the probability of a label exactly zero.
    Z : ndarray of shape (n, q)
        Scores of any size, overwritten with the probabilities. A row that contains NaN or plus
        infinity, or nothing but minus infinity, becomes NaN.
    """
    sizes = check_arrays("offsets[q] -> Z[n,q]", offsets, Z)
    launch(_softmax_rows, sizes["n"], 8 * sizes["q"], offsets, Z)


@kernel
def _softmax_rows(start: int, stop: int, offsets: Any, Z: Any) -> None:
    number = Z.dtype.type
    q = Z.shape[1]
    rests = np.empty(q, Z.dtype)
    for i in range(start, stop):
        largest = np.int64(-(2**63))
        for k in range(q):
            largest = max(largest, _order(np.float64(Z[i, k] + offsets[k])))
        top = number(_number_of_order(largest))
        # In two loops: the constants of one would be more than there are registers.
        for k in range(q):
            rests[k], Z[i, k] = _split(_distance(Z[i, k], offsets[k], top))
        total = number(0)
        for k in range(q):
            share = Z[i, k] * _exponential(rests[k])
            Z[i, k] = share
            total += share
        scale = number(1) / total
        for k in range(q):
            Z[i, k] *= scale


@ordered_helper
def _order(x: float) -> Any:
    """An integer that grows with the number.

    LLVM looks for the largest of many integers with vector instructions, but not for the largest
    of numbers that may be NaN.
    """
    bits = np.float64(x).view(np.int64)
    return np.int64(bits ^ ((bits >> np.int64(63)) & np.int64(2**63 - 1)))


@ordered_helper
def _number_of_order(order: Any) -> Any:
    bits = np.int64(order ^ ((order >> np.int64(63)) & np.int64(2**63 - 1)))
    return bits.view(np.float64)


@ordered_helper
def _distance(z: Any, offset: Any, top: Any) -> Any:
    """How far a sum is from the largest: zero for the largest, because nothing is reordered."""
    return (z + offset) - top


@ordered_helper
def _split(x: Any) -> tuple[Any, Any]:
    """Find r, at most half of log 2 in size, and f = 2^n with exp(x) = f exp(r), for x <= 0.

    Below the range of normal numbers, f is zero. Log 2 is split in two, so that n times the first
    part is exact. Adding 1.5 * 2^52 rounds to an integer, and adding the bias of exponents as well
    leaves the exponent of f in the low bits. It is zero for the smallest n.
    """
    T = type(x)
    # This is true for float32, and known at compile time.
    if T(1) + T(1e-9) == T(1):
        x = T(-88) if x < T(-88) else x
        shifted = x * T(1.4426950408889634) + T(12583039.0)
        n = shifted - T(12583039.0)
        r = (x - n * T(0.693359375)) + n * T(2.1219444005469057e-4)
        bits = np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
        return T(r), T(bits.view(np.float32))
    x = T(-709) if x < T(-709) else x
    shifted = x * T(1.4426950408889634) + T(6755399441056767.0)
    n = shifted - T(6755399441056767.0)
    r = (x - n * T(0.6931471803691238)) - n * T(1.9082149292705877e-10)
    wide_bits = np.int64(np.float64(shifted).view(np.int64) << np.int64(52))
    return T(r), T(wide_bits.view(np.float64))


@ordered_helper
def _exponential(r: Any) -> Any:
    """exp(r) for r of at most half of log 2 in size.

    It is 1 + r times a polynomial, fitted to 4.4e-16 (float64) and 4e-9 (float32), whose even and
    odd powers are summed apart.
    """
    T = type(r)
    u = r * r
    if T(1) + T(1e-9) == T(1):  # float32, as above
        even = (u * T(0.0013933649996309251) + T(0.041666464925285904)) * u + T(0.500000001346581)
        odd = (u * T(0.008369155667697397) + T(0.1666650519575811)) * u + T(1.00000001077804)
        return T((even * u + T(1)) + odd * r)
    even = u * T(2.7620088445409746e-07) + T(2.4801521295954376e-05)
    even = even * u + T(0.0013888888917213717)
    even = even * u + T(0.04166666666662413)
    even = even * u + T(0.5000000000000001)
    odd = u * T(2.763265575933203e-06) + T(0.0001984119061583585)
    odd = odd * u + T(0.008333333367332009)
    odd = odd * u + T(0.16666666666615607)
    odd = odd * u + T(1.0000000000000013)
    return T((even * u + T(1)) + odd * r)
