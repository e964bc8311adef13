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
    labels, rivals = np.empty((2, n), np.int64)
    # Two machines that tell even rows from odd ones.
    offsets, rows = np.array([0, n, 2 * n]), np.tile(np.arange(n), 2)
    signs = np.where(rows % 2, 1, -1).astype(dtype)
    coef, passes = np.empty((2, d), dtype), np.empty(2, np.int64)
    shares = np.empty((n, q + 1), dtype)
    ratios, mass = np.full((2, n, q + 1), 1 / (q + 1))
    affinity, values = np.full((q, q + 1), 1 / q), np.empty((n, q))
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
        "candidate_margins": (Z, Y, labels, rivals, loss),
        "mean_margin_gradient": (Y, objective, V.copy()),
        "train_machines": (X, offsets, rows, signs, 1.0, True, 0.1, 10, coef, passes),
        "stick_shares": (Z, shares),
        "component_posterior": (Z, Y, affinity, ratios, mass, out, objective),
        "break_slopes": (Z, mass, E.copy(), J.copy()),
        "break_values": (Z, mass, values),
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
