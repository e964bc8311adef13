"""Plain NumPy twin of ``hera_fast.kernels.margins``."""

from __future__ import annotations

import numpy as np


def candidate_margins(Z, Y, best, rival, loss):
    for i, (z, candidates) in enumerate(zip(Z, Y != 0, strict=True)):
        inside, outside = np.flatnonzero(candidates), np.flatnonzero(~candidates)
        best[i] = inside[z[inside].argmax()] if len(inside) else -1
        rival[i] = outside[z[outside].argmax()] if len(outside) else -1
        is_told = len(inside) and len(outside)
        loss[i] = max(0, 1 - (z[best[i]] - z[rival[i]])) if is_told else 0


def mean_margin_gradient(Y, loss, Z):
    for i, (z, candidates) in enumerate(zip(Z, Y != 0, strict=True)):
        hinges = np.where(candidates, 0, np.maximum(0, 1 + z))
        loss[i] = (hinges.astype(np.float64) ** 2).sum()
        gradient = 2 * hinges
        if candidates.any():
            shortfall = max(0, 1 - z[candidates].astype(np.float64).mean())
            loss[i] += shortfall**2
            gradient[candidates] = -2 * shortfall / candidates.sum()
        z[:] = gradient
