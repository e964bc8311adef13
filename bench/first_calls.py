"""Call every kernel once on a small problem and print the seconds as JSON.

Run in a fresh interpreter: ``python bench/first_calls.py float64``.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from hera_fast import kernels
from hera_fast.kernels.updates import PAPER_UPDATE_PARTS, UPDATE_PARTS


def calls(dtype):
    """Arguments for a first call of every public kernel."""
    rng = np.random.default_rng(0)
    n, q, d, k = 40, 20, 8, 3
    Z, V = (rng.standard_normal((n, q)).astype(dtype) for _ in range(2))
    Y = rng.random((n, q)) < 0.2
    Y[:, 0] = True
    P = (Y / Y.sum(axis=1, keepdims=True)).astype(dtype)
    X, X2 = rng.standard_normal((2, n, d)).astype(dtype)
    E, J, M, N, out = (np.zeros((n, q), dtype) for _ in range(5))
    loss, objective = np.empty(n, dtype), np.empty(n)
    parts, paper_parts = (np.empty((n, len(names))) for names in (UPDATE_PARTS, PAPER_UPDATE_PARTS))
    distances, indices = np.empty((n, k), dtype), np.empty((n, k), np.int64)
    return {
        "ranking_loss": (Z, P, loss),
        "ranking_score_gradient": (Z, P, out),
        "ranking_confidence_gradient": (Z, P, out),
        "ranking_gradients": (Z, P, loss, out, J),
        "nearest_neighbors": (X2, X, distances, indices),
        "self_neighbors": (X, distances, indices),
        "neighbor_similarity": (X2, X, indices, 2, distances),
        "project_simplex": (V, Y, out),
        "confidence_step": (Z, Y, V, M, 1.0, 0.1, 1.0, True, out, objective),
        "softmax": (np.zeros(q, dtype), out),
        "soft_threshold": (V, 0.5, out),
        "low_rank_target": (Y, P, M, 1.0, out),
        "fit_gradient": (Z, P, 0.5, out),
        "update_multipliers": (Y, P, V, 1.0, E, M, parts),
        "update_multipliers_paper": (Y, P, Z, V, 1.0, 1.0, 0.1, E, J, M, N, paper_parts),
    }


def main():
    arguments = calls(sys.argv[1])
    public = {name for name in kernels.__all__ if callable(getattr(kernels, name))}
    assert public == set(arguments), f"not called: {sorted(public ^ set(arguments))}"
    seconds = {}
    for name, values in arguments.items():
        start = time.process_time()
        getattr(kernels, name)(*values)
        seconds[name] = time.process_time() - start
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
