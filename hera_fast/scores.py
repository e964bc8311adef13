"""Scores that need no true labels: how well predictions agree with the candidates of rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hera_fast.candidates import csr_candidates
from hera_fast.inputs import check_weights

__all__ = ["candidate_log_loss", "candidate_score"]

_Array = np.ndarray[Any, Any]

# A smaller probability counts as this one, so that a single row cannot make a score infinite.
LEAST_PROBABILITY = 1e-15


def candidate_score(estimator: Any, X: Any, Y: Any, *, sample_weight: Any = None) -> float:
    """Return the covering rate, the share of predictions that are candidates of their row.

    It is a scorer: pass the function itself as ``scoring`` to
    :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.model_selection.cross_validate` and others that take one, alone or in a dict.

    Parameters
    ----------
    estimator : fitted classifier
        With `predict` and `classes_`; a pipeline and a search are such too.
    X : array-like or sparse matrix of shape (m, d)
        Rows.
    Y : array-like
        Their candidates: a matrix of zeros and ones, dense or sparse, with a column for each of
        ``estimator.classes_``; a list of sets of labels; or a vector of labels. Labels that the
        estimator does not know are no prediction's candidate.
    sample_weight : array-like of shape (m,), default=None
        Weights of the rows.

    Returns
    -------
    score : float
        From 0 to 1, the more the better.

    See Also
    --------
    candidate_log_loss : The same question asked to the probabilities.

    Notes
    -----
    The covering rate is at least the accuracy if each true label is a candidate. It cannot tell
    true from false candidates, so compare only models that were fitted to the same candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.scores import candidate_score
    >>> X = np.array([[0.0], [1.0], [0.1], [1.1], [0.2], [1.2]])
    >>> Y = [{"a", "c"}, {"b"}, {"a"}, {"b", "c"}, {"a", "b"}, {"b", "a"}]
    >>> model = HERAClassifier(n_neighbors=1)
    >>> cross_val_score(model, X, Y, cv=3, scoring=candidate_score).tolist()
    [1.0, 1.0, 1.0]
    >>> candidate_score(model.fit(X, Y), [[0.0], [1.0]], [{"a", "b"}, {"c", "d"}])
    0.5
    """
    predicted = np.asarray(estimator.predict(X))
    if predicted.ndim != 1:
        raise ValueError(
            f"{type(estimator).__name__}.predict returned an array of shape {predicted.shape}, but "
            "one label is needed for each row. Was it fitted as a multi-label classifier?"
        )
    candidates = _known_candidates(estimator, Y, len(predicted))
    one_hot, _ = csr_candidates(predicted, classes=estimator.classes_)
    is_covered = candidates.multiply(one_hot).sum(axis=1)
    return _average(is_covered, sample_weight)


def candidate_log_loss(estimator: Any, X: Any, Y: Any, *, sample_weight: Any = None) -> float:
    """Return the mean logarithm of the probability that an estimator gives to the candidates.

    The probability of a row is the sum over its candidates. Like :func:`candidate_score` this is
    a scorer, so greater is better. It is smoother, and sees how sure an estimator was.

    Parameters
    ----------
    estimator : fitted classifier
        With `predict_proba` and `classes_`; a pipeline and a search are such too.
    X : array-like or sparse matrix of shape (m, d)
        Rows.
    Y : array-like
        Their candidates, as for :func:`candidate_score`. Labels that the estimator does not know
        have no probability.
    sample_weight : array-like of shape (m,), default=None
        Weights of the rows.

    Returns
    -------
    score : float
        From log(1e-15), about -34.5, to 0: a probability below 1e-15 counts as 1e-15.

    Raises
    ------
    TypeError
        If the estimator has no `predict_proba`.

    Examples
    --------
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.scores import candidate_log_loss
    >>> model = HERAClassifier(prediction="linear").fit([[0.0], [1.0]], [{"a"}, {"b"}])
    >>> round(candidate_log_loss(model, [[0.5]], [{"a"}]), 3)  # the logarithm of 1/2
    -0.693
    >>> candidate_log_loss(model, [[0.5]], [{"a", "b"}])
    0.0
    """
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"{type(estimator).__name__} has no predict_proba, which candidate_log_loss needs: "
            "use candidate_score"
        )
    probabilities = np.asarray(estimator.predict_proba(X), np.float64)
    candidates = _known_candidates(estimator, Y, len(probabilities))
    mass = candidates.multiply(probabilities).sum(axis=1)
    return _average(np.log(np.clip(mass, LEAST_PROBABILITY, 1)), sample_weight)


def _known_candidates(estimator: Any, Y: Any, n_rows: int) -> Any:
    """Which classes of the estimator are candidates of which row, as CSR."""
    classes = np.asarray(estimator.classes_)
    candidates, _ = csr_candidates(
        Y, n_samples=n_rows, classes=classes, unknown="ignore", allow_empty=True
    )
    if candidates.nnz == 0:
        first = classes.tolist()[0]
        warnings.warn(
            f"No candidate is one of the estimator's classes_, which begin with {first!r}. Give the "
            "labels as they were given to fit.",
            stacklevel=3,
        )
    return candidates


def _average(values: _Array, sample_weight: Any) -> float:
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight, values)
    return float(np.average(values, weights=sample_weight))
