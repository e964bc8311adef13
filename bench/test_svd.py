"""Singular value thresholding against LAPACK's SVD alone, without building E from it."""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import pytest
import scipy.linalg
from competitors import OURS
from ratio import Candidate, Figure, compare, record
from shapes import SEED, YAHOO

from hera_fast.svd import singular_value_threshold

GESDD = "LAPACK gesdd"
KERNEL = "thresholding"
BARS = {20: 0.15, 100: 0.25}
ERROR_BAR = 1e-12


@cache
def matrix(dtype="float64"):
    """Singular values from 1000 down to 1 in equal steps of the logarithm."""
    rng = np.random.default_rng(SEED)
    left = np.linalg.qr(rng.standard_normal((YAHOO.n, YAHOO.q)))[0]
    right = np.linalg.qr(rng.standard_normal((YAHOO.q, YAHOO.q)))[0]
    values = np.geomspace(1000, 1, YAHOO.q)
    return np.ascontiguousarray((left * values) @ right.T, dtype=dtype), values


def threshold(keep):
    values = matrix()[1]
    return float(np.sqrt(values[keep - 1] * values[keep]))


def lapack(A):
    return scipy.linalg.svd(A, full_matrices=False)


def shape(keep):
    return f"{YAHOO.n} x {YAHOO.q}, keep {keep}"


@pytest.mark.parametrize("keep", BARS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ratios(keep, dtype):
    A = matrix(dtype)[0]
    out = np.empty_like(A)
    t = threshold(keep)
    timed = {
        OURS: Candidate(lambda: singular_value_threshold(A, t, out=out)),
        GESDD: Candidate(lambda: lapack(A)),
    }
    bars = {GESDD: BARS[keep]} if dtype == "float64" else {}
    figures = compare(KERNEL, shape(keep), dtype, timed, OURS, bars, budget=5.0)
    E, rank = singular_value_threshold(A, t, out=out)
    U, s, Vt = lapack(matrix()[0])
    expected = (U[:, :keep] * (s[:keep] - t)) @ Vt[:keep]
    assert rank == keep
    error = np.linalg.norm(E - expected) / np.linalg.norm(expected)
    bar = ERROR_BAR if dtype == "float64" else 1e-5
    figures.append(Figure(KERNEL, shape(keep), dtype, GESDD, float(error), bar, "error"))
    record(figures)


@pytest.mark.parametrize("keep", BARS)
@pytest.mark.parametrize("method", ["gram", "randomized", "truncated", "full", GESDD])
@pytest.mark.benchmark(max_time=0.5, min_rounds=1, timer=time.process_time)
def test_times(benchmark, keep, method):
    A, t = matrix()[0], threshold(keep)
    benchmark.group = f"{KERNEL}, {shape(keep)}"
    if method == GESDD:
        benchmark(lapack, A)
    else:
        benchmark(singular_value_threshold, A, t, method)
