"""Scores that need no true labels: how well predictions agree with the candidates of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.candidates import check_labels, csr_candidates
from hera_fast.inputs import check_weights

__all__ = ["MEASURES", "candidate_lift", "candidate_log_loss", "candidate_score"]

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
    best = _predicted_columns(estimator, X)
    candidates = _known_candidates(estimator, Y, len(best))
    return _covering(best, None, candidates, _weights(sample_weight, best))


def candidate_lift(estimator: Any, X: Any, Y: Any, *, sample_weight: Any = None) -> float:
    """Return by how much the covering rate is above what chance would give.

    A label that is among the candidates of most rows is covered most of the time, whether or not
    it is true. So the share of rows that have the predicted label as a candidate is subtracted
    from :func:`candidate_score`: what the same predictions would reach for rows in random order.

    Parameters
    ----------
    estimator : fitted classifier
        With `predict` and `classes_`; a pipeline and a search are such too.
    X : array-like or sparse matrix of shape (m, d)
        Rows.
    Y : array-like
        Their candidates, as for :func:`candidate_score`.
    sample_weight : array-like of shape (m,), default=None
        Weights of the rows.

    Returns
    -------
    score : float
        From -1 to 1, the more the better; 0 if the predictions are always the same label.

    See Also
    --------
    candidate_score : The covering rate itself.

    Examples
    --------
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.scores import candidate_lift
    >>> model = HERAClassifier(prediction="linear").fit([[0.0], [1.0]], [{"a"}, {"b"}])
    >>> candidate_lift(model, [[0.0], [1.0]], [{"a"}, {"b"}])
    0.5
    >>> candidate_lift(model, [[0.0], [1.0]], [{"a", "b"}, {"a", "b"}])  # nothing to be known
    0.0
    """
    best = _predicted_columns(estimator, X)
    candidates = _known_candidates(estimator, Y, len(best))
    return _lift(best, None, candidates, _weights(sample_weight, best))


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
    return _log_mass(None, probabilities, candidates, _weights(sample_weight, probabilities))


def _known_candidates(estimator: Any, Y: Any, n_rows: int) -> Any:
    """Which classes of the estimator are candidates of which row, as CSR."""
    classes = np.asarray(estimator.classes_)
    candidates, _ = csr_candidates(
        Y, n_samples=n_rows, classes=classes, unknown="ignore", allow_empty=True
    )
    if candidates.nnz == 0:
        first = classes.tolist()[0]
        warnings.warn(
            f"No candidate is one of the estimator's classes_, which begin with {first!r}. Give "
            "the labels as they were given to fit.",
            stacklevel=3,
        )
    return candidates


def _predicted_columns(estimator: Any, X: Any) -> _Array:
    """The place of each predicted label among the classes of the estimator."""
    predicted = np.asarray(estimator.predict(X))
    if predicted.ndim != 1:
        raise ValueError(
            f"{type(estimator).__name__}.predict returned an array of shape {predicted.shape}, but "
            "one label is needed for each row. Was it fitted as a multi-label classifier?"
        )
    return check_labels(predicted, classes=estimator.classes_)[0]


def _weights(sample_weight: Any, rows: _Array) -> _Array | None:
    return None if sample_weight is None else check_weights(sample_weight, rows)


def _covering(best: Any, probabilities: Any, candidates: Any, weights: Any = None) -> float:
    if sparse.issparse(candidates):
        ones, starts = np.ones(len(best), dtype=bool), np.arange(len(best) + 1)
        one_hot = sparse.csr_array((ones, best, starts), shape=candidates.shape)
        is_covered = candidates.multiply(one_hot).sum(axis=1)
    else:
        is_covered = candidates[np.arange(len(best)), best]
    return float(np.average(is_covered, weights=weights))


def _lift(best: Any, probabilities: Any, candidates: Any, weights: Any = None) -> float:
    row_weights = np.ones(len(best)) if weights is None else weights
    frequency = row_weights @ candidates / row_weights.sum()
    chance = float(np.average(frequency[best], weights=weights))
    return _covering(best, probabilities, candidates, weights) - chance


def _log_mass(best: Any, probabilities: Any, candidates: Any, weights: Any = None) -> float:
    if sparse.issparse(candidates):
        mass = candidates.multiply(probabilities).sum(axis=1)
    else:
        mass = np.einsum("ij,ij->i", candidates, probabilities)
    return float(np.average(np.log(np.clip(mass, LEAST_PROBABILITY, 1)), weights=weights))


#: The scores of predictions: from the best column and the probabilities of each row, the candidates
#: as a bool matrix, dense or CSR, and weights of the rows.
MEASURES: dict[str, Callable[..., float]] = {
    "candidate_lift": _lift,
    "candidate_log_loss": _log_mass,
    "candidate_score": _covering,
}
