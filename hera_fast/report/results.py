"""Figures of comparisons as the report shows them: means, marks, and which are best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hera_fast.comparison import Comparison, compare
from hera_fast.experiments.methods import METHODS
from hera_fast.experiments.plans import fold_columns
from hera_fast.experiments.records import Record
from hera_fast.report.formats import as_number, as_numbers

__all__ = [
    "METRICS",
    "Metric",
    "Published",
    "Score",
    "Scores",
    "dataset_titles",
    "main_scores",
    "method_titles",
    "published_of",
    "reference_title",
    "scores_of",
]

_MARKS = {"win": "•", "tie": "", "loss": "◦"}


class Metric(NamedTuple):
    """A figure that methods are compared by.

    Attributes
    ----------
    title : str
        What stands above a table of it.
    label : str
        What stands beside an axis of it.
    more_is_better : bool
        Whether the largest mean is the best one.
    digits : int
        Decimals.
    """

    title: str
    label: str
    more_is_better: bool = True
    digits: int = 3


#: By the name in records, in the order of tables.
METRICS = {
    "inductive": Metric("Accuracy on held-out rows", "held-out accuracy"),
    "lift": Metric("Predictions among the candidates, above chance", "lift"),
    "transductive": Metric("True candidates found in training rows", "accuracy, training rows"),
    "covering": Metric("Predictions among the candidates of held-out rows", "covering rate"),
    "macro_f1": Metric("Macro F1 on held-out rows", "macro F1"),
    "log_loss": Metric("Log loss on held-out rows", "log loss", more_is_better=False),
    "mae3": Metric("Predictions that differ by at most 3", "within 3"),
    "mae5": Metric("Predictions that differ by at most 5", "within 5"),
    "fit_seconds": Metric("Seconds to fit", "seconds to fit", more_is_better=False, digits=2),
    "predict_seconds": Metric("Seconds to predict", "seconds to predict", False, 3),
    "n_iter": Metric("Iterations", "iterations", False, 0),
    "n_warnings": Metric("Warnings", "warnings", False, 1),
}


class Score(NamedTuple):
    """A method on a data set.

    Attributes
    ----------
    mean, sd : float
        Over folds; NaN if there are too few.
    mark : str
        Against the reference: ``"•"`` if worse, ``"◦"`` if better, by the paired t-test.
    is_best : bool
        Whether no method has a better mean.
    """

    mean: float
    sd: float
    mark: str
    is_best: bool


class Published(NamedTuple):
    """What was printed about a method on a data set, and what is wrong about it."""

    mean: float
    sd: float
    mark: str
    error: str | None


@dataclass(frozen=True, eq=False)
class Scores:
    """One figure of all methods on all data sets.

    Attributes
    ----------
    metric : str
        One of `METRICS`.
    comparison : Comparison
        Tests and ranks; methods have their titles there.
    datasets, methods : list of str
        Names of data sets, titles of methods.
    cells : dict of (str, str) to Score
        By both. What has no figures is missing.
    """

    metric: str
    comparison: Comparison
    datasets: list[str]
    methods: list[str]
    cells: dict[tuple[str, str], Score]

    @property
    def about(self) -> Metric:
        """What is known about the metric."""
        return METRICS[self.metric]

    def count(self, mark: str) -> int:
        """Count the cells with a mark; with ``""`` those that tie, but for the reference."""
        return sum(
            score.mark == mark
            for (_, method), score in self.cells.items()
            if method != self.comparison.reference
        )


def method_titles(methods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return titles of methods by their names; what is there twice keeps its name.

    Examples
    --------
    >>> from hera_fast.report.results import method_titles
    >>> method_titles([{"name": "hera", "title": "HERA"}, {"name": "a", "title": None}])
    {'hera': 'HERA', 'a': 'a'}
    """
    titles = {str(each["name"]): str(each.get("title") or each["name"]) for each in methods}
    counts = list(titles.values())
    return {name: title if counts.count(title) == 1 else name for name, title in titles.items()}


def reference_title(record: Record) -> str:
    """Return the title of the method that the others of a record are compared with.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.results import reference_title
    >>> reference_title(Record("a", "win-tie-loss", "A", {"reference": "hera"}))
    'HERA'
    """
    name = str(record.body.get("reference"))
    titles = method_titles(record.body.get("methods") or [])
    return titles.get(name, METHODS[name].title if name in METHODS else name)


def dataset_titles(record: Record) -> dict[str, str]:
    """Return titles of data sets by their names.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.results import dataset_titles
    >>> dataset_titles(Record("a", "curves", "A", {}, datasets=[{"name": "b", "title": "B"}]))
    {'b': 'B'}
    """
    return {str(each["name"]): str(each.get("title") or each["name"]) for each in record.datasets}


def scores_of(record: Record, metric: str, *, dataset: str | None = None) -> Scores | None:
    """Collect a figure of a comparison.

    Parameters
    ----------
    record : Record
        A comparison or an ablation.
    metric : str
        One of `METRICS`.
    dataset : str or None, default=None
        The only data set to take. None takes all.

    Returns
    -------
    scores : Scores or None
        None if there is no such figure.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.results import scores_of
    >>> results = [{"dataset": "a", "method": "m", "figures": {"lift": [0.5, 0.25]}}]
    >>> body = {"reference": "m", "methods": [{"name": "m", "title": "M"}], "results": results}
    >>> scores_of(Record("mine", "comparison", "Mine", body), "lift").cells["a", "M"].mean
    0.375
    """
    titles = method_titles(record.body["methods"])
    results = [
        {
            "dataset": str(result["dataset"]),
            "method": titles.get(str(result["method"]), str(result["method"])),
            "figures": {metric: as_numbers(result["figures"].get(metric)).tolist()},
        }
        for result in record.body["results"]
        if dataset in (None, result["dataset"])
    ]
    columns = fold_columns(results, metric)
    if not np.isfinite(columns[metric]).any():
        return None
    names = list(dict.fromkeys(columns["estimator"]))
    # In the order of the record, whatever the order of the results.
    names.sort(key=lambda name: list(titles.values()).index(name) if name in titles.values() else 0)
    wanted = titles.get(str(record.body.get("reference")), "")
    comparison = compare(columns, metric=metric, reference=wanted if wanted in names else names[0])
    return Scores(
        metric,
        comparison,
        list(dict.fromkeys(columns["dataset"])),
        names,
        _cells(comparison, METRICS[metric].more_is_better),
    )


def main_scores(record: Record) -> Scores | None:
    """Collect the figure that methods are judged by: accuracy, or without truth the lift.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.results import main_scores
    >>> main_scores(Record("a", "comparison", "A", {"methods": [], "results": []})) is None
    True
    """
    for metric in ("inductive", "lift", "covering"):
        scores = scores_of(record, metric)
        if scores is not None:
            return scores
    return None


def published_of(record: Record) -> dict[tuple[str, str], Published]:
    """Return what was printed, by data set and title of the method.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.results import published_of
    >>> body = {"methods": [], "published": {"lost": {"hera": {"mean": 0.712, "sd": None}}}}
    >>> published_of(Record("a", "comparison", "A", body))["lost", "hera"].mean
    0.712
    """
    titles = method_titles(record.body["methods"])
    found = {}
    for dataset, row in (record.body.get("published") or {}).items():
        for method, cell in row.items():
            error = cell.get("error")
            found[dataset, titles.get(method, method)] = Published(
                as_number(cell.get("mean")),
                as_number(cell.get("sd")),
                str(cell.get("mark") or ""),
                None if error is None else str(error),
            )
    return found


def _cells(comparison: Comparison, more_is_better: bool) -> dict[tuple[str, str], Score]:
    summary, tests = comparison.summary, comparison.tests
    outcomes = zip(tests["dataset"], tests["estimator"], tests["outcome"], strict=True)
    marks = {(dataset, name): _MARKS[outcome] for dataset, name, outcome in outcomes}
    columns = [np.asarray(summary[name]).tolist() for name in ("dataset", "estimator", "mean")]
    means = {
        (dataset, name): mean
        for dataset, name, mean in zip(*columns, strict=True)
        if math.isfinite(mean)
    }
    sds = dict(zip(zip(*columns[:2], strict=True), np.asarray(summary["sd"]), strict=True))
    choose = max if more_is_better else min
    best = {
        dataset: choose(mean for (other, _), mean in means.items() if other == dataset)
        for dataset, _ in means
    }
    return {
        key: Score(mean, float(sds[key]), marks.get(key, ""), mean == best[key[0]])
        for key, mean in means.items()
    }
