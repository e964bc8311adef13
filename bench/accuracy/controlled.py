"""The default against six methods on artificial candidates for nine sets with known labels.

Candidates with (p, r) = (0.7, 1), (0.7, 3) and epsilon = 0.7; ten folds, features scaled on the
training folds, default parameters, paired t-tests over the folds at 5 %.

    HERA_FAST_DATA=folder python bench/accuracy/controlled.py [names of sets]

Takes about three quarters of an hour for all of them. The figures of the six methods are kept in
``out/accuracy/controlled``, and a second run measures the default only: remove that folder after a
change of one of them.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import ttest_rel
from study import (
    BASELINES,
    CANDIDATES,
    METHODS,
    N_FOLDS,
    OUT,
    UCI,
    column,
    print_rows,
    print_versions,
    uci_set,
)

from hera_fast import cross_validate_partial, make_partial_labels

KEPT = OUT / "controlled"


def accuracies(method, X, Y, y):
    """Held-out accuracies of a method, one for each fold."""
    table = cross_validate_partial(
        {method: METHODS[method]}, X, Y, y, cv=N_FOLDS, random_state=0, n_jobs=2
    )
    return column(table, method, "inductive")


def remembered(method, name, how, X, Y, y):
    """The same, from the last run if it was made then."""
    path = KEPT / f"{name}-{how}-{method}.txt"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, accuracies(method, X, Y, y))
    return np.loadtxt(path)


def main():
    rows, counts = [], {name: {"better": 0, "won": 0, "lost": 0} for name in BASELINES}
    for name in sys.argv[1:] or UCI:
        X, y = uci_set(name)
        for (short, how), options in CANDIDATES.items():
            Y = make_partial_labels(y, random_state=0, **options)
            ours = accuracies("HERA", X, Y, y)
            cells = [f"{ours.mean():.3f}"]
            for method in BASELINES:
                theirs = remembered(method, name, short, X, Y, y)
                difference = ours - theirs
                mark = ""
                if np.any(difference) and ttest_rel(ours, theirs).pvalue < 0.05:
                    mark = " •" if difference.mean() > 0 else " ◦"
                    counts[method]["won" if difference.mean() > 0 else "lost"] += 1
                counts[method]["better"] += difference.mean() > 0
                cells.append(f"{theirs.mean():.3f}{mark}")
            rows.append([name, how, *cells])
            print(" ".join(rows[-1]), flush=True)
    title = "Held-out accuracy; • significantly worse than HERA, ◦ better"
    print_rows(title, ["set", "candidates", *METHODS], rows)
    print_rows(
        f"HERA against each, of {len(rows)}",
        ["", *BASELINES],
        [
            [what, *(str(counts[method][key]) for method in BASELINES)]
            for what, key in (
                ("larger mean", "better"),
                ("significantly better", "won"),
                ("significantly worse", "lost"),
            )
        ],
    )
    print_versions()


if __name__ == "__main__":
    main()
