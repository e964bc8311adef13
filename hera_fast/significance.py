"""Tests of paired figures: of two methods by their differences, of several by their ranks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["average_ranks", "critical_difference", "friedman_test", "t_tests", "wilcoxon_test"]

_Array = np.ndarray[Any, Any]


def t_tests(differences: _Array) -> _Array:
    """Return the p values of paired t-tests, two-sided.

    Parameters
    ----------
    differences : ndarray of shape (n, ...)
        What two methods differ by in n folds; along the other axes for several pairs of methods.
        NaN does not count.

    Returns
    -------
    p : ndarray of shape (...)
        1 if all differences are zero; 0, but for rounding errors, if all are equal and not zero;
        NaN if there are fewer than two.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.significance import t_tests
    >>> t_tests(np.array([[0.1, 0.0], [0.1, 0.0], [0.1, 0.0], [0.2, 0.0]])).round(4).tolist()
    [0.0154, 1.0]
    """
    # SciPy warns where a variance is zero or there are few values; what it returns is right.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        p = stats.ttest_1samp(differences, 0, axis=0, nan_policy="omit").pvalue
    has_two = np.isfinite(differences).sum(axis=0) >= 2
    is_zero = ~np.nan_to_num(differences).any(axis=0)
    return np.where(has_two, np.where(is_zero, 1.0, p), np.nan)


def wilcoxon_test(differences: _Array) -> float:
    """Return the p value of Wilcoxon's signed-rank test, two-sided.

    Parameters
    ----------
    differences : ndarray of shape (n,)
        What two methods differ by in n folds or on n data sets. NaN does not count.

    Returns
    -------
    p : float
        Exact, also where differences are equal. Zeros are left out; 1 if all differences are zero,
        NaN if there are fewer than two.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.significance import wilcoxon_test
    >>> wilcoxon_test(np.array([0.1, 0.2, 0.3, 0.4]))  # 2 of 16 signs are as extreme
    0.125
    """
    differences = differences[np.isfinite(differences)]
    if len(differences) < 2:
        return float("nan")
    differences = differences[differences != 0]
    # Twice the ranks are whole numbers, also those of equal differences. SciPy tries all signs
    # where there are such, which takes up to seconds, or approximates.
    ranks = np.rint(2 * stats.rankdata(np.abs(differences))).astype(np.intp)
    share = np.ones(1)  # of all signs, by the sum of the ranks with a positive sign
    for rank in ranks:
        both = np.zeros(len(share) + rank)
        both[: len(share)] = share
        both[rank:] += share
        share = both / 2
    positive = ranks[differences > 0].sum()
    smaller = min(positive, ranks.sum() - positive)
    return min(1.0, 2 * float(share[: smaller + 1].sum()))


def average_ranks(values: _Array) -> _Array:
    """Rank methods in each block, the largest value first, and average over the blocks.

    Parameters
    ----------
    values : ndarray of shape (n_blocks, n_methods)
        Figures of the methods, finite. A block is a data set or a fold.

    Returns
    -------
    ranks : ndarray of shape (n_methods,)
        From 1, the best, to `n_methods`. Equal values share their ranks. NaN without blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.significance import average_ranks
    >>> average_ranks(np.array([[0.9, 0.8, 0.7], [0.5, 0.6, 0.5]])).tolist()
    [1.75, 1.5, 2.75]
    """
    if len(values) == 0:
        return np.full(values.shape[1], np.nan)
    ranks: _Array = stats.rankdata(-values, axis=1).mean(axis=0)
    return ranks


def friedman_test(values: _Array) -> float:
    """Return the p value of the Friedman test that all methods are alike.

    Parameters
    ----------
    values : ndarray of shape (n_blocks, n_methods)
        Figures of the methods, finite.

    Returns
    -------
    p : float
        1 if the methods are equal in each block, NaN for fewer than two blocks or three methods.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.significance import friedman_test
    >>> round(friedman_test(np.array([[3.0, 2.0, 1.0]] * 4)), 4)  # chi-square is 8
    0.0183
    """
    n_blocks, n_methods = values.shape
    if n_blocks < 2 or n_methods < 3:
        return float("nan")
    if (values == values[:, :1]).all():
        return 1.0
    return float(stats.friedmanchisquare(*values.T).pvalue)


def critical_difference(n_methods: int, n_blocks: int, alpha: float) -> float:
    """Return by how much average ranks must differ, according to the Nemenyi test.

    Parameters
    ----------
    n_methods, n_blocks : int
        Number of methods k, and of blocks N over which ranks were averaged.
    alpha : float
        Level of significance.

    Returns
    -------
    difference : float
        ``q sqrt(k (k + 1) / (6 N))``, where q is the upper quantile of the studentized range of k
        normal variables over the root of 2. NaN for fewer than two methods, or no block.

    Examples
    --------
    >>> from hera_fast.significance import critical_difference
    >>> round(critical_difference(4, 14, 0.05), 2)
    1.25
    """
    if n_methods < 2 or n_blocks < 1:
        return float("nan")
    q = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))
