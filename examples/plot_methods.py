"""HERA and the six methods that its paper compares with, on four data sets of real candidates.

The same ten folds for all methods, features scaled to mean 0 and variance 1 on the training folds,
every method with its default parameters. Beside the accuracies stand those that the paper prints.

    HERA_FAST_DATA=folder python examples/plot_methods.py

where ``folder/realworld/`` holds lost.npz, msrcv2.npz, birdsong.npz and fg-net.npz. A number after
it shuffles the folds in another way. Takes some minutes; writes ``out/examples/methods.png``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from hera_fast import (
    HERAClassifier,
    baselines,
    compare,
    cross_validate_partial,
    load_partial_labels,
)

SETS = {"Lost": "lost", "MSRCv2": "msrcv2", "BirdSong": "birdsong", "FG-NET": "fg-net"}
METHODS = {
    "HERA": HERAClassifier(random_state=0),
    "PL-KNN": baselines.PLKNNClassifier(),
    "PL-SVM": baselines.PLSVMClassifier(),
    "CLPL": baselines.CLPLClassifier(),
    "LSB-CMM": baselines.LSBCMMClassifier(),
    "PL-ECOC": baselines.PLECOCClassifier(random_state=0),
    "PALOC": baselines.PALOCClassifier(random_state=0),
}
PRINTED = {
    "HERA": (0.712, 0.510, 0.695, 0.076),
    "PL-KNN": (0.424, 0.448, 0.614, 0.039),
    "PL-SVM": (0.729, 0.482, 0.663, 0.063),
    "CLPL": (0.742, 0.413, 0.632, 0.063),
    "LSB-CMM": (0.707, 0.456, 0.717, 0.059),
    "PL-ECOC": (0.703, 0.505, 0.740, 0.040),
    "PALOC": (0.629, 0.479, 0.711, 0.065),
}
N_FOLDS = 10
PICTURE = Path("out", "examples", "methods.png")


def load():
    """The data sets that are there."""
    data = {}
    for name, stem in SETS.items():
        path = Path(os.environ.get("HERA_FAST_DATA", "."), "realworld", f"{stem}.npz")
        if path.exists():
            data[name] = load_partial_labels(path)
        else:
            print(f"{name} is left out: there is no {path}, see HERA_FAST_DATA.")
    return data


def figures(table, method, column):
    return np.asarray(table[column])[np.asarray(table["estimator"]) == method]


def print_table(tables, column, title):
    print(f"\n{title}, mean ± standard deviation over {N_FOLDS} folds; in brackets: as printed\n")
    print("| method | " + " | ".join(tables) + " |")
    print("|---|" + "---|" * len(tables))
    for method, printed in PRINTED.items():
        cells = []
        for name, table in tables.items():
            values = figures(table, method, column)
            cell = f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"
            if column == "inductive":
                cell += f" ({printed[list(SETS).index(name)]:.3f})"
            cells.append(cell)
        print(f"| {method} | " + " | ".join(cells) + " |")


def print_seconds(tables):
    print("\nSeconds of a fit and of predicting a fold, mean over the folds\n")
    print("| method | " + " | ".join(tables) + " |")
    print("|---|" + "---|" * len(tables))
    for method in PRINTED:
        cells = [
            f"{np.mean(figures(table, method, 'fit_seconds')):.2f} + "
            f"{np.mean(figures(table, method, 'predict_seconds')):.3f}"
            for table in tables.values()
        ]
        print(f"| {method} | " + " | ".join(cells) + " |")


def draw(tables):
    figure, panels = plt.subplots(
        *(1, len(tables)),
        figsize=(2.9 * len(tables) + 1.2, 4),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    positions = np.arange(len(PRINTED))
    for axes, (name, table) in zip(panels[0], tables.items(), strict=True):
        values = np.array([figures(table, method, "inductive") for method in PRINTED])
        printed = [accuracies[list(SETS).index(name)] for accuracies in PRINTED.values()]
        axes.barh(
            *(positions, values.mean(axis=1)),
            xerr=values.std(axis=1, ddof=1),
            height=0.62,
            color=["tab:blue"] + ["lightsteelblue"] * (len(PRINTED) - 1),
            error_kw={"lw": 1, "ecolor": "0.35"},
        )
        axes.plot(printed, positions, "D", ms=5, color="tab:red")
        axes.set_title(name)
        axes.set_yticks(positions, list(PRINTED))
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].invert_yaxis()
    figure.supxlabel(f"held-out accuracy, mean and standard deviation over {N_FOLDS} folds")
    marker = plt.Line2D([], [], ls="", marker="D", ms=5, color="tab:red", label="as printed")
    figure.legend(handles=[marker], loc="outside upper right", frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)
    print(f"\nPicture: {PICTURE}")


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    tables = {}
    for name, data in load().items():
        arguments = METHODS, data.data, data.candidates, data.target
        tables[name] = cross_validate_partial(
            *arguments, cv=N_FOLDS, dataset=name, random_state=seed, verbose=1
        )
        print(f"\n{name}: {compare(tables[name], reference='HERA')}", flush=True)
    if not tables:
        return
    print_table(tables, "inductive", "Held-out accuracy")
    print_table(tables, "transductive", "Share of training rows whose true candidate is picked")
    print_seconds(tables)
    draw(tables)


if __name__ == "__main__":
    main()
