"""Plain NumPy twins of ``hera_fast.kernels.ranking``: sums over all ordered pairs of labels.

They compute in `np.longdouble`, whatever the arrays are. Only the differences of the scores are
rounded like the scores: exp(-d^2) multiplies the relative error of d by 2 d^2, which would hide
how accurate the rest is.
"""

from __future__ import annotations

import numpy as np


def ranking_loss(Z, P, row_loss):
    for i, (z, p) in enumerate(zip(Z, P, strict=True)):
        row_loss[i] = loss_terms(z, p).sum()


def ranking_score_gradient(Z, P, grad):
    for i, (z, p) in enumerate(zip(Z, P, strict=True)):
        grad[i] = score_terms(z, p).sum(axis=1)


def ranking_confidence_gradient(Z, P, grad):
    for i, (z, p) in enumerate(zip(Z, P, strict=True)):
        grad[i] = confidence_terms(z, p).sum(axis=1)


def ranking_gradients(Z, P, row_loss, score_grad, confidence_grad):
    ranking_loss(Z, P, row_loss)
    ranking_score_gradient(Z, P, score_grad)
    ranking_confidence_gradient(Z, P, confidence_grad)


def loss_terms(z, p):
    return pairs(p) ** 2 * pair_losses(z) / len(z) ** 2


def score_terms(z, p):
    d = score_differences(z)
    exponentials = np.exp(-(d**2))
    return -4 * pairs(p) ** 2 * d * exponentials / (1 + exponentials) / len(z) ** 2


def confidence_terms(z, p):
    return 4 * pairs(p) * pair_losses(z) / len(z) ** 2


def pair_losses(z):
    return np.log1p(np.exp(-(score_differences(z) ** 2)))


def score_differences(z):
    return np.subtract.outer(z, z).astype(np.longdouble)


def pairs(p):
    return np.subtract.outer(p.astype(np.longdouble), p.astype(np.longdouble))
