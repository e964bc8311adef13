"""Small compiled functions that kernels of several modules share.

Numba's cache of a kernel does not notice edits in this file, nor in `_jit`. Every module with
compiled functions therefore carries the digest of both, and a test compares it: after an edit,
updating the digests changes those modules too, and with them their cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.kernels._jit import helper, ordered_helper


@helper
def list_candidates(i: int, Y: Any, labels: Any) -> Any:
    """Write the candidates of a row to the front of `labels` and return their number."""
    n_labels = 0
    for k in range(Y.shape[1]):
        labels[n_labels] = k
        n_labels += Y[i, k] != 0
    return n_labels


@helper
def all_finite(i: int, values: Any, labels: Any, n_labels: int) -> Any:
    """Whether a row holds neither NaN nor infinity at the labels."""
    finite = True
    for c in range(n_labels):
        finite &= np.isfinite(values[i, labels[c]])
    return finite


@ordered_helper
def pair_loss(difference: Any) -> Any:
    """log(1 + exp(-d^2)) at any distance."""
    return two_artanh(log_argument(difference))


@ordered_helper
def log_argument(difference: Any) -> Any:
    """Find y with log(1 + exp(-d^2)) = 2 artanh(y), at any distance."""
    x, denominator = exponential(near_or_zero(difference))
    x = zero_if_far(difference, x)
    return x / (denominator + denominator + x)


@ordered_helper
def reach(a: Any) -> Any:
    """Difference from which on exp(-d^2) counts as zero: beyond, it leaves the exponent range."""
    return type(a)(9 if _is_single(a) else 26)


@ordered_helper
def near_or_zero(difference: Any) -> Any:
    """Replace a difference out of reach by 0, where the exponential can be evaluated."""
    return type(difference)(0) if abs(difference) >= reach(difference) else difference


@ordered_helper
def zero_if_far(difference: Any, x: Any) -> Any:
    """Replace what was computed for a difference out of reach by 0."""
    return type(x)(0) if abs(difference) >= reach(difference) else x


@ordered_helper
def exponential(d: Any) -> tuple[Any, Any]:
    """exp(-d^2) as a fraction (numerator, denominator), for d within reach.

    Left as a fraction because whatever is wanted of it needs a division anyway, and then one is
    enough. With n the integer nearest to -d^2/log 2 and r = -d^2 - n log 2, exp(r) is
    (A + rB)/(A - rB) with A, B polynomials in r^2, fitted to 1.2e-14 (float64) and 1e-10
    (float32). Adding 1.5 * 2^52 rounds to an integer and leaves n in the low bits, from where it
    is added to the exponent of A + rB.
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
def two_artanh(y: Any) -> Any:
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


@ordered_helper
def _is_single(a: Any) -> Any:
    """Whether the number is a float32; decided at compile time."""
    T = type(a)
    return T(1) + T(1e-9) == T(1)
