"""A search over 16 combinations of parameters with five folds, in units of a single fit.

On Lost, if HERA_FAST_DATA says where it is, and else on data of its shape. The unit is a fit to all
rows with the estimator's own parameters, and for the default grid with the default ones.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from ratio import Candidate, compare, record
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import StandardScaler

from hera_fast import (
    HERAClassifier,
    HERAClassifierCV,
    load_partial_labels,
    make_partial_classification,
)
from hera_fast.selection import DEFAULT_GRID

SINGLE = "a single fit"
BAR = 20

ALPHAS = [0.3, 1.0, 3.0, 10.0]
GAUSSIAN = {"calibration": "gaussian", "ranking": True, "prediction": "hybrid"}
#: What is searched, and what the estimator has beside it.
SEARCHES = {
    "default grid": (DEFAULT_GRID, {}),
    "alpha x shrinkage": ({"alpha": ALPHAS, "shrinkage": [0.03, 0.1, 0.3, 1.0]}, GAUSSIAN),
    "alpha x shrinkage, rbf": (
        {"alpha": ALPHAS, "shrinkage": [0.1, 0.3, 1.0, 3.0]},
        {**GAUSSIAN, "kernel": "rbf", "n_components": 500, "random_state": 0},
    ),
}


@cache
def data():
    path = Path(os.environ.get("HERA_FAST_DATA", "."), "realworld", "lost.npz")
    if path.exists():
        lost = load_partial_labels(path)
        return "Lost", StandardScaler().fit_transform(lost.data), lost.candidates
    X, Y, _ = make_partial_classification(like="lost", random_state=0)
    return "like Lost", StandardScaler().fit_transform(X), Y


@pytest.mark.parametrize("name", SEARCHES)
def test_search(name):
    grid, settings = SEARCHES[name]
    assert len(ParameterGrid(grid)) == 16
    shape, X, Y = data()
    model = HERAClassifier(**settings)
    search = HERAClassifierCV(grid, estimator=model, random_state=0)
    candidates = {
        "search": Candidate(lambda: search.fit(X, Y)),
        SINGLE: Candidate(lambda: model.fit(X, Y)),
    }
    record(
        compare(
            *(f"choice of parameters, {name}", shape, "float64", candidates, "search"),
            bars={SINGLE: BAR},
            budget=40.0,
        )
    )
