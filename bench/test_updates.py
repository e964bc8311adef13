"""Elementwise updates and projections against NumPy that avoids temporaries where it can."""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import pytest
import scipy.special
from competitors import NUMPY, OURS
from ratio import Candidate, compare, record
from shapes import SEED, YAHOO, problem

from hera_fast.kernels import updates
from hera_fast.kernels.simplex import project_simplex
from hera_fast.kernels.softmax import softmax

SCIPY = "SciPy"
PENALTY, SPLIT_PENALTY, SPARSITY = 0.5, 0.7, 0.1
# Fusing passes over memory must not lose against the passes.
BAR = {NUMPY: 1.0, SCIPY: 1.0}


@cache
def arrays(dtype):
    """Y, P, Z as in the problem, and names for the rest of the state."""
    data = problem(YAHOO, dtype)
    rng = np.random.default_rng(SEED)
    state = {"Y": data.Y, "P": data.P, "Z": data.Z}
    for name, parts in (
        ("row_parts", updates.UPDATE_PARTS),
        ("paper_parts", updates.PAPER_UPDATE_PARTS),
    ):
        state[name] = np.empty((YAHOO.n, len(parts)))
    state["offsets"] = rng.standard_normal(YAHOO.q, dtype)
    for name in ("low_rank", "E", "J", "M", "N", "out"):
        state[name] = rng.standard_normal(data.Z.shape, dtype)
    return state


def row_products(A, B):
    return np.einsum("ij,ij->i", A, B)


def numpy_soft_threshold(V, threshold, out):
    np.clip(V, -threshold, threshold, out=out)
    np.subtract(V, out, out=out)


def numpy_low_rank_target(Y, P, M, penalty, out):
    np.multiply(M, 1 / penalty, out=out)
    out += Y
    out -= P


def numpy_fit_gradient(Z, P, weight, grad):
    difference = np.subtract(Z, P)
    difference *= weight
    grad += difference


def numpy_update(Y, P, low_rank, penalty, E, M, row_parts):
    E -= low_rank
    row_parts[:, 1] = row_products(E, E)
    E[...] = low_rank
    residual = np.subtract(Y, P)
    residual -= E
    row_parts[:, 0] = row_products(residual, residual)
    residual *= penalty
    M += residual
    row_parts[:, 2] = row_products(M, M)


def numpy_update_paper(Y, P, Z, low_rank, penalty, split_penalty, sparsity, E, J, M, N, row_parts):
    noise = np.maximum(low_rank, 0)
    E -= noise
    row_parts[:, 1] = row_products(E, E)
    E[...] = noise
    residual = np.subtract(Y, P)
    residual -= E
    row_parts[:, 0] = row_products(residual, residual)
    row_parts[:, 2] = row_products(M, residual)
    residual *= penalty
    M += residual
    raised = np.multiply(P, split_penalty)
    raised += N
    kept = np.clip(raised, -sparsity, sparsity)
    raised -= kept
    raised /= split_penalty
    J -= raised
    row_parts[:, 4] = row_products(J, J)
    J[...] = raised
    difference = np.subtract(P, J)
    row_parts[:, 3] = row_products(difference, difference)
    row_parts[:, 5] = row_products(N, difference)
    row_parts[:, 6] = np.abs(J).sum(axis=1)
    N[...] = kept
    np.subtract(P, Z, out=difference)
    row_parts[:, 7] = row_products(difference, difference)


def numpy_project(V, Y, out):
    v = np.where(Y, V, -np.inf)
    v -= v.max(axis=1, keepdims=True)
    descending = -np.sort(-v, axis=1)
    positive = descending > -1  # others cannot stay
    sums = np.cumsum(np.where(positive, descending, 0), axis=1)
    thresholds = (sums - 1) / np.arange(1, v.shape[1] + 1)
    last = (positive & (descending > thresholds)).sum(axis=1) - 1
    v -= thresholds[np.arange(len(v)), last][:, None]
    np.maximum(v, 0, out=out)


def numpy_softmax(offsets, out):
    out += offsets
    out -= out.max(axis=1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)


def scipy_softmax(offsets, out):
    out[...] = scipy.special.softmax(out + offsets, axis=1)


# Name, our function, NumPy's, arguments, results to compare.
UPDATES = {
    "soft threshold": (
        *(updates.soft_threshold, numpy_soft_threshold),
        *(("low_rank", SPARSITY, "out"), ("out",)),
    ),
    "low-rank target": (
        *(updates.low_rank_target, numpy_low_rank_target),
        *(("Y", "P", "M", PENALTY, "out"), ("out",)),
    ),
    "fit gradient": (
        *(updates.fit_gradient, numpy_fit_gradient),
        *(("Z", "P", PENALTY, "out"), ("out",)),
    ),
    "multiplier update": (
        *(updates.update_multipliers, numpy_update),
        ("Y", "P", "low_rank", PENALTY, "E", "M", "row_parts"),
        ("E", "M", "row_parts"),
    ),
    "paper's update": (
        *(updates.update_multipliers_paper, numpy_update_paper),
        (
            *("Y", "P", "Z", "low_rank", PENALTY, SPLIT_PENALTY, SPARSITY),
            *("E", "J", "M", "N", "paper_parts"),
        ),
        ("E", "J", "M", "N", "paper_parts"),
    ),
    "simplex projection": (
        *(project_simplex, numpy_project),
        *(("Z", "Y", "out"), ("out",)),
    ),
    "softmax": (
        *(softmax, numpy_softmax),
        *(("offsets", "out"), ("out",)),
    ),
}
by_update = pytest.mark.parametrize("name", UPDATES)


def competitors(name):
    ours, numpy_function, _, _ = UPDATES[name]
    found = {OURS: ours, NUMPY: numpy_function}
    return {**found, SCIPY: scipy_softmax} if name == "softmax" else found


def bound(name, function, dtype, rows=None):
    """The function with its arguments, and the state they belong to."""
    state = {
        key: (array[:rows] if array.ndim == 2 else array).copy()
        for key, array in arrays(dtype).items()
    }
    arguments = [state.get(a, a) if isinstance(a, str) else a for a in UPDATES[name][2]]
    return lambda: function(*arguments), state


@by_update
def test_all_do_the_same(name):
    states = []
    for function in competitors(name).values():
        call, state = bound(name, function, "float64", 100)
        call()
        states.append(state)
    for state in states[1:]:
        for key in UPDATES[name][3]:
            np.testing.assert_allclose(states[0][key], state[key], rtol=1e-10, atol=1e-12)


@by_update
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ratios(name, dtype):
    timed = {}
    for competitor, function in competitors(name).items():
        slow = name == "simplex projection" and competitor == NUMPY
        call, state = bound(name, function, dtype, 2000 if slow else None)
        timed[competitor] = Candidate(call, len(state["P"]))
    record(compare(name, YAHOO.name, dtype, timed, OURS, BAR, budget=2.0))


@pytest.mark.parametrize(
    ("name", "competitor"), [(name, other) for name in UPDATES for other in competitors(name)]
)
@pytest.mark.benchmark(max_time=0.1, min_rounds=3, timer=time.process_time)
def test_times(benchmark, name, competitor):
    benchmark.group = f"{name}, {YAHOO.name}, 2000 rows"
    benchmark(bound(name, competitors(name)[competitor], "float64", 2000)[0])
