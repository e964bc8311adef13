"""Tests of significance against their definitions and against published tables."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from strategies import seeds

from hera_fast.significance import (
    average_ranks,
    critical_difference,
    friedman_test,
    t_tests,
    wilcoxon_test,
)

# Demšar (2006), table 6: areas under the curve of four variants of C4.5 on 14 data sets. In the
# last but one, where 0.975 is printed twice, the printed ranks are 2 and 3.
PUBLISHED = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def naive_t_test(differences):
    n = len(differences)
    t = statistics.mean(differences) / (statistics.stdev(differences) / math.sqrt(n))
    return 2 * stats.t.sf(abs(t), n - 1)


def naive_wilcoxon(differences):
    """The share of all signs for which one of the two sums of ranks is as small."""
    sizes = [abs(difference) for difference in differences if difference]
    signs = [difference > 0 for difference in differences if difference]
    ranks = [1 + sum(s < size for s in sizes) + (sizes.count(size) - 1) / 2 for size in sizes]

    def smaller_sum(signs):
        positive = sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        return min(positive, sum(ranks) - positive)

    every = [smaller_sum(s) for s in itertools.product([False, True], repeat=len(sizes))]
    return statistics.mean(s <= smaller_sum(signs) for s in every)


def naive_ranks(values):
    return [
        statistics.mean(
            1 + sum(other > row[j] for other in row) + (row.count(row[j]) - 1) / 2
            for row in values.tolist()
        )
        for j in range(values.shape[1])
    ]


@given(st.integers(2, 8), seeds)
def test_two_methods(n, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n))
    a += 0.5
    differences = a - b
    p = t_tests(differences)
    assert p == pytest.approx(naive_t_test(differences.tolist()), rel=1e-9)
    assert p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)
    assert t_tests(-differences) == p


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=8))
def test_wilcoxon_with_ties_and_zeros(differences):
    p = wilcoxon_test(np.array(differences) / 4)
    assert p == pytest.approx(naive_wilcoxon(differences), rel=1e-12)
    assert wilcoxon_test(-np.array(differences) / 4) == p


@pytest.mark.parametrize("n", [2, 3, 10, 30, 50])
def test_wilcoxon_of_scipy(n):
    for seed in range(5):
        differences = np.random.default_rng(seed).standard_normal(n) + 0.3
        exact = stats.wilcoxon(differences, method="exact").pvalue
        assert wilcoxon_test(differences) == pytest.approx(exact, rel=1e-9)


def test_wilcoxon_of_many():
    differences = np.random.default_rng(0).integers(-20, 23, 400) / 20
    approximate = stats.wilcoxon(differences).pvalue
    assert 1e-4 < approximate < 0.5
    assert wilcoxon_test(differences) == pytest.approx(approximate, rel=0.05)


def test_many_pairs_at_once():
    differences = np.random.default_rng(0).standard_normal((10, 3, 4))
    expected = [[t_tests(differences[:, i, j]) for j in range(4)] for i in range(3)]
    np.testing.assert_allclose(t_tests(differences), expected, rtol=1e-12)
    differences[3:, 0, 0] = differences[1:, 1, 1] = differences[:, 2, 2] = np.nan
    p = t_tests(differences)
    assert p[0, 0] == pytest.approx(naive_t_test(differences[:3, 0, 0].tolist()))
    assert np.isnan(p[[1, 2], [1, 2]]).all()
    assert np.isfinite(p).sum() == 10
    assert p[0, 1] == pytest.approx(expected[0][1], rel=1e-12)


def test_two_methods_that_hardly_differ():
    columns = [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [-0.1, -0.1, -0.1], [0.0, 0.0, np.nan]]
    assert t_tests(np.array(columns).T) == pytest.approx([1, 0, 0, 1], abs=1e-30)
    assert t_tests(np.zeros(3)) == 1
    assert wilcoxon_test(np.zeros(5)) == 1
    assert wilcoxon_test(np.array([0.0, 0.0, np.nan])) == 1
    # The zeros are left out; of 4 values of one sign, 2 of 16 signs are as extreme.
    assert wilcoxon_test(np.array([0.1, 0.2, 0.3, 0.4, np.nan])) == 0.125
    assert 0 < wilcoxon_test(np.array([0.1, 0.0, 0.0, 0.4])) <= 1


@pytest.mark.parametrize("differences", [[0.5], [0.0], [0.5, np.nan], [np.nan, np.nan]])
def test_too_few_folds(differences):
    assert np.isnan(t_tests(np.array(differences)))
    assert np.isnan(wilcoxon_test(np.array(differences)))


@given(st.integers(1, 6), st.integers(1, 5), seeds)
def test_ranks(n, k, seed):
    values = np.random.default_rng(seed).integers(0, 4, (n, k)) / 4
    ranks = average_ranks(values)
    np.testing.assert_allclose(ranks, naive_ranks(values), rtol=1e-12)
    assert ranks.sum() == pytest.approx(k * (k + 1) / 2)


@given(st.integers(2, 8), st.integers(3, 5), seeds)
def test_friedman(n, k, seed):
    values = np.random.default_rng(seed).random((n, k))
    assume(len(np.unique(values)) == n * k)
    sums = n * average_ranks(values)
    chi_square = 12 / (n * k * (k + 1)) * (sums**2).sum() - 3 * n * (k + 1)
    assert friedman_test(values) == pytest.approx(stats.chi2.sf(chi_square, k - 1), rel=1e-9)


def test_friedman_without_enough_to_tell():
    assert friedman_test(np.full((4, 3), 0.5)) == 1
    assert friedman_test(np.tile([[0.1], [0.2]], 3)) == 1
    assert np.isnan(friedman_test(np.array([[1.0, 2.0], [1.0, 2.0]])))
    assert np.isnan(friedman_test(np.array([[1.0, 2.0, 3.0]])))
    assert np.isnan(average_ranks(np.empty((0, 3)))).all()


def test_published_ranks():
    np.testing.assert_allclose(average_ranks(PUBLISHED), [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    sums = 14 * average_ranks(PUBLISHED)
    chi_square = 12 / (14 * 4 * 5) * (sums**2).sum() - 3 * 14 * 5
    assert chi_square == pytest.approx(9.28, abs=5e-3)
    # The published one is not corrected for ties, which are four equal values and three pairs.
    chi_square /= 1 - ((4**3 - 4) + 3 * (2**3 - 2)) / (14 * (4**3 - 4))
    assert friedman_test(PUBLISHED) == pytest.approx(stats.chi2.sf(chi_square, 3), rel=1e-9)
    assert critical_difference(4, 14, 0.05) == pytest.approx(1.25, abs=5e-3)


@pytest.mark.parametrize(
    ("alpha", "quantiles"),
    [
        (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
        (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
    ],
)
def test_published_quantiles(alpha, quantiles):
    for k, quantile in enumerate(quantiles, 2):
        # Some of the published digits are cut, not rounded.
        published = quantile * math.sqrt(k * (k + 1) / 60)
        assert critical_difference(k, 10, alpha) == pytest.approx(published, rel=5e-4)
    assert critical_difference(5, 40, alpha) == pytest.approx(critical_difference(5, 10, alpha) / 2)


def test_no_critical_difference():
    assert np.isnan(critical_difference(1, 5, 0.05))
    assert np.isnan(critical_difference(3, 0, 0.05))
