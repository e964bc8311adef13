"""Small partial-label problems for the tests of the solver."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from contextlib import contextmanager
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from strategies import candidate_matrices, seeds

from hera_fast import HERAClassifier
from hera_fast.features import make_features
from hera_fast.run import Options


def hybrid(**changes):
    """One discriminant, the ranking loss and the neighbours, but for the changes."""
    settings = {"calibration": "gaussian", "ranking": True, "prediction": "hybrid"}
    return HERAClassifier(**{**settings, **changes})


def make_options(**changes):
    """The options of the solver: one discriminant and the ranking loss, but for the changes."""
    values = hybrid(**changes).get_params()
    values["random_state"] = 0
    return Options(**{field.name: values[field.name] for field in fields(Options)})


def paper_options(**changes):
    return make_options(**HERAClassifier.paper(**changes).get_params())


class Problem(NamedTuple):
    """Rows, candidates and weights; and how the solver is to see them."""

    X: np.ndarray
    Y: np.ndarray
    weights: np.ndarray | None = None
    is_sparse: bool = False

    @property
    def w(self):
        return np.ones(len(self.X)) if self.weights is None else self.weights

    def features(self, fit_intercept=True, dtype=np.float64):
        X = self.X.astype(dtype)
        rows = sparse.csr_array(X) if self.is_sparse else X
        return make_features(rows, fit_intercept=fit_intercept, sample_weight=self.weights)

    def repeated(self, counts):
        """The same rows several times, in one block each."""
        X, Y = (np.repeat(array, counts, axis=0) for array in (self.X, self.Y))
        return Problem(X, Y, None, self.is_sparse)


def clusters(n, d, q, seed=0, *, noise=0.3, spread=1.0):
    """One cluster for each label; false candidates at random, and often the next label."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, q, n)
    X = 2 * rng.standard_normal((q, d))[y] + spread * rng.standard_normal((n, d))
    Y = rng.random((n, q)) < noise / 2
    Y[np.arange(n), (y + 1) % q] |= rng.random(n) < noise
    Y[np.arange(n), y] = True
    return X, Y, y


def confidences(rng, Y, sharpness):
    """Random confidences on the candidates, one-hot rows when the sharpness is large."""
    scores = np.where(Y, sharpness * rng.standard_normal(Y.shape), -np.inf)
    scores -= scores.max(axis=1, keepdims=True)
    P = np.exp(scores)
    return P / P.sum(axis=1, keepdims=True)


def iteration_peaks(model, X, Y, sample_weight=None):
    """What each of four iterations allocates beyond what there was, at most."""
    peaks = []

    def measure(state):
        current, peak = tracemalloc.get_traced_memory()
        peaks.append(peak - current)
        tracemalloc.reset_peak()
        return state.iteration == 4

    tracemalloc.start()
    try:
        model.set_params(callback=measure).fit(X, Y, sample_weight=sample_weight)
    finally:
        tracemalloc.stop()
    return peaks


def interrupted_calls(function, prepare, inside=None):
    """Call a Python function with an interrupt before each of its lines.

    Or of the lines of `inside`, which it calls. `prepare` returns the arguments of a call. They
    are yielded after it was interrupted; a call without interrupt ends the iteration.
    """
    for n_lines in itertools.count():
        arguments = prepare()
        try:
            with _interrupt_after(n_lines, (inside or function).__code__):
                function(*arguments)
        except KeyboardInterrupt:
            yield arguments
        else:
            return


@contextmanager
def _interrupt_after(n_lines, code):
    n_left = n_lines

    def trace(frame, event, argument):
        nonlocal n_left
        if frame.f_code is not code:
            return None
        if event == "line":
            n_left -= 1
            if n_left < 0:
                raise KeyboardInterrupt
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)


sharpnesses = st.sampled_from([0.0, 1.0, 10.0, 1000.0])


@st.composite
def problems(draw, most_rows=12, most_features=5, most_labels=7, *, zero_weights=True):
    n, d = draw(st.integers(1, most_rows)), draw(st.integers(1, most_features))
    q = draw(st.integers(1, most_labels))
    rng = np.random.default_rng(draw(seeds))
    X = rng.standard_normal((n, d)) * draw(st.sampled_from([0.01, 1.0, 30.0]))
    X += draw(st.sampled_from([0, 5]))
    X *= rng.random((n, d)) < draw(st.sampled_from([0.3, 1.0]))
    weights = None
    if draw(st.booleans()):
        weights = rng.exponential(size=n)
        if zero_weights:
            weights[1:] *= rng.random(n - 1) < 0.8
    return Problem(X, draw(candidate_matrices(n, q)), weights, draw(st.booleans()))
