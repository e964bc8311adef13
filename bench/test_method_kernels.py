"""The kernels of the six other methods against NumPy, SciPy and LIBLINEAR, on one thread."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from competitors import NUMPY, OURS
from ratio import Candidate, compare, record
from scipy.special import expit, log_expit
from shapes import SEED, YAHOO, features, problem
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from hera_fast import kernels

LIBLINEAR = "LIBLINEAR"
#: Rows enough for the caches to matter, few enough for many rounds.
N_ROWS = 4000
N_MACHINE_ROWS, N_MACHINE_FEATURES = 1000, 500


@cache
def arrays(dtype):
    data = problem(YAHOO, dtype)
    rng = np.random.default_rng(SEED)
    Z, Y = data.Z[:N_ROWS].copy(), data.Y[:N_ROWS].copy()
    shape = N_ROWS, YAHOO.q + 1
    mass = rng.exponential(size=shape)
    return {
        "Z": Z,
        "Y": Y,
        "labels": np.empty((2, N_ROWS), np.int64),
        "loss": np.empty(N_ROWS, dtype),
        "exact_loss": np.empty(N_ROWS),
        "out": np.empty((2, *Z.shape), dtype),
        "values": np.empty(Z.shape),
        "mass": mass / mass.sum(axis=1, keepdims=True),
        "affinity": rng.dirichlet(np.ones(YAHOO.q), size=shape[1]).T.copy(),
        "components": np.empty((2, *shape)),
    }


def numpy_margins(a):
    best = np.where(a["Y"], a["Z"], -np.inf).argmax(axis=1)
    rival = np.where(a["Y"], -np.inf, a["Z"]).argmax(axis=1)
    rows = np.arange(N_ROWS)
    return np.maximum(0, 1 - a["Z"][rows, best] + a["Z"][rows, rival])


def numpy_mean_margin(a):
    Y, Z = a["Y"], a["Z"]
    sizes = Y.sum(axis=1)
    inner = np.maximum(0, 1 - np.einsum("ij,ij->i", Y, Z) / sizes)
    outer = np.where(Y, 0, np.maximum(0, 1 + Z))
    loss = inner**2 + np.einsum("ij,ij->i", outer, outer)
    gradient = 2 * outer
    gradient -= Y * (2 * inner / sizes)[:, np.newaxis]
    return loss, gradient


def our_mean_margin(a):
    np.copyto(a["out"][0], a["Z"])  # it is overwritten
    kernels.mean_margin_gradient(a["Y"], a["exact_loss"], a["out"][0])


def numpy_posterior(a):
    goes, stays = expit(a["Z"]), expit(-a["Z"])
    shares = np.ones((N_ROWS, YAHOO.q + 1))
    np.cumprod(stays, axis=1, out=shares[:, 1:])
    shares[:, :-1] *= goes
    mass = shares * (a["Y"].astype(np.float64) @ a["affinity"])
    total = mass.sum(axis=1, keepdims=True)
    ratios = shares / total
    confidence = a["Y"] * (ratios @ a["affinity"].T)
    return ratios, mass / total, confidence, np.log(total)


def numpy_following(a):
    mass = a["mass"]
    return np.cumsum(mass[:, ::-1], axis=1)[:, ::-1][:, 1:]


def numpy_slopes(a):
    rest, goes, stays = numpy_following(a), expit(a["Z"]), expit(-a["Z"])
    mass = a["mass"][:, :-1]
    return mass * stays - rest * goes, (mass + rest) * goes * stays


def numpy_values(a):
    return a["mass"][:, :-1] * log_expit(a["Z"]) + numpy_following(a) * log_expit(-a["Z"])


CASES = {
    "margins": (
        lambda a: kernels.candidate_margins(a["Z"], a["Y"], *a["labels"], a["loss"]),
        numpy_margins,
    ),
    "mean margin gradient": (our_mean_margin, numpy_mean_margin),
    "component posterior": (
        lambda a: kernels.component_posterior(
            a["Z"], a["Y"], a["affinity"], *a["components"], a["out"][0], a["exact_loss"]
        ),
        numpy_posterior,
    ),
    "break slopes": (lambda a: kernels.break_slopes(a["Z"], a["mass"], *a["out"]), numpy_slopes),
    "break values": (lambda a: kernels.break_values(a["Z"], a["mass"], a["values"]), numpy_values),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_ratios(case, dtype):
    data = arrays(dtype)
    ours, theirs = CASES[case]
    candidates = {
        OURS: Candidate(lambda: ours(data), N_ROWS),
        NUMPY: Candidate(lambda: theirs(data), N_ROWS),
    }
    record(compare(case, YAHOO.name, dtype, candidates, OURS, {NUMPY: 1.0}))


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_machines(C):
    X = features(N_MACHINE_ROWS, N_MACHINE_FEATURES)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rng = np.random.default_rng(SEED)
    signs = np.where(X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    offsets, rows = np.array([0, len(X)]), np.arange(len(X))
    coef, passes = np.empty((1, X.shape[1])), np.empty(1, np.int64)
    # The same loss, method and stopping rule.
    theirs = LinearSVC(C=C, tol=0.1, fit_intercept=False, dual=True, random_state=0)

    def train():
        kernels.train_machines(X, offsets, rows, signs, C, False, 0.1, 1000, coef, passes)

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(X, signs)

    candidates = {OURS: Candidate(train, len(X)), LIBLINEAR: Candidate(fit, len(X))}
    shape = f"{len(X)} x {X.shape[1]}, C = {C:g}"
    record(compare("machine", shape, "float64", candidates, OURS, {LIBLINEAR: 1.0}))
    np.testing.assert_allclose(coef[0], theirs.coef_[0], rtol=0, atol=0.1)
