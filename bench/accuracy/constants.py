"""Would other data sets choose the constants of the default? Each data set is left out in turn.

Around the default one constant at a time takes another value. For each data set, the value that is
best on average over the *other* data sets counts as chosen: what somebody would have taken who had
never seen this one. The last table has what that choice is worth on the set that was left out.

    HERA_FAST_DATA=folder python bench/accuracy/constants.py

Five folds of the four real sets, three of nine sets with three kinds of artificial candidates each,
at most 2,000 rows of these. Takes about half an hour on two processors.
"""

from __future__ import annotations

import numpy as np
from study import REAL, print_rows, print_versions
from variants import DEFAULT, Variant, measure

from hera_fast import co_occurrence, kernel_maps, mixture

MEDIAN_GAMMA = kernel_maps._median_gamma


def from_shrinkage(first):
    """Stages that begin with another shrinkage."""
    stages = (0.1, 0.03, *mixture.SHRINKAGES)
    stages = tuple(shrinkage for shrinkage in stages if shrinkage <= first)
    return Variant(replaced=((mixture, "SHRINKAGES", stages),))


def constant(module, name):
    return lambda value: Variant(replaced=((module, name, value),))


def scaled_gamma(factor):
    def scaled(*arguments):
        return factor * MEDIAN_GAMMA(*arguments)

    return Variant(replaced=((kernel_maps, "_median_gamma", scaled),))


#: What each constant may be, the default among it, and what makes a variant of a value.
CONSTANTS = {
    "first shrinkage": ((0.1, 0.03, 0.01, 0.003), 0.01, from_shrinkage),
    "rows added to a label": ((0.0, 2.0, 5.0, 10.0), 5.0, constant(mixture, "_COMMON_ROWS")),
    "weight of the co-occurrence": ((0.25, 0.5, 1.0), 0.5, constant(co_occurrence, "_WEIGHT")),
    "rows added to its patterns": (
        *((1.0, 5.0, 20.0), 5.0),
        constant(co_occurrence, "_COMMON_ROWS"),
    ),
    "steps to match shares": ((3, 10), 10, constant(mixture, "_SHARE_STEPS")),
    "landmarks": ((500, 1000), 1000, lambda value: Variant({"n_components": value})),
    "kernel width, of the median": ((0.5, 1.0, 2.0), 1.0, lambda value: scaled_gamma(1 / value)),
}


def main():
    variants = {DEFAULT: Variant()}
    for name, (values, default, make) in CONSTANTS.items():
        variants |= {(name, value): make(value) for value in values if value != default}
    results = measure(variants)
    names = list(results[DEFAULT])
    base = np.array([results[DEFAULT][name] for name in names])

    def change(name, value):
        accuracies = results.get((name, value), results[DEFAULT])
        return np.array([accuracies[each] for each in names]) - base

    rows = []
    for name, (values, default, _) in CONSTANTS.items():
        for value in values:
            changes = change(name, value)
            mark = " (default)" if value == default else ""
            cells = [f"{each:+.3f}" if value != default else "" for each in changes]
            rows.append([name, f"{value:g}{mark}", *cells, f"{changes.mean():+.4f}"])
    header = ["constant", "value", *names, "mean"]
    print_rows("Change of the held-out accuracy against the default", header, rows)

    chosen, gains = [], np.zeros(len(names))
    for name, (values, _, _) in CONSTANTS.items():
        changes = np.array([change(name, value) for value in values])
        others = (changes.sum(axis=1, keepdims=True) - changes) / (len(names) - 1)
        best = others.argmax(axis=0)
        gains += changes[best, np.arange(len(names))]
        chosen.append([name, *(f"{values[place]:g}" for place in best)])
    print_rows("What the other data sets choose", ["constant", *names], chosen)
    rows = [
        [DEFAULT, *(f"{value:.3f}" for value in base)],
        ["sum of the changes by these choices", *(f"{gain:+.3f}" for gain in gains)],
    ]
    print_rows("What that is worth on the data set itself", ["", *names], rows)
    real = [place for place, name in enumerate(names) if name in REAL]
    if real:
        print(f"\nMean over the {len(real)} real sets: {gains[real].mean():+.4f}")
    print_versions()


if __name__ == "__main__":
    main()
