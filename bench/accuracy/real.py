"""The default against the six methods of the paper's comparison, on four sets of real candidates.

The same ten folds for all methods; features are scaled to mean 0 and variance 1 on the training
folds; all methods have their default parameters. Beside them stand logistic regression on the true
labels, the figures that the paper prints and the best ones published anywhere.

    HERA_FAST_DATA=folder python bench/accuracy/real.py [number of seeds [first seed]]

Each seed shuffles the folds in another way. Takes some minutes for each seed; writes
``out/accuracy/methods.png``.
"""

from __future__ import annotations

import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import ttest_rel
from study import (
    BEST_PUBLISHED,
    METHODS,
    N_FOLDS,
    OUT,
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
        settings = {"cv": N_FOLDS, "dataset": name, "random_state": seed, "verbose": 1, "n_jobs": 2}
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


def draw(held_out):
    figure, panels = plt.subplots(
        *(1, len(held_out)),
        figsize=(2.9 * len(held_out) + 1.2, 4),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    positions = np.arange(len(METHODS))
    for axes, (name, figures) in zip(panels[0], held_out.items(), strict=True):
        values = np.array([figures[method] for method in METHODS])
        place = list(REAL).index(name)
        axes.barh(
            *(positions, values.mean(axis=1)),
            xerr=values.std(axis=1, ddof=1),
            height=0.62,
            color=["tab:blue"] + ["lightsteelblue"] * (len(METHODS) - 1),
            error_kw={"lw": 1, "ecolor": "0.35"},
        )
        axes.plot([PRINTED[method][place] for method in METHODS], positions, "D", ms=5, c="tab:red")
        axes.axvline(BEST_PUBLISHED[place], color="tab:red", lw=1, ls=":")
        axes.axvline(np.mean(figures["oracle"]), color="0.3", lw=1, ls="--")
        axes.set_title(name)
        axes.set_yticks(positions, list(METHODS))
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].invert_yaxis()
    figure.supxlabel("held-out accuracy, mean and standard deviation over all folds")
    signs = [
        plt.Line2D(
            [], [], ls="", marker="D", ms=5, color="tab:red", label="printed by HERA's paper"
        ),
        plt.Line2D([], [], ls=":", lw=1, color="tab:red", label="best published anywhere"),
        plt.Line2D([], [], ls="--", lw=1, color="0.3", label="logistic regression on the truth"),
    ]
    figure.legend(handles=signs, loc="outside upper right", ncols=3, frameon=False)
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / "methods.png", dpi=100)
    plt.close(figure)
    print(f"\nPicture: {OUT / 'methods.png'}")


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
    print_rows("Seconds of a fit on one thread, two at a time", header, rows)
    draw({name: result[0] for name, result in results.items()})
    print_versions()
    print(f"{time.perf_counter() - start:.0f} seconds in all")


if __name__ == "__main__":
    main()
