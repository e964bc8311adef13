"""PL-SVM: the best candidate is to beat the best other label by a margin."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from hera_fast.baselines.base import Baseline, linear_scores, warn_unconverged
from hera_fast.kernels import candidate_margins
from hera_fast.products import SparseBlocks, column_sums, cross_product, multiply_rows, row_blocks

__all__ = ["PLSVMClassifier"]

_Array = np.ndarray[Any, Any]

# Objectives of single steps go up and down. The smallest ones of this many are compared.
_WINDOW = 10


class PLSVMClassifier(Baseline):
    """Partial-label support vector machine (PL-SVM).

    The best candidate of a row is to have a score that is larger by 1 than that of the best other
    label. It minimises

    ``lam/2 (|W|^2 + |b|^2) + 1/n sum_i max(0, 1 - max_{y in S_i} z_iy + max_{y not in S_i} z_iy)``

    where ``z_i = W'x_i + b`` are the scores of row i and S_i its candidates. Rows for which all
    labels are candidates say nothing and have no loss.

    Parameters
    ----------
    lam : float, default=0.01
        Weight of the penalty.
    fit_intercept : bool, default=True
        Whether there is an intercept. It is the coefficient of a feature that is 1 everywhere, and
        penalised like the others.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-4
        The run ends when the smallest objective of the last ten iterations and the smallest of the
        ten before differ by no more than this part of the objective at the start.
    n_threads : int or None, default=None
        Threads for kernels and BLAS. None leaves the settings as they are. The result does not
        depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The labels.
    coef_ : ndarray of shape (q, d)
        Coefficients of the iteration with the smallest objective.
    intercept_ : ndarray of shape (q,)
        Intercept.
    transduction_ : ndarray of shape (n,)
        The candidate of every training row that has the largest score.
    n_iter_ : int
        Number of iterations.
    history_ : dict of ndarray of shape (n_iter_,)
        ``objective`` after every iteration. At the start, where all coefficients are zero, it is
        the share of rows for which not all labels are candidates.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    Notes
    -----
    N. Nguyen and R. Caruana, Classification with partial labels, KDD 2008. As there, the problem is
    solved by subgradient steps of length ``1 / (lam t)``, each followed by a projection onto
    ``lam (|W|^2 + |b|^2) <= 1`` (S. Shalev-Shwartz et al., Pegasos, ICML 2007). Some things are
    different:

    - A step uses all rows, so that nothing is random.
    - The problem is not convex, and at the start all labels have the same score: which of them are
      taken for the best decides where the run ends. The first step takes the mean over all
      candidates, and over all other labels, instead of the first ones.
    - The bound of the projection is not 1 but the objective at the start, so that rows for which
      all labels are candidates do not matter.
    - Steps do not always lead down. The result is the best of all iterations, not the last one.

    An iteration takes a product of X with the coefficients, O(n d q), and O(n d) for the step,
    because a row changes the coefficients of two labels. Beside X, memory is O(n q). Sparse rows
    are not made dense.

    Examples
    --------
    >>> from hera_fast.baselines.plsvm import PLSVMClassifier
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = PLSVMClassifier().fit(X, Y)
    >>> model.predict([[0.05], [1.15]]).tolist()
    ['a', 'b']
    >>> round(float(model.history_["objective"].min()), 2)
    0.02
    """

    coef_: _Array
    intercept_: _Array
    n_iter_: int
    history_: dict[str, _Array]

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "lam": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        lam: float = 0.01,
        *,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        n_threads: int | None = None,
    ) -> None:
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads

    def _learn(self, X: Any, Y: _Array) -> None:
        """Take steps until the objective stays where it is."""
        problem = _Problem(X, Y, self.lam, self.fit_intercept)
        W = best = np.zeros((X.shape[1] + 1, Y.shape[1]))
        start = problem.evaluate(W)
        direction = problem.first_direction()
        # Where the subgradient vanishes, the norm is not larger.
        radius = np.sqrt(start / self.lam)
        objectives: list[float] = []
        while len(objectives) < self.max_iter and not _is_steady(objectives, self.tol * start):
            t = len(objectives) + 1
            # The step 1 / (lam t) against the penalty's gradient lam W takes W / t away.
            W = (1 - 1 / t) * W + direction / (self.lam * t)
            norm = np.linalg.norm(W)
            if norm > radius:
                W *= radius / norm
            objectives.append(problem.evaluate(W))
            direction = problem.direction()
            if objectives[-1] == min(objectives):
                best = W
        self.coef_ = np.ascontiguousarray(best[:-1].T, dtype=X.dtype)
        self.intercept_ = best[-1].astype(X.dtype)
        self.n_iter_ = len(objectives)
        self.history_ = {"objective": np.array(objectives)}
        if not _is_steady(objectives, self.tol * start):
            warn_unconverged(
                self,
                f"The objective came from {start:.3g} to {min(objectives):.3g}. Increase max_iter, "
                "tol or lam.",
            )

    def _scores(self, X: Any) -> _Array:
        return linear_scores(X, self.coef_, self.intercept_)


def _is_steady(objectives: list[float], tol: float) -> bool:
    """Whether the smallest objectives of the last two windows differ by no more than `tol`."""
    if len(objectives) < 2 * _WINDOW:
        return False
    before, now = min(objectives[-2 * _WINDOW : -_WINDOW]), min(objectives[-_WINDOW:])
    return abs(before - now) <= tol


class _Problem:
    """The objective and its subgradient; the last row of W are the intercepts."""

    def __init__(self, X: Any, Y: _Array, lam: float, fit_intercept: bool) -> None:
        n = X.shape[0]
        self._rows, self._Y = row_blocks(X), Y
        self._lam, self._fit_intercept = lam, fit_intercept
        self._scores = np.empty(Y.shape, dtype=X.dtype)
        self._best, self._rival = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        self._losses = np.empty(n, dtype=X.dtype)

    def evaluate(self, W: _Array) -> float:
        """Return the objective; :meth:`direction` then belongs to these coefficients."""
        multiply_rows(self._rows, W[:-1].astype(self._scores.dtype), self._scores, W[-1])
        candidate_margins(self._scores, self._Y, self._best, self._rival, self._losses)
        return float(self._lam / 2 * np.sum(W * W) + self._losses.mean(dtype=np.float64))

    def direction(self) -> _Array:
        """Return minus a subgradient of the mean loss: X'M / n.

        M has two entries in the rows that have a loss, 1 for the best candidate and -1 for the
        best other label.
        """
        rows = np.flatnonzero(self._losses > 0)
        labels = np.stack([self._best[rows], self._rival[rows]], axis=1)
        offsets = np.concatenate([[0], np.cumsum(2 * (self._losses > 0))])
        signs = np.tile(np.array([1, -1], dtype=self._scores.dtype), len(rows))
        M = sparse.csr_array((signs, labels.ravel(), offsets), shape=self._Y.shape)
        return self._product(SparseBlocks(M))

    def first_direction(self) -> _Array:
        """Return the mean of all that :meth:`direction` may be where all scores are equal."""
        M = self._scores  # it is not needed any more
        n_candidates = self._Y.sum(axis=1, keepdims=True)
        n_others = self._Y.shape[1] - n_candidates
        inside = (n_others > 0) / n_candidates
        outside = -1 / np.maximum(n_others, 1)
        np.copyto(M, np.where(self._Y, inside, outside))
        return self._product(M)

    def _product(self, M: Any) -> _Array:
        sums = np.zeros((1, M.shape[1]))
        if self._fit_intercept:
            sums[:] = column_sums(M)
        product: _Array = np.concatenate([cross_product(self._rows, M), sums])
        product /= M.shape[0]
        return product
