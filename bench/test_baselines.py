"""The six methods that HERA is compared with, at the shape of Yahoo! News, on two threads.

The unit is the time of logistic regression on the true labels, which is fitted before each run of a
method and after the last; the shortest time of each counts. A method's time is that of `fit` and of
predicting 2,000 rows. Memory is the growth of a process of its own beyond what it had when the data
were there.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from ratio import Figure, record
from shapes import rows_with_truth
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from test_solver import LOGISTIC, seconds

from hera_fast import baselines
from hera_fast.threads import threads

N_TRAIN, N_TEST, N_FEATURES, N_LABELS, N_CANDIDATES = 20_000, 2_000, 163, 219, 1.91
SHAPE = f"{N_TRAIN} x {N_FEATURES}, q = {N_LABELS}"
#: The largest allowed multiples of logistic regression, and how often to measure.
BARS = {
    "PLKNNClassifier": (0.3, 3),
    "PLSVMClassifier": (5.0, 2),
    "CLPLClassifier": (5.0, 2),
    "LSBCMMClassifier": (40.0, 2),
    "PLECOCClassifier": (40.0, 2),
    "PALOCClassifier": (60.0, 1),
}
MOST_BYTES = 4 << 30

pytestmark = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="compares on two threads, there is one"
)


@cache
def data():
    return rows_with_truth(N_TRAIN + N_TEST, N_FEATURES, N_LABELS, N_CANDIDATES)


def make(name):
    model = getattr(baselines, name)(n_threads=2)
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


def fit_and_predict(model, n_train=N_TRAIN):
    rows = data()
    model.fit(rows.X[:n_train], rows.Y[:n_train])
    return float(np.mean(model.predict(rows.X[N_TRAIN:]) == rows.y[N_TRAIN:]))


def logistic_regression():
    rows = data()
    with threads(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LogisticRegression(max_iter=100).fit(rows.X[:N_TRAIN], rows.y[:N_TRAIN])


@pytest.mark.parametrize("name", BARS)
def test_fit_and_predict_against_logistic_regression(name):
    bar, rounds = BARS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit_and_predict(make(name), 500)  # compiles
    ours = theirs = np.inf
    accuracy = 0.0

    def run():
        nonlocal accuracy
        accuracy = fit_and_predict(make(name))

    for _ in range(rounds):
        theirs = min(theirs, seconds(logistic_regression))
        ours = min(ours, seconds(run))
    theirs = min(theirs, seconds(logistic_regression))
    record(
        [
            Figure(
                *(f"{name}, fit and predict", SHAPE, "float64", LOGISTIC, ours / theirs, bar),
                ours=ours,
                theirs=theirs,
            ),
            Figure(
                f"{name}, held-out error", SHAPE, "float64", "-", 1 - accuracy, kind="error rate"
            ),
        ]
    )


MEMORY = """
import os, resource, sys
from pathlib import Path
from test_baselines import data, fit_and_predict, make
data()
before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
fit_and_predict(make(sys.argv[1]))
print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", BARS)
def test_memory(name):
    folder = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEMORY, name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    grown = int(run.stdout.split()[-1])
    record([Figure(f"{name}, memory", SHAPE, "float64", "4 GiB", grown / MOST_BYTES, 1.0)])
