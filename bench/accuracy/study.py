"""Data sets, methods and tables that the accuracy studies share."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from hera_fast import load_partial_labels
from hera_fast.experiments import methods
from hera_fast.experiments.published import ACCURACIES
from hera_fast.experiments.sources import LETTER_ROWS

DATA = Path(os.environ.get("HERA_FAST_DATA", "."))
OUT = Path("out", "accuracy")
N_FOLDS = 10

REAL = {"Lost": "lost", "MSRCv2": "msrcv2", "BirdSong": "birdsong", "FG-NET": "fg-net"}
UCI = (
    *("glass", "ecoli", "dermatology", "vehicle", "segment"),
    *("satimage", "abalone", "letter", "pendigits"),
)
#: Artificial candidates: the name of a file and of a column, and options of `make_partial_labels`.
CANDIDATES = {
    ("p-r1", "p = 0.7, r = 1"): {"p": 0.7, "r": 1},
    ("p-r3", "p = 0.7, r = 3"): {"p": 0.7, "r": 3},
    ("epsilon", "ε = 0.7"): {"epsilon": 0.7},
}
METHODS = {methods.METHODS[name].title: methods.make_method(name, {}, 0) for name in methods.SEVEN}
BASELINES = {title: method for title, method in METHODS.items() if title != "HERA"}

#: Held-out accuracies that the paper prints, and the best that have been published at all.
PRINTED = {
    methods.METHODS[name].title: tuple(ACCURACIES[name][each].mean for each in REAL.values())
    for name in methods.SEVEN
}
BEST_PUBLISHED = (0.812, 0.599, 0.778, 0.076)


class TrueLabels(ClassifierMixin, BaseEstimator):
    """Logistic regression on the true labels, which it is given in place of the candidates."""

    def fit(self, X, Y):
        self.model_ = LogisticRegression(max_iter=1000).fit(X, np.asarray(Y).argmax(axis=1))
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def real_sets():
    """The real sets that are there, with candidates as a bool matrix."""
    found = {}
    for name, stem in REAL.items():
        path = DATA / "realworld" / f"{stem}.npz"
        if path.exists():
            found[name] = load_partial_labels(path)
        else:
            print(f"{name} is left out: there is no {path}, see HERA_FAST_DATA.")
    return found


def uci_set(name):
    """Rows and true labels; missing entries are replaced by the median of their column."""
    path = DATA / "uci" / f"{name}.npz"
    if not path.exists():
        sys.exit(f"There is no {path}: set HERA_FAST_DATA to the folder of the data sets.")
    with np.load(path) as archive:
        X, y = archive["X"].astype(np.float64), archive["y"]
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    if name == "letter":
        rows = np.random.RandomState(0).permutation(len(X))[:LETTER_ROWS]
        X, y = X[rows], y[rows]
    return X, y


def column(table, estimator, name):
    """The figures of an estimator, one for each fold."""
    return np.asarray(table[name])[np.asarray(table["estimator"]) == estimator]


def print_rows(title, header, rows):
    """Print a Markdown table."""
    print(f"\n{title}\n\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def print_versions():
    """Say what was run where."""
    names = ("numpy", "scipy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    machine = f"{platform.machine()}, {os.cpu_count()} processors"
    print(f"\nPython {platform.python_version()}, {versions}; {machine}")
