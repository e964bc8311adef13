"""Plain NumPy twin of ``hera_fast.kernels.confidence``: tries every possible support."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def confidence_step(Z, Y, E, M, fit, sparsity, penalty, ranking, P, row_objective):
    P[...] = 0
    for i, candidates in enumerate(Y != 0):
        g = linear_part(Z[i], E[i], M[i], fit, penalty)
        H = hessian(Z[i], fit - sparsity + penalty, ranking)
        if candidates.any():
            P[i, candidates] = simplex_qp(H[np.ix_(candidates, candidates)], g[candidates])
        row_objective[i] = objective(Z[i], fit, sparsity, ranking, P[i])


def linear_part(z, e, m, fit, penalty):
    """Minus the derivatives at zero of what is linear in the confidences of the candidates."""
    z, e, m = (row.astype(np.float64) for row in (z, e, m))
    return fit * z + m + penalty * (1 - e) if penalty > 0 else fit * z


def objective(z, fit, sparsity, ranking, p):
    z, p = z.astype(np.float64), p.astype(np.float64)
    loss = ranking_loss(z, p) if ranking else 0
    return loss + fit / 2 * ((p - z) ** 2).sum() - sparsity / 2 * (p @ p)


def augmented_objective(z, y, e, m, fit, sparsity, penalty, ranking, p):
    residual = (y != 0) - p - e
    augmented = penalty / 2 * (residual @ residual) - m @ p if penalty > 0 else 0
    return objective(z, fit, sparsity, ranking, p) + augmented


def quadratic(z, g, curvature, ranking, p):
    """The augmented objective up to a constant."""
    return p @ hessian(z, curvature, ranking) @ p / 2 - g @ p


def pair_losses(z):
    difference = np.subtract.outer(z.astype(np.float64), z.astype(np.float64))
    return np.log1p(np.exp(-(np.minimum(np.abs(difference), 30) ** 2)))


def ranking_loss(z, p):
    return (np.subtract.outer(p, p) ** 2 * pair_losses(z)).sum() / len(z) ** 2


def hessian(z, curvature, ranking):
    losses = pair_losses(z) * ranking
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
