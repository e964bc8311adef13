"""PL-SVM: the best candidate is to beat the best other label by a margin."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from hera_fast.baselines.base import warn_unconverged
from hera_fast.baselines.linear import LinearBaseline, sum_derivatives
from hera_fast.kernels import candidate_margins

__all__ = ["PLSVMClassifier"]

_Array = np.ndarray[Any, Any]

# Objectives of single steps go up and down. The smallest ones of this many are compared.
_WINDOW = 10


class PLSVMClassifier(LinearBaseline):
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
    As in the publication [1]_, the problem is solved by subgradient steps of length
    ``1 / (lam t)``, each followed by a projection onto ``lam (|W|^2 + |b|^2) <= 1`` [2]_. Some
    things are different:

    - A step uses all rows, so that nothing is random.
    - The problem is not convex, and at the start all labels have the same score: which of them are
      taken for the best decides where the run ends. The first step takes the mean over all
      candidates, and over all other labels, instead of the first ones.
    - The bound of the projection is not 1 but the objective at the start, so that rows for which
      all labels are candidates do not matter.
    - Steps do not always lead down. The result is the best of all iterations, not the last one,
      nor the start.
    - `lam` was chosen among powers of ten with the true labels of four published data sets.

    An iteration takes a product of X with the coefficients, O(n d q), and O(n d) for the step,
    because a row changes the coefficients of two labels. Rows are taken in blocks, and memory is
    little beside X and the candidates. Sparse rows are not made dense.

    References
    ----------
    .. [1] N. Nguyen and R. Caruana, Classification with partial labels, KDD 2008.
    .. [2] S. Shalev-Shwartz, Y. Singer and N. Srebro, Pegasos: primal estimated sub-gradient solver
       for SVM, ICML 2007.

    Examples
    --------
    >>> from hera_fast.baselines import PLSVMClassifier
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = PLSVMClassifier().fit(X, Y)
    >>> model.predict([[0.05], [1.15]]).tolist()
    ['a', 'b']
    >>> round(float(model.history_["objective"].min()), 2)
    0.02
    """

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
        loss = _Loss(X, Y)
        W = best = np.zeros((X.shape[1] + self.fit_intercept, Y.shape[1]))
        start, direction = loss.evaluate_start(W)
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
            mean_loss, direction = loss.evaluate(W)
            objectives.append(self.lam / 2 * float(np.sum(W * W)) + mean_loss)
            if objectives[-1] == min(objectives):
                best = W
        self._keep(best, X.dtype)
        self.n_iter_ = len(objectives)
        self.history_ = {"objective": np.array(objectives)}
        if not _is_steady(objectives, self.tol * start):
            warn_unconverged(
                self,
                f"The objective came from {start:.3g} to {min(objectives):.3g}. Scale the "
                "features, or increase max_iter, tol or lam.",
            )


def _is_steady(objectives: list[float], tol: float) -> bool:
    """Whether the smallest objectives of the last two windows differ by no more than `tol`."""
    if len(objectives) < 2 * _WINDOW:
        return False
    before, now = min(objectives[-2 * _WINDOW : -_WINDOW]), min(objectives[-_WINDOW:])
    return abs(before - now) <= tol


class _Loss:
    """The mean hinge loss of the rows, and minus a subgradient of it."""

    def __init__(self, X: Any, Y: _Array) -> None:
        n = X.shape[0]
        self._X, self._Y = X, Y
        self._best, self._rival = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        self._losses = np.empty(n, dtype=X.dtype)

    def evaluate(self, W: _Array) -> tuple[float, _Array]:
        """Return the loss, and the direction in which it falls."""
        direction = sum_derivatives(self._X, W, self._signs)
        direction /= len(self._losses)
        return float(self._losses.mean(dtype=np.float64)), direction

    def evaluate_start(self, W: _Array) -> tuple[float, _Array]:
        """Do the same for coefficients that give all labels of a row the same score.

        The direction is the mean of those that single labels stand for.
        """
        loss, _ = self.evaluate(W)
        return loss, sum_derivatives(self._X, W, self._mean_signs) / len(self._losses)

    def _signs(self, rows: slice, Z: _Array) -> Any:
        """Return 1 for the best candidate and -1 for the best other label, where there is a loss.

        With two entries in a row at most, it costs O(d) to come back to the coefficients.
        """
        best, rival, losses = self._best[rows], self._rival[rows], self._losses[rows]
        candidate_margins(Z, self._Y[rows], best, rival, losses)
        has_loss = losses > 0
        labels = np.stack([best[has_loss], rival[has_loss]], axis=1)
        signs = np.tile(np.array([1, -1], dtype=Z.dtype), len(labels))
        offsets = np.concatenate([[0], np.cumsum(2 * has_loss)])
        return sparse.csr_array((signs, labels.ravel(), offsets), shape=Z.shape)

    def _mean_signs(self, rows: slice, Z: _Array) -> _Array:
        """Return the same with equal parts of 1 for all candidates, and of -1 for all others."""
        Y = self._Y[rows]
        n_candidates = Y.sum(axis=1, keepdims=True)
        n_others = Y.shape[1] - n_candidates
        inside, outside = (n_others > 0) / n_candidates, -1 / np.maximum(n_others, 1)
        signs: _Array = np.where(Y, inside, outside).astype(Z.dtype)
        return signs
