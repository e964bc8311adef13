"""Plain NumPy twin of ``hera_fast.kernels.softmax``."""

from __future__ import annotations

import numpy as np


def softmax(offsets, Z):
    Z += offsets
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
