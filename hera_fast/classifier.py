"""What all partial-label classifiers do alike once their scores are known."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from hera_fast.candidates import check_candidates
from hera_fast.dask_prediction import dask_score, lazy_predictions
from hera_fast.frames import as_frame, frame_numbers
from hera_fast.inputs import check_finite, check_magnitude, check_weights
from hera_fast.kernels import project_simplex
from hera_fast.lazy_arrays import in_memory, is_dask
from hera_fast.threads import threads
from hera_fast.training_rows import is_lazy

__all__ = ["PartialLabelClassifier", "ProbabilisticPartialLabelClassifier"]

_Array = np.ndarray[Any, Any]
# Blocks of rows, each with scores that may be overwritten.
_Scored = Iterator[tuple[slice, _Array]]

_NOT_FOR_SCORING = ("confidence_", "noise_", "transduction_", "history_")

# Queries are scored in blocks of about this many numbers, and of some thousand rows at least,
# because the search for neighbours prepares the training rows once for every block.
_BLOCK_NUMBERS = 1 << 21
_BLOCK_ROWS = 4096


class PartialLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers that learn from candidate labels.

    A subclass has a parameter `n_threads` and the methods `fit` and :meth:`_scores`. Its `fit`
    calls :meth:`_validated` and sets ``classes_`` and ``_dtype``, the precision of X, when all
    else is done: they are what makes it fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.classifier import PartialLabelClassifier
    >>> class Nearest(PartialLabelClassifier):
    ...     n_threads = None
    ...
    ...     def fit(self, X, y):
    ...         self.centres_ = self._validated(X, reset=True)
    ...         self.classes_, self._dtype = np.array(y), self.centres_.dtype
    ...         return self
    ...
    ...     def _scores(self, X):
    ...         return X @ self.centres_.T
    >>> model = Nearest().fit([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], ["a", "b", "c"])
    >>> model.predict([[2.0, 1.0]], candidates=[{"b", "c"}]).tolist()
    ['b']
    """

    n_threads: int | None
    classes_: _Array
    n_features_in_: int
    _dtype: np.dtype[Any]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator can do."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether `fit` has come to its end; it sets some attributes before."""
        return hasattr(self, "classes_")

    def __getstate__(self) -> dict[str, Any]:
        """Bring what is on workers or in files into memory, where copies and pickles have it."""
        state: dict[str, Any] = super().__getstate__()
        return {name: in_memory(value) for name, value in state.items()}

    def _scores(self, X: Any) -> _Array:
        """Score the labels of validated rows: a new array of shape (m, q), larger is better."""
        raise NotImplementedError

    def _scoring_state(self) -> dict[str, Any]:
        """Return the attributes that scoring needs; others are not sent to workers."""
        state = {name: value for name, value in vars(self).items() if name not in _NOT_FOR_SCORING}
        # Those who score on a worker decide on threads.
        state["n_threads"] = None
        return state

    def _neighbors_on_workers(self, X: Any) -> Any:
        """Return what training rows on workers say about rows of a Dask array, if they are asked.

        It is a Dask array that :meth:`_scores` gets as its second argument.
        """
        return None

    def _row_width(self) -> int:
        """How many numbers scoring takes for each row, about."""
        return max(self.n_features_in_, len(self.classes_))

    def _precision(self) -> np.dtype[Any]:
        """The dtype of the rows of `fit`, which scores have too."""
        return self._dtype

    def predict(self, X: Any, candidates: Any = None) -> _Array:
        """Predict the label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Zarr array, Dask array or data frame} of shape (m, d)
            Rows.
        candidates : array-like, optional
            Candidates of these rows, in one of the forms that `fit` takes. A row that has some
            gets one of them.

        Returns
        -------
        labels : ndarray of shape (m,)
            A Dask array if X is a Dask collection: made chunk by chunk when it is needed, by the
            client that is the current one now, if there is one.
        """
        if is_dask(X):
            labels: _Array = lazy_predictions(self, X, "labels", candidates)
            return labels
        best = self._best(X, candidates)
        return self.classes_[best]

    def decision_function(self, X: Any) -> _Array:
        """Score the labels of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, Zarr array, Dask array or data frame} of shape (m, d)
            Rows.

        Returns
        -------
        scores : ndarray of shape (m, q), or (m,) with two labels
            With two labels the difference of their scores, positive for ``classes_[1]``. A Dask
            array if X is a Dask collection.
        """
        if is_dask(X):
            decisions: _Array = lazy_predictions(self, X, "decisions")
            return decisions
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        return self._decisions(self._score_blocks(X), X.shape[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Measure the accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix, Zarr array, Dask array or data frame} of shape (m, d)
            Rows.
        y : array-like
            The true labels. Or candidates, in one of the forms that `fit` takes: then the share
            of predictions that are among them.
        sample_weight : array-like of shape (m,), optional
            Weights of the rows.

        Returns
        -------
        score : float
            Computed at once, also if X is a Dask collection.
        """
        if is_dask(X):
            score, is_known = dask_score(self, X, y, sample_weight)
            self._warn_unless_known(is_known)
            return score
        best = self._best(X)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, best)
        allowed, _ = check_candidates(
            y,
            n_samples=len(best),
            classes=self.classes_,
            unknown="ignore",
            allow_empty=True,
        )
        self._warn_unless_known(allowed.any())
        return float(np.average(allowed[np.arange(len(best)), best], weights=sample_weight))

    def _warn_unless_known(self, is_known: Any) -> None:
        """Warn of labels that have nothing to do with those of `fit`, for a method users call."""
        if not is_known:
            warnings.warn(
                f"No label in y is one of classes_, which begin with {self.classes_[0]!r}: the "
                "score is 0. Give the labels as they were given to fit.",
                stacklevel=3,
            )

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Check rows; a CSR matrix, or a C-contiguous array.

        Rows of a file that are to be predicted are checked when they are read.
        """
        if is_lazy(X) and not reset:
            return _RowsOnDemand(self, X)
        options = {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32] if reset else self._precision(),
            "order": "C",
            "ensure_all_finite": False,
        }
        frame = as_frame(X)
        if frame is None:
            X = validate_data(self, X, reset=reset, **options)
        else:
            # The names of the features come from the frame itself.
            validate_data(self, frame, reset=reset, skip_check_array=True)
            X = check_array(frame_numbers(frame), input_name="X", estimator=self, **options)
        names = getattr(self, "feature_names_in_", None)
        check_finite(X, names)
        check_magnitude(X, names, is_training=reset)
        return X

    def _checked(self, X: Any, first_row: int) -> Any:
        """Check some rows to be predicted, whose columns are known to be the right ones."""
        X = check_array(
            X,
            accept_sparse="csr",
            dtype=self._precision(),
            order="C",
            ensure_all_finite=False,
            ensure_min_samples=0,
            estimator=self,
            input_name="X",
        )
        names = getattr(self, "feature_names_in_", None)
        check_finite(X, names, first_row)
        check_magnitude(X, names, is_training=False, first_row=first_row)
        return X

    def _allowed(self, candidates: Any, n_rows: int) -> _Array | None:
        """Which labels a row may get: its candidates, or all of them if it has none."""
        if candidates is None:
            return None
        if is_dask(candidates):
            candidates = candidates.compute()
        allowed, _ = check_candidates(
            candidates, n_samples=n_rows, classes=self.classes_, allow_empty=True
        )
        allowed[~allowed.any(axis=1)] = True
        return allowed

    def _best(self, X: Any, candidates: Any = None) -> _Array:
        """Index of the label with the largest score."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        allowed = self._allowed(candidates, X.shape[0])
        return self._best_columns(self._score_blocks(X), X.shape[0], allowed)

    def _score_blocks(self, X: Any) -> Iterator[tuple[slice, _Array]]:
        """Score block after block of rows, so that nothing of size (m, n) is needed."""
        with threads(self.n_threads):
            for rows in self._row_slices(X):
                yield rows, self._scores(X[rows])

    def _row_slices(self, X: Any) -> Iterator[slice]:
        """Divide rows into blocks that are scored one after the other."""
        size = max(_BLOCK_ROWS, _BLOCK_NUMBERS // self._row_width())
        for first in range(0, X.shape[0], size):
            yield slice(first, min(first + size, X.shape[0]))

    def _best_columns(self, scored: _Scored, n_rows: int, allowed: _Array | None) -> _Array:
        """Index of the label with the largest score."""
        best = np.empty(n_rows, dtype=np.intp)
        for rows, scores in scored:
            if allowed is not None:
                scores[~allowed[rows]] = -np.inf
            best[rows] = scores.argmax(axis=1)
        return best

    def _decisions(self, scored: _Scored, n_rows: int) -> _Array:
        """All scores, or of two labels their differences."""
        result = np.empty((n_rows, len(self.classes_)), dtype=self._precision())
        for rows, scores in scored:
            result[rows] = scores
        return result[:, 1] - result[:, 0] if result.shape[1] == 2 else result


class _RowsOnDemand:
    """Rows of a Zarr array or another file, read and checked when they are sliced."""

    def __init__(self, model: PartialLabelClassifier, source: Any) -> None:
        if len(source.shape) != 2:
            raise ValueError(f"X must have 2 dimensions, got shape {source.shape}")
        validate_data(model, np.empty((0, source.shape[1])), reset=False, skip_check_array=True)
        self.shape = source.shape
        self._model, self._source = model, source
        self._together = (source.chunks or (1,))[0]
        self._start, self._read = 0, np.empty((0, source.shape[1]))

    def __getitem__(self, rows: slice) -> _Array:
        if not self._start <= rows.start <= rows.stop <= self._start + len(self._read):
            # To the end of a chunk, which would have to be unpacked again for the next rows.
            stop = -(-rows.stop // self._together) * self._together
            self._start = rows.start
            self._read = self._model._checked(self._source[rows.start : stop], rows.start)
        return self._read[rows.start - self._start : rows.stop - self._start]


class ProbabilisticPartialLabelClassifier(PartialLabelClassifier):
    """Base of classifiers whose scores are, or can be made, probabilities.

    Examples
    --------
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.classifier import ProbabilisticPartialLabelClassifier
    >>> issubclass(HERAClassifier, ProbabilisticPartialLabelClassifier)
    True
    """

    def _to_probabilities(self, scores: _Array, out: _Array) -> None:
        """Write probabilities of labels with these scores; here they are in proportion to them."""
        np.divide(scores, scores.sum(axis=1, keepdims=True), out=out)

    def predict_proba(self, X: Any, candidates: Any = None) -> _Array:
        """Estimate how likely the labels of each row are.

        These are the scores of :meth:`decision_function` where they are probabilities, else the
        nearest probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, Zarr array, Dask array or data frame} of shape (m, d)
            Rows.
        candidates : array-like, optional
            Candidates of these rows, in one of the forms that `fit` takes. A row that has some
            has no probability elsewhere.

        Returns
        -------
        probabilities : ndarray of shape (m, q)
            Not negative, and each row sums to 1. A Dask array if X is a Dask collection.
        """
        if is_dask(X):
            probabilities: _Array = lazy_predictions(self, X, "probabilities", candidates)
            return probabilities
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        allowed = self._allowed(candidates, X.shape[0])
        return self._probabilities(self._score_blocks(X), X.shape[0], allowed)

    def _probabilities(self, scored: _Scored, n_rows: int, allowed: _Array | None) -> _Array:
        """Turn scores into probabilities of the allowed labels."""
        probabilities = np.empty((n_rows, len(self.classes_)), dtype=self._precision())
        for rows, scores in scored:
            block = probabilities[rows]
            self._to_probabilities(scores, block)
            if allowed is not None:
                _restrict(block, scores, allowed[rows])
                scores[~allowed[rows]] = -np.inf
            _break_ties(block, scores.argmax(axis=1))
        return probabilities


def _restrict(probabilities: _Array, scores: _Array, allowed: _Array) -> None:
    """Divide the probability of each row among its allowed labels."""
    rows = np.flatnonzero(~allowed.all(axis=1))
    allowed = allowed[rows]
    part = probabilities[rows] * allowed
    total = part.sum(axis=1, keepdims=True)
    empty = np.flatnonzero(total == 0)
    total[empty] = 1
    part /= total
    # There the scores have to decide.
    rest = np.empty((len(empty), part.shape[1]), dtype=part.dtype)
    project_simplex(scores[rows[empty]], allowed[empty], rest)
    part[empty] = rest
    probabilities[rows] = part


def _break_ties(probabilities: _Array, best: _Array) -> None:
    """Put the best label of each row first where rounding made others equal to it."""
    rows = np.flatnonzero(probabilities.argmax(axis=1) != best)
    columns = best[rows]
    probabilities[rows, columns] = np.nextafter(probabilities[rows, columns], np.inf)
