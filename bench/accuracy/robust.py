"""The default where its assumptions fail, against its own links and settings.

Three folds for each of: sparse binary features with many equal rows, false candidates that depend
on the row, 500 labels with a long tail, features of which 60 % are noise; and rows of the shape of
Yahoo! News, against logistic regression on the true labels.

    python bench/accuracy/robust.py

Takes about ten minutes.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from study import TrueLabels, column, print_rows, print_versions

from hera_fast import (
    HERAClassifier,
    cross_validate_partial,
    make_partial_classification,
    make_partial_labels,
)

N_FOLDS = 3

LEAST_SQUARES = "least squares on the simplex"
SETTINGS = {
    "default": {},
    LEAST_SQUARES: {"calibration": None},
    "least squares, rbf": {"calibration": None, "kernel": "rbf"},
    "least squares, low rank, ranking": {"calibration": None, "nu": 0.1, "ranking": True},
    "Gaussian": {"calibration": "gaussian"},
    "Gaussian, shrinkage 1": {"calibration": "gaussian", "shrinkage": 1.0},
    "Gaussian, rbf": {"calibration": "gaussian", "kernel": "rbf"},
    "Gaussian, hybrid": {"calibration": "gaussian", "prediction": "hybrid"},
    "mixture, features only": {"kernel": None},
    "mixture, rbf only": {"kernel": "rbf"},
    "mixture, laplacian only": {"kernel": "laplacian"},
    "mixture, hybrid": {"prediction": "hybrid"},
    "mixture, ranking": {"ranking": True},
    "mixture, low rank": {"nu": 0.1},
    "mixture, 500 landmarks": {"n_components": 500},
}


def sparse_binary():
    """Rows that show some of their label's features, one in ten of them wrongly; many are equal."""
    rng = np.random.default_rng(0)
    n, d, q = 3000, 120, 12
    typical = rng.random((q, d)) < 0.08
    kinds = rng.integers(0, q, 400)
    distinct = (typical[kinds] & (rng.random((400, d)) < 0.5)) | (rng.random((400, d)) < 0.01)
    rows = rng.integers(0, 400, n)
    y = kinds[rows]
    Y = make_partial_labels(y, p=0.8, r=2, random_state=0)
    return sparse.csr_array(distinct[rows].astype(np.float64)), Y, y


def instance_dependent():
    """Digits whose false candidates look like them."""
    X, y = load_digits(return_X_y=True)
    return X, make_partial_labels(y, p=0.9, r=3, noise="instance", X=X, random_state=0), y


def long_tail():
    """500 labels, the most frequent one 500 times as frequent as the rarest."""
    X, Y, y = make_partial_classification(
        *(5000, 60, 500, 3.0), imbalance=1.0, co_occurrence=0.7, random_state=0
    )
    return X, Y, y


def mostly_noise():
    """40 features that tell something, 60 that do not."""
    X, Y, y = make_partial_classification(
        *(2000, 40, 10, 3.0), co_occurrence=0.7, class_sep=0.7, random_state=0
    )
    noise = np.random.default_rng(1).standard_normal((len(X), 60))
    return np.hstack([X, noise]), Y, y


SITUATIONS = {
    "sparse, many equal rows": sparse_binary,
    "candidates depend on the row": instance_dependent,
    "500 labels, long tail": long_tail,
    "60 % noise features": mostly_noise,
}


def accuracies(X, Y, y, settings):
    models = {name: HERAClassifier(random_state=0, **setting) for name, setting in settings.items()}
    table = cross_validate_partial(models, X, Y, y, cv=N_FOLDS, random_state=0, n_jobs=2)
    return {name: float(column(table, name, "inductive").mean()) for name in models}


def main():
    results = {name: accuracies(*make(), SETTINGS) for name, make in SITUATIONS.items()}
    rows = [
        [setting, *(f"{result[setting]:.3f}" for result in results.values())]
        for setting in SETTINGS
    ]
    for what, reference in (
        ("best of these", [max(result.values()) for result in results.values()]),
        (LEAST_SQUARES, [result[LEAST_SQUARES] for result in results.values()]),
    ):
        differences = [
            f"{result['default'] - other:+.3f}"
            for result, other in zip(results.values(), reference, strict=True)
        ]
        rows.append([f"default minus {what}", *differences])
    print_rows(f"Held-out accuracy, mean of {N_FOLDS} folds", ["", *results], rows)

    X, Y, y = make_partial_classification(like="yahoo-news", random_state=0)
    ours = accuracies(X, Y, y, {"default": {}})["default"]
    truth = sparse.csr_array((np.ones(len(y), bool), y, np.arange(len(y) + 1)), shape=Y.shape)
    table = cross_validate_partial(
        {"oracle": TrueLabels()}, X, truth.toarray(), y, cv=N_FOLDS, random_state=0
    )
    oracle = column(table, "oracle", "inductive").mean()
    print(
        f"\nThe shape of Yahoo! News: default {ours:.3f}, logistic regression on the truth ", end=""
    )
    print(f"{oracle:.3f}, ratio {ours / oracle:.3f}")
    print_versions()


if __name__ == "__main__":
    main()
