from __future__ import annotations

import math

import naive_held_out as naive
import numba
import numpy as np
import pytest
import scipy.special
from assembly import (
    VECTOR_DIVISION,
    VECTOR_FMA,
    blocks_with,
    called_functions,
    listing,
    needs_vectors,
)
from hypothesis import given
from hypothesis import strategies as st
from strategies import candidate_matrices, dtypes, label_counts, row_counts, seeds

from hera_fast.kernels.held_out import (
    MASS_PARTS,
    _held_out_rows,
    _mass_rows,
    candidate_mass,
    condition_on_candidates,
    held_out_scores,
)
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
two_threads = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2"
)


def candidate_dtypes(dtype):
    return st.sampled_from([bool, np.uint8, dtype])


# ---- scores of rows that were left out ---------------------------------------------------------


def scores(fits, P, leverages, shares, function=held_out_scores):
    out = np.full(fits.shape, np.nan, fits.dtype)
    function(fits, P, leverages, shares, out)
    return out


@st.composite
def regressions(draw):
    n, q, dtype = draw(row_counts), draw(label_counts), draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    scale = draw(st.sampled_from([0, 1e-3, 1, 1e30]))
    fits, P = scale * rng.normal(size=(2, n, q))
    leverages = rng.random(n) * draw(st.sampled_from([0, 0.5, 0.999]))
    arrays = fits, P, leverages, scale * rng.random(q)
    return tuple(array.astype(dtype) for array in arrays)


@given(regressions())
def test_scores_agree_with_the_twin(problem):
    found, ref = scores(*problem), scores(*problem, naive.held_out_scores)
    assert found.dtype == problem[0].dtype
    size = max(float(np.abs(array).max(initial=0)) for array in problem)
    accuracy = 16 * float(np.finfo(found.dtype).eps)
    limits = accuracy * size / (1 - problem[2].astype(np.float64))
    assert (np.abs(found.astype(np.float64) - ref) <= limits[:, np.newaxis]).all()


@given(regressions())
def test_scores_in_place_have_the_same_bits(problem):
    usual, fits = scores(*problem), problem[0].copy()
    held_out_scores(fits, *problem[1:], fits)
    assert fits.tobytes() == usual.tobytes()


def test_scores_are_those_of_regressions_on_the_other_rows():
    rng = np.random.default_rng(0)
    X, P, shares = rng.normal(size=(30, 4)), rng.random((30, 5)), rng.random(5)

    def coefficients(rows):
        gram = X[rows].T @ X[rows] + 0.3 * np.eye(4)
        return np.linalg.solve(gram, X[rows].T @ (P[rows] - shares))

    everything = np.arange(30)
    leverages = np.einsum("ij,ji->i", X, np.linalg.solve(X.T @ X + 0.3 * np.eye(4), X.T))
    found = scores(X @ coefficients(everything), P, leverages, shares)
    expected = [X[i] @ coefficients(everything != i) for i in everything]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@both_dtypes
def test_known_scores(dtype):
    fits, P = np.array([[1, 2], [3, 4]], dtype), np.array([[0, 1], [1, 0]], dtype)
    found = scores(fits, P, np.array([0, 0.5], dtype), np.array([0.5, 1], dtype))
    assert found.tolist() == [[1, 2], [5.5, 9]]


# ---- the mass of the candidates ----------------------------------------------------------------


def masses(Z, offsets, Y, temperature, function=candidate_mass):
    row_parts = np.full((len(Z), len(MASS_PARTS)), np.nan)
    function(Z, offsets, Y, temperature, row_parts)
    return row_parts


@st.composite
def score_problems(draw, scales=(0, 1e-3, 1, 30, 1e3, 1e30)):
    n, q, dtype = draw(row_counts), draw(label_counts), draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    Z = rng.normal(size=(n, q)) * draw(st.sampled_from(scales))
    offsets = rng.normal(size=q) * draw(st.sampled_from([0, 1, 1e3]))
    offsets[rng.random(q) < draw(st.sampled_from([0, 0.3, 1]))] = -np.inf
    Y = draw(candidate_matrices(n, q)).astype(draw(candidate_dtypes(dtype)))
    temperature = draw(st.sampled_from([1e-3, 0.7, 1.0, 30.0]))
    return Z.astype(dtype), offsets.astype(dtype), Y, temperature


def assert_same_masses(found, ref, temperature):
    # In units of temperature times score, nothing that has weight is farther away than 700.
    found, ref = found * temperature ** np.arange(3), ref * temperature ** np.arange(3)
    np.testing.assert_allclose(found, ref, rtol=1e-11, atol=1e-11)


@given(score_problems())
def test_masses_agree_with_the_twin(problem):
    found, ref = masses(*problem), masses(*problem, naive.candidate_mass)
    assert np.isfinite(found).all()
    assert_same_masses(found, ref, problem[-1])


@given(score_problems())
def test_masses_agree_with_scipy(problem):
    Z, offsets, Y, temperature = problem
    t = Z.astype(np.float64) + offsets
    told = np.isfinite(np.where(Y != 0, t, -np.inf)).any(axis=1)
    t, Y = temperature * t[told], Y[told]
    if len(t):
        inside = scipy.special.logsumexp(np.where(Y != 0, t, -np.inf), axis=1)
        ref = inside - scipy.special.logsumexp(t, axis=1)
        size = np.abs(t[np.isfinite(t)]).max()
        np.testing.assert_allclose(masses(*problem)[told, 0], ref, rtol=1e-12, atol=1e-12 * size)


@given(score_problems(scales=(0, 1e-3, 1, 3)), st.sampled_from([0.3, 1.0, 3.0]))
def test_slope_and_curvature_are_derivatives(problem, temperature):
    Z, offsets, Y = problem[0].astype(np.float64), problem[1].astype(np.float64), problem[2]
    offsets = np.clip(offsets, -5, 5) + np.where(np.isneginf(offsets), -np.inf, 0)
    step = 1e-4
    _, slope, curvature = masses(Z, offsets, Y, temperature).T
    above, below = (masses(Z, offsets, Y, temperature + sign * step) for sign in (1, -1))
    differences = (above - below) / (2 * step)
    np.testing.assert_allclose(differences[:, 0], slope, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(differences[:, 1], curvature, rtol=1e-5, atol=1e-4)


@given(score_problems())
def test_labels_without_probability_do_not_matter(problem):
    Z, offsets, Y, temperature = problem
    seen = np.isfinite(offsets)
    seen[:1] = True
    less = Z[:, seen].copy(), offsets[seen], Y[:, seen].copy(), temperature
    assert_same_masses(masses(*less), masses(*problem), temperature)


@given(score_problems())
def test_nothing_is_gained_where_all_labels_are_candidates(problem):
    Z, offsets, _, temperature = problem
    offsets[0] = 0
    found = masses(Z, offsets, np.ones(Z.shape, bool), temperature)
    np.testing.assert_allclose(found * temperature ** np.arange(3), 0, atol=1e-12)


@both_dtypes
def test_known_masses(dtype):
    Z = np.array([[0, 0, 0, 0], [0, np.log(2), 5, 7], [3, 3, 4, 4]], dtype)
    Y = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]], bool)
    offsets = np.array([0, 0, -np.inf, -np.inf], dtype)
    found = masses(Z, offsets, Y, 1.0)
    two, mean = np.log(2), 2 / 3 * np.log(2)
    expected = [[-two, 0, 0], [np.log(2 / 3), two - mean, mean**2 - mean * two], [0, 0, 0]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 if dtype == np.float32 else 1e-14)


@both_dtypes
def test_a_mass_below_all_numbers_has_a_logarithm(dtype):
    Z = np.array([[0, -400, -400], [1e30, -1e30, 0]], dtype)
    found = masses(Z, np.zeros(3, dtype), np.array([[0, 1, 1], [0, 1, 0]], bool), np.log(10))
    np.testing.assert_allclose(found[0], [-400 * np.log(10) + np.log(2), -400, 0], rtol=1e-14)
    np.testing.assert_allclose(found[1], [-2e30 * np.log(10), -2e30, 0], rtol=1e-7)


@both_dtypes
def test_candidates_that_are_impossible(dtype):
    Z, offsets = np.zeros((3, 4), dtype), np.array([0, 0, -np.inf, -np.inf], dtype)
    Y = np.array([[0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]], bool)
    found = masses(Z, offsets, Y, 1.0)
    assert found[:2].tolist() == [[-745, 0, 0], [-745, 0, 0]]
    np.testing.assert_allclose(found[2], [-np.log(2), 0, 0], atol=1e-15)
    assert (masses(Z, np.full(4, -np.inf, dtype), Y, 1.0) == [-745, 0, 0]).all()


# ---- what candidates say about each other ------------------------------------------------------


def conditioned(Y, pair_scores, label_scores, Z, function=condition_on_candidates):
    Z = Z.copy()
    function(Y, pair_scores, label_scores, Z)
    return Z


@st.composite
def pair_problems(draw):
    n, q, dtype = draw(row_counts), draw(label_counts), draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    scale = draw(st.sampled_from([0, 1, 1e4]))
    pair_scores = scale * rng.normal(size=(q, q))
    np.fill_diagonal(pair_scores, np.nan)
    Z = rng.random((n, q)) ** draw(st.sampled_from([1, 30]))
    Z[rng.random((n, q)) < 0.1] = 0
    Y = draw(candidate_matrices(n, q))
    Y[rng.random(n) < draw(st.sampled_from([0, 0.3]))] = False
    return Y.astype(draw(candidate_dtypes(dtype))), pair_scores, rng.normal(size=q), Z.astype(dtype)


@given(pair_problems())
def test_conditioning_agrees_with_the_twin(problem):
    found, ref = conditioned(*problem), conditioned(*problem, naive.condition_on_candidates)
    assert found.dtype == problem[-1].dtype
    # Exponents of 1e4 times many candidates have few digits left behind the point.
    largest = np.abs(np.nan_to_num(problem[1])).max() * (problem[0] != 0).sum(axis=1).max(initial=1)
    accuracy = max(4 * np.finfo(found.dtype).eps, 1e-14 * max(largest, 100))
    np.testing.assert_allclose(found, ref, rtol=accuracy, atol=2 * np.finfo(found.dtype).tiny)


@given(pair_problems())
def test_conditioned_rows_are_distributions(problem):
    found, candidates = conditioned(*problem), problem[0] != 0
    assert (found >= 0).all()
    assert (found[~candidates] == 0).all()
    for p, row in zip(found, candidates, strict=True):
        eps = np.finfo(found.dtype).eps
        assert abs(math.fsum(p) - row.any()) <= (2 + len(p) / 16) * eps
    single = candidates.sum(axis=1) == 1
    assert (found[candidates & single[:, np.newaxis]] == 1).all()


@both_dtypes
def test_nothing_known_of_pairs_leaves_the_shares(dtype):
    Z = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], dtype)
    Y = np.array([[1, 1, 0], [1, 1, 1]], bool)
    found = conditioned(Y, np.zeros((3, 3)), np.zeros(3), Z)
    expected = [[2 / 3, 1 / 3, 0], [0.1, 0.2, 0.7]]
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)


@both_dtypes
def test_known_pairs(dtype):
    Z = np.full((2, 3), 0.25, dtype)
    pair_scores = np.log([[9, 2, 3], [4, 9, 5], [6, 7, 9]])
    found = conditioned(np.array([[1, 1, 0], [1, 1, 1]], bool), pair_scores, np.zeros(3), Z)
    expected = [[2 / 6, 4 / 6, 0], [6 / 68, 20 / 68, 42 / 68]]
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)


@both_dtypes
def test_probability_zero_is_the_smallest_number(dtype):
    Z = np.array([[0, 0, 1], [0, 1, 0]], dtype)
    Y = np.array([[1, 1, 0], [1, 1, 0]], bool)
    gain = -np.log(float(np.finfo(dtype).tiny))
    found = conditioned(Y, np.zeros((3, 3)), np.array([gain, 0, 0]), Z)
    np.testing.assert_allclose(found[0], [1, np.finfo(dtype).tiny, 0], rtol=1e-12)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0], rtol=4 * np.finfo(dtype).eps)


# ---- all three ---------------------------------------------------------------------------------


def random_arguments(n, q, dtype):
    """Of the three functions, in the order of this file."""
    rng = np.random.default_rng(0)
    Z, P = rng.normal(size=(n, q)).astype(dtype), rng.random((n, q)).astype(dtype)
    Y = rng.random((n, q)) < 0.3
    return (
        (Z, P, rng.random(n).astype(dtype) / 2, rng.random(q).astype(dtype)),
        (Z, rng.normal(size=q).astype(dtype), Y, 1.5),
        (Y, rng.normal(size=(q, q)), rng.normal(size=q), P),
    )


def results(arguments):
    return [call(*a) for call, a in zip((scores, masses, conditioned), arguments, strict=True)]


@both_dtypes
def test_one_label(dtype):
    arguments = random_arguments(2, 1, dtype)
    found = results((arguments[0], (*arguments[1][:2], np.ones((2, 1), bool), 2.0), arguments[2]))
    np.testing.assert_allclose(found[0], scores(*arguments[0], naive.held_out_scores), rtol=1e-6)
    assert found[1].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert found[2].tolist() == arguments[2][0].tolist()


@both_dtypes
def test_no_rows(dtype):
    assert [found.shape for found in results(random_arguments(0, 3, dtype))] == [(0, 3)] * 3


@both_dtypes
def test_inputs_may_be_read_only(dtype):
    arguments = random_arguments(5, 7, dtype)
    usual = results(arguments)
    for array in (array for group in arguments for array in group if np.ndim(array)):
        array.setflags(write=False)
    for first, second in zip(usual, results(arguments), strict=True):
        np.testing.assert_array_equal(first, second)


@two_threads
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    arguments = random_arguments(20 if numba.config.DISABLE_JIT else 3000, 99, dtype)
    with threads(1):
        one = results(arguments)
    with threads(2):
        two = results(arguments)
    for first, second in zip(one, two, strict=True):
        assert first.tobytes() == second.tobytes()


@needs_vectors
@both_dtypes
def test_the_row_loops_are_vectorised(dtype):
    Z, rows, labels = np.zeros((2, 64), dtype), np.zeros(2, dtype), np.zeros(64, dtype)
    text = listing(_held_out_rows, 0, 2, Z, Z.copy(), rows, labels, True, Z)
    assert blocks_with(VECTOR_FMA, text) >= 1
    Y, row_parts = np.ones((2, 64), np.uint8), np.zeros((2, 3))
    text = listing(_mass_rows, 0, 2, Z, labels, Y, 1.0, row_parts)
    assert blocks_with(VECTOR_DIVISION, text) >= 1
    assert not called_functions(text) & {"exp", "sqrt"}


def test_bad_arguments_of_scores_are_named():
    Z = np.zeros((3, 4))
    good = {"fits": Z, "P": Z.copy(), "leverages": np.zeros(3), "shares": np.zeros(4)}
    good["out"] = Z.copy()
    held_out_scores(**good)
    for name, value, error, message in [
        ("fits", Z.astype(int), TypeError, "fits must be float32 or float64"),
        ("P", Z.astype(np.float32), TypeError, "P must be float64 like fits"),
        ("P", np.zeros((3, 5)), ValueError, "P must have shape"),
        ("leverages", np.zeros(4), ValueError, "leverages must have shape"),
        ("shares", np.zeros(3), ValueError, "shares must have shape"),
        ("out", np.zeros((4, 4)), ValueError, "out must have shape"),
        ("out", good["P"], ValueError, "out is written to, but it shares memory with P"),
        ("out", Z[:], ValueError, "out is written to, but it shares memory with fits"),
    ]:
        with pytest.raises(error, match="^" + message):
            held_out_scores(**{**good, name: value})
    good["out"] = Z
    for name, value, error, message in [
        ("P", Z, ValueError, "fits is written to, but it shares memory with P"),
        ("shares", np.zeros(3), ValueError, "shares must have shape"),
    ]:
        with pytest.raises(error, match="^" + message):
            held_out_scores(**{**good, name: value})
    Z.setflags(write=False)
    with pytest.raises(ValueError, match=r"^fits is written to, but it is read-only"):
        held_out_scores(**good)


def test_bad_arguments_of_masses_are_named():
    good = {"scores": np.zeros((3, 4)), "offsets": np.zeros(4), "Y": np.ones((3, 4), bool)}
    good |= {"temperature": 1.0, "row_parts": np.zeros((3, 3))}
    candidate_mass(**good)
    for name, value, error, message in [
        ("scores", np.zeros((3, 4), int), TypeError, "scores must be float32 or float64"),
        ("offsets", np.zeros(4, np.float32), TypeError, "offsets must be float64 like scores"),
        ("offsets", np.zeros(3), ValueError, "offsets must have shape"),
        ("Y", np.zeros((3, 4), int), TypeError, "Y must be"),
        ("Y", np.zeros((4, 4), bool), ValueError, "Y must have shape"),
        ("temperature", 0.0, ValueError, "temperature must be a positive finite number"),
        ("temperature", "1", TypeError, "temperature must be a number"),
        ("row_parts", np.zeros((3, 3), np.float32), TypeError, "row_parts must be float64"),
        ("row_parts", np.zeros((2, 3)), ValueError, "row_parts must have shape"),
        ("row_parts", np.zeros((3, 4)), ValueError, "row_parts must have 3 columns, got 4"),
    ]:
        with pytest.raises(error, match="^" + message):
            candidate_mass(**{**good, name: value})


def test_bad_arguments_of_conditioning_are_named():
    good = {"Y": np.ones((3, 4), bool), "pair_scores": np.zeros((4, 4))}
    good |= {"label_scores": np.zeros(4), "Z": np.ones((3, 4), np.float32)}
    condition_on_candidates(**good)
    single = np.zeros((4, 4), np.float32)
    for name, value, error, message in [
        ("Y", np.zeros((3, 4), int), TypeError, "Y must be"),
        ("pair_scores", single, TypeError, "pair_scores must be float64"),
        ("pair_scores", np.zeros((4, 5)), ValueError, "pair_scores must have shape"),
        ("label_scores", np.zeros(3), ValueError, "label_scores must have shape"),
        ("Z", np.ones((3, 4), int), TypeError, "Z must be float32 or float64"),
        ("Z", np.ones((2, 4)), ValueError, "Z must have shape"),
        ("Z", np.asfortranarray(np.ones((3, 4))), ValueError, "Z must be C-contiguous"),
    ]:
        with pytest.raises(error, match="^" + message):
            condition_on_candidates(**{**good, name: value})
