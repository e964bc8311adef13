"""Choosing parameters without the truth, and what it costs, on four data sets of real candidates.

In each of ten folds, 16 single models are scored by five inner folds of the training rows: by three
scores that see candidates only, and by the accuracy, which needs the truth. What each of them
chooses is fitted to all training rows and measured on the held-out fold. For comparison: one of
them without a search, and the combination that is best on the held-out folds, which nobody could
know. The default of HERAClassifier is not among them: it is a mixture that needs no search.

    HERA_FAST_DATA=folder python examples/plot_selection.py

where ``folder/realworld/`` holds lost.npz, msrcv2.npz, birdsong.npz and fg-net.npz. A number after
it shuffles the folds in another way. Takes some minutes; writes ``out/examples/selection.png``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier, load_partial_labels
from hera_fast.fold import make_folds
from hera_fast.scores import MEASURES
from hera_fast.selection import grid_scores

SETS = {"Lost": "lost", "MSRCv2": "msrcv2", "BirdSong": "birdsong", "FG-NET": "fg-net"}
NEIGHBORS = {"prediction": ["hybrid"], "neighbor_weight": [1.0, 3.0], "ranking": [True]}
GAUSSIAN = {"calibration": ["gaussian"], **NEIGHBORS}
FIXED = {"calibration": "gaussian", "prediction": "hybrid", "ranking": True}
POINTS = list(
    ParameterGrid(
        [
            {"kernel": [None], "shrinkage": [0.03, 0.1, 0.3, 1.0], **GAUSSIAN},
            {"kernel": ["rbf"], "n_components": [500], "shrinkage": [0.1, 1.0], **GAUSSIAN},
            {"calibration": [None], "beta": [0.1, 10.0], **NEIGHBORS},
        ]
    )
)
WAYS = {
    "fixed": "none: Gaussian discriminant",
    "candidate_score": "by the covering rate",
    "candidate_log_loss": "by the log loss of candidates",
    "candidate_lift": "by the covering rate beyond chance",
    "truth": "by the truth",
}
HINDSIGHT = "best of 16 in hindsight"
N_FOLDS = 10
N_INNER = 5
PICTURE = Path("out", "examples", "selection.png")


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


def choose(X, Y, y):
    """The number of the combination that each way to choose arrives at."""
    judges = [
        lambda best, probabilities, rows, measure=measure: measure(best, probabilities, Y[rows])
        for measure in MEASURES.values()
    ]
    judges.append(lambda best, probabilities, rows: np.mean(best == y[rows]))
    folds = make_folds(N_INNER, X, None, 1)
    scores = grid_scores(HERAClassifier(random_state=0), POINTS, X, Y, folds, judges)
    return dict(zip([*MEASURES, "truth"], scores.mean(axis=2).argmax(axis=1), strict=True))


def run(data, seed):
    """The accuracy of the fixed model and of all combinations on held-out rows, and the choices."""
    X, Y, y = data.data, data.candidates.toarray(), data.target
    accuracies, choices = [], []
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=seed).split(X):
        scaler = StandardScaler().fit(X[train])
        rows, held_out = scaler.transform(X[train]), scaler.transform(X[test])
        accuracies.append(
            [
                HERAClassifier(random_state=0, **point).fit(rows, Y[train]).score(held_out, y[test])
                for point in [FIXED, *POINTS]
            ]
        )
        choices.append(choose(rows, Y[train], y[train]))
    return np.array(accuracies), choices


def summarise(accuracies, choices):
    """Accuracies over the folds for each way to choose."""
    of_points = accuracies[:, 1:]
    columns = {"fixed": accuracies[:, 0]}
    for way in list(WAYS)[1:]:
        columns[way] = np.array(
            [of_points[fold, chosen[way]] for fold, chosen in enumerate(choices)]
        )
    columns[HINDSIGHT] = of_points[:, of_points.mean(axis=0).argmax()]
    return columns


def print_table(results):
    print(f"\nHeld-out accuracy, mean ± standard deviation over {N_FOLDS} folds\n")
    print("| chosen | " + " | ".join(results) + " | mean | minus truth |")
    print("|---|" + "---|" * (len(results) + 2))
    truth = np.mean([columns["truth"].mean() for columns in results.values()])
    for way in [*WAYS, HINDSIGHT]:
        values = [columns[way] for columns in results.values()]
        cells = [f"{value.mean():.3f} ± {value.std(ddof=1):.3f}" for value in values]
        mean = np.mean([value.mean() for value in values])
        name = WAYS.get(way, way)
        print(f"| {name} | " + " | ".join(cells) + f" | {mean:.3f} | {mean - truth:+.3f} |")


def print_choices(name, choices):
    """How often each combination was chosen by the default score and by the truth."""
    print(f"\n{name}: combinations chosen by candidate_lift; by the truth")
    for number, point in enumerate(POINTS):
        counts = [
            sum(chosen[way] == number for chosen in choices) for way in ("candidate_lift", "truth")
        ]
        if any(counts):
            settings = ", ".join(f"{key}={value!r}" for key, value in point.items())
            print(f"  {counts[0]:2d}; {counts[1]:2d}  {settings}")


def draw(results):
    figure, panels = plt.subplots(
        1, len(results), figsize=(3 * len(results) + 2, 3.4), sharey=True, layout="constrained"
    )
    names = [*WAYS, HINDSIGHT]
    colors = {"candidate_lift": "tab:blue", "truth": "tab:orange"}
    for axes, (name, columns) in zip(np.atleast_1d(panels), results.items(), strict=True):
        for row, way in enumerate(names):
            value, color = columns[way], colors.get(way, "gray")
            axes.errorbar(value.mean(), row, xerr=value.std(ddof=1), fmt="o", color=color)
        axes.axvline(columns["truth"].mean(), color=colors["truth"], lw=0.8, ls=":")
        axes.set_title(name)
        axes.set_yticks(range(len(names)), [WAYS.get(way, way) for way in names])
        axes.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(panels)[0].invert_yaxis()
    figure.supxlabel(f"held-out accuracy, mean and standard deviation over {N_FOLDS} folds")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)
    print(f"\nPicture: {PICTURE}")


def main():
    results = {}
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for name, data in load().items():
        print(f"{name}: {data.data.shape[0]} rows", flush=True)
        accuracies, choices = run(data, seed)
        results[name] = summarise(accuracies, choices)
        print_choices(name, choices)
    if results:
        print_table(results)
        draw(results)


if __name__ == "__main__":
    main()
