"""One estimator in one fold: what it sees, what is measured, and what goes wrong."""

from __future__ import annotations

import math
import os
import signal
import threading
import warnings

import numba
import numpy as np
import pytest
from partial_models import AverageLogistic, Constant, Scored
from problems import clusters
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hera_fast import HERAClassifier
from hera_fast.fold import Fold, Problem, evaluate_fold
from hera_fast.scores import candidate_score

X, Y, y = clusters(90, 4, 5, noise=0.5, spread=2.0)
PROBLEM = Problem(X, Y, y, positions=np.arange(Y.shape[1], dtype=float))
FOLD = Fold(3, np.arange(60), np.arange(60, 90))
MODEL = HERAClassifier(n_neighbors=3)


def evaluate(estimator, problem=PROBLEM, fold=FOLD, n_threads=1):
    return evaluate_fold("mine", estimator, problem, fold, n_threads)


def test_figures():
    figures = evaluate(MODEL)
    model = MODEL.fit(X[:60], Y[:60])
    predicted = model.predict(X[60:])
    assert figures["inductive"] == accuracy_score(y[60:], predicted)
    assert figures["transductive"] == accuracy_score(y[:60], model.transduction_)
    assert figures["macro_f1"] == pytest.approx(f1_score(y[60:], predicted, average="macro"))
    expected = log_loss(y[60:], model.predict_proba(X[60:]), labels=np.arange(5))
    assert figures["log_loss"] == pytest.approx(expected)
    assert figures["covering"] == candidate_score(model, X[60:], Y[60:])
    distance = np.abs(predicted - y[60:])
    assert figures["mae3"] == np.mean(distance <= 3)
    assert figures["mae5"] == np.mean(distance <= 5)
    assert figures["n_iter"] == model.n_iter_
    names = ("estimator", "fold", "n_train", "n_test", "n_warnings")
    assert [figures[name] for name in names] == ["mine", 3, 60, 30, 0]
    assert figures["fit_seconds"] > 0
    assert figures["predict_seconds"] > 0


def test_the_estimator_is_left_as_it_is():
    model = HERAClassifier()
    evaluate(model)
    assert not hasattr(model, "classes_")


def test_known_figures():
    """All labels are 2, but for one row each where labels are 0 and 6."""
    candidates = np.zeros((8, 7), bool)
    truth = np.array([2, 2, 2, 2, 2, 0, 6, 2])
    candidates[np.arange(8), truth] = True
    candidates[6, 2] = True
    problem = Problem(np.zeros((8, 1)), candidates, truth, positions=np.arange(7.0))
    figures = evaluate(Constant(2), problem, Fold(0, np.arange(3), np.arange(3, 8)))
    assert figures["inductive"] == 3 / 5
    assert figures["covering"] == 4 / 5
    # Differences 0, 0, 2, 4, 0.
    assert (figures["mae3"], figures["mae5"]) == (4 / 5, 1)
    # Of the labels 0, 2 and 6 only 2 is found, with precision 3/5 and recall 1.
    assert figures["macro_f1"] == pytest.approx(0.75 / 3)
    assert all(math.isnan(figures[name]) for name in ("transductive", "log_loss", "n_iter"))


def test_without_truth():
    figures = evaluate(MODEL, PROBLEM._replace(truth=None))
    assert "inductive" not in figures
    assert figures["covering"] == evaluate(MODEL)["covering"]


def test_probabilities_of_zero_are_clipped():
    class Sure(Constant):
        def predict_proba(self, X):
            return np.eye(5)[np.full(len(X), self.label)]

    figures = evaluate(Sure(1))
    missed = np.mean(y[60:] != 1)
    assert figures["log_loss"] == pytest.approx(-missed * math.log(1e-15))
    assert figures["transductive"] < 1


# The candidate of a training row that an estimator prefers


def pick(scores, candidates, truth):
    """The transductive accuracy of features that are scores."""
    scores, candidates = np.asarray(scores, float), np.asarray(candidates, bool)
    problem = Problem(scores, candidates, np.asarray(truth), positions=None)
    rows = np.arange(len(scores))
    return evaluate(Scored(), problem, Fold(0, rows, rows))["transductive"]


def test_decision_function_picks_among_the_candidates():
    scores = [[3, 2, 1], [3, 2, 1], [-np.inf, -np.inf, 5], [0, -np.inf, 0]]
    candidates = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 0]]
    assert pick(scores, candidates, [1, 0, 0, 1]) == 1
    assert pick(scores, candidates, [1, 0, 1, 1]) == 0.75


def test_decision_function_of_two_labels():
    scores = [[0, 1], [1, 0], [0, 1]]
    assert pick(scores, [[1, 1], [1, 1], [1, 0]], [1, 0, 0]) == 1


def test_probabilities_pick_among_the_candidates():
    figures = evaluate(AverageLogistic())
    model = AverageLogistic().fit(X[:60], Y[:60])
    picked = np.where(Y[:60], model.predict_proba(X[:60]), -1).argmax(axis=1)
    assert figures["transductive"] == accuracy_score(y[:60], picked)
    assert figures["transductive"] > accuracy_score(y[:60], model.predict(X[:60]))


def test_labels_that_no_training_row_has():
    candidates = Y.copy()
    candidates[:60, 0] = False
    train = np.flatnonzero(candidates[:60].any(axis=1))
    truth = np.where(candidates[np.arange(90), y], y, candidates.argmax(axis=1))
    problem = Problem(X, candidates, truth, positions=None)
    unknown = np.mean(truth[60:] == 0)
    assert 0 < unknown < 1
    hera, logistic = (
        evaluate(model, problem, FOLD._replace(train=train)) for model in (MODEL, AverageLogistic())
    )
    for figures in (hera, logistic):
        assert figures["inductive"] <= 1 - unknown
        assert figures["log_loss"] >= -unknown * math.log(1e-15)
    # It does not even have a column for the label.
    model = AverageLogistic().fit(X[train], candidates[train])
    assert model.classes_.tolist() == [1, 2, 3, 4]
    known, held_out = (
        np.column_stack([np.zeros(len(rows)), model.predict_proba(rows)])
        for rows in (X[train], X[60:])
    )
    chosen = np.maximum(held_out[np.arange(30), truth[60:]], 1e-15)
    assert logistic["log_loss"] == pytest.approx(-np.log(chosen).mean())
    picked = np.where(candidates[train], known, -1).argmax(axis=1)
    assert logistic["transductive"] == np.mean(picked == truth[train])


@pytest.mark.parametrize("wrap", ["pipeline", "nested", "search"])
def test_classifiers_inside_others(wrap):
    model = {
        "pipeline": make_pipeline(FunctionTransformer(), MODEL),
        "nested": make_pipeline(FunctionTransformer(), make_pipeline(FunctionTransformer(), MODEL)),
        "search": make_pipeline(
            FunctionTransformer(),
            GridSearchCV(MODEL, {"n_neighbors": [3]}, scoring=candidate_score, cv=2),
        ),
    }[wrap]
    bare, wrapped = evaluate(MODEL), evaluate(model)
    for name in bare.keys() - {"fit_seconds", "predict_seconds"}:
        assert wrapped[name] == bare[name], name


# What goes wrong


class Failing(Constant):
    def fit(self, X, Y):
        raise ZeroDivisionError("no way")


class Named(Constant):
    def predict(self, X):
        return np.full(len(X), "cat")


class Multiple(Constant):
    def predict(self, X):
        return np.zeros((len(X), 5))


@pytest.mark.parametrize(
    ("model", "cause", "message"),
    [
        (Failing(), ZeroDivisionError, "no way"),
        (Named(), ValueError, "row 0 has the label 'cat', which is none of the 5 classes"),
        (Multiple(), ValueError, r"shape \(30, 5\).*one is needed for each row.*multi-label"),
        (Constant(7), ValueError, "row 0 has the label 7"),
    ],
)
def test_errors_name_estimator_and_fold(model, cause, message):
    pattern = f"'mine' failed in fold 3: {cause.__name__}: .*{message}"
    with pytest.raises(RuntimeError, match=pattern) as caught:
        evaluate(model)
    assert type(caught.value.__cause__) is cause


class Complaining(Constant):
    def fit(self, X, Y):
        for number in range(20):
            warnings.warn(f"complaint {number % 2}", ConvergenceWarning, stacklevel=1)
        warnings.warn("not for users", DeprecationWarning, stacklevel=1)
        return super().fit(X, Y)

    def predict(self, X):
        warnings.warn("another place", RuntimeWarning, stacklevel=1)
        return super().predict(X)


def test_warnings_are_counted():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [evaluate(Complaining())["n_warnings"] for _ in range(2)] == [3, 3]
    assert caught == []
    assert evaluate(HERAClassifier(max_iter=1))["n_warnings"] == 1


class Threads(Constant):
    """Predicts the number of threads."""

    def fit(self, X, Y):
        self.label = numba.get_num_threads()
        return super().fit(X, Y)


def test_threads():
    most = numba.config.NUMBA_NUM_THREADS
    before = numba.get_num_threads()
    rows = np.arange(2)
    candidates = np.ones((2, max(most, 1) + 2), bool)
    for n_threads in {1, most, most + 1}:
        truth = np.full(2, min(n_threads, most))
        problem = Problem(np.zeros((2, 1)), candidates, truth, positions=None)
        figures = evaluate(Threads(), problem, Fold(0, rows, rows), n_threads)
        assert figures["inductive"] == 1
    assert numba.get_num_threads() == before


class Interrupted(Constant):
    """Goes on after an interrupt, as fits do that keep what they have reached."""

    def fit(self, X, Y):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(10)
        except KeyboardInterrupt:
            self.was_interrupted_ = True
        return super().fit(X, Y)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_half_a_fit_is_no_result():
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        evaluate(Interrupted())
    assert signal.getsignal(signal.SIGINT) is handler
    # A program that handles the signal itself goes on doing so.
    seen = []
    signal.signal(signal.SIGINT, lambda *arguments: seen.append(1))
    try:
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        evaluate(make_pipeline(StandardScaler(), Patient()))
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, handler)


class Patient(Constant):
    def fit(self, X, Y):
        threading.Event().wait(0.3)
        return super().fit(X, Y)


def test_other_threads_have_no_signals():
    results = []
    thread = threading.Thread(target=lambda: results.append(evaluate(Constant())))
    thread.start()
    thread.join()
    assert results[0]["inductive"] == np.mean(y[60:] == 0)
