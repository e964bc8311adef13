"""Plain NumPy twin of ``hera_fast.kernels.simplex``."""

from __future__ import annotations

import numpy as np


def project_simplex(V, Y, out):
    out[...] = 0
    for v, candidates, p in zip(V, Y != 0, out, strict=True):
        if candidates.any():
            p[candidates] = _project(v[candidates].astype(np.float64))


def _project(v):
    shifted = v - v.max()
    descending = np.sort(shifted)[::-1]
    thresholds = (np.cumsum(descending) - 1) / np.arange(1, v.size + 1)
    threshold = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    return np.maximum(shifted - threshold, 0)
