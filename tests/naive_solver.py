"""Plain NumPy twins of the solver's objectives and models: X as it is, weights as a vector."""

from __future__ import annotations

import numpy as np


def row_ranking_losses(Z, P):
    """L_rank of each row, from all ordered pairs of labels."""
    differences = Z[:, :, np.newaxis] - Z[:, np.newaxis]
    weights = (P[:, :, np.newaxis] - P[:, np.newaxis]) ** 2
    # exp(-d^2) is zero anyway from 30 on.
    losses = np.log1p(np.exp(-(np.clip(differences, -30, 30) ** 2)))
    return (weights * losses).sum(axis=(1, 2)) / Z.shape[1] ** 2


def model_objective(X, w, W, intercept, P, *, alpha, beta, ranking):
    """L_rank(Z, P) + alpha/2 |P - Z|^2 + beta |W|^2 with Z = XW + intercept and row weights w."""
    Z = X @ W + intercept
    rows = ranking * row_ranking_losses(Z, P) + alpha / 2 * ((P - Z) ** 2).sum(axis=1)
    return w @ rows + beta * (W**2).sum()


def simplex_objective(Z, w, W, P, low_rank, nu, *, alpha, beta, mu, ranking):
    """What the simplex formulation minimises; `nu` is the absolute weight of the nuclear norm."""
    rows = ranking * row_ranking_losses(Z, P) + alpha / 2 * ((P - Z) ** 2).sum(axis=1)
    rows -= mu / 2 * (P**2).sum(axis=1)
    return w @ rows + beta * (W**2).sum() + nu * nuclear_norm(low_rank, w)


def augmented_lagrangian(X, w, Y, W, P, J, E, M, N, penalties, nuclear, o):
    """The function of OP(4); `nuclear` is the nuclear norm of the noise."""
    penalty, split_penalty = penalties
    gap, split_gap = Y - P - E, P - J
    rows = (
        o.mu * np.abs(J)
        + M * gap
        + penalty / 2 * gap**2
        + N * split_gap
        + split_penalty / 2 * split_gap**2
    ).sum(axis=1)
    fit = model_objective(X, w, W, 0, P, alpha=o.alpha, beta=o.beta, ranking=o.ranking)
    return fit + w @ rows + o.nu * nuclear


def nuclear_norm(A, w):
    """Of a matrix whose rows count as often as their weights say."""
    return np.linalg.norm(np.sqrt(w)[:, np.newaxis] * A, "nuc")


def shrink(A, w, threshold):
    """Singular value thresholding of such a matrix."""
    roots = np.sqrt(w)[:, np.newaxis]
    U, s, Vt = np.linalg.svd(roots * A, full_matrices=False)
    return (U * np.maximum(s - threshold, 0)) @ Vt / roots


def gaussian_posterior(X, w, P, shrinkage):
    """Probabilities from one Gaussian per label, weighted by P, with a common covariance.

    `shrinkage` times the variance of each feature is added to the diagonal of the covariance.
    """
    X = X[:, np.ptp(X[w > 0], axis=0) > 0]  # a constant feature tells nothing
    n, d = X.shape
    q = P.shape[1]
    mean = w @ X / w.sum()
    covariance = shrinkage * np.diag(w @ (X - mean) ** 2 / w.sum())
    mass = w @ P
    centers = np.zeros((q, d))
    for j in np.flatnonzero(mass):
        centers[j] = (w * P[:, j]) @ X / mass[j]
        deviations = X - centers[j]
        covariance += (deviations.T * (w * P[:, j])) @ deviations / w.sum()
    inverse = np.linalg.inv(covariance)
    odds = np.full((n, q), -np.inf)
    for j in np.flatnonzero(mass):
        deviations = X - centers[j]
        distances = np.einsum("ij,jk,ik->i", deviations, inverse, deviations)
        odds[:, j] = np.log(mass[j]) - distances / 2
    odds -= odds.max(axis=1, keepdims=True)
    probabilities = np.exp(odds)
    return probabilities / probabilities.sum(axis=1, keepdims=True)
