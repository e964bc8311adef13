"""Plain NumPy twins of ``hera_fast.kernels.stick_breaking``."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit


def stick_shares(Z, shares):
    n, n_breaks = Z.shape
    for i in range(n):
        left = 1.0
        for k in range(n_breaks):
            z = np.float64(Z[i, k])
            shares[i, k] = left * expit(z)
            left *= expit(-z)
        shares[i, n_breaks] = left


def component_posterior(Z, Y, affinity, ratios, mass, confidence, log_likelihood):
    shares = np.empty((len(Z), affinity.shape[1]))
    stick_shares(Z, shares)
    for i, phi in enumerate(shares):
        joint = np.zeros(affinity.shape)
        for l in np.flatnonzero(Y[i]):
            for k in range(len(phi)):
                joint[l, k] = phi[k] * affinity[l, k]
        total = joint.sum()
        ratios[i] = phi / total
        mass[i] = joint.sum(axis=0) / total
        confidence[i] = joint.sum(axis=1) / total
        log_likelihood[i] = np.log(total)


def break_slopes(Z, mass, slope, curvature):
    Z = Z.astype(np.float64)
    for k in range(Z.shape[1]):
        goes, stays = expit(Z[:, k]), expit(-Z[:, k])
        rest = mass[:, k + 1 :].sum(axis=1)
        slope[:, k] = mass[:, k] * stays - rest * goes
        curvature[:, k] = (mass[:, k] + rest) * goes * stays


def break_values(Z, mass, values):
    Z = Z.astype(np.float64)
    for k in range(Z.shape[1]):
        rest = mass[:, k + 1 :].sum(axis=1)
        values[:, k] = mass[:, k] * log_expit(Z[:, k]) + rest * log_expit(-Z[:, k])
