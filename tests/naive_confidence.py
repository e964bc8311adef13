"""Plain NumPy twin of ``hera_fast.kernels.confidence``: tries every possible support."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def confidence_step(Z, G, Y, curvature, P):
    P[...] = 0
    for z, g, candidates, p in zip(Z, G, Y != 0, P, strict=True):
        if candidates.any():
            H = hessian(z, curvature)[np.ix_(candidates, candidates)]
            p[candidates] = simplex_qp(H, g[candidates].astype(np.float64))


def pair_losses(z):
    difference = np.subtract.outer(z.astype(np.float64), z.astype(np.float64))
    return np.log1p(np.exp(-(np.minimum(np.abs(difference), 30) ** 2)))


def ranking_loss(z, p):
    return (np.subtract.outer(p, p) ** 2 * pair_losses(z)).sum() / len(z) ** 2


def objective(z, g, curvature, p):
    return ranking_loss(z, p) + curvature / 2 * (p @ p) - g @ p


def gradient(z, g, curvature, p):
    weights = np.subtract.outer(p, p) * pair_losses(z)
    return 4 / len(z) ** 2 * weights.sum(axis=1) + curvature * p - g


def hessian(z, curvature):
    losses = pair_losses(z)
    np.fill_diagonal(losses, 0)
    return 4 / len(z) ** 2 * (np.diag(losses.sum(axis=1)) - losses) + curvature * np.eye(len(z))


def simplex_qp(H, g):
    """The feasible stationary point with the lowest objective, over all supports."""
    size = len(g)
    best, best_value = None, np.inf
    g = g - g.max()
    for n_free in range(1, size + 1):
        for free in map(list, combinations(range(size), n_free)):
            # Stationary points on the support: H p - t = g and sum(p) = 1.
            system = np.ones((n_free + 1, n_free + 1))
            system[:-1, :-1] = H[np.ix_(free, free)]
            system[-1, -1] = 0
            p = np.zeros(size)
            p[free] = np.linalg.solve(system, np.append(g[free], 1))[:-1]
            value = p @ H @ p / 2 - g @ p
            if p.min() >= -1e-14 and value < best_value:
                best, best_value = p, value
    return np.maximum(best, 0)
