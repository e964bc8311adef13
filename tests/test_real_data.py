"""The kernels on real partial-label data, with its many equal values and narrow columns."""

from __future__ import annotations

import os
from pathlib import Path

import naive_confidence
import naive_neighbors
import naive_ranking
import numpy as np
import pytest

from hera_fast.kernels import (
    confidence_step,
    nearest_neighbors,
    project_simplex,
    ranking_confidence_gradient,
    ranking_gradients,
    ranking_loss,
    ranking_score_gradient,
)
from hera_fast.svd import singular_value_threshold

FOLDER = os.environ.get("HERA_FAST_DATA")
FILES = sorted(Path(FOLDER, "realworld").glob("*.npz")) if FOLDER else []
N_ROWS = 50  # the twins are slow

if not FOLDER:
    pytest.skip("HERA_FAST_DATA does not say where the data sets are", allow_module_level=True)
if not FILES:
    pytest.skip(f"no realworld/*.npz in {FOLDER}", allow_module_level=True)


class Problem:
    """A data set, the scores of a random linear model and confidences on the candidates."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as data:
            X = np.ascontiguousarray(data["X"], np.float64)
            self.Y, self.y = np.ascontiguousarray(data["Y"]), data["y"]
        spread = X.std(axis=0)
        self.X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
        rng = np.random.default_rng(0)
        n, d = self.X.shape
        q = self.Y.shape[1]
        self.Z = self.X @ rng.normal(scale=d**-0.5, size=(d, q))
        self.G = rng.normal(size=(n, q))
        self.P = np.full((n, q), np.nan)
        project_simplex(self.G, self.Y, self.P)
        self.sample = rng.choice(n, N_ROWS, replace=False)


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def problem(request):
    return Problem(request.param)


def assert_confidences(P, Y):
    assert (P >= 0).all()
    assert (P[Y == 0] == 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=0, atol=1e-14)


def test_what_the_others_rely_on(problem):
    assert problem.Y.dtype == np.uint8
    assert problem.Y[np.arange(len(problem.y)), problem.y].all(), "the true label is a candidate"
    assert (problem.Y.sum(axis=1) > 1).any()


def test_projected_scores_are_confidences(problem):
    assert_confidences(problem.P, problem.Y)
    assert ((problem.P > 0).sum(axis=1) > 1).any()


@pytest.mark.parametrize(
    ("kernel", "n_vectors", "n_matrices"),
    [
        (ranking_loss, 1, 0),
        (ranking_score_gradient, 0, 1),
        (ranking_confidence_gradient, 0, 1),
        (ranking_gradients, 1, 2),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_ranking_agrees_with_the_twin(problem, kernel, n_vectors, n_matrices):
    Z, P = problem.Z[problem.sample], problem.P[problem.sample]

    def outputs():
        vectors = [np.full(len(Z), np.nan) for _ in range(n_vectors)]
        return vectors + [np.full(Z.shape, np.nan) for _ in range(n_matrices)]

    found, expected = outputs(), outputs()
    kernel(Z, P, *found)
    getattr(naive_ranking, kernel.__name__)(Z, P, *expected)
    for comp, ref in zip(found, expected, strict=True):
        assert np.abs(ref).max() > 0
        np.testing.assert_allclose(comp, ref, rtol=1e-13, atol=1e-13 * np.abs(ref).max())


@pytest.mark.parametrize("ranking", [True, False])
@pytest.mark.parametrize(("fit", "sparsity", "penalty"), [(0.1, 0.0, 0.0), (1.0, 0.5, 2.5)])
def test_the_confidence_step_improves_confidences(problem, fit, sparsity, penalty, ranking):
    Z, Y, M, E = problem.Z, problem.Y, problem.G, np.maximum(-problem.G, 0)
    P, row_objective = np.full_like(problem.P, np.nan), np.full(len(Z), np.nan)
    weights = (fit, sparsity, penalty, ranking)
    confidence_step(Z, Y, E, M, *weights, P, row_objective)
    assert_confidences(P, Y)
    better = 0
    for i in problem.sample:
        before, after = (
            naive_confidence.augmented_objective(Z[i], Y[i], E[i], M[i], *weights, p)
            for p in (problem.P[i], P[i])
        )
        assert after <= before + 1e-13 * np.abs(before)
        better += after < before - 1e-6
        objective = naive_confidence.objective(Z[i], fit, sparsity, ranking, P[i])
        np.testing.assert_allclose(row_objective[i], objective, rtol=1e-12)
    assert better > 0


def test_neighbors_agree_with_the_twin(problem):
    queries = problem.X[problem.sample]
    found, expected = (
        (np.full((N_ROWS, 10), np.nan), np.full((N_ROWS, 10), -1, np.int64)) for _ in range(2)
    )
    nearest_neighbors(queries, problem.X, *found)
    naive_neighbors.nearest_neighbors(queries, problem.X, *expected)
    for comp, ref in zip(found, expected, strict=True):
        np.testing.assert_array_equal(comp, ref)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_singular_value_threshold_is_optimal(problem, share):
    """A - E is a subgradient of t |E|_*: no singular value above t, and <A - E, E> = t |E|_*."""
    A = problem.Y - problem.P
    threshold = share * np.linalg.norm(A, 2)
    E, rank = singular_value_threshold(A, threshold)
    assert 0 < rank == np.linalg.matrix_rank(E)
    assert np.linalg.norm(A - E, 2) <= threshold * (1 + 1e-10)
    nuclear = np.linalg.norm(E, "nuc")
    np.testing.assert_allclose(((A - E) * E).sum(), threshold * nuclear, rtol=1e-10)
