"""Plain NumPy twin of ``hera_fast.kernels.machines``: rows in their order, none set aside."""

from __future__ import annotations

import numpy as np


def train_machines(features, offsets, rows, signs, C, balanced, tol, max_iter, coef, n_iter):
    coef[:] = 0
    n_iter[:] = 0
    for k in range(len(coef)):
        entries = slice(offsets[k], offsets[k + 1])
        X, s = features[rows[entries]].astype(np.float64), signs[entries].astype(np.float64)
        if len(set(s)) == 2:
            share = np.where(s > 0, np.mean(s > 0), np.mean(s < 0))
            C_rows = C / (2 * share) if balanced else np.full(len(s), C)
            coef[k], n_iter[k] = _train(X, s, C_rows, tol, max_iter)


def _train(X, s, C, tol, max_iter):
    w, a = np.zeros(X.shape[1]), np.zeros(len(X))
    n_passes, is_done = 0, False
    while n_passes < max_iter and not is_done:
        slopes = [0.0]
        for i in range(len(X)):
            g = s[i] * (w @ X[i]) - 1 + a[i] / (2 * C[i])
            slopes.append(g if a[i] > 0 else min(g, 0))
            before = a[i]
            a[i] = max(a[i] - g / (X[i] @ X[i] + 1 / (2 * C[i])), 0)
            w += (a[i] - before) * s[i] * X[i]
        n_passes += 1
        is_done = max(slopes) - min(slopes) <= tol
    return w, n_passes
