"""What each part of the objective is worth, on four data sets of real candidates.

Confidences on the simplex alone; with the ranking loss, the low-rank noise or the calibrated scores
added; with all of them; and with all but one. The same ten folds for every variant, scaling fitted
on the training folds, parameters as they are below and never chosen by looking at true labels.

    HERA_FAST_DATA=folder python examples/ablation.py

where ``folder/realworld/`` holds lost.npz, msrcv2.npz, birdsong.npz and fg-net.npz, each with the
arrays X, Y and y. Takes a few minutes; writes ``out/examples/ablation.png``.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import ttest_rel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from hera_fast import HERAClassifier

SETS = {"Lost": "lost", "MSRCv2": "msrcv2", "BirdSong": "birdsong", "FG-NET": "fg-net"}
SIMPLEX = {
    "alpha": 1.0,
    "beta": 0.1,
    "mu": 0.0,
    "nu": 0.0,
    "ranking": False,
    "calibration": None,
    "shrinkage": 0.1,
    "random_state": 0,
}
RANKING, LOW_RANK, CALIBRATION = {"ranking": True}, {"nu": 0.1}, {"calibration": "gaussian"}
VARIANTS = {
    "simplex only": {},
    "+ ranking": RANKING,
    "+ low rank": LOW_RANK,
    "+ calibration": CALIBRATION,
    "all": RANKING | LOW_RANK | CALIBRATION,
    "all but ranking": LOW_RANK | CALIBRATION,
    "all but low rank": RANKING | CALIBRATION,
}
FEATURES = {
    "z-score": ([StandardScaler()], {}),
    "z-score, unit rows": ([StandardScaler(), Normalizer()], {}),
    "z-score, rbf": ([StandardScaler()], {"kernel": "rbf"}),
}
MEASURES = {
    "hybrid": "held-out fold, hybrid prediction",
    "linear": "held-out fold, linear prediction",
    "transductive": "training folds, label chosen among the candidates",
    "within 3": "held-out fold, hybrid prediction at most 3 labels off",
    "within 5": "held-out fold, hybrid prediction at most 5 labels off",
}
N_FOLDS = 10
ORDERED = "FG-NET"  # its labels are ages, so that a near miss is worth something
PICTURE = Path("out", "examples", "ablation.png")


def load():
    """Rows, candidates and true labels of the sets that are there."""
    folder = os.environ.get("HERA_FAST_DATA")
    if not folder:
        print("Nothing to do: HERA_FAST_DATA must name a folder with realworld/*.npz.")
        return {}
    data = {}
    for name, stem in SETS.items():
        path = Path(folder, "realworld", f"{stem}.npz")
        if not path.exists():
            print(f"{name} is left out: there is no {path}.")
            continue
        with np.load(path, allow_pickle=False) as arrays:
            data[name] = np.ascontiguousarray(arrays["X"], float), arrays["Y"], arrays["y"]
    return data


def measure(steps, settings, X, Y, y, train, test):
    """All measures of one variant on one fold."""
    # As many kernel features, and the neighbours, as in the tables of docs/results.md.
    model = HERAClassifier(**{"prediction": "hybrid", "n_components": 500, **settings})
    pipeline = make_pipeline(*steps, model).fit(X[train], Y[train])
    hybrid = pipeline.predict(X[test])
    model.set_params(prediction="linear")
    linear = pipeline.predict(X[test])
    off = abs(hybrid - y[test])
    shares = (off == 0, linear == y[test], model.transduction_ == y[train], off <= 3, off <= 5)
    return [share.mean() for share in shares]


def run(data):
    """An array of folds x measures for each set, block of features and variant."""
    results = {}
    for name, (X, Y, y) in data.items():
        print(f"{name}: {len(X)} rows, {X.shape[1]} features, {Y.shape[1]} labels", flush=True)
        folds = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(X))
        for block, (steps, kernel) in FEATURES.items():
            for variant, parts in VARIANTS.items():
                settings = SIMPLEX | kernel | parts
                results[name, block, variant] = np.array(
                    [measure(steps, settings, X, Y, y, *fold) for fold in folds]
                )
    return results


def cell(values, reference):
    """Mean and standard deviation, marked if a paired t-test finds a difference."""
    mark = " "
    # Without any spread there is nothing to test.
    if np.ptp(values - reference) > 1e-9 and ttest_rel(values, reference).pvalue < 0.05:
        mark = "+" if values.mean() > reference.mean() else "-"
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f} {mark}"


def print_tables(results, names):
    print(
        f"\nMean ± standard deviation over {N_FOLDS} folds. + and -: better and worse than simplex"
    )
    print("only (paired t-test over the folds, p < 0.05).")
    for number, (measure_name, title) in enumerate(MEASURES.items()):
        columns = [name for name in names if name == ORDERED or "within" not in measure_name]
        if not columns:
            continue
        print(f"\n{title}\n")
        print("| features | variant | " + " | ".join(columns) + " |")
        print("|---|---|" + "---|" * len(columns))
        for block in FEATURES:
            for variant in VARIANTS:
                cells = [
                    cell(
                        results[name, block, variant][:, number],
                        results[name, block, "simplex only"][:, number],
                    )
                    for name in columns
                ]
                print(f"| {block} | {variant} | " + " | ".join(cells) + " |")


def draw(results, names):
    figure, panels = plt.subplots(
        *(2, len(names)),
        figsize=(3.1 * len(names) + 1.2, 7),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    offsets = np.linspace(-0.22, 0.22, len(FEATURES))
    rows = np.arange(len(VARIANTS))
    colors = ("tab:blue", "tab:orange", "tab:green")
    for line, title in enumerate(("held-out fold, hybrid", "training folds, transductive")):
        number = list(MEASURES).index("transductive" if line else "hybrid")
        for axes, name in zip(panels[line], names, strict=True):
            for block, offset, color in zip(FEATURES, offsets, colors, strict=True):
                values = np.array(
                    [results[name, block, variant][:, number] for variant in VARIANTS]
                )
                mean, spread = values.mean(axis=1), values.std(axis=1, ddof=1)
                axes.errorbar(mean, rows + offset, xerr=spread, fmt="o", ms=4, lw=1, color=color)
                axes.axvline(mean[0], color=color, lw=0.8, ls=":")
            axes.set_title(f"{name}\n{title}" if not line else title, fontsize="medium")
            axes.set_yticks(rows, list(VARIANTS))
            axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].invert_yaxis()
    figure.supxlabel(f"accuracy, mean and standard deviation over {N_FOLDS} folds")
    handles = [
        plt.Line2D([], [], color=color, marker="o", ms=4, lw=1, label=block)
        for block, color in zip(FEATURES, colors, strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(FEATURES), frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)
    print(f"\nPicture: {PICTURE}")


def main():
    data = load()
    if not data:
        return
    results = run(data)
    print_tables(results, list(data))
    draw(results, list(data))


if __name__ == "__main__":
    main()
