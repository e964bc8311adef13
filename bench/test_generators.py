"""What made-up data cost: processor seconds, and memory against that of the result.

A dense matrix of a million rows would take more memory than their features: there is none.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from ratio import Figure, record
from shapes import SEED

from hera_fast.partial_labels import make_partial_labels
from hera_fast.synthetic import make_partial_classification

MILLION = {"n_samples": 1_000_000, "n_features": 100, "n_classes": 1000, "n_candidates": 2.0}
#: Arguments, and the bars of the seconds and of the memory.
CASES = {
    "Yahoo! News": ({"like": "yahoo-news"}, 2.0, 2.0),
    "1000000 x 100, q = 1000": ({**MILLION, "imbalance": 1.0}, 30.0, 1.5),
}


def measure(call):
    """Processor seconds, peak memory and result of a call."""
    tracemalloc.start()
    try:
        start = time.process_time()
        result = call()
        seconds = time.process_time() - start
        return seconds, tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", CASES)
def test_synthetic_data(shape):
    arguments, seconds_bar, memory_bar = CASES[shape]
    seconds, peak, (X, Y, _) = measure(
        lambda: make_partial_classification(**arguments, random_state=SEED)
    )
    size = X.nbytes + Y.data.nbytes + Y.indices.nbytes + Y.indptr.nbytes
    record(
        [
            Figure("synthetic data", shape, "float64", "-", seconds, seconds_bar, "seconds"),
            Figure("memory of synthetic data", shape, "float64", "result", peak / size, memory_bar),
        ]
    )


@pytest.mark.parametrize("options", [{"p": 1.0, "r": 3}, {"epsilon": 0.5}], ids=str)
def test_artificial_candidates(options):
    n, q = MILLION["n_samples"], MILLION["n_classes"]
    y = np.random.default_rng(SEED).integers(q, size=n)
    seconds, peak, _ = measure(
        lambda: make_partial_labels(y, **options, sparse_output=True, random_state=SEED)
    )
    name = ", ".join(f"{key} = {value:g}" for key, value in options.items())
    shape = f"{n} x {q}, {name}"
    record(
        [
            Figure("artificial candidates", shape, "-", "-", seconds, 2.0, "seconds"),
            Figure("memory of candidates", shape, "-", "a dense matrix", peak / (n * q), 0.5),
        ]
    )
