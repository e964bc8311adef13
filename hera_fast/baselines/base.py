"""What the six methods share: how they are fitted, and how they pick among candidates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning

from hera_fast.candidates import check_candidates
from hera_fast.classifier import PartialLabelClassifier, ProbabilisticPartialLabelClassifier
from hera_fast.kernels._launch import blas_threads
from hera_fast.products import multiply_rows, row_blocks
from hera_fast.threads import threads

__all__ = ["Baseline", "ProbabilisticBaseline", "linear_scores", "warn_unconverged"]

_Array = np.ndarray[Any, Any]
_Self = TypeVar("_Self", bound="Baseline")


class Baseline(PartialLabelClassifier):
    """A classifier that is fitted by its method :meth:`_learn`.

    Examples
    --------
    >>> from hera_fast.baselines.base import Baseline
    >>> class Frequent(Baseline):
    ...     _parameter_constraints = {}
    ...     n_threads = None
    ...
    ...     def _learn(self, X, Y):
    ...         self.counts_ = Y.sum(axis=0).astype(X.dtype)
    ...
    ...     def _scores(self, X):
    ...         return np.tile(self.counts_, (X.shape[0], 1))
    >>> model = Frequent().fit([[0.0], [1.0], [2.0]], [{"a", "b"}, {"b"}, {"c"}])
    >>> model.predict([[1.0]]).tolist(), model.transduction_.tolist()
    (['b'], ['b', 'b', 'c'])
    """

    transduction_: _Array
    _absent: _Array

    # Estimators inside of a method check their parameters themselves.
    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self: _Self, X: Any, y: Any) -> _Self:
        """Learn from rows with candidate labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Training rows. float32 stays float32.
        y : array-like
            The candidates Y: a matrix of shape (n, q) of zeros and ones, dense or sparse; a list
            with a set (or list) of labels for every row; or a vector with one label for every
            row, which makes it ordinary supervised learning.

        Returns
        -------
        self : object
        """
        self._forget()
        X = self._validated(X, reset=True)
        Y, classes = check_candidates(y, n_samples=X.shape[0])
        # Products of many rows have threads of their own. The rest is small, and BLAS must not use
        # several threads for it: the bits of its results depend on how many there are.
        with threads(self.n_threads), blas_threads(1):
            known = self._learn(X, Y)
            self._absent = np.flatnonzero(~Y.any(axis=0))
            self._dtype, self.classes_ = X.dtype, classes
            scored = self._score_blocks(X) if known is None else [(slice(None), known)]
            best = np.empty(X.shape[0], dtype=np.intp)
            for rows, scores in scored:
                best[rows] = np.where(Y[rows], scores, -np.inf).argmax(axis=1)
        self.transduction_ = classes[best]
        return self

    def _forget(self) -> None:
        """Remove what an earlier fit has left; should this one fail, nothing is fitted."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def _learn(self, X: Any, Y: _Array) -> _Array | None:
        """Set the fitted attributes; X is validated, Y a bool matrix.

        Returns
        -------
        scores : ndarray of shape (n, q) or None
            What picks among the candidates of the training rows, if it is not :meth:`_scores`.
        """
        raise NotImplementedError

    def _score_blocks(self, X: Any) -> Iterator[tuple[slice, _Array]]:
        """Score block after block; a label that is nobody's candidate is never the best."""
        for rows, scores in super()._score_blocks(X):
            if len(self._absent):
                scores[:, self._absent] = self._below(scores.min(axis=1, keepdims=True))
            yield rows, scores

    def _below(self, lowest: _Array) -> _Array:
        """Return scores that are lower than the lowest one of each row."""
        return lowest - 1 - np.abs(lowest)


class ProbabilisticBaseline(ProbabilisticPartialLabelClassifier, Baseline):
    """A method whose scores are probabilities, or in proportion to them.

    Examples
    --------
    >>> from hera_fast.baselines import PLKNNClassifier
    >>> from hera_fast.baselines.base import ProbabilisticBaseline
    >>> issubclass(PLKNNClassifier, ProbabilisticBaseline)
    True
    """

    def _below(self, lowest: _Array) -> _Array:
        return np.zeros_like(lowest)


def linear_scores(X: Any, coef: _Array, intercept: _Array) -> _Array:
    """Return X coef' + intercept, with the same bits on any number of threads.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
        Rows.
    coef : ndarray of shape (q, d)
        Coefficients, of the dtype of X.
    intercept : ndarray of shape (q,)
        Intercepts.

    Returns
    -------
    scores : ndarray of shape (m, q)

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.baselines.base import linear_scores
    >>> linear_scores(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), np.array([0.5])).tolist()
    [[11.5]]
    """
    scores = np.empty((X.shape[0], len(coef)), dtype=X.dtype)
    multiply_rows(row_blocks(X), np.ascontiguousarray(coef.T), scores, intercept)
    return scores


def warn_unconverged(model: Baseline, advice: str) -> None:
    """Warn, from inside `_learn`, that the iterations ended before the tolerance was reached.

    Parameters
    ----------
    model : Baseline
        With parameters `max_iter` and `tol`.
    advice : str
        How far it came and what to do, in one or two sentences.

    Examples
    --------
    >>> import warnings
    >>> from types import SimpleNamespace
    >>> from hera_fast.baselines.base import warn_unconverged
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_unconverged(SimpleNamespace(max_iter=3, tol=0.1), "Increase max_iter.")
    >>> str(caught[0].message)
    'SimpleNamespace did not converge in max_iter=3 iterations to tol=0.1. Increase max_iter.'
    """
    warnings.warn(
        f"{type(model).__name__} did not converge in max_iter={model.max_iter} iterations to "
        f"tol={model.tol:g}. {advice}",
        ConvergenceWarning,
        # The caller of fit: past _learn, fit and the wrapper around it.
        stacklevel=5,
    )
