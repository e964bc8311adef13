"""Plain NumPy twin of ``hera_fast.kernels.held_out``."""

from __future__ import annotations

import numpy as np


def held_out_scores(fits, P, leverages, shares, out):
    h = leverages[:, np.newaxis]
    out[...] = (fits - h * (P - shares)) / (1 - h)


def candidate_mass(scores, offsets, Y, temperature, row_parts):
    for i, candidates in enumerate(Y != 0):
        t = scores[i].astype(np.float64) + offsets
        if np.isneginf(t[candidates]).all():
            row_parts[i] = -745, 0, 0
        else:
            t -= t.max()  # for the differences below
            inside, everything = _moments(t[candidates], temperature), _moments(t, temperature)
            row_parts[i] = np.subtract(inside, everything)


def _moments(t, temperature):
    """The logarithm of the sum of exp(temperature t), and the mean and variance of t under it."""
    t = t[np.isfinite(t)]
    top = t.max()
    weights = np.exp(temperature * (t - top))
    total = weights.sum()
    mean = weights @ (t - top) / total
    variance = weights @ (t - top - mean) ** 2 / total
    return temperature * top + np.log(total), top + mean, variance


def condition_on_candidates(Y, pair_scores, label_scores, Z):
    for z, candidates in zip(Z, Y != 0, strict=True):
        labels = np.flatnonzero(candidates)
        v = np.log(np.maximum(z[labels].astype(np.float64), np.finfo(z.dtype).tiny))
        v += label_scores[labels]
        v += [pair_scores[j, labels[labels != j]].sum() for j in labels]
        z[:] = 0
        if len(labels):
            shares = np.exp(v - v.max())
            z[labels] = shares / shares.sum()
