"""The ranking gradients in NumPy, straightforward Numba and C, all with the kernels' signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import compiled
import numpy as np
from numba import njit

from hera_fast.kernels import ranking as ours

# The product is measured under this name.
OURS = "hera-fast"
TUNED, PLAIN = "C AVX2", "C plain"
NUMBA, NUMBA_DENSE = "Numba", "Numba dense"
NUMPY, NUMPY_TILED = "NumPy", "NumPy tiled"

SCORE, CONFIDENCE, FUSED = "score gradient", "confidence gradient", "fused gradients"

# Rows that NumPy does at a time: the temporaries of all of them would not fit into memory.
ROWS_PER_CHUNK = 128
# Pairs whose temporaries stay in the second-level cache, for the tiled variant.
_PAIRS_PER_TILE = 1 << 14


def _chunks(n: int, rows: int) -> Iterator[slice]:
    for start in range(0, n, rows):
        yield slice(start, start + rows)


def _tiled(function: Callable[..., None]) -> Callable[..., None]:
    def call(Z: np.ndarray, *arrays: np.ndarray) -> None:
        function(Z, *arrays, chunk=max(1, _PAIRS_PER_TILE // Z.shape[1] ** 2))

    return call


def numpy_score(
    Z: np.ndarray, P: np.ndarray, grad: np.ndarray, chunk: int = ROWS_PER_CHUNK
) -> None:
    q = Z.shape[1]
    for rows in _chunks(len(Z), chunk):
        z, p = Z[rows], P[rows]
        d = z[:, :, None] - z[:, None, :]
        weight = (p[:, :, None] - p[:, None, :]) ** 2
        grad[rows] = (-4 / q**2) * (weight * d / (1 + np.exp(d * d))).sum(axis=2)


def numpy_confidence(
    Z: np.ndarray, P: np.ndarray, grad: np.ndarray, chunk: int = ROWS_PER_CHUNK
) -> None:
    q = Z.shape[1]
    for rows in _chunks(len(Z), chunk):
        z, p = Z[rows], P[rows]
        d = z[:, :, None] - z[:, None, :]
        difference = p[:, :, None] - p[:, None, :]
        grad[rows] = (4 / q**2) * (difference * np.log1p(np.exp(-d * d))).sum(axis=2)


def numpy_fused(
    Z: np.ndarray,
    P: np.ndarray,
    loss: np.ndarray,
    score: np.ndarray,
    confidence: np.ndarray,
    chunk: int = ROWS_PER_CHUNK,
) -> None:
    q = Z.shape[1]
    for rows in _chunks(len(Z), chunk):
        z, p = Z[rows], P[rows]
        d = z[:, :, None] - z[:, None, :]
        e = np.exp(-d * d)
        difference = p[:, :, None] - p[:, None, :]
        log = difference * np.log1p(e)
        loss[rows] = (difference * log).sum(axis=(1, 2)) / q**2
        confidence[rows] = (4 / q**2) * log.sum(axis=2)
        score[rows] = (-4 / q**2) * (difference**2 * d * e / (1 + e)).sum(axis=2)


_numba = njit(cache=True, fastmath=True, error_model="numpy")


@_numba
def dense_score(Z, P, grad):
    n, q = Z.shape
    for i in range(n):
        for j in range(q):
            total = 0.0
            for k in range(q):
                d = Z[i, j] - Z[i, k]
                total += (P[i, j] - P[i, k]) ** 2 * d / (1 + np.exp(d * d))
            grad[i, j] = -4 / q**2 * total


@_numba
def dense_confidence(Z, P, grad):
    n, q = Z.shape
    for i in range(n):
        for j in range(q):
            total = 0.0
            for k in range(q):
                d = Z[i, j] - Z[i, k]
                total += (P[i, j] - P[i, k]) * np.log1p(np.exp(-d * d))
            grad[i, j] = 4 / q**2 * total


@_numba
def dense_fused(Z, P, loss, score, confidence):
    n, q = Z.shape
    for i in range(n):
        loss[i] = 0.0
        for j in range(q):
            score_total = 0.0
            confidence_total = 0.0
            for k in range(q):
                d = Z[i, j] - Z[i, k]
                e = np.exp(-d * d)
                difference = P[i, j] - P[i, k]
                log = difference * np.log1p(e)
                loss[i] += difference * log / q**2
                confidence_total += log
                score_total += difference**2 * d * e / (1 + e)
            score[i, j] = -4 / q**2 * score_total
            confidence[i, j] = 4 / q**2 * confidence_total


# Both labels of a pair get their share when the first one, j, has confidence. A pair of two
# such labels comes up twice, once from either side, so that each side keeps its own share only.


@_numba
def support_score(Z, P, grad):
    n, q = Z.shape
    for i in range(n):
        grad[i, :] = 0.0
        for j in range(q):
            if P[i, j] != 0:
                total = 0.0
                for k in range(q):
                    d = Z[i, j] - Z[i, k]
                    t = 4 / q**2 * (P[i, j] - P[i, k]) ** 2 * d / (1 + np.exp(d * d))
                    total += t
                    if P[i, k] == 0:
                        grad[i, k] += t
                grad[i, j] = -total


@_numba
def support_confidence(Z, P, grad):
    n, q = Z.shape
    for i in range(n):
        grad[i, :] = 0.0
        for j in range(q):
            if P[i, j] != 0:
                total = 0.0
                for k in range(q):
                    d = Z[i, j] - Z[i, k]
                    t = 4 / q**2 * (P[i, j] - P[i, k]) * np.log1p(np.exp(-d * d))
                    total += t
                    if P[i, k] == 0:
                        grad[i, k] -= t
                grad[i, j] = total


@_numba
def support_fused(Z, P, loss, score, confidence):
    n, q = Z.shape
    for i in range(n):
        loss[i] = 0.0
        score[i, :] = 0.0
        confidence[i, :] = 0.0
        for j in range(q):
            if P[i, j] != 0:
                score_total = 0.0
                confidence_total = 0.0
                for k in range(q):
                    d = Z[i, j] - Z[i, k]
                    e = np.exp(-d * d)
                    difference = P[i, j] - P[i, k]
                    log = 4 / q**2 * difference * np.log1p(e)
                    t = 4 / q**2 * difference**2 * d * e / (1 + e)
                    confidence_total += log
                    score_total += t
                    if P[i, k] == 0:
                        confidence[i, k] -= log
                        score[i, k] += t
                score[i, j] = -score_total
                confidence[i, j] = confidence_total
                loss[i] += 0.5 * P[i, j] * confidence_total


PYTHON: dict[tuple[str, str], Callable[..., None]] = {
    (NUMPY, SCORE): numpy_score,
    (NUMPY, CONFIDENCE): numpy_confidence,
    (NUMPY, FUSED): numpy_fused,
    (NUMPY_TILED, SCORE): _tiled(numpy_score),
    (NUMPY_TILED, CONFIDENCE): _tiled(numpy_confidence),
    (NUMPY_TILED, FUSED): _tiled(numpy_fused),
    (NUMBA_DENSE, SCORE): dense_score,
    (NUMBA_DENSE, CONFIDENCE): dense_confidence,
    (NUMBA_DENSE, FUSED): dense_fused,
    (NUMBA, SCORE): support_score,
    (NUMBA, CONFIDENCE): support_confidence,
    (NUMBA, FUSED): support_fused,
    (OURS, SCORE): ours.ranking_score_gradient,
    (OURS, CONFIDENCE): ours.ranking_confidence_gradient,
    (OURS, FUSED): ours.ranking_gradients,
}
_C_FUNCTIONS = {
    SCORE: ("score_gradient", 3),
    CONFIDENCE: ("confidence_gradient", 3),
    FUSED: ("gradients", 5),
}
ALL = (OURS, TUNED, PLAIN, NUMBA, NUMBA_DENSE, NUMPY_TILED, NUMPY)
# Their time grows with q^2 whatever P is.
QUADRATIC = (NUMBA_DENSE, NUMPY_TILED, NUMPY)


def ranking(competitor: str, kernel: str, dtype: str = "float64") -> Callable[..., None]:
    """Find the function, or raise UnavailableError."""
    if competitor == TUNED:
        tuned = compiled.tuned_library if dtype == "float64" else compiled.tuned_float32_library
        return compiled.function(tuned(), *_C_FUNCTIONS[kernel])
    if competitor == PLAIN:
        return compiled.function(compiled.plain_library(), *_C_FUNCTIONS[kernel])
    return PYTHON[competitor, kernel]


def outputs(kernel: str, Z: np.ndarray) -> tuple[np.ndarray, ...]:
    """Arrays for the results of a kernel."""
    one: Any = np.zeros_like(Z)
    return (np.zeros(len(Z), Z.dtype), one, np.zeros_like(Z)) if kernel == FUSED else (one,)
