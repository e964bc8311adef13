"""Patterns of false candidates: against one pair after the other, and what they must say."""

from __future__ import annotations

import naive_co_occurrence as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import confidences, sharpnesses
from strategies import candidate_matrices, seeds

from hera_fast.co_occurrence import CoOccurrence
from hera_fast.threads import threads


def off_diagonal(pairs):
    return pairs[~np.eye(len(pairs), dtype=bool)]


@st.composite
def confident_candidates(draw):
    n, q = draw(st.integers(1, 12)), draw(st.integers(1, 7))
    Y = draw(candidate_matrices(n, q))
    rng = np.random.default_rng(draw(seeds))
    return Y, confidences(rng, Y, draw(sharpnesses)), rng


@given(problem=confident_candidates(), weighting=st.sampled_from([None, "whole", "fractional"]))
def test_scores_against_one_pair_after_the_other(problem, weighting):
    Y, P, rng = problem
    weights = None
    if weighting is not None:
        counts = (
            rng.integers(0, 4, len(Y)) if weighting == "whole" else rng.exponential(size=len(Y))
        )
        weights = counts.astype(float)
    pairs, labels = CoOccurrence(Y, P.dtype, weights).scores(P)
    w = np.ones(len(Y)) if weights is None else weights
    expected_pairs, expected_labels = naive.scores(Y, w, P)
    np.testing.assert_allclose(off_diagonal(pairs), off_diagonal(expected_pairs), atol=1e-10)
    np.testing.assert_allclose(labels, expected_labels, atol=1e-10)


@given(problem=confident_candidates())
def test_scores_are_log_likelihoods_of_sets(problem):
    """Summed over all sets that contain a label, the probabilities are 1."""
    Y, P, _ = problem
    q = Y.shape[1]
    pairs, labels = CoOccurrence(Y, P.dtype).scores(P)
    sets = (np.arange(2**q)[:, np.newaxis] >> np.arange(q)) & 1
    for j in range(q):
        others = sets[sets[:, j] == 1].copy()
        others[:, j] = 0
        # They count half, so this is the root of the probability.
        logarithms = others @ pairs[j] + labels[j]
        assert np.exp(2 * logarithms).sum() == pytest.approx(1, rel=1e-9)


@given(problem=confident_candidates())
def test_a_weight_counts_like_repeated_rows(problem):
    Y, P, rng = problem
    counts = rng.integers(0, 4, len(Y))
    counts[0] += 1
    weighted = CoOccurrence(Y, P.dtype, counts.astype(float)).scores(P)
    repeated = np.repeat(P, counts, axis=0)
    plain = CoOccurrence(np.repeat(Y, counts, axis=0), P.dtype).scores(repeated)
    for comp, ref in zip(weighted, plain, strict=True):
        np.testing.assert_allclose(comp, ref, rtol=0, atol=1e-10)


def test_false_candidates_without_a_pattern_say_nothing():
    rng = np.random.default_rng(0)
    n, q = 40000, 5
    y = rng.integers(0, q, n)
    Y = rng.random((n, q)) < 0.3
    Y[np.arange(n), y] = True
    pairs, labels = CoOccurrence(Y, np.dtype(float)).scores(np.eye(q)[y])
    # Five standard errors of log-odds from 8000 rows for each label.
    bound = 0.5 * 5 / np.sqrt(n / q * 0.3 * 0.7)
    np.testing.assert_allclose(off_diagonal(pairs), 0.5 * np.log(0.3 / 0.7), rtol=0, atol=bound)
    np.testing.assert_allclose(labels, 0.5 * 4 * np.log(0.7), rtol=0, atol=4 * bound)


def test_a_coupled_label_counts_in_one_direction():
    """Label 1 accompanies label 0 in nine of ten rows, and everything else in one of ten."""
    rng = np.random.default_rng(1)
    n, q = 3000, 4
    y = rng.integers(0, q, n)
    Y = rng.random((n, q)) < 0.1
    Y[:, 1] |= (y == 0) & (rng.random(n) < 0.9)
    Y[np.arange(n), y] = True
    pairs, _ = CoOccurrence(Y, np.dtype(float)).scores(np.eye(q)[y])
    assert pairs[0, 1] > 0.8
    others = ~np.eye(q, dtype=bool)
    others[0, 1] = False
    assert (pairs[others] < -0.8).all()


def test_rare_labels_follow_the_others():
    Y = np.array([[1, 1, 0]] * 500 + [[1, 0, 0]] * 500 + [[0, 0, 1]], bool)
    P = np.array([[1.0, 0, 0]] * 1000 + [[0, 0, 1.0]])
    pairs, _ = CoOccurrence(Y, P.dtype).scores(P)
    # The only row of label 2 lacks label 1, which accompanies half of the other rows.
    common = 500 / 1001
    share = 5 * common / (1 + 5)
    assert pairs[2, 1] == pytest.approx(0.5 * np.log(share / (1 - share)))
    assert pairs[0, 1] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("Y", "P"),
    [
        (np.ones((4, 1), bool), np.ones((4, 1))),
        (np.ones((4, 3), bool), np.full((4, 3), 1 / 3)),
        (np.ones((10**5, 3), bool), np.eye(3)[np.zeros(10**5, int)]),
        (np.array([[True, False, True]] * 4), np.array([[1.0, 0.0, 0.0]] * 4)),
        (np.array([[False, True]]), np.array([[0.0, 1.0]])),
    ],
    ids=["one label", "all candidates", "all candidates, one label", "lost label", "one row"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weight", [None, 0.0, 1e-12])
def test_extreme_cases_are_finite(Y, P, dtype, weight):
    weights = None if weight is None else np.full(len(Y), weight)
    pairs, labels = CoOccurrence(Y, np.dtype(dtype), weights).scores(P.astype(dtype))
    assert pairs.dtype == labels.dtype == np.float64
    assert np.isfinite(pairs).all()
    assert np.isfinite(labels).all()
    # Nothing is impossible, and nothing certain.
    assert np.abs(off_diagonal(pairs)).max(initial=0) <= 0.5 * np.log(1e4)
    assert (labels <= 0).all()


def test_thread_counts_give_the_same_bits():
    rng = np.random.default_rng(2)
    Y = rng.random((5000, 30)) < 0.2
    Y[:, 0] = True
    P = confidences(rng, Y, 1)
    results = []
    for n_threads in (1, None):
        with threads(n_threads):
            results.append(CoOccurrence(Y, P.dtype).scores(P))
    for comp, ref in zip(*results, strict=True):
        np.testing.assert_array_equal(comp, ref)
