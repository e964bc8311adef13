from __future__ import annotations

import math

import naive_stick_breaking as naive
import numba
import numpy as np
import pytest
from assembly import VECTOR_FMA, blocks_with, called_functions, listing, needs_vectors
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from strategies import candidate_matrices, dtypes, row_counts, seeds

from hera_fast.kernels.stick_breaking import (
    _break_stick,
    _sides,
    _slope_rows,
    _value_rows,
    break_slopes,
    break_values,
    component_posterior,
    stick_shares,
)
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
ACCURACY = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}


def close(found, ref, scale=1.0):
    """Agreement to rounding of numbers that are sums of others of the scale."""
    accuracy = ACCURACY[found.dtype]
    np.testing.assert_allclose(found, ref, rtol=accuracy, atol=accuracy * 1e-3 * scale)


@st.composite
def scores(draw):
    n, n_breaks = draw(row_counts), draw(st.sampled_from([0, 1, 2, 3, 7, 30]))
    rng = np.random.default_rng(draw(seeds))
    Z = rng.normal(size=(n, n_breaks)) * draw(st.sampled_from([0, 1e-3, 1, 30, 1e3, 1e30]))
    return (Z + draw(st.sampled_from([0, -3, 50]))).astype(draw(dtypes))


@st.composite
def posteriors(draw):
    Z = draw(scores())
    q = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(seeds))
    affinity = np.exp(-rng.random((q, Z.shape[1] + 1)) * draw(st.sampled_from([0, 1, 120])))
    return Z, draw(candidate_matrices(len(Z), q)), affinity


@st.composite
def masses(draw):
    Z = draw(scores())
    rng = np.random.default_rng(draw(seeds))
    mass = (1 - rng.random((len(Z), Z.shape[1] + 1))) ** draw(st.sampled_from([1, 20]))
    return Z, mass / mass.sum(axis=1, keepdims=True)


def shares(Z, module=None):
    out = np.empty((len(Z), Z.shape[1] + 1), Z.dtype)
    (module.stick_shares if module else stick_shares)(Z, out)
    return out


def posterior(Z, Y, affinity, function=component_posterior):
    n, q = Y.shape
    ratios, mass = np.empty((2, n, affinity.shape[1]))
    confidence, log_likelihood = np.empty((n, q), Z.dtype), np.empty(n)
    function(Z, Y, affinity, ratios, mass, confidence, log_likelihood)
    return ratios, mass, confidence, log_likelihood


def slopes(Z, mass, function=break_slopes):
    slope, curvature = np.empty((2, *Z.shape), Z.dtype)
    function(Z, mass, slope, curvature)
    return slope, curvature


def values(Z, mass, function=break_values):
    out = np.empty(Z.shape)
    function(Z, mass, out)
    return out


@given(scores())
def test_shares_agree_with_the_twin(Z):
    close(shares(Z), shares(Z, naive))


@given(scores())
def test_shares_sum_to_one(Z):
    for row in shares(Z):
        assert (row >= 0).all()
        assert abs(math.fsum(row) - 1) <= 1e-12 + 2 * np.finfo(Z.dtype).eps


def test_equal_shares():
    Z = -np.log(np.arange(4.0, 0, -1))[np.newaxis]
    np.testing.assert_allclose(shares(Z), 0.2, rtol=1e-14)


def test_long_sticks_underflow_without_harm():
    Z = np.full((1, 100), -50.0)
    Z[0, ::2] = 50
    phi = shares(Z)[0]
    assert phi[0] == 1
    assert phi[-1] == 0


@given(posteriors())
def test_posteriors_agree_with_the_twin(problem):
    for found, ref in zip(
        posterior(*problem), posterior(*problem, naive.component_posterior), strict=True
    ):
        close(found, ref)


@given(posteriors())
def test_posteriors_are_distributions(problem):
    Z, Y, affinity = problem
    ratios, mass, confidence, _ = posterior(*problem)
    np.testing.assert_allclose(mass.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(confidence.sum(axis=1, dtype=float), 1, rtol=ACCURACY[Z.dtype])
    assert (confidence[~Y] == 0).all()
    # The ratios make the counts of labels in components: each row counts as one.
    counts = affinity * (Y.T.astype(float) @ ratios)
    np.testing.assert_allclose(counts.sum(axis=0), mass.sum(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(counts.sum(), len(Y), rtol=1e-9)


@pytest.mark.parametrize("as_type", [bool, np.uint8, np.float64])
def test_candidates_of_every_type(as_type):
    Y = np.array([[1, 0, 1], [0, 1, 0]])
    affinity = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    _, mass, confidence, log_likelihood = posterior(np.zeros((2, 1)), Y.astype(as_type), affinity)
    np.testing.assert_allclose(mass, [[0.6 / 1.4, 0.8 / 1.4], [0.3 / 0.7, 0.4 / 0.7]])
    np.testing.assert_allclose(confidence, [[0.3 / 1.4, 0, 1.1 / 1.4], [0, 1, 0]])
    np.testing.assert_allclose(log_likelihood, np.log([0.7, 0.35]))


@given(masses())
def test_slopes_agree_with_the_twin(problem):
    for found, ref in zip(slopes(*problem), slopes(*problem, naive.break_slopes), strict=True):
        close(found, ref)


@given(masses())
def test_values_agree_with_the_twin(problem):
    ref = values(*problem, naive.break_values)
    np.testing.assert_allclose(values(*problem), ref, rtol=1e-12, atol=1e-15)


@given(masses())
def test_values_are_the_expected_logarithm_of_the_shares(problem):
    Z, mass = problem
    phi = shares(Z.astype(np.float64))
    # Where shares underflow, or leave nothing of their mass, there is nothing to compare with.
    Z, mass, phi = (array[(phi > 1e-300).all(axis=1)] for array in (Z, mass, phi))
    expected = (mass * np.log(phi)).sum(axis=1)
    np.testing.assert_allclose(values(Z, mass).sum(axis=1), expected, rtol=1e-9, atol=1e-9)


def test_slopes_are_derivatives_of_the_values():
    rng = np.random.default_rng(0)
    Z, mass = 2 * rng.normal(size=(6, 4)), rng.dirichlet(np.ones(5), size=6)
    slope, curvature = slopes(Z, mass)
    h = 1e-5
    ahead, behind = values(Z + h, mass), values(Z - h, mass)
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), atol=1e-9)
    change = slopes(Z + h, mass)[0] - slopes(Z - h, mass)[0]
    np.testing.assert_allclose(curvature, -change / (2 * h), atol=1e-9)


def test_sides():
    z = np.concatenate([np.linspace(-670, 670, 4001), np.linspace(-1, 1, 201), [1e-300, 0.0]])
    sides = np.array([_sides(np.float64(value)) for value in z])
    np.testing.assert_allclose(sides[:, 0], expit(z), rtol=1e-12)
    np.testing.assert_allclose(sides[:, 1], expit(-z), rtol=1e-12)
    assert tuple(_sides(1e30)) == (1, 0)
    assert tuple(_sides(-1e30)) == (0, 1)


def test_the_stick_is_used_up():
    phi, left = np.empty((2, 3))
    _break_stick(0, np.array([[0.0, 0.0]]), left, phi)
    assert phi.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    rng = np.random.default_rng(0)
    n = 20 if numba.config.DISABLE_JIT else 2000
    Z, Y = rng.normal(size=(n, 30)).astype(dtype), rng.random((n, 9)) < 0.3
    Y[:, 4] = True
    affinity = rng.random((9, 31))

    def everything():
        results = posterior(Z, Y, affinity)
        return [shares(Z), *results, *slopes(Z, results[1]), values(Z, results[1])]

    with threads(1):
        one = everything()
    with threads(2):
        two = everything()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


@needs_vectors
@both_dtypes
@pytest.mark.parametrize("kernel", [_slope_rows, _value_rows])
def test_the_logistic_function_is_vectorised(dtype, kernel):
    Z, mass = np.zeros((2, 64), dtype), np.ones((2, 65))
    outputs = (Z.copy(), Z.copy()) if kernel is _slope_rows else (np.zeros((2, 64)),)
    text = listing(kernel, 0, 2, Z, mass, *outputs)
    assert blocks_with(VECTOR_FMA, text, at_least=4) >= 1
    assert not called_functions(text) & {"exp", "expf", "log1p", "log1pf", "sqrt"}


def test_bad_arguments_are_named():
    Z, mass = np.zeros((3, 4)), np.ones((3, 5))
    with pytest.raises(ValueError, match=r"one component more than breaks, got 4 .* and 4 breaks"):
        stick_shares(Z, np.empty((3, 4)))
    with pytest.raises(ValueError, match=r"one component more than breaks, got 4 .* and 4 breaks"):
        break_values(Z, mass[:, :4].copy(), Z.copy())
    with pytest.raises(ValueError, match=r"one component more than breaks, got 6 .* and 4 breaks"):
        break_slopes(Z, np.ones((3, 6)), Z.copy(), Z.copy())
    with pytest.raises(ValueError, match=r"one component more than breaks, got 4 .* and 4 breaks"):
        posterior(Z, np.ones((3, 2), bool), np.ones((2, 4)))
    with pytest.raises(TypeError, match=r"^mass must be float64, got float32"):
        break_slopes(Z, mass.astype(np.float32), Z.copy(), Z.copy())
    with pytest.raises(TypeError, match=r"^shares must be float64 like Z"):
        stick_shares(Z, mass.astype(np.float32))
    with pytest.raises(ValueError, match=r"^curvature is written to, but it shares memory"):
        break_slopes(Z, mass, out := Z.copy(), out)
    with pytest.raises(ValueError, match=r"^affinity must have shape \(q, components\) with q = 2"):
        posterior(Z, np.ones((3, 2), bool), np.ones((3, 5)))
