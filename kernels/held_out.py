"""What rows say about each other's labels when every row is predicted by the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hera_fast.kernels._check import candidate_bytes, check_arrays, check_number
from hera_fast.kernels._inline import exponential, list_candidates, near_or_zero, zero_if_far
from hera_fast.kernels._jit import helper, kernel
from hera_fast.kernels._launch import launch

__all__ = ["MASS_PARTS", "candidate_mass", "condition_on_candidates", "held_out_scores"]

_Array = np.ndarray[Any, Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline

#: Columns of `row_parts` in :func:`candidate_mass`.
MASS_PARTS = (
    "log_mass",  # logarithm of the probability of the candidates
    "slope",  # its derivative by the temperature
    "curvature",  # its second derivative
)


def held_out_scores(
    fits: _Array, P: _Array, leverages: _Array, shares: _Array, out: _Array
) -> None:
    """Turn the fits of a ridge regression into those of regressions on the other rows.

    ``out[i, j] = (fits[i, j] - leverages[i] (P[i, j] - shares[j])) / (1 - leverages[i])``.

    Parameters
    ----------
    fits : ndarray of shape (n, q)
        What the regression on all rows says about each of them, without `shares`.
    P : ndarray of shape (n, q)
        Targets.
    leverages : ndarray of shape (n,)
        Derivatives of the fits by their own targets, less than 1.
    shares : ndarray of shape (q,)
        What was subtracted from the targets before the regression.
    out : ndarray of shape (n, q)
        Overwritten. It may be `fits` itself.
    """
    in_place = out is fits
    if in_place:
        sizes = check_arrays(
            "P[n,q] leverages[n] shares[q] -> fits[n,q]", P, leverages, shares, fits
        )
    else:
        sizes = check_arrays(
            "fits[n,q] P[n,q] leverages[n] shares[q] -> out[n,q]", fits, P, leverages, shares, out
        )
    launch(
        *(_held_out_rows, sizes["n"], 2 * sizes["q"]),
        *(fits, P, leverages, shares, in_place, out),
    )


@kernel
def _held_out_rows(
    start: int,
    stop: int,
    fits: Any,
    P: Any,
    leverages: Any,
    shares: Any,
    in_place: bool,
    out: Any,
) -> None:
    number = out.dtype.type
    q = out.shape[1]
    for i in range(start, stop):
        # Apart from the rest, which would not be vectorised with two arrays that may overlap.
        if not in_place:
            for k in range(q):
                out[i, k] = fits[i, k]
        leverage = leverages[i]
        scale = number(1) / (number(1) - leverage)
        for k in range(q):
            out[i, k] = (out[i, k] - leverage * (P[i, k] - shares[k])) * scale


def candidate_mass(
    scores: _Array, offsets: _Array, Y: _Array, temperature: float, row_parts: _Array
) -> None:
    """Write how much probability falls on the candidates, and how that depends on temperature.

    With ``t_j = scores[i, j] + offsets[j]``, Q the probabilities proportional to
    ``exp(temperature t_j)`` over all labels and Q_S the same over the candidates of the row,
    ``row_parts[i]`` is

    - the logarithm of the sum of Q over the candidates,
    - ``E_{Q_S}[t] - E_Q[t]``, its derivative by the temperature,
    - ``Var_{Q_S}[t] - Var_Q[t]``, its second derivative.

    Everything is computed in double precision. The candidates and all labels are summed relative
    to the largest score of their own, so that a mass of 1e-400 has its logarithm, too.

    Parameters
    ----------
    scores : ndarray of shape (n, q)
        Finite, of any size.
    offsets : ndarray of shape (q,)
        Added to every row. Minus infinity makes the probability of a label zero.
    Y : ndarray of shape (n, q)
        Non-zero marks a candidate. Floating, bool or uint8.
    temperature : float
        Positive.
    row_parts : ndarray of shape (n, len(MASS_PARTS)), float64
        Overwritten with what `MASS_PARTS` names: zeros where all labels are candidates. Without a
        candidate of finite offset the logarithm would be minus infinity at every temperature;
        such a row gives (-745, 0, 0), with the logarithm of the smallest positive number.
    """
    sizes = check_arrays(
        "scores[n,q] offsets[q] Y[n,q]:candidates -> row_parts[n,parts]:float64",
        *(scores, offsets, Y, row_parts),
    )
    if sizes["parts"] != len(MASS_PARTS):
        raise ValueError(f"row_parts must have {len(MASS_PARTS)} columns, got {sizes['parts']}")
    factor = check_number("temperature", temperature, positive=True)
    launch(
        *(_mass_rows, sizes["n"], 16 * sizes["q"]),
        *(scores, offsets, candidate_bytes(Y), factor, row_parts),
    )


@kernel
def _mass_rows(
    start: int, stop: int, scores: Any, offsets: Any, Y: Any, temperature: float, row_parts: Any
) -> None:
    q = scores.shape[1]
    labels = np.empty(q, np.int64)
    values, inside = np.empty(q), np.empty(q)
    for i in range(start, stop):
        for k in range(q):
            values[k] = np.float64(scores[i, k]) + np.float64(offsets[k])
        n_labels = list_candidates(i, Y, labels)
        for c in range(n_labels):
            inside[c] = values[labels[c]]
        top_inside = _largest(inside[:n_labels])
        if top_inside == -np.inf:
            # Assigning a tuple would compile a message about wrong shapes, for two seconds.
            row_parts[i, 0] = -745.0
            row_parts[i, 1] = row_parts[i, 2] = 0.0
            continue
        top = _largest(values)
        total, mean, variance = _moments(values, top, temperature)
        total_inside, mean_inside, variance_inside = _moments(
            inside[:n_labels], top_inside, temperature
        )
        fall = top_inside - top
        row_parts[i, 0] = temperature * fall + (math.log(total_inside) - math.log(total))
        row_parts[i, 1] = fall + (mean - mean_inside)
        row_parts[i, 2] = variance_inside - variance


@helper
def _largest(values: Any) -> Any:
    top = -np.inf
    for k in range(values.size):
        top = max(top, values[k])
    return top


@helper
def _moments(values: Any, top: float, temperature: float) -> tuple[float, float, float]:
    """Find the sum of exp(temperature (v - top)), and the mean and variance of top - v under it."""
    total = first = second = 0.0
    for k in range(values.size):
        distance = top - values[k]
        root = math.sqrt(temperature * distance)
        numerator, denominator = exponential(near_or_zero(root))
        weight = zero_if_far(root, numerator) / denominator
        # Where the weight is zero, the distance may be infinite.
        distance = zero_if_far(root, distance)
        total += weight
        first += weight * distance
        second += weight * distance * distance
    mean = first / total
    return total, mean, second / total - mean * mean


def condition_on_candidates(
    Y: _Array, pair_scores: _Array, label_scores: _Array, Z: _Array
) -> None:
    """Multiply probabilities by how likely each candidate makes the others, row by row.

    For a candidate j of row i, ``v_j = log Z[i, j] + label_scores[j]`` plus the sum of
    ``pair_scores[j, k]`` over the other candidates k of the row; ``Z[i, j]`` becomes
    ``exp(v_j)``, scaled so that the candidates of a row sum to one.

    Parameters
    ----------
    Y : ndarray of shape (n, q)
        Non-zero marks a candidate. Floating, bool or uint8.
    pair_scores : ndarray of shape (q, q), float64
        Finite outside the diagonal, which is not read.
    label_scores : ndarray of shape (q,), float64
        Finite.
    Z : ndarray of shape (n, q)
        Probabilities, overwritten. One below the smallest positive normal number counts as this
        number. What is no candidate becomes zero, a single candidate exactly one.
    """
    sizes = check_arrays(
        "Y[n,q]:candidates pair_scores[q,q]:float64 label_scores[q]:float64 -> Z[n,q]",
        *(Y, pair_scores, label_scores, Z),
    )
    launch(
        *(_condition_rows, sizes["n"], 4 * sizes["q"]),
        *(candidate_bytes(Y), pair_scores, label_scores, float(np.finfo(Z.dtype).tiny), Z),
    )


@kernel
def _condition_rows(
    start: int, stop: int, Y: Any, pair_scores: Any, label_scores: Any, smallest: float, Z: Any
) -> None:
    q = Z.shape[1]
    labels = np.empty(q, np.int64)
    values = np.empty(q)
    for i in range(start, stop):
        n_labels = list_candidates(i, Y, labels)
        for c in range(n_labels):
            label = labels[c]
            value = math.log(max(np.float64(Z[i, label]), smallest)) + label_scores[label]
            for other in range(n_labels):
                if other != c:
                    value += pair_scores[label, labels[other]]
            values[c] = value
        Z[i, :] = 0
        top = _largest(values[:n_labels])
        total = 0.0
        for c in range(n_labels):
            values[c] = math.exp(values[c] - top)
            total += values[c]
        for c in range(n_labels):
            Z[i, labels[c]] = values[c] / total
