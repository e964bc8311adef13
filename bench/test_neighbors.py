"""Exact nearest neighbours against scikit-learn's brute force and faiss's flat index."""

from __future__ import annotations

import time

import numpy as np
import pytest
from competitors import OURS
from ratio import Candidate, Figure, compare, record
from shapes import YAHOO, features
from sklearn.neighbors import NearestNeighbors

from hera_fast.kernels.neighbors import nearest_neighbors, neighbor_similarity, self_neighbors

K = 10
SKLEARN, FAISS = "scikit-learn", "faiss"
N_QUERIES = 2299  # a tenth of the rows; the others are the points
N_SELF = 11_000  # about half of the rows: scikit-learn needs seconds already

SEARCH, SELF = "neighbours", "self neighbours"
SHAPES = {
    SEARCH: f"{N_QUERIES} x {YAHOO.n - N_QUERIES}, d = {YAHOO.d}",
    SELF: f"{N_SELF} rows, d = {YAHOO.d}",
}
BARS = {
    (SEARCH, "float64"): {SKLEARN: 0.85},
    (SEARCH, "float32"): {FAISS: 1.05},
    (SELF, "float64"): {SKLEARN: 0.35},
    (SELF, "float32"): {FAISS: 0.70},
}


def data(kind, dtype):
    X = features(YAHOO.n, YAHOO.d, dtype)
    return (X[:N_QUERIES], X[N_QUERIES:]) if kind == SEARCH else (X[:N_SELF], X[:N_SELF])


def our_search(kind, dtype):
    queries, points = data(kind, dtype)
    distances = np.empty((len(queries), K), dtype)
    indices = np.empty((len(queries), K), np.int64)

    def call():
        if kind == SEARCH:
            nearest_neighbors(queries, points, distances, indices)
        else:
            self_neighbors(points, distances, indices)
        return indices

    return call


def sklearn_search(kind, dtype):
    queries, points = data(kind, dtype)

    def call():
        searcher = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(points)
        return searcher.kneighbors(None if kind == SELF else queries)[1]

    return call


def faiss_search(kind, dtype):
    faiss = pytest.importorskip("faiss")
    queries, points = data(kind, dtype)

    def call():
        index = faiss.IndexFlatL2(points.shape[1])
        index.add(points)
        return index.search(queries, K + (kind == SELF))[1]

    return call


SEARCHES = {
    (OURS, "float64"): our_search,
    (OURS, "float32"): our_search,
    (SKLEARN, "float64"): sklearn_search,
    (FAISS, "float32"): faiss_search,
}
by_kind = pytest.mark.parametrize("kind", [SEARCH, SELF])
by_dtype = pytest.mark.parametrize("dtype", ["float64", "float32"])


@by_kind
@by_dtype
def test_ratios(kind, dtype):
    searches = {
        name: make(kind, dtype) for (name, works_on), make in SEARCHES.items() if works_on == dtype
    }
    timed = {name: Candidate(call, len(data(kind, dtype)[0])) for name, call in searches.items()}
    figures = compare(kind, SHAPES[kind], dtype, timed, OURS, BARS[kind, dtype], budget=6.0)
    # Both look for the same: scikit-learn's neighbours, in float64.
    found, expected = searches[OURS](), sklearn_search(kind, "float64")()
    wrong = (
        1 - np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, expected, strict=True)]) / K
    )
    # Points at equal distance in float32 may trade places.
    allowed = 0.0 if dtype == "float64" else 1e-4
    figures.append(Figure(kind, SHAPES[kind], dtype, "wrong share", wrong, allowed, "error"))
    record(figures)


def test_similarity_ratio():
    """The Gaussian weights cost little beside the search."""
    queries, points = data(SEARCH, "float64")
    indices = our_search(SEARCH, "float64")()
    weights = np.empty((N_QUERIES, K))

    def numpy_similarity(rows=slice(0, 200)):
        group = np.concatenate([queries[rows, None], points[indices[rows]]], axis=1)
        apart = np.linalg.norm(group[:, :, None] - group[:, None], axis=3)
        sigma = np.sort(apart, axis=2)[:, :, 5].mean(axis=1)
        return np.exp(-((apart[:, 0, 1:] / sigma[:, None]) ** 2))

    timed = {
        OURS: Candidate(
            lambda: neighbor_similarity(queries, points, indices, 5, weights), N_QUERIES
        ),
        "NumPy": Candidate(numpy_similarity, 200),
    }
    figures = compare("similarity", SHAPES[SEARCH], "float64", timed, OURS, {"NumPy": 1.0})
    np.testing.assert_allclose(weights[:200], numpy_similarity(), rtol=1e-12)
    record(figures)


@pytest.mark.parametrize(("competitor", "dtype"), SEARCHES)
@pytest.mark.benchmark(max_time=0.5, min_rounds=1, timer=time.process_time)
def test_times(benchmark, competitor, dtype):
    benchmark.group = f"{SEARCH}, {SHAPES[SEARCH]}"
    benchmark(SEARCHES[competitor, dtype](SEARCH, dtype))
