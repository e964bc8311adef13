"""Would other data sets choose the constants of the default? Each data set is left out in turn.

Around the default one constant at a time takes another value. For each data set, the value that is
best on average over the *other* data sets counts as chosen. Then each data set is measured with all
the constants that the others chose. So no figure of the last table depends on a constant that was
chosen by its own data set, but the ingredients and the values that are compared were known before.

    HERA_FAST_DATA=folder python bench/accuracy/constants.py

Three folds of the four real sets, two of nine sets with three kinds of artificial candidates each,
at most 1,500 rows of these. Takes about a quarter of an hour on two processors.
"""

from __future__ import annotations

import numpy as np
from study import print_rows, print_versions
from variants import DEFAULT, Variant, measure

from hera_fast import co_occurrence, kernel_maps, mixture

SEED = 1000
MEDIAN_GAMMA = kernel_maps._median_gamma


def constant(module, name):
    return lambda value: Variant(replaced=((module, name, value),))


def scaled_gamma(factor):
    def scaled(*arguments):
        return factor * MEDIAN_GAMMA(*arguments)

    return Variant(replaced=((kernel_maps, "_median_gamma", scaled),))


#: What each constant may be, the default among it, and what makes a variant of a value.
CONSTANTS = {
    "first shrinkage, in rows": (
        *((6.0, 20.0, 60.0), 20.0),
        constant(mixture, "FIRST_SHRINKAGE"),
    ),
    "the same with few rows": ((0.01, 0.03, 0.1), 0.03, constant(mixture, "LARGEST_SHRINKAGE")),
    "rows added to a label": ((5.0, 10.0, 20.0), 10.0, constant(mixture, "_COMMON_ROWS")),
    "weight of the co-occurrence": ((0.25, 0.5, 1.0), 0.5, constant(co_occurrence, "_WEIGHT")),
    "rows added to its patterns": (
        *((1.0, 5.0, 20.0), 5.0),
        constant(co_occurrence, "_COMMON_ROWS"),
    ),
    "steps to match shares": ((3, 10), 10, constant(mixture, "_SHARE_STEPS")),
    "landmarks": ((500, 1000), 1000, lambda value: Variant({"n_components": value})),
    "kernel width, of the median": ((0.5, 1.0, 2.0), 1.0, lambda value: scaled_gamma(1 / value)),
}


def combined(values):
    """All constants at once."""
    variants = [make(values[name]) for name, (_, _, make) in CONSTANTS.items()]
    parameters = {key: value for each in variants for key, value in each.parameters.items()}
    return Variant(parameters, tuple(replaced for each in variants for replaced in each.replaced))


def main():
    variants = {DEFAULT: Variant()}
    for name, (values, default, make) in CONSTANTS.items():
        variants |= {(name, value): make(value) for value in values if value != default}
    results = measure(variants, SEED)
    names = list(results[DEFAULT])
    base = np.array([results[DEFAULT][name].accuracy for name in names])

    def change(name, value):
        figures = results.get((name, value), results[DEFAULT])
        return np.array([figures[each].accuracy for each in names]) - base

    rows = []
    for name, (values, default, _) in CONSTANTS.items():
        for value in values:
            changes = change(name, value)
            mark = " (default)" if value == default else ""
            cells = [f"{each:+.3f}" if value != default else "" for each in changes]
            rows.append([name, f"{value:g}{mark}", *cells, f"{changes.mean():+.4f}"])
    header = ["constant", "value", *names, "mean"]
    print_rows("Change of the held-out accuracy against the default", header, rows)

    choices = {name: {} for name in names}
    for which, (values, default, _) in CONSTANTS.items():
        changes = np.array([change(which, value) for value in values])
        others = (changes.sum(axis=1, keepdims=True) - changes) / (len(names) - 1)
        # Of equal ones the default.
        others[values.index(default)] += 1e-9
        for name, place in zip(names, others.argmax(axis=0), strict=True):
            choices[name][which] = values[place]
    rows = [[which, *(f"{choices[name][which]:g}" for name in names)] for which in CONSTANTS]
    print_rows("What the other data sets choose", ["constant", *names], rows)
    # Each set with all constants that the others chose for it.
    chosen = measure(
        {name: combined(choices[name]) for name in names},
        SEED,
        lambda variant, name: variant == name,
    )
    figures = np.array([chosen[name][name].accuracy for name in names])
    rows = [
        [DEFAULT, *(f"{value:.3f}" for value in base), f"{base.mean():.3f}"],
        [
            *("with what the others choose", *(f"{value:.3f}" for value in figures)),
            f"{figures.mean():.3f}",
        ],
    ]
    print_rows("Held-out accuracy", ["", *names, "mean"], rows)
    print_versions()


if __name__ == "__main__":
    main()
