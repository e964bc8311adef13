"""The algorithm as printed, iteration by iteration: it is good while it is unfinished.

`HERAClassifier.paper` on Lost, ten folds, features scaled to variance one on the training folds.
After every iteration the held-out fold is predicted with the confidences and the linear model of
that moment. The picture shows the accuracy above the mean mass of a row of P and the change of the
loss that the printed stopping rule looks at: the confidences are worth something until the
constraint P + E = Y takes hold, and then vanish into the noise E.

    HERA_FAST_DATA=folder python examples/plot_paper_on_lost.py [parameter=value ...]

where ``folder/realworld/lost.npz`` holds the arrays X, Y and y, and parameters are those of
`HERAClassifier`, such as ``alpha=0.02``. Takes two or three minutes; writes
``out/examples/paper_on_lost.png``.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier
from hera_fast.neighborhood import neighbor_scores

PRINTED, PRINTED_SPREAD = 0.712, 0.035
N_FOLDS = 10
PICTURE = Path("out", "examples", "paper_on_lost.png")
CURVES = ("hybrid", "linear", "transductive", "mass", "change")


def load():
    """Rows, candidates and true labels; None if there are none."""
    folder = os.environ.get("HERA_FAST_DATA")
    path = Path(folder or "", "realworld", "lost.npz")
    if not folder or not path.exists():
        print("Nothing to do: HERA_FAST_DATA must name a folder with realworld/lost.npz.")
        return None
    with np.load(path, allow_pickle=False) as data:
        return np.ascontiguousarray(data["X"], np.float64), data["Y"], data["y"]


class Diary:
    """A callback that keeps what is needed to predict after every iteration."""

    def __init__(self, sparsity):
        self.models, self.confidences, self.first_split = [], [], None
        self._sparsity, self._multiplier = sparsity, 0.0

    def __call__(self, state):
        self.models.append(state.coef.copy())
        self.confidences.append(state.confidence.copy())
        if self.first_split is None:
            # As long as J is zero, its multiplier N is the sum of penalty * P, and J stays zero
            # while N is below mu.
            self._multiplier += state.penalty * state.confidence
            if self._multiplier.max() > self._sparsity:
                self.first_split = state.iteration


def run_fold(X, Y, y, train, test, settings):
    """Fit on the training folds; the curves, and the iterations at which things happen."""
    diary = Diary(HERAClassifier.paper(**settings).mu)
    model = HERAClassifier.paper(**settings, callback=diary)
    pipeline = make_pipeline(StandardScaler(), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the collapse
        pipeline.fit(X[train], Y[train])
    points, queries = (pipeline[0].transform(X[rows]) for rows in (train, test))
    # A row's neighbours are the same in every iteration, so their weights are found once.
    weights = np.empty((len(test), len(train)))
    neighbor_scores(
        *(queries, points, np.eye(len(train)), weights),
        n_neighbors=model.n_neighbors,
        neighbor_rank=model.neighbor_rank,
        normalize=False,
    )
    curves = {name: [] for name in CURVES[:3]}
    for coef, P in zip(diary.models, diary.confidences, strict=True):
        linear = queries @ coef.T
        chosen = np.where(Y[train], P, -1).argmax(axis=1)
        curves["linear"].append(np.mean(linear.argmax(axis=1) == y[test]))
        curves["hybrid"].append(np.mean((weights @ P + linear).argmax(axis=1) == y[test]))
        curves["transductive"].append(np.mean(chosen == y[train]))
    curves["mass"], curves["change"] = model.history_["mass"], model.history_["change"]
    events = {
        "loss stands still": first(model.history_["change"] <= model.tol),
        "E > 0": first(model.history_["rank"] > 0),
        "J > 0": diary.first_split,
        "run ends": model.n_iter_,
    }
    return curves, events


def first(flags):
    """Number of the first iteration that has the flag."""
    return int(np.argmax(flags)) + 1 if np.any(flags) else None


def to_matrix(curves, name):
    """One row per fold. A run that has ended stays as it is."""
    length = max(len(fold[name]) for fold in curves)
    return np.array([np.pad(fold[name], (0, length - len(fold[name])), "edge") for fold in curves])


def print_tables(matrices, events):
    length = matrices["hybrid"].shape[1]
    print(f"\nMean over {N_FOLDS} folds; accuracies with standard deviation\n")
    print(f"{'iteration':>14}{'hybrid':>16}{'linear':>16}{'transductive':>16}{'mass of P':>11}")
    best = int(matrices["hybrid"].mean(axis=0).argmax()) + 1
    steps = [step for step in (1, 2, 5, 10, 20, 50, 100, 150, 200, 250, 300) if step < length]
    for step in sorted({*steps, best, length}):
        cells = [
            f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"
            for values in (matrices[name][:, step - 1] for name in CURVES[:3])
        ]
        note = "best" if step == best else "last" if step == length else ""
        print(
            f"{note:>8}{step:>6}" + "".join(f"{cell:>16}" for cell in cells),
            f"{matrices['mass'][:, step - 1].mean():>10.2g}",
        )
    print()
    for name in events[0]:
        times = [fold[name] for fold in events]
        known = sorted(time for time in times if time is not None)
        print(f"{name:>18}: " + (f"iteration {known[0]} to {known[-1]}" if known else "never"))
    print(f"The paper prints {PRINTED} ± {PRINTED_SPREAD}.")


def draw(matrices, events):
    iterations = np.arange(1, matrices["hybrid"].shape[1] + 1)
    figure, (top, middle, bottom) = plt.subplots(
        *(3, 1),
        figsize=(9, 8),
        sharex=True,
        layout="constrained",
        gridspec_kw={"height_ratios": [3, 1.4, 1.4]},
    )
    low, high = PRINTED - PRINTED_SPREAD, PRINTED + PRINTED_SPREAD
    top.axhspan(low, high, color="tab:green", alpha=0.2, lw=0, label="printed: 0.712 ± 0.035")
    for name, color in (("linear", "tab:orange"), ("hybrid", "tab:blue")):
        mean, spread = matrices[name].mean(axis=0), matrices[name].std(axis=0, ddof=1)
        top.fill_between(iterations, mean - spread, mean + spread, color=color, alpha=0.2, lw=0)
        top.plot(iterations, mean, color=color, label=f"{name} prediction")
    top.set(ylabel="accuracy on the held-out fold", ylim=(0, 0.84))
    top.legend(loc="lower left")
    middle.semilogy(iterations, matrices["mass"].mean(axis=0), color="black")
    middle.set(ylabel="mean sum of\na row of P")
    bottom.semilogy(iterations[1:], matrices["change"].mean(axis=0)[1:], color="black")
    bottom.axhline(1e-6, color="tab:red", lw=1)
    bottom.text(5, 1.5e-6, "below: the printed rule stops", color="tab:red", va="bottom")
    bottom.set(ylabel="|change of\nthe loss|", xlabel="iteration", xlim=(0, iterations[-1] + 5))
    for name in ("E > 0", "J > 0", "run ends"):
        times = [fold[name] for fold in events if fold[name] is not None]
        if not times:
            continue
        time = np.mean(times)
        for axes in (top, middle, bottom):
            axes.axvline(time, color="gray", ls="--", lw=1)
        side, gap = ("left", 3) if name == "J > 0" else ("right", -3)
        top.text(time + gap, 0.83, name, ha=side, va="top")
    for axes in (top, middle, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)
    print(f"Picture: {PICTURE}")


def read_settings(arguments):
    """Turn ``name=value`` into parameters."""
    pairs = (argument.split("=", 1) for argument in arguments)
    return {name: json.loads(value) for name, value in pairs}


def main():
    data = load()
    if data is None:
        return
    X, Y, y = data
    settings = read_settings(sys.argv[1:])
    print(f"Lost: {len(X)} rows, {X.shape[1]} features, {Y.shape[1]} labels; {settings or ''}")
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(X))
    curves, events = [], []
    for number, (train, test) in enumerate(folds, start=1):
        fold_curves, fold_events = run_fold(X, Y, y, train, test, settings)
        curves.append(fold_curves)
        events.append(fold_events)
        print(f"fold {number}: {fold_events['run ends']} iterations", flush=True)
    matrices = {name: to_matrix(curves, name) for name in CURVES}
    print_tables(matrices, events)
    draw(matrices, events)


if __name__ == "__main__":
    main()
