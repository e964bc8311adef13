"""The kernels of held-out predictions, and city-block distances, on one thread."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from competitors import NUMPY, OURS
from ratio import Candidate, compare, record
from scipy.spatial.distance import cdist
from shapes import SEED, YAHOO, features, problem

from hera_fast import kernels

SCIPY = "SciPy cdist"
#: Rows enough for the caches to matter, few enough for many rounds.
N_ROWS = 4000
N_POINTS = 1000
TEMPERATURE = 1.5


@cache
def arrays(dtype):
    data = problem(YAHOO, dtype)
    rng = np.random.default_rng(SEED)
    Z, Y, P = (array[:N_ROWS].copy() for array in data)
    probabilities = Z.copy()
    kernels.softmax(np.zeros(YAHOO.q, dtype), probabilities)
    return {
        "Z": Z,
        "Y": Y,
        "P": P,
        "probabilities": probabilities,
        "leverages": rng.uniform(0, 0.5, N_ROWS).astype(dtype),
        "shares": P.mean(axis=0),
        "offsets": rng.standard_normal(YAHOO.q).astype(dtype),
        "pair_scores": rng.standard_normal((YAHOO.q, YAHOO.q)),
        "label_scores": rng.standard_normal(YAHOO.q),
        "out": np.empty_like(Z),
        "row_parts": np.empty((N_ROWS, 3)),
    }


def our_scores(a):
    kernels.held_out_scores(a["Z"], a["P"], a["leverages"], a["shares"], a["out"])
    return a["out"]


def numpy_scores(a):
    h = a["leverages"][:, np.newaxis]
    out = a["P"] - a["shares"]
    out *= h
    np.subtract(a["Z"], out, out=out)
    out /= 1 - h
    return out


def our_mass(a):
    kernels.candidate_mass(a["Z"], a["offsets"], a["Y"], TEMPERATURE, a["row_parts"])
    return a["row_parts"]


def numpy_mass(a):
    t = a["Z"] + a["offsets"]
    t -= t.max(axis=1, keepdims=True)
    weights = np.exp(TEMPERATURE * t)
    inside, everything = (numpy_moments(w, t) for w in (a["Y"] * weights, weights))
    return np.stack([x - y for x, y in zip(inside, everything, strict=True)], axis=1)


def numpy_moments(weights, t):
    total = weights.sum(axis=1)
    products = weights * t
    mean = products.sum(axis=1) / total
    return np.log(total), mean, np.einsum("ij,ij->i", products, t) / total - mean**2


def our_condition(a):
    np.copyto(a["out"], a["probabilities"])  # it is overwritten
    kernels.condition_on_candidates(a["Y"], a["pair_scores"], a["label_scores"], a["out"])
    return a["out"]


def numpy_condition(a):
    V = np.log(np.maximum(a["probabilities"], np.finfo(a["Z"].dtype).tiny))
    V = V + (a["label_scores"] - np.diag(a["pair_scores"]))
    V += a["Y"].astype(np.float64) @ a["pair_scores"].T
    V[~a["Y"]] = -np.inf
    V -= V.max(axis=1, keepdims=True)
    np.exp(V, out=V)
    V /= V.sum(axis=1, keepdims=True)
    return V.astype(a["Z"].dtype)


#: Ours, theirs, and the largest allowed ratio.
CASES = {
    "held-out scores": (our_scores, numpy_scores, 0.75),
    "candidate mass": (our_mass, numpy_mass, 1.0),
    "conditioning": (our_condition, numpy_condition, 0.1),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_ratios(case, dtype):
    data = arrays(dtype)
    ours, theirs, bar = CASES[case]
    accuracy = 1e-10 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(ours(data), theirs(data), rtol=accuracy, atol=accuracy)
    candidates = {
        OURS: Candidate(lambda: ours(data), N_ROWS),
        NUMPY: Candidate(lambda: theirs(data), N_ROWS),
    }
    record(compare(case, YAHOO.name, dtype, candidates, OURS, {NUMPY: bar}))


# With few features, writing the result is most of the work.
@pytest.mark.parametrize(("d", "bar"), [(7, 0.5), (16, 0.25), (163, 0.25), (300, 0.25)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_distance_ratios(dtype, d, bar):
    X = features(N_ROWS + N_POINTS, d, dtype)
    queries, points = X[:N_ROWS], X[N_ROWS:]
    out = np.empty((N_ROWS, N_POINTS), dtype)
    # SciPy computes in double precision only; its copies of single precision are not timed.
    wide = queries.astype(np.float64), points.astype(np.float64)
    wide_out = np.empty(out.shape)

    def ours():
        kernels.manhattan_distances(queries, points, out)

    def theirs():
        cdist(*wide, "cityblock", out=wide_out)

    ours()
    theirs()
    np.testing.assert_allclose(out, wide_out, rtol=1e-13 if dtype == "float64" else 5e-6)
    candidates = {OURS: Candidate(ours, N_ROWS), SCIPY: Candidate(theirs, N_ROWS)}
    shape = f"{N_ROWS} x {N_POINTS} x {d}"
    record(compare("city-block distances", shape, dtype, candidates, OURS, {SCIPY: bar}))
