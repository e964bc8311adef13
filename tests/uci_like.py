"""Small data sets of the names and in the layout of the published ones."""

from __future__ import annotations

import numpy as np


def write_uci_like(folder, names=("glass",), n=48, q=4, d=3):
    """Write sets with known labels below the folder, as fetch_partial_labels looks for them."""
    rng = np.random.default_rng(0)
    (folder / "uci").mkdir(parents=True, exist_ok=True)
    for name in names:
        y = np.arange(n) % q
        X = rng.normal(size=(n, d)) + 2 * np.eye(q)[y, :d]
        np.savez(folder / "uci" / f"{name}.npz", X=X, y=y, classes=np.array(list("abcdefgh")[:q]))


def write_real_like(folder, names=("lost", "msrcv2"), n=60, q=5, d=4):
    """Write sets with candidates."""
    rng = np.random.default_rng(1)
    (folder / "realworld").mkdir(parents=True, exist_ok=True)
    for name in names:
        y = np.arange(n) % q
        X = rng.normal(size=(n, d)) + 2 * np.eye(q)[y, :d]
        Y = np.eye(q, dtype=np.uint8)[y] | (rng.random((n, q)) < 0.3)
        np.savez(folder / "realworld" / f"{name}.npz", X=X, Y=Y.astype(np.uint8), y=y)
