"""Plain NumPy twin of ``hera_fast.co_occurrence``: one pair of labels after the other."""

from __future__ import annotations

import math

import numpy as np


def scores(Y, w, P, common_rows=5.0, weight=0.5, least=1e-4):
    n, q = Y.shape
    mass = [sum(w[i] * P[i, j] for i in range(n)) for j in range(q)]
    together = [
        [sum(w[i] * P[i, j] * Y[i, k] for i in range(n)) for k in range(q)] for j in range(q)
    ]
    pairs, labels = np.zeros((q, q)), np.zeros(q)
    for j in range(q):
        for k in range(q):
            if j == k:
                continue
            others = [label for label in range(q) if label != k]
            rows = sum(mass[label] for label in others)
            common = sum(together[label][k] for label in others) / rows if rows > 0 else 0
            c = (together[j][k] + common_rows * common) / (mass[j] + common_rows)
            c = min(max(c, least), 1 - least)
            pairs[j, k] = weight * math.log(c / (1 - c))
            labels[j] += weight * math.log(1 - c)
    return pairs, labels
