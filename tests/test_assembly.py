"""Slow code gives right results too: the loops over pairs of labels must have been vectorised."""

from __future__ import annotations

import math

import assembly
import numpy as np
import pytest
from assembly import VECTOR_DIVISION, VECTOR_FMA, blocks_with, called_functions

from hera_fast.kernels import confidence, ranking
from hera_fast.kernels._jit import kernel

pytestmark = assembly.needs_vectors

ELEMENTARY = {"exp", "expf", "exp2", "exp2f", "log", "logf", "log1p", "log1pf"}

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture
def listing_of(monkeypatch):
    """Machine code of the kernel behind a public function."""

    def find(module, name, *arguments):
        launched = []
        monkeypatch.setattr(
            module, "launch", lambda rows, n, cost, *args: launched.append((rows, 0, n, *args))
        )
        getattr(module, name)(*arguments)
        return assembly.listing(*launched[0])

    return find


# At least so many loops, as the compiler multiplies them. With a division: one over all pairs of
# a row and one over the pairs of a label, which comes in versions for rows with and without
# differences out of reach and for the first and the further labels. With a long polynomial: the
# same, and those for the logarithm.
@both_dtypes
@pytest.mark.parametrize(
    ("name", "n_divisions", "n_polynomials"),
    [
        ("ranking_loss", 3, 4),
        ("ranking_score_gradient", 5, 5),
        ("ranking_confidence_gradient", 3, 5),
        ("ranking_gradients", 3, 5),
    ],
)
def test_ranking(name, n_divisions, n_polynomials, dtype, listing_of):
    Z, P, *gradients = np.zeros((4, 2, 64), dtype)
    outputs = {
        "ranking_loss": [np.zeros(2, dtype)],
        "ranking_gradients": [np.zeros(2, dtype), *gradients],
    }
    text = listing_of(ranking, name, Z, P, *outputs.get(name, gradients[:1]))
    assert blocks_with(VECTOR_DIVISION, text) >= n_divisions
    assert blocks_with(VECTOR_FMA, text, at_least=4) >= n_polynomials
    assert not called_functions(text) & ELEMENTARY


@both_dtypes
def test_confidence_step(dtype, listing_of):
    Z, E, M, P = np.zeros((4, 2, 64), dtype)
    inputs = (Z, np.ones((2, 64), bool), E, M, 1.0, 0.1, 1.0, True)
    text = listing_of(confidence, "confidence_step", *inputs, P, np.zeros(2))
    # A loop with the division, another with the logarithm.
    assert blocks_with(VECTOR_DIVISION, text) >= 1
    assert blocks_with(VECTOR_FMA, text, at_least=8) >= 1
    assert not called_functions(text) & ELEMENTARY


@kernel
def _scalar_rows(start, stop, Z, P, out):
    for i in range(start, stop):
        for k in range(Z.shape[1]):
            out[i, k] = math.log1p(math.exp(-Z[i, k])) / (1 + P[i, k])


def test_scalar_code_is_noticed():
    text = assembly.listing(_scalar_rows, 0, 2, *np.zeros((3, 2, 64)))
    assert blocks_with(VECTOR_DIVISION, text) == 0
    assert blocks_with(VECTOR_FMA, text) == 0
    assert called_functions(text) >= {"exp", "log1p"}
