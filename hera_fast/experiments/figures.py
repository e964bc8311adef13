"""The paper's figures: accuracy against p, epsilon and parameters; convergence; one fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hera_fast.experiments.cells import Cell, Result
from hera_fast.experiments.methods import SEVEN
from hera_fast.experiments.plans import (
    TITLES,
    Experiment,
    Finding,
    Scope,
    list_methods,
    make_source,
)
from hera_fast.experiments.published import UCI_SETS
from hera_fast.experiments.tables import configurations

__all__ = ["CONVERGENCE", "DISAMBIGUATION", "FIGURE_EPSILON", "FIGURE_UCI", "SENSITIVITY"]

# The five smallest data sets, and few points.
_FAST_SETS = ("glass", "segment", "vehicle", "ecoli", "dermatology")
_FAST_SHARES = (0.1, 0.4, 0.7)
_FAST_FALSE_LABELS = (1, 3)

_ACCURACY = "held-out accuracy"

_POWERS = tuple(10.0**power for power in range(-3, 4))
#: The values that the paper tries.
_VALUES = {
    "alpha": tuple(2 * 10.0**power for power in range(-3, 1)),
    **dict.fromkeys(("beta", "mu", "nu"), _POWERS),
}
_FAST_VALUES = {"alpha": (0.002, 0.2, 2.0), **dict.fromkeys(("beta", "mu", "nu"), (1e-3, 0.1, 10))}
_GREEK = {"alpha": "α", "beta": "β", "mu": "μ", "nu": "ν"}

# Three ways to use the parameters: method, title, settings, parameters that make a difference.
_SERIES: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "paper": ("hera-paper-100", "paper's settings, 100 iterations", {}, tuple(_VALUES)),
    "simplex": (
        *("hera", "least squares on the simplex"),
        {"calibration": None, "ranking": True, "prediction": "hybrid"},
        tuple(_VALUES),
    ),
    "default": ("hera", "the default", {}, ("alpha", "mu", "nu")),
}
# Where the simplex formulation has no solution to choose: mu must be less than alpha.
_DEFAULT_ALPHA = 1.0


def _uci_sets(fast: bool) -> Sequence[str]:
    return _FAST_SETS if fast else tuple(UCI_SETS)


def _grid_cells(scope: Scope, *, of_epsilon: bool) -> list[Cell]:
    cells = []
    for name in scope.datasets:
        for configuration in configurations():
            options = dict(configuration)
            if ("epsilon" in options) != of_epsilon:
                continue
            share = options.get("epsilon", options.get("p"))
            if scope.fast and (
                share not in _FAST_SHARES or options.get("r", 1) not in _FAST_FALSE_LABELS
            ):
                continue
            cells += [
                Cell(
                    *(make_source(name), method),
                    candidates=configuration,
                    folds=scope.folds,
                    seed=scope.seed,
                )
                for method in SEVEN
            ]
    return cells


def _moments(result: Result) -> tuple[float, float]:
    figures = np.array(result["figures"]["inductive"], np.float64)
    return float(figures.mean()), float(figures.std(ddof=1)) if len(figures) > 1 else np.nan


def _curve_panels(
    cells: list[Cell], results: list[Result], *, x_name: str, x_label: str
) -> list[dict[str, Any]]:
    """Make a panel for each data set and each r."""
    panels: dict[tuple[int, str], dict[str, Any]] = {}
    for cell, result in zip(cells, results, strict=True):
        options = dict(cell.candidates or ())
        r = options.get("r", 1)
        panel = panels.setdefault(
            (r, cell.source.name),
            {
                "title": TITLES[cell.source.name],
                "group": f"r = {r}" if x_name == "p" else "p = 1, r = 1",
                "x": [],
                "x_label": x_label,
                "y_label": _ACCURACY,
                "x_scale": "linear",
                "y_scale": "linear",
                "series": {},
            },
        )
        if options[x_name] not in panel["x"]:
            panel["x"].append(options[x_name])
        mean, sd = _moments(result)
        series = panel["series"].setdefault(cell.method, {"name": cell.method, "y": [], "sd": []})
        series["y"].append(mean)
        series["sd"].append(sd)
    ordered = [panels[key] for key in sorted(panels, key=lambda key: key[0])]
    return [{**panel, "series": list(panel["series"].values())} for panel in ordered]


def _find_curves(
    cells: list[Cell], results: list[Result], *, title: str, x_name: str, x_label: str
) -> list[Finding]:
    body = {
        "legend": list_methods(SEVEN),
        "panels": _curve_panels(cells, results, x_name=x_name, x_label=x_label),
    }
    return [Finding("curves", title, body, ["Bands are standard deviations over folds."])]


def _find_uci(scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int) -> list[Finding]:
    return _find_curves(
        *(cells, results),
        title="Accuracy against the share of rows with false candidates",
        x_name="p",
        x_label="p, share of rows with r false candidates",
    )


def _find_epsilon(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> list[Finding]:
    return _find_curves(
        *(cells, results),
        title="Accuracy against the probability of the coupled label",
        x_name="epsilon",
        x_label="ε, probability of the coupled label",
    )


def _sensitivity_points(scope: Scope) -> list[tuple[str, str, str, float]]:
    """List series, data set, parameter and value."""
    values = _FAST_VALUES if scope.fast else _VALUES
    return [
        (series, name, parameter, value)
        for name in scope.datasets
        for series, (_, _, _, parameters) in _SERIES.items()
        for parameter in parameters
        for value in values[parameter]
        if series == "paper" or parameter != "mu" or value < _DEFAULT_ALPHA
    ]


def _sensitivity_cells(scope: Scope) -> list[Cell]:
    cells = []
    for series, name, parameter, value in _sensitivity_points(scope):
        method, _, settings, _ = _SERIES[series]
        cells.append(
            Cell(
                *(make_source(name), method),
                settings=(*settings.items(), (parameter, value)),
                folds=scope.folds,
                seed=scope.seed,
            )
        )
    return cells


def _find_sensitivity(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> list[Finding]:
    found = dict(zip(_sensitivity_points(scope), map(_moments, results), strict=True))
    values = _FAST_VALUES if scope.fast else _VALUES
    panels = []
    for name in scope.datasets:
        for parameter in _VALUES:
            points = {
                series: [
                    found.get((series, name, parameter, value), (np.nan, np.nan))
                    for value in values[parameter]
                ]
                for series, (_, _, _, parameters) in _SERIES.items()
                if parameter in parameters
            }
            panels.append(
                {
                    "title": f"{TITLES[name]}: {_GREEK[parameter]}",
                    "group": TITLES[name],
                    "x": list(values[parameter]),
                    "x_label": _GREEK[parameter],
                    "y_label": _ACCURACY,
                    "x_scale": "log",
                    "y_scale": "linear",
                    "series": [
                        {
                            "name": series,
                            "y": [mean for mean, _ in pairs],
                            "sd": [sd for _, sd in pairs],
                        }
                        for series, pairs in points.items()
                    ],
                }
            )
    body = {
        "legend": [{"name": name, "title": series[1]} for name, series in _SERIES.items()],
        "panels": panels,
    }
    notes = [
        "One parameter changes, the others stay at the defaults of the series. On the simplex μ "
        "must be less than α, which is 1; the default has no β."
    ]
    return [Finding("curves", "Sensitivity to the parameters", body, notes)]


def _convergence_cells(scope: Scope) -> list[Cell]:
    return [
        Cell(make_source(name), method, task="trace", seed=scope.seed)
        for name in scope.datasets
        for method in ("hera-paper", "hera")
    ]


_ROUNDING = 1e-14
_TRACES = {
    "W": ("W, steps of gradient descent", "step", "|change of the loss|"),
    "P": ("P, steps of gradient descent", "step", "|change of the loss|"),
    "whole": ("the whole", "iteration", "change of the loss"),
    "mass": ("mass of P", "iteration", "mean sum of a row of P"),
}


def _find_convergence(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> list[Finding]:
    panels: dict[tuple[str, str], dict[str, Any]] = {}
    for cell, result in zip(cells, results, strict=True):
        for trace, (title, x_label, y_label) in _TRACES.items():
            values = result["body"].get(trace)
            # The default keeps all mass and has no separate steps.
            if values is None or (trace == "mass" and cell.method == "hera"):
                continue
            panel = panels.setdefault(
                (cell.source.name, trace),
                {
                    "title": f"{TITLES[cell.source.name]}: {title}",
                    "group": TITLES[cell.source.name],
                    "x": [],
                    "x_label": x_label,
                    "y_label": y_label,
                    "x_scale": "linear",
                    "y_scale": "log",
                    "series": [],
                },
            )
            if len(values) > len(panel["x"]):
                panel["x"] = list(range(1, len(values) + 1))
            # Zero has no place on a logarithmic axis, and below this are rounding errors.
            least = _ROUNDING * max(values)
            y = [value if value > least else None for value in values]
            panel["series"].append({"name": cell.method, "y": y, "sd": None})
    for panel in panels.values():
        for series in panel["series"]:
            series["y"] += [None] * (len(panel["x"]) - len(series["y"]))
    body = {
        "legend": [
            {"name": "hera-paper", "title": "the paper's settings"},
            {"name": "hera", "title": "the default (relative change)"},
        ],
        "panels": list(panels.values()),
    }
    notes = [
        "The steps on W start where the algorithm starts, with P fixed; those on P follow with the "
        "W that was found. "
        "The loss of the paper's settings settles, but the confidences vanish with it: a row of P "
        "sums to almost nothing."
    ]
    return [Finding("curves", "Convergence", body, notes)]


def _disambiguation_cells(scope: Scope) -> list[Cell]:
    return [
        Cell(make_source(name), "hera", task="disambiguate", seed=scope.seed)
        for name in scope.datasets
    ]


def _find_disambiguation(
    scope: Scope, cells: list[Cell], results: list[Result], n_jobs: int
) -> list[Finding]:
    return [
        Finding(
            "disambiguation",
            f"Which candidate is true: {TITLES[cell.source.name]}",
            {**result["body"], "dataset": cell.source.name},
            name=f"disambiguation-{cell.source.name}",
        )
        for cell, result in zip(cells, results, strict=True)
    ]


FIGURE_UCI = Experiment(
    "accuracy against p for r = 1, 2, 3 (Figures 3 to 5)",
    *(_uci_sets, lambda scope: _grid_cells(scope, of_epsilon=False), _find_uci),
)
FIGURE_EPSILON = Experiment(
    "accuracy against epsilon (Figure 6)",
    *(_uci_sets, lambda scope: _grid_cells(scope, of_epsilon=True), _find_epsilon),
)
SENSITIVITY = Experiment(
    "accuracy against each parameter (Figure 7)",
    lambda fast: ("lost",) if fast else ("lost", "msrcv2"),
    *(_sensitivity_cells, _find_sensitivity),
)
CONVERGENCE = Experiment(
    "convergence of W, P and the whole (Figure 8)",
    lambda fast: ("lost",) if fast else ("lost", "msrcv2"),
    *(_convergence_cells, _find_convergence),
)
DISAMBIGUATION = Experiment(
    "what a fit finds: confidences, doubtful rows",
    lambda fast: ("lost",) if fast else ("lost", "msrcv2", "birdsong", "fg-net"),
    *(_disambiguation_cells, _find_disambiguation),
)
