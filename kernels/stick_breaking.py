"""A stick broken by logistic functions: the mixture weights of LSB-CMM, and what learning needs.

A row with scores z of the breaks gives component k the share
``phi_k = s(z_k) s(-z_0) ... s(-z_{k-1})``, with ``s(z) = 1 / (1 + exp(-z))``, and the last
component the rest of the stick. There are K components and K - 1 breaks.

Shares are products and may underflow to zero, which is exact enough: a share counts beside others
that sum to one. Everything is computed in double precision whatever the scores are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays
from hera_fast.kernels._inline import (
    exponential,
    list_candidates,
    near_or_zero,
    pair_loss,
    zero_if_far,
)
from hera_fast.kernels._jit import helper, kernel, ordered_helper
from hera_fast.kernels._launch import launch

__all__ = ["break_slopes", "break_values", "component_posterior", "stick_shares"]

_Array = np.ndarray[Any, Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline


def stick_shares(Z: _Array, shares: _Array) -> None:
    """Write the share of every component.

    Parameters
    ----------
    Z : ndarray of shape (n, breaks)
        Scores of the breaks, of any size.
    shares : ndarray of shape (n, breaks + 1)
        Overwritten; each row sums to one.
    """
    sizes = check_arrays("Z[n,breaks] -> shares[n,components]", Z, shares)
    _check_components(sizes)
    launch(_share_rows, sizes["n"], 24 * sizes["components"], Z, shares)


@kernel
def _share_rows(start: int, stop: int, Z: Any, shares: Any) -> None:
    phi, left = np.empty(shares.shape[1]), np.empty(shares.shape[1])
    for i in range(start, stop):
        _break_stick(i, Z, left, phi)
        for k in range(phi.size):
            shares[i, k] = phi[k]


def component_posterior(
    Z: _Array,
    Y: _Array,
    affinity: _Array,
    ratios: _Array,
    mass: _Array,
    confidence: _Array,
    log_likelihood: _Array,
) -> None:
    """Write how likely the components and the candidates of every row are.

    Component k and label l of a row are as likely as ``phi_k affinity[l, k]`` if l is a
    candidate; the sum over both is the likelihood of the row.

    Parameters
    ----------
    Z : ndarray of shape (n, breaks)
        Scores of the breaks.
    Y : ndarray of shape (n, q)
        The candidates, at least one in every row. Floating, bool or uint8.
    affinity : ndarray of shape (q, components), float64
        Positive, and not as small as 1e-100.
    ratios : ndarray of shape (n, components), float64
        Receives the shares over the likelihood: times the affinity, the probability of a
        component and a candidate.
    mass : ndarray of shape (n, components), float64
        Receives the probabilities of the components; each row sums to one.
    confidence : ndarray of shape (n, q)
        Receives the probabilities of the candidates, zero elsewhere; each row sums to one.
    log_likelihood : ndarray of shape (n,), float64
        Receives the logarithm of the likelihood.
    """
    sizes = check_arrays(
        "Z[n,breaks] Y[n,q]:candidates affinity[q,components]:float64 -> "
        "ratios[n,components]:float64 mass[n,components]:float64 confidence[n,q] "
        "log_likelihood[n]:float64",
        *(Z, Y, affinity, ratios, mass, confidence, log_likelihood),
    )
    _check_components(sizes)
    launch(
        _posterior_rows,
        *(sizes["n"], 32 * sizes["components"] + sizes["q"]),
        *(Z, candidate_bytes(Y), affinity, ratios, mass, confidence, log_likelihood),
    )


@kernel
def _posterior_rows(
    start: int,
    stop: int,
    Z: Any,
    Y: Any,
    affinity: Any,
    ratios: Any,
    mass: Any,
    confidence: Any,
    log_likelihood: Any,
) -> None:
    number = confidence.dtype.type
    q, n_components = affinity.shape
    phi, left = np.empty(n_components), np.empty(n_components)
    likelihoods = np.empty(q)
    labels = np.empty(q + 1, np.int64)
    for i in range(start, stop):
        _break_stick(i, Z, left, phi)
        n_labels = list_candidates(i, Y, labels)
        for k in range(n_components):
            mass[i, k] = 0.0
        total = 0.0
        for c in range(n_labels):
            likelihood = 0.0
            for k in range(n_components):
                joint = phi[k] * affinity[labels[c], k]
                mass[i, k] += joint
                likelihood += joint
            likelihoods[c] = likelihood
            total += likelihood
        scale = 1.0 / total
        for k in range(n_components):
            mass[i, k] *= scale
            ratios[i, k] = phi[k] * scale
        for l in range(q):
            confidence[i, l] = number(0)
        for c in range(n_labels):
            confidence[i, labels[c]] = likelihoods[c] * scale
        log_likelihood[i] = math.log(total)


def break_slopes(Z: _Array, mass: _Array, slope: _Array, curvature: _Array) -> None:
    """Write the derivatives of :func:`break_values` by the scores.

    With t the mass of component k and of all that follow it, ``slope = mass_k - t s(z_k)`` and
    ``curvature = t s(z_k) s(-z_k)``, minus the second derivative.

    Parameters
    ----------
    Z : ndarray of shape (n, breaks)
        Scores of the breaks.
    mass : ndarray of shape (n, breaks + 1), float64
        Probabilities of the components.
    slope, curvature : ndarray of shape (n, breaks)
        Overwritten.
    """
    sizes = check_arrays(
        "Z[n,breaks] mass[n,components]:float64 -> slope[n,breaks] curvature[n,breaks]",
        *(Z, mass, slope, curvature),
    )
    _check_components(sizes)
    launch(_slope_rows, sizes["n"], 24 * sizes["components"], Z, mass, slope, curvature)


@kernel
def _slope_rows(start: int, stop: int, Z: Any, mass: Any, slope: Any, curvature: Any) -> None:
    rest = np.empty(mass.shape[1])
    for i in range(start, stop):
        _sum_following(i, mass, rest)
        for k in range(Z.shape[1]):
            goes, stays = _sides(np.float64(Z[i, k]))
            # Not mass - t goes, which would lose what is small beside the mass.
            slope[i, k] = mass[i, k] * stays - rest[k] * goes
            curvature[i, k] = (mass[i, k] + rest[k]) * (goes * stays)


def break_values(Z: _Array, mass: _Array, values: _Array) -> None:
    """Write what every break adds to the expected logarithm of the shares.

    ``values = mass_k log s(z_k) + (mass_{k+1} + ... + mass_{K-1}) log s(-z_k)``; summed over the
    breaks of a row, this is the sum of ``mass_k log phi_k``.

    Parameters
    ----------
    Z : ndarray of shape (n, breaks)
        Scores of the breaks.
    mass : ndarray of shape (n, breaks + 1), float64
        Probabilities of the components.
    values : ndarray of shape (n, breaks), float64
        Overwritten.
    """
    sizes = check_arrays(
        "Z[n,breaks] mass[n,components]:float64 -> values[n,breaks]:float64", Z, mass, values
    )
    _check_components(sizes)
    launch(_value_rows, sizes["n"], 24 * sizes["components"], Z, mass, values)


@kernel
def _value_rows(start: int, stop: int, Z: Any, mass: Any, values: Any) -> None:
    rest = np.empty(mass.shape[1])
    for i in range(start, stop):
        _sum_following(i, mass, rest)
        for k in range(Z.shape[1]):
            z = np.float64(Z[i, k])
            against = rest[k] if z > 0 else mass[i, k]
            loss = pair_loss(math.sqrt(abs(z)))
            values[i, k] = -against * abs(z) - (mass[i, k] + rest[k]) * loss


@helper
def _break_stick(i: int, Z: Any, left: Any, phi: Any) -> None:
    """Write the shares of a row; `left` is scratch."""
    n_breaks = Z.shape[1]
    # Apart from the products, each of which needs the one before, this is vectorised.
    for k in range(n_breaks):
        phi[k], left[k] = _sides(np.float64(Z[i, k]))
    rest = 1.0
    for k in range(n_breaks):
        phi[k] *= rest
        rest *= left[k]
    phi[n_breaks] = rest


@helper
def _sum_following(i: int, mass: Any, rest: Any) -> None:
    """Write the mass of the components that follow each, small ones first."""
    following = 0.0
    for k in range(mass.shape[1] - 1, -1, -1):
        rest[k] = following
        following += mass[i, k]


@ordered_helper
def _sides(z: Any) -> tuple[Any, Any]:
    """Find s(z) and s(-z), both with full relative precision; beyond 676 the smaller one is 0."""
    root = math.sqrt(abs(z))
    small, large = exponential(near_or_zero(root))
    small = zero_if_far(root, small)
    total = small + large
    near, far = large / total, small / total
    return (near, far) if z > 0 else (far, near)


def _check_components(sizes: dict[str, int]) -> None:
    if sizes["components"] != sizes["breaks"] + 1:
        raise ValueError(
            f"There must be one component more than breaks, got {sizes['components']} components "
            f"and {sizes['breaks']} breaks"
        )
