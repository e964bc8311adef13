"""PALOC: a binary machine for each pair of labels, and one more for each label above them."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from hera_fast.baselines.base import Baseline, warn_unconverged
from hera_fast.baselines.machines import (
    estimator_scores,
    fit_estimators,
    fit_kernel_map,
    fit_machines,
    kernel_features,
)
from hera_fast.products import cross_product, each_block, multiply_rows
from hera_fast.task_progress import task_progress

__all__ = ["PALOCClassifier"]

_Array = np.ndarray[Any, Any]


class PALOCClassifier(Baseline):
    """Partial-label classifier by binary decomposition (PALOC).

    For each pair of labels j < k a binary machine g_jk learns to tell training rows with the
    candidate j but not k, its positive ones, from rows with k but not j. The pairs vote: j gets the
    votes of machines with g_jk(x) > 0 and g_kj(x) < 0. Where the label with most votes is a
    candidate of the training row, it becomes the only one. For each label another machine h_j
    learns to tell rows with this refined candidate from the others, from stacked rows
    x^ = (x, g_01(x), g_02(x), ...). The label of x is the one that maximises

        votes_j(x) + mu [h_j(x^) > 0].

    Parameters
    ----------
    estimator : classifier or None, default=None
        A binary classifier with `fit` and `predict`, copied for each pair and for each label; its
        `decision_function` gives g and h, without one 2 p - 1 with the probability p of the
        positive side, else the predicted side. None: support vector machines with a Gaussian
        kernel, see Notes; only these use `C`, `gamma`, `n_components`, `balanced`, `max_iter`
        and `tol`.
    mu : float, default=10.0
        How many votes a label gets from its own machine h.
    C : float, default=1.0
        Weight of the errors of the machines.
    gamma : float, "scale", "auto" or "median", default="median"
        The kernel of the pairs' machines is ``exp(-gamma |x - y|^2)``. ``"scale"`` and ``"auto"``
        are what they are for :class:`~sklearn.svm.SVC`: ``1 / (d * X.var())`` and ``1 / d``.
        ``"median"`` takes the inverse of the median squared distance between training rows; the
        kernel of stacked rows always does so.
    n_components : int, default=500
        Number of features of either kernel map, at most the number of rows.
    balanced : bool, default=True
        Whether the rows of both sides of a pair have the same weight together. Otherwise all rows
        have the same weight.
    max_iter : int, default=1000
        Most passes over the rows of a machine.
    tol : float, default=0.1
        A machine is done when the projected derivatives by its dual variables differ by at most
        `tol`.
    n_threads : int or None, default=None
        Threads for kernels, BLAS and the copies of `estimator`. None leaves the settings as they
        are. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the rows that make up the kernel maps, and for the seeds of the copies of `estimator`.
    verbose : int, default=0
        1 shows on ``sys.stderr`` how many labels have their pairs, and how long it will take.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The labels.
    refined_ : ndarray of shape (n, q), bool
        The candidates of the training rows from which the machines h learned.
    n_iter_ : int
        Most passes that a machine made. Only without `estimator`.
    estimators_ : list of length q (q - 1) / 2
        The copies of `estimator`, if there is one, for the pairs (0, 1), (0, 2), ..., (1, 2), ...;
        None for a pair without rows on either side.
    stack_estimators_ : list of length q
        Those for the labels. None for a label that is a refined candidate of no row or of all.
    transduction_ : ndarray of shape (n,)
        The candidate of every training row that has the largest score.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    Notes
    -----
    What differs from the publication:

    - They train support vector machines with the hinge loss on the kernel itself. Here the loss is
      squared, the kernel is approximated on `n_components` rows that all machines share, and the
      intercept is regularised like any other coefficient. ``estimator=SVC()`` is what they have.
    - The two sides of a pair have the same weight. Most pairs have a side with few rows, which
      otherwise hardly ever gets the vote.
    - Labels often have as many votes as another. Here the sums over k of g_jk, minus those of g_kj,
      then decide which one is refined to, and the values of h which one is predicted: scores get
      h / (3 |h| + 3), which is less than half a vote: enough to break ties, as long as `mu` is a
      whole number. They leave open what is to be done.
    - A pair without rows on either side has no machine, and votes for none. So does a pair with
      g = 0.

    `C`, `gamma`, `balanced` and how ties are broken were chosen with the true labels of four
    published data sets.

    All machines of the pairs are linear in the same features. Distances between stacked rows can
    therefore be found from a matrix of shape (n_components, n_components), the sum of the outer
    products of the coefficients, and the stacked rows, with q (q - 1) / 2 columns, are never made.
    A pass over all pairs takes ``O(c q n_components)`` for c candidates of all rows together,
    finding the votes of a row ``O(q^2 n_components)``. Memory is
    ``O(n (q + n_components) + q^2 n_components)``.

    With `estimator` stacked rows are made, and memory is ``O(n (d + q^2))``. Use it with few
    labels.

    Features should have comparable scales: put a :class:`~sklearn.preprocessing.StandardScaler` in
    front.

    References
    ----------
    X. Wu and M.-L. Zhang, Towards enabling binary decomposition for partial label learning,
    International Joint Conference on Artificial Intelligence, 2018.

    Examples
    --------
    >>> from hera_fast.baselines import PALOCClassifier
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = PALOCClassifier(random_state=0).fit(X, Y)
    >>> model.predict([[0.05], [1.15]]).tolist()
    ['a', 'b']
    >>> model.transduction_.tolist()
    ['a', 'a', 'a', 'b', 'b', 'b']
    """

    refined_: _Array
    n_iter_: int
    estimators_: list[Any]
    stack_estimators_: list[Any]
    _feature_map: Nystroem | None
    _pair_coef: _Array
    _stack_root: _Array
    _stack_map: Nystroem
    _stack_coef: _Array

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "estimator": [HasMethods(["fit", "predict"]), None],
        "mu": [Interval(Real, 0, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"scale", "auto", "median"}),
        ],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "balanced": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        mu: float = 10.0,
        C: float = 1.0,
        gamma: float | str = "median",
        n_components: int = 500,
        balanced: bool = True,
        max_iter: int = 1000,
        tol: float = 0.1,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.mu = mu
        self.C = C
        self.gamma = gamma
        self.n_components = n_components
        self.balanced = balanced
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, X: Any, Y: _Array) -> _Array:
        random = check_random_state(self.random_state)
        if self.estimator is None:
            scores, n_iter = self._train(X, Y, random)
            self.n_iter_ = int(n_iter.max())
            n_open = int((n_iter == self.max_iter).sum())
            if n_open:
                warn_unconverged(
                    self,
                    f"That concerns {n_open} of {np.count_nonzero(n_iter)} machines. Increase "
                    "max_iter, decrease C, or scale the features.",
                )
        else:
            scores = self._train_estimators(X, Y, random)
        return scores

    def _train(self, X: Any, Y: _Array, random: np.random.RandomState) -> tuple[_Array, _Array]:
        """Train all machines; return the scores of the training rows, and the passes."""
        options: dict[str, Any] = {"C": self.C, "tol": self.tol, "max_iter": self.max_iter}
        self._feature_map = fit_kernel_map(
            X, gamma=self.gamma, n_components=self.n_components, random_state=random
        )
        features = kernel_features(self._feature_map, X)
        q = Y.shape[1]
        n_pairs = q * (q - 1) // 2
        self._pair_coef = np.empty((n_pairs, features.shape[1]), dtype=X.dtype)
        n_iter = np.empty(n_pairs + q, dtype=np.int64)
        rows_of = [np.flatnonzero(column) for column in Y.T]
        with self._progress(q - 1) as advance:
            # Label by label, because the entries of all pairs would take much memory.
            for j in range(q - 1):
                pairs = _pairs(j, q)
                self._pair_coef[pairs], n_iter[pairs] = fit_machines(
                    features,
                    *_pair_entries(Y, rows_of, j, X.dtype),
                    **options,
                    balanced=self.balanced,
                )
                advance()
        self._stack_root = _root(self._pair_coef).astype(X.dtype)
        votes, totals = _count_votes(features, self._pair_coef, q)
        self.refined_ = _refine(Y, votes, totals)
        stacked = self._stack(X, features)
        self._stack_map = fit_kernel_map(
            stacked, gamma="median", n_components=self.n_components, random_state=random
        )
        stacked = kernel_features(self._stack_map, stacked)
        self._stack_coef, n_iter[n_pairs:] = fit_machines(
            stacked, *_label_entries(self.refined_, X.dtype), **options
        )
        return self._add(votes, _multiply(stacked, self._stack_coef.T)), n_iter

    def _train_estimators(self, X: Any, Y: _Array, random: np.random.RandomState) -> _Array:
        """Fit all copies of the estimator; return the scores of the training rows."""
        self._feature_map = None
        self.estimators_ = []
        rows_of = [np.flatnonzero(column) for column in Y.T]
        with self._progress(Y.shape[1] - 1) as advance:
            for j in range(Y.shape[1] - 1):
                self.estimators_ += fit_estimators(
                    self.estimator, X, *_pair_entries(Y, rows_of, j, X.dtype), random_state=random
                )
                advance()
        pair_scores = estimator_scores(self.estimators_, X)
        votes, totals = _votes_of(pair_scores, Y.shape[1])
        self.refined_ = _refine(Y, votes, totals)
        stacked = _join(X, pair_scores)
        self.stack_estimators_ = fit_estimators(
            self.estimator,
            stacked,
            *_label_entries(self.refined_, X.dtype),
            random_state=random,
        )
        return self._add(votes, estimator_scores(self.stack_estimators_, stacked))

    def _progress(self, n_labels: int) -> Any:
        return task_progress("PALOC, pairs of labels", n_labels, is_shown=self.verbose > 0)

    def _stack(self, X: Any, features: _Array) -> Any:
        """Return rows with the same distances as (x, g_01(x), g_02(x), ...)."""
        return _join(X, _multiply(features, self._stack_root))

    def _scores(self, X: Any) -> _Array:
        q = len(self.classes_)
        if self._feature_map is None:
            pair_scores = estimator_scores(self.estimators_, X)
            votes, _ = _votes_of(pair_scores, q)
            stacked = _join(X, pair_scores)
            return self._add(votes, estimator_scores(self.stack_estimators_, stacked))
        features = kernel_features(self._feature_map, X)
        votes, _ = _count_votes(features, self._pair_coef, q)
        stacked = kernel_features(self._stack_map, self._stack(X, features))
        return self._add(votes, _multiply(stacked, self._stack_coef.T))

    def _add(self, votes: _Array, h: _Array) -> _Array:
        """Return the scores of labels with these votes, which it overwrites, and values of h."""
        votes += self.mu * (h > 0)
        votes += _less_than_half(h)
        return votes

    def _row_width(self) -> int:
        width: int = super()._row_width()
        if self._feature_map is None:
            return max(width, self.n_features_in_ + len(self.estimators_))
        return max(width, self.n_features_in_ + self.n_components)


def _pairs(j: int, q: int) -> slice:
    """Where the pairs (j, j + 1), ..., (j, q - 1) are among all pairs."""
    first = j * (2 * q - j - 1) // 2
    return slice(first, first + q - 1 - j)


def _pair_entries(
    Y: _Array, rows_of: list[_Array], j: int, dtype: np.dtype[Any]
) -> tuple[_Array, _Array, _Array]:
    """Offsets, rows and signs of the machines of label j and each label after it."""
    parts: list[_Array] = []
    mine = rows_of[j]
    for k in range(j + 1, Y.shape[1]):
        parts += [mine[~Y[mine, k]], rows_of[k][~Y[rows_of[k], j]]]
    sizes = np.array([len(part) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(sizes)[1::2]])
    signs = np.repeat(np.tile(np.array([1, -1], dtype), len(parts) // 2), sizes)
    return offsets, np.concatenate(parts), signs


def _label_entries(Y: _Array, dtype: np.dtype[Any]) -> tuple[_Array, _Array, _Array]:
    """Offsets, rows and signs of a machine for each label against the others."""
    n, q = Y.shape
    signs = np.where(Y.T.ravel(), dtype.type(1), dtype.type(-1))
    return n * np.arange(q + 1), np.tile(np.arange(n), q), signs


def _count_votes(features: _Array, coef: _Array, q: int) -> tuple[_Array, _Array]:
    """Votes of linear machines, and sums of what they say, for labels of shape (n, q)."""
    n = len(features)
    votes, totals = np.zeros((2, n, q), dtype=features.dtype)

    def count(rows: slice) -> None:
        for j in range(q - 1):
            scores = features[rows] @ coef[_pairs(j, q)].T
            _add_votes(j, scores, votes[rows], totals[rows])

    each_block(count, n, coef.size)
    return votes, totals


def _votes_of(pair_scores: _Array, q: int) -> tuple[_Array, _Array]:
    """The same from the scores of all pairs."""
    votes, totals = np.zeros((2, len(pair_scores), q), dtype=pair_scores.dtype)
    for j in range(q - 1):
        _add_votes(j, pair_scores[:, _pairs(j, q)], votes, totals)
    return votes, totals


def _add_votes(j: int, scores: _Array, votes: _Array, totals: _Array) -> None:
    """Count what the machines of label j and each label after it say."""
    votes[:, j] += (scores > 0).sum(axis=1)
    votes[:, j + 1 :] += scores < 0
    totals[:, j] += scores.sum(axis=1)
    totals[:, j + 1 :] -= scores


def _refine(Y: _Array, votes: _Array, totals: _Array) -> _Array:
    """Leave a row just the label with most votes where it is a candidate."""
    best = (votes + _less_than_half(totals)).argmax(axis=1)
    rows = np.flatnonzero(Y[np.arange(len(Y)), best])
    refined = Y.copy()
    refined[rows] = False
    refined[rows, best[rows]] = True
    return refined


def _less_than_half(values: _Array) -> _Array:
    """Grow with the values, between -1/3 and 1/3."""
    fractions: _Array = values / (3 * np.abs(values) + 3)
    return fractions


def _root(coef: _Array) -> _Array:
    """Return T, of shape (m, r), with T T' = coef' coef and r as small as is easily done."""
    if len(coef) <= coef.shape[1]:
        return coef.T
    values, vectors = linalg.eigh(cross_product(coef, coef))
    root: _Array = vectors * np.sqrt(np.maximum(values, 0))
    return root


def _multiply(A: _Array, B: _Array) -> _Array:
    out = np.empty((len(A), B.shape[1]), dtype=A.dtype)
    multiply_rows(A, np.ascontiguousarray(B), out, np.zeros(B.shape[1], dtype=A.dtype))
    return out


def _join(X: Any, columns: _Array) -> Any:
    """Append columns to rows, which stay sparse if they are."""
    if sparse.issparse(X):
        return sparse.hstack([X, sparse.csr_array(columns)], format="csr", dtype=X.dtype)
    return np.hstack([X, columns])
