"""What an experiment consists of, and what several of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hera_fast.comparison import Comparison, compare
from hera_fast.experiments.cells import Cell, Result
from hera_fast.experiments.methods import METHODS
from hera_fast.experiments.published import REAL_SETS, UCI_SETS
from hera_fast.experiments.sources import LETTER_ROWS, Source

__all__ = [
    "TITLES",
    "Experiment",
    "Finding",
    "Scope",
    "compare_results",
    "fold_columns",
    "list_methods",
    "make_source",
]

TITLES = {**REAL_SETS, **UCI_SETS}


class Scope(NamedTuple):
    """How much of an experiment is run.

    Attributes
    ----------
    datasets : tuple of str
        Names of the data sets, those of the experiment that are there.
    fast : bool
        A part that takes minutes.
    folds : int
        Folds of each cross-validation.
    seed : int
        Shuffles folds, draws candidates.
    """

    datasets: tuple[str, ...]
    fast: bool = False
    folds: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Finding:
    """What an experiment found: kind, title, body and notes of a record.

    `name` is that of the experiment unless there are several findings.
    """

    kind: str
    title: str
    body: dict[str, Any]
    notes: Sequence[str] = ()
    name: str = ""


class Experiment(NamedTuple):
    """A table or a figure.

    Attributes
    ----------
    summary : str
        What it shows.
    datasets : callable
        From whether it is to be fast to the names of its data sets.
    cells : callable
        From a scope to what has to be computed.
    find : callable
        From a scope, the cells, their results and the number of processes to the findings.
    """

    summary: str
    datasets: Callable[[bool], Sequence[str]]
    cells: Callable[[Scope], list[Cell]]
    find: Callable[[Scope, list[Cell], list[Result], int], list[Finding]]


def make_source(name: str) -> Source:
    """Return where a data set of the paper comes from; of Letter a part.

    Examples
    --------
    >>> from hera_fast.experiments.plans import make_source
    >>> make_source("letter").subset
    5000
    """
    return Source(name, subset=LETTER_ROWS if name == "letter" else None)


def list_methods(names: Sequence[str]) -> list[dict[str, str]]:
    """Return names and titles of methods, for a record.

    Examples
    --------
    >>> from hera_fast.experiments.plans import list_methods
    >>> list_methods(["pl-knn"])
    [{'name': 'pl-knn', 'title': 'PL-KNN'}]
    """
    return [{"name": name, "title": METHODS[name].title} for name in names]


def fold_columns(results: Iterable[Mapping[str, Any]], metric: str) -> dict[str, list[Any]]:
    """Make the columns that :func:`hera_fast.compare` takes from the results of a record.

    Parameters
    ----------
    results : iterable of mapping
        Each with ``dataset``, ``method`` and ``figures``.
    metric : str
        Which of the figures. None stands for NaN.

    Returns
    -------
    columns : dict of str to list
        ``dataset``, ``estimator``, ``fold`` and the metric.

    Examples
    --------
    >>> from hera_fast.experiments.plans import fold_columns
    >>> result = {"dataset": "a", "method": "hera", "figures": {"inductive": [0.9, None]}}
    >>> fold_columns([result], "inductive")["inductive"]
    [0.9, nan]
    """
    columns: dict[str, list[Any]] = {"dataset": [], "estimator": [], "fold": [], metric: []}
    for result in results:
        figures = result["figures"].get(metric, [])
        columns["dataset"] += [result["dataset"]] * len(figures)
        columns["estimator"] += [result["method"]] * len(figures)
        columns["fold"] += range(len(figures))
        columns[metric] += [math.nan if figure is None else figure for figure in figures]
    return columns


def compare_results(
    results: Sequence[Mapping[str, Any]], *, metric: str, reference: str | None
) -> Comparison:
    """Compare the results of a record.

    Parameters
    ----------
    results : sequence of mapping
        Each with ``dataset``, ``method`` and ``figures``, as in a record.
    metric : str
        Which of the figures.
    reference : str or None
        The method that others are compared with.

    Returns
    -------
    comparison : Comparison

    Examples
    --------
    >>> from hera_fast.experiments.plans import compare_results
    >>> results = [
    ...     {"dataset": "a", "method": "hera", "figures": {"inductive": [0.9, 0.8]}},
    ...     {"dataset": "a", "method": "clpl", "figures": {"inductive": [0.7, None]}},
    ... ]
    >>> compare_results(results, metric="inductive", reference="hera").summary["mean"].tolist()
    [0.85, 0.7]
    """
    return compare(fold_columns(results, metric), metric=metric, reference=reference)
