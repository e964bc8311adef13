"""Variants of the default, measured on all data sets, for the studies of these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from study import CANDIDATES, REAL, UCI, column, print_rows, real_sets, uci_set

from hera_fast import HERAClassifier, cross_validate_partial, make_partial_labels
from hera_fast.task_progress import task_progress
from hera_fast.threads import threads

DEFAULT = "the default"
REAL_FOLDS, UCI_FOLDS = 3, 2
UCI_ROWS = 1500


class Variant(NamedTuple):
    """The default with other parameters, or with something replaced in the library."""

    parameters: dict[str, Any] = {}  # noqa: RUF012
    #: Triples of a module or class, the name of an attribute and what stands for it.
    replaced: tuple[tuple[Any, str, Any], ...] = ()
    #: Makes an estimator of the classifier.
    wrap: Callable[[Any], Any] = lambda model: model


class Problem(NamedTuple):
    """A data set with one kind of candidates."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    y: np.ndarray
    n_folds: int


def problems(seed: int) -> list[Problem]:
    """The real sets, and three for each of the others."""
    found = [
        Problem(name, data.data, data.candidates, data.target, REAL_FOLDS)
        for name, data in real_sets().items()
    ]
    for name in UCI:
        X, y = uci_set(name)
        rows = np.random.RandomState(seed).permutation(len(X))[:UCI_ROWS]
        # Rare labels may be missing.
        X, y = X[rows], np.unique(y[rows], return_inverse=True)[1]
        for options in CANDIDATES.values():
            Y = make_partial_labels(y, random_state=seed, **options)
            found.append(Problem(name, X, Y, y, UCI_FOLDS))
    return found


class Figures(NamedTuple):
    """How good the predictions for held-out rows are."""

    accuracy: float
    log_loss: float


def evaluate(variant: Variant, problem: Problem, seed: int) -> Figures:
    """Means over the folds, on one thread."""
    model = variant.wrap(HERAClassifier(random_state=0, **variant.parameters))
    with ExitStack() as stack:
        stack.enter_context(threads(1))
        for replaced in variant.replaced:
            stack.enter_context(patch.object(*replaced))
        table = cross_validate_partial(
            *({"": model}, problem.X, problem.Y, problem.y),
            cv=problem.n_folds,
            random_state=seed,
        )
    return Figures(*(float(column(table, "", name).mean()) for name in ("inductive", "log_loss")))


def measure(
    variants: dict[Any, Variant],
    seed: int,
    where: Callable[[Any, str], bool] = lambda variant, name: True,
) -> dict[Any, dict[str, Figures]]:
    """Figures of variants on data sets, on two processes; means over the kinds of candidates.

    The seed makes folds and candidates. `where` says whether a variant is measured on a data set.
    """
    cases = problems(seed)
    tasks = [(name, each) for name in variants for each in cases if where(name, each.name)]
    results = Parallel(n_jobs=2, return_as="generator")(
        delayed(evaluate)(variants[name], problem, seed) for name, problem in tasks
    )
    figures: dict[Any, dict[str, list[Figures]]] = {name: {} for name in variants}
    with task_progress("fits", len(tasks), is_shown=True) as advance:
        for (name, problem), result in zip(tasks, results, strict=True):
            figures[name].setdefault(problem.name, []).append(result)
            advance()
    return {
        name: {problem: Figures(*np.mean(of_one, axis=0)) for problem, of_one in of_variant.items()}
        for name, of_variant in figures.items()
    }


def print_changes(title: str, results: dict[str, dict[str, Figures]]) -> tuple[Any, Any]:
    """Print figures; return changes of accuracy against the default, and which sets are real."""
    names = list(results[DEFAULT])
    figures = np.array([[of_one[name] for name in names] for of_one in results.values()])
    accuracies, log_losses = figures[..., 0], figures[..., 1]
    changes = accuracies - accuracies[0]
    is_real = np.array([name in REAL for name in names])
    everywhere = np.ones(len(names), bool)
    rows = []
    for place, variant in enumerate(results):
        change = changes[place]
        without_one = (change.sum() - change) / (len(names) - 1)
        rows.append(
            [
                variant,
                *(f"{value:.3f}" for value in accuracies[place, is_real]),
                f"{accuracies[place, ~is_real].mean():.3f}",
                *(f"{change[of].mean():+.4f}" for of in (is_real, ~is_real, everywhere)),
                f"{without_one.min():+.4f} to {without_one.max():+.4f}",
                f"{log_losses[place].mean():.3f}",
            ]
        )
    real = [name for name in names if name in REAL]
    others = f"{np.sum(~is_real)} UCI sets"
    header = ["", *real, others, "change, real", "change, UCI", "change, all", "without one set"]
    header.append("log loss")
    print_rows(f"{title}, held-out accuracy", header, rows)
    return changes, is_real
