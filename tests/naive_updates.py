"""Plain NumPy twin of ``hera_fast.kernels.updates``."""

from __future__ import annotations

import numpy as np


def soft_threshold(V, threshold, out):
    out[...] = np.sign(V) * np.maximum(np.abs(V) - threshold, 0)


def low_rank_target(Y, P, M, penalty, out):
    out[...] = Y - P + M / penalty


def fit_gradient(Z, P, weight, grad):
    grad += weight * (Z - P)


def update_multipliers(Y, P, low_rank, penalty, E, M, row_parts):
    previous_E = E.copy()
    E[...] = low_rank
    R = Y - P - E
    M += penalty * R
    row_parts[:, 0] = _row_sums(R**2)
    row_parts[:, 1] = _row_sums((E - previous_E) ** 2)
    row_parts[:, 2] = _row_sums(M**2)


def update_multipliers_paper(
    Y, P, Z, low_rank, penalty, split_penalty, sparsity, E, J, M, N, row_parts
):
    previous_E, previous_J = E.copy(), J.copy()
    soft_threshold(P + N / split_penalty, sparsity / split_penalty, J)
    E[...] = np.maximum(low_rank, 0)
    R = Y - P - E
    row_parts[:, 0] = _row_sums(R**2)
    row_parts[:, 1] = _row_sums((E - previous_E) ** 2)
    row_parts[:, 2] = _row_sums(M * R)
    row_parts[:, 3] = _row_sums((P - J) ** 2)
    row_parts[:, 4] = _row_sums((J - previous_J) ** 2)
    row_parts[:, 5] = _row_sums(N * (P - J))
    row_parts[:, 6] = _row_sums(np.abs(J))
    row_parts[:, 7] = _row_sums((P - Z) ** 2)
    M += penalty * R
    N += split_penalty * (P - J)


def _row_sums(A):
    return A.sum(axis=1, dtype=np.float64)
