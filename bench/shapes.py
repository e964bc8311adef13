"""Seeded synthetic problems with the shapes of the six real partial-label sets."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

SEED = 20240607


class Shape(NamedTuple):
    """Rows, features, labels and the mean number of candidates of a data set."""

    name: str
    n: int
    d: int
    q: int
    candidates: float


class Problem(NamedTuple):
    """Scores Z, candidates Y and confidences P, all (n, q)."""

    Z: np.ndarray
    Y: np.ndarray
    P: np.ndarray


LOST = Shape("Lost", 1122, 108, 16, 2.23)
MSRCV2 = Shape("MSRCv2", 1758, 48, 23, 3.16)
FG_NET = Shape("FG-NET", 1002, 262, 99, 7.48)
BIRDSONG = Shape("BirdSong", 4998, 38, 13, 2.18)
SOCCER = Shape("Soccer Player", 17472, 279, 171, 2.09)
YAHOO = Shape("Yahoo! News", 22991, 163, 219, 1.91)
SHAPES = (LOST, MSRCV2, FG_NET, BIRDSONG, SOCCER, YAHOO)

# Dense confidences make a row cost q^2 pairs, so fewer rows tell the same story.
DENSE_ROWS = 500


def features(n: int, d: int, dtype: str = "float64", seed: int = SEED) -> np.ndarray:
    """Standard Gaussian rows."""
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@cache
def problem(shape: Shape, dtype: str = "float64", seed: int = SEED) -> Problem:
    """Scores Z = XW of unit scale, long-tailed candidates, confidences on the simplex over them.

    Label j is a candidate with weight 1/(1 + j), a row has 1 + Poisson candidates, and every
    candidate has some confidence.
    """
    rng = np.random.default_rng(seed)
    n, d, q = shape.n, shape.d, shape.q
    scores = rng.standard_normal((n, d)) @ (rng.standard_normal((d, q)) / np.sqrt(d))
    sizes = np.minimum(1 + rng.poisson(shape.candidates - 1, n), q)
    # The largest of log-weight + Gumbel noise: a weighted draw without replacement.
    keys = rng.gumbel(size=(n, q)) - np.log1p(np.arange(q))
    ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
    candidates = ranks < sizes[:, None]
    confidence = candidates * rng.exponential(size=(n, q))
    confidence /= confidence.sum(axis=1, keepdims=True)
    return Problem(scores.astype(dtype), candidates, confidence.astype(dtype))


@cache
def dense_problem(shape: Shape, dtype: str = "float64", seed: int = SEED) -> Problem:
    """The worst case of the same shape: every label of every row has some confidence."""
    Z = problem(shape, dtype, seed).Z[:DENSE_ROWS].copy()
    confidence = np.random.default_rng(seed).exponential(size=Z.shape)
    confidence /= confidence.sum(axis=1, keepdims=True)
    return Problem(Z, np.ones(Z.shape, bool), confidence.astype(dtype))


class Rows(NamedTuple):
    """Features X (n, d), candidates Y (n, q) and the true labels y (n,)."""

    X: np.ndarray
    Y: np.ndarray
    y: np.ndarray


def rows_with_truth(
    n: int, d: int, q: int, candidates: float, dtype: str = "float64", seed: int = SEED
) -> Rows:
    """Rows whose labels can be learned: Gaussian clusters, long-tailed, with names that co-occur.

    Label j is true with weight 1/(1 + j). A false candidate is one of eight companions of the
    true label, the first of them most often, or any label one time in four.
    """
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, q + 1)
    y = rng.choice(q, size=n, p=weights / weights.sum())
    # Few directions tell the labels apart, as in embeddings of faces.
    means = rng.standard_normal((q, d)) * np.exp(-np.arange(d) / (d / 4))
    X = 0.8 * means[y] + rng.standard_normal((n, d))
    companions = np.argsort(rng.random((q, q)), axis=1)[:, :8]
    Y = np.zeros((n, q), dtype=bool)
    Y[np.arange(n), y] = True
    sizes = np.minimum(1 + rng.poisson(candidates - 1, n), q)
    # Drawn again where a draw brings nothing new.
    while len(missing := np.flatnonzero(Y.sum(axis=1) < sizes)):
        which = np.minimum(rng.geometric(0.4, len(missing)) - 1, 7)
        drawn = companions[y[missing], which]
        drawn = np.where(rng.random(len(missing)) < 0.25, rng.integers(q, size=len(missing)), drawn)
        Y[missing, drawn] = True
    return Rows(X.astype(dtype), Y, y)
