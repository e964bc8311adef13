"""The default against the six methods of the paper's comparison, on four sets of real candidates.

The same ten folds for all methods; features are scaled to mean 0 and variance 1 on the training
folds; all methods have their default parameters. Beside them stand logistic regression on the true
labels, the figures that the paper prints and the best ones published anywhere.

    HERA_FAST_DATA=folder python bench/accuracy/real.py [number of seeds [first seed]]

Each seed shuffles the folds in another way. Takes some minutes for each seed.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.stats import ttest_rel
from study import (
    BEST_PUBLISHED,
    METHODS,
    N_FOLDS,
    PRINTED,
    REAL,
    TrueLabels,
    column,
    print_rows,
    print_versions,
    real_sets,
)

from hera_fast import cross_validate_partial


def measure(data, name, seeds):
    """Figures of all methods over all folds of all seeds: two dicts, and seconds."""
    held_out, training, seconds = {}, {}, {}
    truth = np.eye(data.candidates.shape[1], dtype=bool)[data.target]
    for seed in seeds:
        settings = {"cv": N_FOLDS, "dataset": name, "random_state": seed, "verbose": 1}
        tables = [
            cross_validate_partial(METHODS, data.data, data.candidates, data.target, **settings),
            cross_validate_partial(
                {"oracle": TrueLabels()}, data.data, truth, data.target, **settings
            ),
        ]
        for table, names in zip(tables, (METHODS, ["oracle"]), strict=True):
            for method in names:
                for figures, what in (
                    (held_out, "inductive"),
                    (training, "transductive"),
                    (seconds, "fit_seconds"),
                ):
                    figures.setdefault(method, []).extend(column(table, method, what))
    return held_out, training, seconds


def cell(values, reference=None):
    text = f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
    if reference is None:
        return text
    difference = np.subtract(reference, values)
    if np.any(difference) and ttest_rel(reference, values).pvalue < 0.05:
        text += " •" if difference.mean() > 0 else " ◦"
    return text


def main():
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seeds = range(first, first + n_seeds)
    start = time.perf_counter()
    results = {name: measure(data, name, seeds) for name, data in real_sets().items()}
    if not results:
        return
    header = ["", *results]
    for place, title in enumerate(("Held-out accuracy", "Transductive accuracy")):
        figures = {name: result[place] for name, result in results.items()}
        rows = [
            [method, *(cell(each[method], each["HERA"]) for each in figures.values())]
            for method in METHODS
        ]
        if place == 0:
            oracle = (cell(each["oracle"]) for each in figures.values())
            rows.append(["logistic regression on the truth", *oracle])
            places = [list(REAL).index(name) for name in results]
            rows += [
                [f"{method}, as printed", *(f"{PRINTED[method][place]:.3f}" for place in places)]
                for method in PRINTED
            ]
            best = (f"{BEST_PUBLISHED[place]:.3f}" for place in places)
            rows.append(["best published anywhere", *best])
        about = f"mean ± standard deviation over {N_FOLDS} folds, {n_seeds} seed(s)"
        print_rows(f"{title}, {about}; • significantly worse than HERA, ◦ better", header, rows)
    rows = [
        [method, *(f"{np.mean(each[2][method]):.2f}" for each in results.values())]
        for method in METHODS
    ]
    print_rows("Seconds of a fit", header, rows)
    print_versions()
    print(f"{time.perf_counter() - start:.0f} seconds in all")


if __name__ == "__main__":
    main()
