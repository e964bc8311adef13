"""What each ingredient of the default adds: one at a time is left out, or added.

    HERA_FAST_DATA=folder python bench/accuracy/ablation.py

The sets of ``constants.py`` with other folds and other artificial candidates. Writes
``out/accuracy/ingredients.png``. Takes about a quarter of an hour on two processors.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from study import OUT, print_versions
from variants import DEFAULT, Variant, measure, print_changes

from hera_fast import HERAClassifier, co_occurrence, mixture

SEED = 2000
TEMPER = mixture._Discriminant.temper


def no_step(self, row_weight):
    """In place of the temperature's step: it stays 1."""
    temperature, self.temperature = self.temperature, 1.0
    masses = TEMPER(self, row_weight)
    self.temperature = temperature
    return masses


def equal_weights(masses, row_weight, n_members, rows, n_rows):
    """In place of the mixing weights: all members count the same."""
    weights = np.full(n_members, 1 / n_members)
    return weights, float(row_weight @ np.log(masses @ weights))


def members(*kernels):
    return replace(HERAClassifier, "_kernels", lambda self: kernels)


def replace(*replaced):
    return Variant(replaced=(replaced,))


def parameters(**values):
    return Variant(values)


LESS = {
    "without the linear member": members("rbf", "laplacian"),
    "without the Gaussian kernel": members(None, "laplacian"),
    "without the Laplacian kernel": members(None, "rbf"),
    "equal weights of the members": replace(mixture, "_mixing_weights", equal_weights),
    "rows judge themselves": replace(mixture, "_LARGEST_LEVERAGE", 0.0),
    "no co-occurrence of candidates": replace(co_occurrence, "_WEIGHT", 0.0),
    "no rows added to labels": replace(mixture, "_COMMON_ROWS", 0.0),
    "no offsets of labels": replace(mixture, "_SHARE_STEPS", 0),
    "one stage, a tenth of the first": replace(mixture, "STAGES", (0.1,)),
    "temperature 1": replace(mixture._Discriminant, "temper", no_step),
}
MORE = {
    "with neighbours (hybrid)": parameters(prediction="hybrid"),
    "with the ranking loss": parameters(ranking=True),
    "with low-rank noise, nu = 0.1": parameters(nu=0.1),
    "drawn to one candidate, mu = 0.3": parameters(mu=0.3),
}
OTHER = {
    "one Gaussian discriminant": parameters(calibration="gaussian"),
    "least squares on the simplex": parameters(calibration=None),
}


def main():
    results = measure({DEFAULT: Variant(), **LESS, **MORE, **OTHER}, SEED)
    changes, is_real = print_changes("Ablation", results)
    draw(list(results)[1:], changes[1:], is_real)
    print_versions()


def draw(variants, changes, is_real):
    figure, axes = plt.subplots(figsize=(8, 0.36 * len(variants) + 1.2), layout="constrained")
    positions = np.arange(len(variants))
    for chosen, color, label in (
        (is_real, "tab:blue", "real candidates"),
        (~is_real, "tab:orange", "artificial candidates"),
    ):
        for number, place in enumerate(np.flatnonzero(chosen)):
            axes.plot(
                *(changes[:, place], positions, "o"),
                ms=5,
                alpha=0.6,
                color=color,
                label=None if number else label,
            )
    axes.plot(changes.mean(axis=1), positions, "k|", ms=14, mew=2, label="mean of all sets")
    axes.axvline(0, color="0.6", lw=1, zorder=0)
    axes.set_yticks(positions, variants)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=0.01)
    ticks = [-0.3, -0.1, -0.03, -0.01, 0, 0.01, 0.03]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("change of the held-out accuracy against the default")
    figure.legend(frameon=False, loc="outside upper center", ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / "ingredients.png", dpi=110)
    plt.close(figure)
    print(f"\nPicture: {OUT / 'ingredients.png'}")


if __name__ == "__main__":
    main()
