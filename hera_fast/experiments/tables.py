"""The paper's tables: accuracies on real data sets, counts on controlled ones; an ablation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hera_fast.experiments.cells import Cell, Result
from hera_fast.experiments.methods import METHODS, OTHERS, SEVEN
from hera_fast.experiments.plans import (
    TITLES,
    Experiment,
    Finding,
    Scope,
    compare_results,
    list_methods,
    make_source,
)
from hera_fast.experiments.published import (
    ACCURACIES,
    CONFIGURATIONS,
    COUNT_SUMS,
    COUNTS,
    REAL_SETS,
    UCI_SETS,
    find_accuracy_errors,
    find_count_errors,
)

__all__ = [
    "ABLATION",
    "TABLE_REAL",
    "TABLE_UCI",
    "configurations",
    "describe_configuration",
    "validation_results",
]

_Configuration = tuple[tuple[str, Any], ...]

_SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(1, 8))
_FALSE_LABELS = (1, 2, 3)
_FAST: tuple[_Configuration, ...] = (
    (("p", 0.7), ("r", 1)),
    (("p", 0.7), ("r", 3)),
    (("epsilon", 0.7),),
)
_PAPER = ("hera-paper", "hera-paper-100")
_ORDERED = ("fg-net",)
# Those that take minutes with every variant.
_FOUR_SETS = ("lost", "msrcv2", "birdsong", "fg-net")

#: Parameters of HERA that differ from the default in each variant, and its title.
_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "hera": ("the default", {}),
    "features": ("features only", {"kernel": None}),
    "rbf": ("Gaussian kernel only", {"kernel": "rbf"}),
    "laplacian": ("Laplacian kernel only", {"kernel": "laplacian"}),
    "ranking": ("with the ranking loss", {"ranking": True}),
    "low-rank": ("with low rank, nu = 0.1", {"nu": 0.1}),
    "one-label": ("drawn to one label, mu = 0.5", {"mu": 0.5}),
    "neighbors": ("with neighbours", {"prediction": "hybrid"}),
    "gaussian": ("one Gaussian discriminant", {"calibration": "gaussian"}),
    "least-squares": ("least squares, ranking loss", {"calibration": None, "ranking": True}),
}


def configurations(*, fast: bool = False) -> tuple[_Configuration, ...]:
    """Return the kinds of artificial candidates: (p, r), then epsilon.

    Parameters
    ----------
    fast : bool, default=False
        Three of them instead of 28.

    Returns
    -------
    configurations : tuple
        Options of :func:`hera_fast.make_partial_labels`, as pairs.

    Examples
    --------
    >>> from hera_fast.experiments.tables import configurations
    >>> len(configurations()), configurations()[0]
    (28, (('p', 0.1), ('r', 1)))
    """
    if fast:
        return _FAST
    pairs = tuple((("p", p), ("r", r)) for r in _FALSE_LABELS for p in _SHARES)
    return (*pairs, *((("epsilon", epsilon),) for epsilon in _SHARES))


def describe_configuration(configuration: _Configuration) -> str:
    """Return a text such as ``p = 0.7, r = 1``.

    Examples
    --------
    >>> from hera_fast.experiments.tables import describe_configuration
    >>> describe_configuration((("epsilon", 0.7),))
    'ε = 0.7'
    """
    return ", ".join(f"{'ε' if name == 'epsilon' else name} = {v}" for name, v in configuration)


def validation_results(cells: Sequence[Cell], results: Sequence[Result]) -> list[dict[str, Any]]:
    """Turn results of cross-validations into those of a record.

    Parameters
    ----------
    cells : sequence of Cell
    results : sequence of dict
        One for each cell.

    Returns
    -------
    results : list of dict
        With ``dataset``, ``group``, ``method``, ``figures``.
    """
    rows = []
    for cell, result in zip(cells, results, strict=True):
        group = cell.source.name
        dataset = group
        if cell.candidates is not None:
            dataset = f"{TITLES.get(group, group)}, {describe_configuration(cell.candidates)}"
        rows.append(
            {
                "dataset": dataset,
                "group": group,
                "method": cell.method,
                "figures": result["figures"],
            }
        )
    return rows


def _real_sets(fast: bool) -> Sequence[str]:
    return ("lost", "msrcv2", "fg-net") if fast else tuple(REAL_SETS)


def _validate(scope: Scope, name: str, method: str, settings: _Configuration = ()) -> Cell:
    return Cell(
        *(make_source(name), method),
        settings=settings,
        folds=scope.folds,
        seed=scope.seed,
        ordered=name in _ORDERED,
    )


def _real_cells(scope: Scope) -> list[Cell]:
    methods = ("hera", *_PAPER, *OTHERS)
    return [_validate(scope, name, method) for name in scope.datasets for method in methods]


def _find_real(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> list[Finding]:
    errors = find_accuracy_errors()
    published: dict[str, dict[str, Any]] = {name: {} for name in scope.datasets}
    for name in scope.datasets:
        for method in METHODS:
            printed = "hera" if method in _PAPER else method
            cell = ACCURACIES[printed][name]
            published[name][method] = {**cell._asdict(), "error": errors.get((printed, name))}
    body = {
        "reference": "hera",
        "methods": list_methods(("hera", *_PAPER, *OTHERS)),
        "results": validation_results(cells, results),
        "published": published,
    }
    notes = [
        "All methods have their default parameters, the same folds, and features scaled to mean 0 "
        "and variance 1 on the training folds. Nothing was tuned in this run; the constants of the "
        "default were chosen with these data sets in view.",
        "HERA is the default of this library. 'HERA, paper' is the algorithm as printed, with "
        "corrected gradients, run until its stopping rule ends it: its confidences collapse. "
        "'paper at 100' is the same, stopped after 100 iterations.",
        "The paper's figures are those of its authors' runs: other folds, and parameters of which "
        "it says that they were set by cross-validation.",
    ]
    faults = [f"{METHODS[method].title}: {error}" for (method, _), error in errors.items()]
    notes.append(f"Wrong in print: {'; '.join(faults)}.")
    return [Finding("comparison", "Accuracy on real data sets", body, notes)]


def _uci_cells(scope: Scope) -> list[Cell]:
    return [
        Cell(
            *(make_source(name), method),
            candidates=configuration,
            folds=scope.folds,
            seed=scope.seed,
        )
        for name in scope.datasets
        for configuration in configurations(fast=scope.fast)
        for method in SEVEN
    ]


def _find_uci(scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int) -> list[Finding]:
    rows = validation_results(cells, results)
    tests = compare_results(rows, metric="inductive", reference="hera").tests
    group = {row["dataset"]: row["group"] for row in rows}
    counts = {name: {other: [0, 0, 0] for other in OTHERS} for name in scope.datasets}
    for dataset, other, outcome in zip(
        tests["dataset"], tests["estimator"], tests["outcome"], strict=True
    ):
        counts[group[dataset]][other][("win", "tie", "loss").index(outcome)] += 1
    titles = {name: method.title for name, method in METHODS.items()}
    is_full = len(configurations(fast=scope.fast)) == CONFIGURATIONS
    is_whole = set(scope.datasets) == set(COUNTS)
    body = {
        "reference": "hera",
        "others": list_methods(OTHERS),
        "rows": [
            {
                "dataset": name,
                "title": TITLES[name],
                "counts": counts[name],
                "published": COUNTS[name],
            }
            for name in scope.datasets
        ],
        "sums": {
            other: [sum(counts[name][other][k] for name in scope.datasets) for k in range(3)]
            for other in OTHERS
        },
        "published_sums": COUNT_SUMS if is_whole else None,
        "errors": [
            error
            for error in find_count_errors(titles)
            if is_whole or any(TITLES[name] in error for name in scope.datasets)
        ],
        "prediction": _predict_time(scope, cells, results, n_jobs),
    }
    n_shown = len(configurations(fast=scope.fast))
    notes = [
        f"Wins/ties/losses of HERA by the paired t-test over {scope.folds} folds at the level "
        f"0.05, in {n_shown} kinds of artificial candidates for each data set; the paper's counts "
        f"are out of {CONFIGURATIONS}."
    ]
    if not is_full:
        kinds = "; ".join(map(describe_configuration, _FAST))
        notes.append(f"Only these candidates were drawn: {kinds}.")
    accuracies = {
        "reference": "hera",
        "methods": list_methods(SEVEN),
        "results": rows,
        "published": None,
    }
    return [
        Finding("win-tie-loss", "Wins, ties and losses on controlled data sets", body, notes),
        Finding(
            "comparison",
            "Accuracy on controlled data sets",
            accuracies,
            name="table-uci-accuracies",
        ),
    ]


def _predict_time(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> dict[str, float]:
    """Say how long all 28 kinds of candidates would take, from the cells that there are."""
    seconds = [result["seconds"] for result in results]
    scale = CONFIGURATIONS / len(configurations(fast=scope.fast))
    return {
        "cells_done": len(cells),
        "cells_full": round(len(cells) * scale),
        "seconds_done": sum(seconds) / n_jobs,
        "seconds_full": sum(seconds) * scale / n_jobs,
        "processes": n_jobs,
    }


def _ablation_cells(scope: Scope) -> list[Cell]:
    return [
        _validate(scope, name, "hera", tuple(settings.items()))
        for name in scope.datasets
        for _, settings in _VARIANTS.values()
    ]


def _find_ablation(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> list[Finding]:
    rows = validation_results(cells, results)
    for row, variant in zip(rows, list(_VARIANTS) * len(scope.datasets), strict=True):
        row["method"] = variant
    body = {
        "reference": "hera",
        "methods": [{"name": name, "title": title} for name, (title, _) in _VARIANTS.items()],
        "results": rows,
        "published": None,
    }
    return [Finding("ablation", "What each part of the method is worth", body)]


TABLE_REAL = Experiment(
    "accuracies on real data sets (the paper's Table 4)",
    *(_real_sets, _real_cells, _find_real),
)
TABLE_UCI = Experiment(
    "wins, ties and losses on controlled UCI data sets (Table 3)",
    *(lambda fast: tuple(UCI_SETS), _uci_cells, _find_uci),
)
ABLATION = Experiment(
    "what each part of the default is worth",
    *(lambda fast: ("lost",) if fast else _FOUR_SETS, _ablation_cells),
    _find_ablation,
)
