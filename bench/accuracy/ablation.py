"""What each ingredient of the default adds: one at a time is left out.

Ten folds of the four real sets, and of nine sets with artificial candidates three folds each.

    HERA_FAST_DATA=folder python bench/accuracy/ablation.py [number of seeds]

Writes ``out/accuracy/ablation.png``. Takes some minutes for each seed.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from study import (
    N_FOLDS,
    OUT,
    REAL,
    UCI,
    column,
    print_rows,
    print_versions,
    real_sets,
    uci_set,
)

from hera_fast import (
    HERAClassifier,
    co_occurrence,
    cross_validate_partial,
    make_partial_labels,
    mixture,
)

UCI_FOLDS = 3


def keep_fits(fits, P, leverages, shares, out):
    """In place of the held-out scores: those of models that have seen the row."""


def no_step(self, row_weight):
    """In place of the temperature's step: it stays 1."""
    temperature, self.temperature = self.temperature, 1.0
    masses = TEMPER(self, row_weight)
    self.temperature = temperature
    return masses


TEMPER = mixture._Discriminant.temper

#: Parameters, and what is replaced in which module.
VARIANTS = {
    "default": ({}, []),
    "without the linear member": ({}, [("members", ("rbf", "laplacian"))]),
    "without the Gaussian kernel": ({}, [("members", (None, "laplacian"))]),
    "without the Laplacian kernel": ({}, [("members", (None, "rbf"))]),
    "rows judge themselves": ({}, [(mixture, "held_out_scores", keep_fits)]),
    "no co-occurrence": ({}, [(co_occurrence, "_WEIGHT", 0.0)]),
    "shares not matched": ({}, [(mixture, "_SHARE_STEPS", 0)]),
    "one stage, the last": ({}, [(mixture, "SHRINKAGES", (1e-4,))]),
    "temperature 1": ({}, [(mixture._Discriminant, "temper", no_step)]),
    "with neighbours (hybrid)": ({"prediction": "hybrid"}, []),
    "with the ranking loss": ({"ranking": True}, []),
    "with low-rank noise": ({"nu": 0.1}, []),
    "with mu = 0.3": ({"mu": 0.3}, []),
    "one Gaussian discriminant": ({"calibration": "gaussian"}, []),
    "least squares": ({"calibration": None}, []),
}


def measure(variant, X, Y, y, n_folds, n_seeds):
    parameters, replacements = VARIANTS[variant]
    model = HERAClassifier(random_state=0, **parameters)
    accuracies = []
    with ExitStack() as stack:
        for target, *rest in replacements:
            if target == "members":
                stack.enter_context(
                    patch.object(HERAClassifier, "_kernels", lambda self, kept=rest[0]: kept)
                )
            else:
                stack.enter_context(patch.object(target, *rest))
        for seed in range(n_seeds):
            table = cross_validate_partial({"m": model}, X, Y, y, cv=n_folds, random_state=seed)
            accuracies.extend(column(table, "m", "inductive"))
    return np.array(accuracies)


def main():
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    problems = {
        name: (data.data, data.candidates, data.target, N_FOLDS, n_seeds)
        for name, data in real_sets().items()
    }
    for name in UCI:
        X, y = uci_set(name)
        Y = make_partial_labels(y, epsilon=0.7, random_state=0)
        problems[name] = (X, Y, y, UCI_FOLDS, 1)
    results = {}
    for variant in VARIANTS:
        results[variant] = {name: measure(variant, *each) for name, each in problems.items()}
        means = [each.mean() for each in results[variant].values()]
        print(variant, *(f"{mean:.3f}" for mean in means), flush=True)
    real = [name for name in problems if name in REAL]
    rows = []
    for variant, result in results.items():
        means = [f"{result[name].mean():.3f}" for name in real]
        others = np.mean([result[name].mean() for name in problems if name not in REAL])
        change = np.mean(
            [result[name].mean() - results["default"][name].mean() for name in problems]
        )
        rows.append([variant, *means, f"{others:.3f}", f"{change:+.4f}"])
    header = ["", *real, f"{len(UCI)} UCI sets, ε = 0.7", "mean change"]
    print_rows(f"Held-out accuracy, {N_FOLDS} folds, {n_seeds} seed(s)", header, rows)
    draw(results, list(problems))
    print_versions()


def draw(results, names):
    variants = [variant for variant in results if variant != "default"]
    changes = np.array(
        [
            [results[variant][name].mean() - results["default"][name].mean() for name in names]
            for variant in variants
        ]
    )
    figure, axes = plt.subplots(figsize=(8, 0.38 * len(variants) + 1.2), layout="constrained")
    positions = np.arange(len(variants))
    is_real = np.array([name in REAL for name in names])
    for chosen, color, label in (
        (is_real, "tab:blue", "real candidates"),
        (~is_real, "tab:orange", "artificial candidates"),
    ):
        for place in np.flatnonzero(chosen):
            axes.plot(
                *(changes[:, place], positions, "o"),
                ms=5,
                alpha=0.7,
                color=color,
                label=label if place == np.flatnonzero(chosen)[0] else None,
            )
    axes.plot(changes.mean(axis=1), positions, "k|", ms=14, mew=2, label="mean")
    axes.axvline(0, color="0.6", lw=1, zorder=0)
    axes.set_yticks(positions, variants)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=0.02)
    ticks = [-0.3, -0.1, -0.03, -0.01, 0, 0.01, 0.03]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("change of the held-out accuracy against the default")
    axes.legend(frameon=False, loc="lower left")
    axes.spines[["top", "right"]].set_visible(False)
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / "ablation.png", dpi=110)
    plt.close(figure)
    print(f"\nPicture: {OUT / 'ablation.png'}")


if __name__ == "__main__":
    main()
