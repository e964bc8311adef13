"""The folds of a cross-validation, and one estimator in one of them."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numba
import numpy as np
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from hera_fast.candidates import check_labels
from hera_fast.scores import LEAST_PROBABILITY, MEASURES
from hera_fast.threads import threads

__all__ = ["Fold", "Problem", "evaluate_fold", "final_step", "make_folds"]

_Array = np.ndarray[Any, Any]

# What Python does not show by default either.
_NOT_FOR_USERS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class Problem(NamedTuple):
    """A data set whose labels are the numbers of the columns of the candidates.

    Attributes
    ----------
    X : array, data frame or CSR matrix of n rows
        Rows.
    candidates : ndarray of bool, shape (n, q)
        Which labels are candidates.
    truth : ndarray of int, shape (n,), or None
        The true labels.
    positions : ndarray of float, shape (q,), or None
        Where the labels are on a scale, if they are on one.
    """

    X: Any
    candidates: _Array
    truth: _Array | None
    positions: _Array | None


class Fold(NamedTuple):
    """Which rows are for training and which are held out.

    Attributes
    ----------
    number : int
        From 0.
    train, test : ndarray of int
        Numbers of rows.
    """

    number: int
    train: _Array
    test: _Array


def make_folds(
    cv: Any, X: Any, truth: _Array | None, random_state: int | np.random.RandomState | None
) -> list[Fold]:
    """Split rows.

    Parameters
    ----------
    cv : int, splitter or iterable
        Number of shuffled folds; or a splitter of scikit-learn; or pairs of training rows and
        held-out rows.
    X : array, data frame or CSR matrix of n rows
        Rows.
    truth : ndarray of shape (n,), or None
        What the splitter may look at.
    random_state : int, RandomState instance or None
        Shuffles the folds.

    Returns
    -------
    folds : list of Fold

    Raises
    ------
    ValueError
        If a fold has no rows for training, or none is held out, or a row is both.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.fold import make_folds
    >>> [fold.test.tolist() for fold in make_folds(2, np.zeros((4, 1)), None, 0)]
    [[2, 3], [0, 1]]
    """
    if isinstance(cv, Integral):
        splitter = KFold(int(cv), shuffle=True, random_state=random_state)
    else:
        splitter = check_cv(cv)
    rows = np.arange(_num_samples(X))
    # Masks become numbers of rows by this, and numbers beyond the rows an error.
    folds = [
        Fold(number, rows[train], rows[test])
        for number, (train, test) in enumerate(splitter.split(X, truth))
    ]
    for fold in folds:
        if not (len(fold.train) and len(fold.test)):
            raise ValueError(f"fold {fold.number} has no rows for training, or none is held out")
        both = np.intersect1d(fold.train, fold.test)
        if len(both):
            raise ValueError(f"row {both[0]} is held out in fold {fold.number} and trained on too")
    return folds


def evaluate_fold(
    name: str, estimator: Any, problem: Problem, fold: Fold, n_threads: int
) -> dict[str, Any]:
    """Fit a clone to the candidates of the training rows, and measure it.

    Parameters
    ----------
    name : str
        The name of the estimator, for the errors.
    estimator : estimator
        It is not changed.
    problem : Problem
        The data set.
    fold : Fold
        Its rows.
    n_threads : int
        The most threads to use.

    Returns
    -------
    figures : dict
        Columns of the table that :func:`hera_fast.evaluation.cross_validate_partial` describes.

    Raises
    ------
    RuntimeError
        If anything fails. It names the estimator and the fold.
    KeyboardInterrupt
        If there was an interrupt, even if the estimator has caught it.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.fold import Fold, Problem, evaluate_fold
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> truth = np.array([0, 0, 0, 1, 1, 1])
    >>> problem = Problem(X, np.eye(2, dtype=bool)[truth], truth, positions=None)
    >>> fold = Fold(0, train=np.array([0, 1, 3, 4]), test=np.array([2, 5]))
    >>> evaluate_fold("HERA", HERAClassifier(n_neighbors=1), problem, fold, 1)["inductive"]
    1.0
    """
    # A worker process may have fewer threads than its parent.
    n_threads = min(n_threads, numba.config.NUMBA_NUM_THREADS)
    try:
        with threads(n_threads), _interrupts_count(), _recorded_warnings() as caught:
            figures = _measure(clone(estimator), problem, fold)
    except Exception as error:
        raise RuntimeError(
            f"{name!r} failed in fold {fold.number}: {type(error).__name__}: {error}"
        ) from error
    n_warnings = float("nan") if caught is None else len(caught)
    return {"estimator": name, "fold": fold.number, **figures, "n_warnings": n_warnings}


def _measure(model: Any, problem: Problem, fold: Fold) -> dict[str, Any]:
    n_labels = problem.candidates.shape[1]
    train_X, test_X = (_safe_indexing(problem.X, rows) for rows in (fold.train, fold.test))
    start = time.perf_counter()
    model.fit(train_X, problem.candidates[fold.train])
    fitted_at = time.perf_counter()
    predicted = model.predict(test_X)
    predicted_at = time.perf_counter()
    predicted = _label_numbers(predicted, n_labels)
    figures = {
        "n_train": len(fold.train),
        "n_test": len(fold.test),
        "covering": MEASURES["candidate_score"](predicted, None, problem.candidates[fold.test]),
        "lift": MEASURES["candidate_lift"](predicted, None, problem.candidates[fold.test]),
        "fit_seconds": fitted_at - start,
        "predict_seconds": predicted_at - fitted_at,
        "n_iter": _n_iter(model),
    }
    if problem.truth is not None:
        figures |= _compare_with_truth(model, problem, fold, (train_X, test_X), predicted)
    return figures


def _compare_with_truth(
    model: Any, problem: Problem, fold: Fold, rows: tuple[Any, Any], predicted: _Array
) -> dict[str, float]:
    assert problem.truth is not None
    truth = problem.truth[fold.test]
    figures = {
        "inductive": float(np.mean(predicted == truth)),
        "transductive": float("nan"),
        "macro_f1": float(f1_score(truth, predicted, average="macro", zero_division=0)),
        "log_loss": float("nan"),
    }
    train_X, test_X = rows
    picked = _pick_candidates(model, train_X, problem.candidates[fold.train])
    if picked is not None:
        figures["transductive"] = float(np.mean(picked == problem.truth[fold.train]))
    if hasattr(model, "predict_proba"):
        probabilities = _scores(model, test_X, problem.candidates.shape[1])
        chosen = np.clip(probabilities[np.arange(len(truth)), truth], LEAST_PROBABILITY, 1)
        figures["log_loss"] = float(-np.log(chosen).mean())
    if problem.positions is not None:
        distances = np.abs(problem.positions[predicted] - problem.positions[truth])
        figures |= {f"mae{most}": float(np.mean(distances <= most)) for most in (3, 5)}
    return figures


def _pick_candidates(model: Any, X: Any, candidates: _Array) -> _Array | None:
    """Say which candidate of each training row the model holds for true; None if it cannot."""
    n_labels = candidates.shape[1]
    final = final_step(model)
    if hasattr(final, "transduction_"):
        return _label_numbers(final.transduction_, n_labels)
    if not (hasattr(model, "predict_proba") or hasattr(model, "decision_function")):
        return None
    # Above what is no candidate, whatever the score is.
    scores = np.maximum(_scores(model, X, n_labels), np.finfo(np.float64).min)
    best: _Array = np.where(candidates, scores, -np.inf).argmax(axis=1)
    return best


def _scores(model: Any, X: Any, n_labels: int) -> _Array:
    """Score every label; minus infinity for those that the model does not know."""
    if hasattr(model, "predict_proba"):
        known = np.asarray(model.predict_proba(X))
    else:
        known = np.asarray(model.decision_function(X))
        if known.ndim == 1:
            known = np.column_stack([-known, known])
    scores: _Array = np.full((len(known), n_labels), -np.inf)
    scores[:, getattr(model, "classes_", np.arange(n_labels))] = known
    return scores


def _label_numbers(labels: Any, n_labels: int) -> _Array:
    """Check that there is one label for each row; their numbers."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(
            f"it gave labels of shape {labels.shape}, but one is needed for each row. Is it a "
            "multi-label classifier?"
        )
    return check_labels(labels, classes=np.arange(n_labels))[0]


def _n_iter(model: Any) -> float:
    n_iter = getattr(final_step(model), "n_iter_", None)
    return float("nan") if n_iter is None else float(np.max(n_iter))


def final_step(model: Any) -> Any:
    """Find the classifier inside pipelines and searches.

    Parameters
    ----------
    model : estimator
        A classifier, a pipeline that ends with one, or a search with `best_estimator_`.

    Returns
    -------
    classifier : estimator

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.fold import final_step
    >>> final_step(make_pipeline(HERAClassifier()))
    HERAClassifier()
    """
    while True:
        if isinstance(model, Pipeline):
            model = model[-1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


@contextmanager
def _recorded_warnings() -> Iterator[list[warnings.WarningMessage] | None]:
    """Collect what users would see, each warning once for the place it comes from.

    Not in threads, which share one setting of what happens to warnings.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for category in _NOT_FOR_USERS:
            warnings.simplefilter("ignore", category)
        yield caught


@contextmanager
def _interrupts_count() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if an estimator has caught it: half a fit is no result."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    was_interrupted = False

    def interrupt(number: int, frame: Any) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if was_interrupted:
        raise KeyboardInterrupt
