"""PL-KNN: the candidates of the nearest training rows vote."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from hera_fast.baselines.base import ProbabilisticBaseline
from hera_fast.neighborhood import nearest_rows

__all__ = ["PLKNNClassifier"]

_Array = np.ndarray[Any, Any]


class PLKNNClassifier(ProbabilisticBaseline):
    """Partial-label classifier by the votes of the nearest training rows (PL-KNN).

    The score of label y for a row x is the sum of ``w_a`` over those of the k nearest training
    rows a that have y among their candidates. The label with the largest score is predicted, of
    several the first.

    Parameters
    ----------
    n_neighbors : int, default=10
        k. If there are fewer training rows, all of them vote.
    weights : {"distance", "uniform"}, default="distance"
        ``"distance"``: ``w_a = 1 - d_a / sum_b d_b`` with the Euclidean distances d of the k
        neighbours; 1 if all distances are 0, and 1 for a single neighbour, where the formula would
        give 0. ``"uniform"``: 1.
    n_threads : int or None, default=None
        Threads for kernels and BLAS. None leaves the settings as they are. The result does not
        depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The labels.
    confidence_ : ndarray of shape (n, q)
        Votes for the candidates of each training row, itself left out, divided by their sum. Equal
        shares if no neighbour votes for a candidate.
    transduction_ : ndarray of shape (n,)
        The candidate of every training row that has the largest confidence, of several the first.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    Notes
    -----
    The publication counts every neighbour alike, ``weights="uniform"``; the weights by distance,
    with ten neighbours, are those of the later comparisons. Of several labels with the most votes
    it takes one at random, here it is the first.

    The neighbours are found exactly. `fit` compares each pair of training rows once, for
    `confidence_`; beside it, memory does not grow with more than ``k (n + m)``. Sparse rows are
    not made dense, unless the training rows were dense.

    References
    ----------
    E. Hüllermeier and J. Beringer, Learning from ambiguously labeled examples, IDA 2005, and
    Intelligent Data Analysis 10(5), 2006.

    Examples
    --------
    >>> from hera_fast.baselines import PLKNNClassifier
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = PLKNNClassifier(n_neighbors=2).fit(X, Y)
    >>> model.predict([[0.05], [1.15]]).tolist()
    ['a', 'b']
    >>> model.transduction_.tolist()
    ['a', 'a', 'a', 'b', 'b', 'b']
    """

    confidence_: _Array

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"distance", "uniform"})],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        weights: str = "distance",
        *,
        n_threads: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.n_threads = n_threads

    def _learn(self, X: Any, Y: _Array) -> _Array:
        """Keep the rows, and let the others vote on each."""
        self._fit_X = X
        self._candidates = sparse.csr_array(Y, dtype=X.dtype)
        votes = self._count(*nearest_rows(X, n_neighbors=self.n_neighbors))
        votes *= Y
        silent = ~votes.any(axis=1)
        votes[silent] = Y[silent]
        votes /= votes.sum(axis=1, keepdims=True)
        self.confidence_ = votes
        return votes

    def _scores(self, X: Any) -> _Array:
        points = self._fit_X
        if sparse.issparse(X) != sparse.issparse(points):
            X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        # A plain array, should joblib have mapped it to a file.
        points = points if sparse.issparse(points) else np.asarray(points)
        return self._count(*nearest_rows(points, X, n_neighbors=self.n_neighbors))

    def _count(self, distances: _Array, indices: _Array) -> _Array:
        """Add up the votes of the neighbours: more than none, if there are neighbours."""
        m, k = indices.shape
        weights = np.ones_like(distances)
        if self.weights == "distance" and k > 1:
            total = distances.sum(axis=1, keepdims=True)
            # Where all distances are 0, so are the quotients.
            weights -= distances / np.where(total > 0, total, 1)
        voters = sparse.csr_array(
            (weights.ravel(), indices.ravel(), k * np.arange(m + 1)),
            shape=(m, self._candidates.shape[0]),
        )
        votes: _Array = (voters @ self._candidates).toarray()
        return votes
