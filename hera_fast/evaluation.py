"""Cross-validation that fits to candidates and measures against the truth."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numba
import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from hera_fast.candidates import check_candidates, check_labels
from hera_fast.fold import Problem, evaluate_fold, make_folds
from hera_fast.tables import make_table
from hera_fast.task_progress import task_progress

__all__ = ["cross_validate_partial"]

_Array = np.ndarray[Any, Any]


def cross_validate_partial(
    estimators: Any,
    X: Any,
    candidates: Any,
    y_true: Any = None,
    *,
    cv: Any = 10,
    scaler: Any = "standard",
    ordered: bool = False,
    dataset: str | None = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
    verbose: int = 0,
) -> Any:
    """Fit estimators to the candidates of training folds, and measure them on the held-out rows.

    All estimators get the same folds. Each is cloned for each fold, and sees the training rows and
    their candidates only: never the truth, and nothing of the held-out rows but their features
    when it predicts.

    Parameters
    ----------
    estimators : estimator, dict of str to estimator, or list of (str, estimator)
        Partial-label classifiers. `fit` gets a bool matrix with a column for each label, so that
        the labels that they predict are the numbers of the columns, also where a fold lacks a
        label. Give a `random_state` to those that draw random numbers.
    X : array-like, sparse matrix or data frame of shape (n, d)
        Rows.
    candidates : array-like
        Their candidates, in one of the forms that :meth:`HERAClassifier.fit` takes.
    y_true : array-like of shape (n,), default=None
        The true labels; each must be a candidate of its row. Without them the table has only the
        columns that need no truth.
    cv : int, splitter or iterable, default=10
        Number of shuffled folds; or a splitter of scikit-learn, which is given X and `y_true`; or
        pairs of training rows and held-out rows.
    scaler : "standard", transformer or None, default="standard"
        What is fitted to the rows of the training folds, and applied before each estimator.
        ``"standard"`` is a :class:`~sklearn.preprocessing.StandardScaler`, which leaves the mean
        in sparse rows. None leaves the rows as they are.
    ordered : bool, default=False
        Whether the labels are numbers on a scale, such as ages; text that reads as numbers is
        taken for these. The table then has `mae3` and `mae5`.
    dataset : str, default=None
        The name of the data set, for the table's first column.
    n_jobs : int, default=None
        Number of processes, as in joblib; None is one, -1 one for each processor. They share the
        threads that kernels and BLAS may use now, so estimators that keep all threads busy, such
        as HERA, gain little. The table does not depend on it, but for the seconds.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds.
    verbose : int, default=0
        1 shows on ``sys.stderr`` how far it is and how long it will take.

    Returns
    -------
    table : pandas.DataFrame, or dict of str to ndarray
        The latter without pandas. A row for each estimator and each fold, and the columns

        - ``dataset``, if there is a name; ``estimator``, ``fold``, ``n_train``, ``n_test``;
        - ``inductive``: accuracy on the held-out rows;
        - ``transductive``: share of the training rows for which the picked candidate is true. It
          is the classifier's `transduction_` if there is one, else the candidate that
          `predict_proba` or `decision_function` prefers, else NaN;
        - ``macro_f1``: mean F1 score of the labels that are true or predicted for a held-out row;
        - ``log_loss``: minus the mean logarithm of the true labels' probabilities, those below
          1e-15 counting as 1e-15; NaN without `predict_proba`;
        - ``covering``: share of predictions that are candidates of their held-out row, see
          :func:`hera_fast.scores.candidate_score`; ``lift``: by how much that is above chance,
          see :func:`hera_fast.scores.candidate_lift`;
        - ``mae3``, ``mae5``, if `ordered`: share of predictions that differ from the true label
          by at most 3 or 5. The literature calls these shares MAE3 and MAE5;
        - ``fit_seconds``, with the scaler, and ``predict_seconds`` of the held-out rows. They
          include compilation if something was called for the first time, and with `n_jobs` they
          are measured while other estimators run;
        - ``n_iter``: number of iterations, NaN if unknown;
        - ``n_warnings``: how many different warnings there were. They are not shown. Threads of
          one process cannot tell theirs apart: with joblib's threading backend it is NaN, and
          warnings are shown.

    Raises
    ------
    ValueError
        If a true label is not among the candidates of its row, if lengths differ, or if a row is
        held out and used for training at once.
    RuntimeError
        If an estimator fails. The message says which, and in which fold.

    See Also
    --------
    hera_fast.comparison.compare : Means, tests and ranks of such tables.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.evaluation import cross_validate_partial
    >>> X = np.array([[0.0], [1.0], [0.1], [1.1], [0.2], [1.2], [0.3], [1.3]])
    >>> Y = [{"a", "c"}, {"b"}, {"a"}, {"b", "c"}, {"a", "b"}, {"b", "a"}, {"a"}, {"b"}]
    >>> y = ["a", "b", "a", "b", "a", "b", "a", "b"]
    >>> models = {"default": HERAClassifier(), "single": HERAClassifier(calibration="gaussian")}
    >>> table = cross_validate_partial(models, X, Y, y, cv=2)
    >>> table["estimator"].tolist()
    ['default', 'default', 'single', 'single']
    >>> table["inductive"].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    named = _named_estimators(estimators)
    (X,) = indexable(X)
    matrix, classes = check_candidates(candidates, n_samples=_num_samples(X))
    if len(classes) < 2:
        raise ValueError("all candidates are the same label: at least 2 labels are needed")
    truth = None if y_true is None else _true_labels(y_true, matrix, classes)
    problem = Problem(X, matrix, truth, _positions(classes) if ordered else None)
    folds = make_folds(cv, X, truth, random_state)
    tasks = [(name, _scaled(model, scaler, X), fold) for name, model in named for fold in folds]

    n_workers = min(effective_n_jobs(n_jobs), len(tasks))
    n_threads = max(1, numba.get_num_threads() // n_workers)
    results = Parallel(n_jobs=n_workers, return_as="generator")(
        delayed(evaluate_fold)(name, model, problem, fold, n_threads) for name, model, fold in tasks
    )
    rows = []
    what = "cross-validation" if dataset is None else dataset
    progress = task_progress(what, len(tasks), is_shown=verbose > 0)
    # Closed, so that an interrupt ends the workers too.
    with closing(results), progress as advance:
        for figures in results:
            rows.append({"dataset": dataset, **figures})
            advance()
    return make_table(rows, _column_names(problem, dataset))


def _column_names(problem: Problem, dataset: str | None) -> list[str]:
    names = ["estimator", "fold", "n_train", "n_test"]
    if dataset is not None:
        names = ["dataset", *names]
    if problem.truth is not None:
        names += ["inductive", "transductive", "macro_f1", "log_loss"]
    names += ["covering", "lift"]
    if problem.truth is not None and problem.positions is not None:
        names += ["mae3", "mae5"]
    return [*names, "fit_seconds", "predict_seconds", "n_iter", "n_warnings"]


def _named_estimators(estimators: Any) -> list[tuple[str, Any]]:
    if isinstance(estimators, Mapping):
        named = list(estimators.items())
    elif isinstance(estimators, (list, tuple)):
        named = list(estimators)
    else:
        named = [(type(estimators).__name__, estimators)]
    for entry in named:
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)):
            raise TypeError(f"estimators must be pairs of a name and an estimator, got {entry!r}")
        name, estimator = entry
        is_instance = not isinstance(estimator, type)
        if not (is_instance and hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise TypeError(f"{name!r} must be an estimator with fit and predict: {estimator!r}")
    names = [name for name, _ in named]
    if not names:
        raise ValueError("there are no estimators: at least 1 is needed")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two estimators have the name {name!r}")
    return named


def _scaled(estimator: Any, scaler: Any, X: Any) -> Any:
    if scaler is None:
        return estimator
    if isinstance(scaler, str):
        if scaler != "standard":
            raise ValueError(f"scaler must be 'standard', a transformer or None, got {scaler!r}")
        scaler = StandardScaler(with_mean=not sparse.issparse(X))
    return make_pipeline(scaler, estimator)


def _positions(classes: _Array) -> _Array:
    """Return where the labels are on their scale."""
    try:
        positions: _Array = classes.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"ordered=True needs labels that are numbers, but {error}. Use numbers instead of names"
        ) from None
    return positions


def _true_labels(y_true: Any, candidates: _Array, classes: _Array) -> _Array:
    """Return the column of the true label of each row."""
    n_rows = _num_samples(y_true)
    if n_rows != len(candidates):
        raise ValueError(f"found {n_rows} true labels for {len(candidates)} rows")
    try:
        truth, _ = check_labels(y_true, classes=classes)
    except ValueError as error:
        raise ValueError(f"y_true, whose labels must be candidates: {error}") from error
    wrong = np.flatnonzero(~candidates[np.arange(len(truth)), truth])
    if len(wrong):
        first = wrong[0]
        label = classes.tolist()[truth[first]]
        more = f" ({len(wrong) - 1} more such rows)" if len(wrong) > 1 else ""
        raise ValueError(
            f"row {first} has the true label {label!r}, which is not among its "
            f"candidates{more}. In partial-label learning it always is: add it, or drop the row"
        )
    return truth
