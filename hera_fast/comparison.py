"""Which estimator is better: means, paired tests, ranks, and a text that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_consistent_length

from hera_fast.significance import (
    average_ranks,
    critical_difference,
    friedman_test,
    t_tests,
    wilcoxon_test,
)
from hera_fast.tables import make_table

__all__ = ["Comparison", "compare"]

_Array = np.ndarray[Any, Any]

_LESS_IS_BETTER = ("fit_seconds", "log_loss", "n_iter", "n_warnings", "predict_seconds")
# Decimals that count: beyond them, figures differ by rounding errors only.
_DECIMALS = 12
_OUTCOMES = {1: "win", 0: "tie", -1: "loss"}
_MARKS = {"win": " •", "tie": "", "loss": " ◦"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found; ``print`` shows the most important of it.

    The tables are data frames, or dicts of arrays without pandas. `summary` and `tests` have a
    column ``dataset`` if the results had one.

    Attributes
    ----------
    metric : str
        The column that was compared.
    reference : str
        The estimator that the others are compared with.
    alpha : float
        Level of significance.
    summary : table
        For each data set and each ``estimator`` its ``mean``, its ``sd`` (with n - 1) and
        ``n_folds``, the number of figures.
    tests : table
        For each data set and each ``estimator`` that has folds in common with the reference:
        ``difference``, the mean of the reference minus the estimator; ``t_test`` and ``wilcoxon``,
        p values over folds; ``outcome``, by the t-test and for the reference: win, tie or loss;
        ``wilcoxon_outcome``, the same by Wilcoxon's test.
    pairs : table
        For each ordered pair of an ``estimator`` and an ``other``: on how many data sets there was
        a ``win``, a ``tie`` and a ``loss`` of the former, by the t-test over folds; ``wilcoxon``,
        the p value over the means on the data sets, NaN with fewer than two of them.
    ranks : table
        The average ``rank`` of each ``estimator``, 1 for the best; equal figures share ranks.
        Over data sets if there are several, else over folds.
    n_blocks : int
        The number of data sets or folds that were ranked.
    friedman : float
        The p value of the Friedman test of the ranks; NaN for fewer than three estimators or two
        blocks.
    critical_difference : float
        Ranks that differ by this or more differ significantly, by the Nemenyi test.

    Examples
    --------
    >>> from hera_fast.comparison import compare
    >>> results = {"estimator": ["a", "a", "b", "b"], "fold": [0, 1, 0, 1]}
    >>> comparison = compare({**results, "inductive": [0.5, 0.75, 0.5, 0.5]})
    >>> comparison.reference, comparison.summary["mean"].tolist()
    ('a', [0.625, 0.5])
    >>> comparison.ranks["rank"].tolist()
    [1.25, 1.75]
    """

    metric: str
    reference: str
    alpha: float
    summary: Any
    tests: Any
    pairs: Any
    ranks: Any
    n_blocks: int
    friedman: float
    critical_difference: float

    def __str__(self) -> str:
        """Return means with marks, counts of wins, ranks, and what the marks mean."""
        datasets = list(dict.fromkeys(dataset for dataset, _ in _keys(self.summary)))
        level = f"at the level {self.alpha:g}"
        lines = [f"{self.metric}, mean ± standard deviation over folds", *self._table(datasets)]
        if len(self.tests["outcome"]):
            lines += [
                f"• worse, ◦ better than {self.reference} by the paired t-test over folds {level}",
                f"win/tie/loss of {self.reference}: {self._counts('outcome')}",
                f"by Wilcoxon's test over folds: {self._counts('wilcoxon_outcome')}",
            ]
        ranks = zip(self.ranks["estimator"], self.ranks["rank"], strict=True)
        lines += [
            f"average ranks over {self.n_blocks} {'data sets' if len(datasets) > 1 else 'folds'}: "
            + ", ".join(f"{name} {rank:.2f}" for name, rank in ranks),
            f"critical difference {self.critical_difference:.2f} (Nemenyi) {level}; "
            f"Friedman test p = {self.friedman:.2g}",
        ]
        return "\n".join(lines)

    def _table(self, datasets: list[Any]) -> list[str]:
        """Align the cells; the rows are data sets, or estimators if there is one data set only."""
        outcomes = dict(zip(_keys(self.tests), self.tests["outcome"], strict=True))
        figures = zip(*(self.summary[column] for column in ("mean", "sd", "n_folds")), strict=True)
        cells = {
            key: f"{mean:.3f} ± {sd:.3f}{_MARKS[outcomes.get(key, 'tie')]}" if n else "-"
            for key, (mean, sd, n) in zip(_keys(self.summary), figures, strict=True)
        }
        names = list(self.ranks["estimator"])
        if len(datasets) == 1:
            table = [[name, cells[datasets[0], name]] for name in names]
        else:
            table = [["", *names]]
            table += [[str(d), *(cells[d, name] for name in names)] for d in datasets]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]

    def _counts(self, column: str) -> str:
        outcomes = list(zip(self.tests["estimator"], self.tests[column], strict=True))
        return ", ".join(
            "/".join(str(outcomes.count((other, outcome))) for outcome in _OUTCOMES.values())
            + f" against {other}"
            for other in dict.fromkeys(self.tests["estimator"])
        )


def compare(
    results: Any, *, metric: str = "inductive", reference: str | None = None, alpha: float = 0.05
) -> Comparison:
    """Compare estimators by a figure that each of them has in the same folds.

    Parameters
    ----------
    results : data frame, or dict of str to array-like
        As :func:`~hera_fast.evaluation.cross_validate_partial` returns it, with the columns
        ``estimator``, ``fold`` and `metric`. Tables of several data sets can be concatenated if
        they have the column ``dataset``.
    metric : str, default="inductive"
        The column to compare. Of ``log_loss``, ``fit_seconds``, ``predict_seconds``, ``n_iter``
        and ``n_warnings`` less is better, of all others more.
    reference : str, default=None
        The estimator that the others are compared with. None takes the one with the best mean
        over what is ranked.
    alpha : float, default=0.05
        Level of significance.

    Returns
    -------
    comparison : Comparison
        Its ``str`` is a text to read, its attributes are tables.

    Raises
    ------
    ValueError
        If a column is missing or without figures, if a fold of an estimator is there twice, or if
        there is no such reference.

    Notes
    -----
    The tests over folds are customary and optimistic: folds share most of their training rows, so
    that their figures depend on each other, and differences look more significant than they are
    [1]_. The tests over data sets do not have this fault [2]_: Wilcoxon's test in `pairs`, and the
    Friedman and Nemenyi tests of the ranks of several data sets. Nothing is corrected for the
    number of tests.

    Folds are paired by their numbers. What is missing, NaN or infinite does not count: a test takes
    the folds that both estimators have, a rank the data sets (or folds) that all estimators have,
    but for estimators without any figure, which have no rank. A p value is 1 if all differences
    are zero, in the t-test 0 if all are equal and not zero, and NaN if there are fewer than two,
    which makes a tie. Figures are rounded to 12 decimals first.

    References
    ----------
    .. [1] T. G. Dietterich: Approximate statistical tests for comparing supervised classification
       learning algorithms. Neural Computation 10, 1998.
    .. [2] J. Demšar: Statistical comparisons of classifiers over multiple data sets. Journal of
       Machine Learning Research 7, 2006.

    Examples
    --------
    >>> from hera_fast.comparison import compare
    >>> results = {
    ...     "estimator": ["new"] * 4 + ["old"] * 4,
    ...     "fold": [0, 1, 2, 3] * 2,
    ...     "inductive": [0.8, 0.9, 0.8, 0.9, 0.7, 0.8, 0.7, 0.7],
    ... }
    >>> print(compare(results))
    inductive, mean ± standard deviation over folds
    new  0.850 ± 0.058
    old  0.725 ± 0.050 •
    • worse, ◦ better than new by the paired t-test over folds at the level 0.05
    win/tie/loss of new: 1/0/0 against old
    by Wilcoxon's test over folds: 0/1/0 against old
    average ranks over 4 folds: new 1.00, old 2.00
    critical difference 0.98 (Nemenyi) at the level 0.05; Friedman test p = nan
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    figures = _collect(results, metric)
    names = figures.names
    sign = -1 if metric in _LESS_IS_BETTER else 1
    blocks = _moments(figures.values)[0] if len(figures.datasets) > 1 else figures.values[0]
    blocks, ranked = _complete(sign * blocks)
    ranks = np.full(len(names), np.nan)
    ranks[ranked] = average_ranks(blocks)
    if reference is None:
        reference = names[_best(blocks, ranked)]
    if reference not in names:
        raise ValueError(f"the reference {reference!r} is none of the estimators {names}")

    duels = _all_duels(figures.values, sign, alpha)
    by_dataset = ["dataset"] if "dataset" in _columns(results) else []
    return Comparison(
        metric=metric,
        reference=reference,
        alpha=alpha,
        summary=make_table(_summary(figures), [*by_dataset, "estimator", "mean", "sd", "n_folds"]),
        tests=make_table(
            _tests(figures, duels, names.index(reference), sign, alpha),
            [
                *(*by_dataset, "estimator", "difference"),
                *("t_test", "wilcoxon", "outcome", "wilcoxon_outcome"),
            ],
        ),
        pairs=make_table(
            _pairs(figures, duels), ["estimator", "other", *_OUTCOMES.values(), "wilcoxon"]
        ),
        ranks=make_table(
            [{"estimator": name, "rank": rank} for name, rank in zip(names, ranks, strict=True)],
            ["estimator", "rank"],
        ),
        n_blocks=len(blocks),
        friedman=friedman_test(blocks),
        critical_difference=critical_difference(len(ranked), len(blocks), alpha),
    )


class _Figures(NamedTuple):
    """Figures by data set, fold and estimator; NaN where there is none."""

    datasets: list[Any]
    names: list[str]
    values: _Array


class _Duels(NamedTuple):
    """Each estimator against each other one on each data set; NaN if they share no fold."""

    by_fold: _Array
    difference: _Array
    p: _Array
    outcome: _Array


def _columns(results: Any) -> list[str]:
    return list(getattr(results, "columns", results))


def _collect(results: Any, metric: str) -> _Figures:
    names = _columns(results)
    for name in ("estimator", "fold", metric):
        if name not in names:
            raise ValueError(f"the results have no column {name!r}, but only {names}")
    figures = np.round(np.asarray(results[metric], np.float64), _DECIMALS)
    datasets = results["dataset"] if "dataset" in names else [""] * len(figures)
    keys = [np.asarray(key).tolist() for key in (datasets, results["fold"], results["estimator"])]
    check_consistent_length(figures, *keys)
    # Each label in the order of its first occurrence.
    positions = [{label: i for i, label in enumerate(dict.fromkeys(key))} for key in keys]
    values = np.full([len(position) for position in positions], np.nan)
    seen = set()
    for place, figure in zip(zip(*keys, strict=True), figures, strict=True):
        if place in seen:
            of = f" of the data set {place[0]!r}" if "dataset" in names else ""
            raise ValueError(f"fold {place[1]} of {place[2]!r}{of} is there more than once")
        seen.add(place)
        if np.isfinite(figure):
            values[tuple(p[label] for p, label in zip(positions, place, strict=True))] = figure
    if np.isnan(values).all():
        raise ValueError(f"the column {metric!r} has no figures, only NaN")
    return _Figures(list(positions[0]), list(positions[2]), values)


def _moments(values: _Array) -> tuple[_Array, _Array, _Array]:
    """Return mean, standard deviation and number of the figures of all folds, the second axis."""
    n = np.isfinite(values).sum(axis=1)
    mean = np.nansum(values, axis=1) / np.where(n > 0, n, np.nan)
    squares = np.nansum((values - mean[:, None]) ** 2, axis=1)
    return np.round(mean, _DECIMALS), np.sqrt(squares / np.where(n > 1, n - 1, np.nan)), n


def _complete(blocks: _Array) -> tuple[_Array, _Array]:
    """Leave out estimators without figures, then blocks that lack a figure of the others."""
    ranked = np.flatnonzero(np.isfinite(blocks).any(axis=0))
    blocks = blocks[:, ranked]
    return blocks[np.isfinite(blocks).all(axis=1)], ranked


def _best(blocks: _Array, ranked: _Array) -> int:
    if len(blocks) == 0:
        raise ValueError(
            "no data set, or no fold of the only one, has figures of all estimators, so that none "
            "has the best mean: name a reference"
        )
    return int(ranked[np.round(blocks.mean(axis=0), _DECIMALS).argmax()])


def _all_duels(values: _Array, sign: int, alpha: float) -> _Duels:
    by_fold = np.round(values[:, :, :, None] - values[:, :, None, :], _DECIMALS)
    difference, _, _ = _moments(by_fold)
    p = t_tests(np.moveaxis(by_fold, 1, 0))
    return _Duels(by_fold, difference, p, np.sign(sign * difference) * (p < alpha))


def _summary(figures: _Figures) -> list[dict[str, Any]]:
    mean, sd, n = _moments(figures.values)
    return [
        {"dataset": dataset, "estimator": name, "mean": mean[at], "sd": sd[at], "n_folds": n[at]}
        for d, dataset in enumerate(figures.datasets)
        for i, name in enumerate(figures.names)
        for at in [(d, i)]
    ]


def _tests(
    figures: _Figures, duels: _Duels, reference: int, sign: int, alpha: float
) -> list[dict[str, Any]]:
    rows = []
    for d, dataset in enumerate(figures.datasets):
        for i, name in enumerate(figures.names):
            if i == reference or not np.isfinite(duels.outcome[d, reference, i]):
                continue
            difference = duels.difference[d, reference, i]
            wilcoxon = wilcoxon_test(duels.by_fold[d, :, reference, i])
            rows.append(
                {
                    "dataset": dataset,
                    "estimator": name,
                    "difference": difference,
                    "t_test": duels.p[d, reference, i],
                    "wilcoxon": wilcoxon,
                    "outcome": _OUTCOMES[duels.outcome[d, reference, i]],
                    "wilcoxon_outcome": _OUTCOMES[np.sign(sign * difference) * (wilcoxon < alpha)],
                }
            )
    return rows


def _pairs(figures: _Figures, duels: _Duels) -> list[dict[str, Any]]:
    means, _, _ = _moments(figures.values)
    return [
        {
            "estimator": figures.names[i],
            "other": figures.names[j],
            **{
                outcome: int((duels.outcome[:, i, j] == number).sum())
                for number, outcome in _OUTCOMES.items()
            },
            "wilcoxon": wilcoxon_test(np.round(means[:, i] - means[:, j], _DECIMALS)),
        }
        for i, j in permutations(range(len(figures.names)), 2)
    ]


def _keys(table: Any) -> list[tuple[Any, str]]:
    """Return data set and estimator of each row."""
    names = table["estimator"]
    datasets = table["dataset"] if "dataset" in _columns(table) else [""] * len(names)
    return list(zip(datasets, names, strict=True))
