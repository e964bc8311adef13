"""CLPL: the mean score of the candidates is to be large, every other score small."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.optimize import OptimizeResult, minimize
from sklearn.utils._param_validation import Interval

from hera_fast.baselines.base import warn_unconverged
from hera_fast.baselines.linear import LinearBaseline, sum_derivatives
from hera_fast.kernels import mean_margin_gradient
from hera_fast.products import column_sums, cross_product, row_blocks, sum_blocks

__all__ = ["CLPLClassifier"]

_Array = np.ndarray[Any, Any]


class CLPLClassifier(LinearBaseline):
    """Convex learning from partial labels (CLPL).

    It minimises the convex objective

    ``1/2 (|W|^2 + |b|^2) + C sum_i (psi(mean_{y in S_i} z_iy) + sum_{y not in S_i} psi(-z_iy))``

    where ``z_i = W'x_i + b`` are the scores of row i, S_i its candidates and
    ``psi(u) = max(0, 1 - u)^2``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    fit_intercept : bool, default=False
        Whether there is an intercept b. It is the coefficient of a feature that is 1 everywhere,
        and penalised like the others, as LIBLINEAR does it. The published method has none, and
        wants features with mean 0.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-4
        The run ends when the norm of the gradient is at most this part of its norm at the start,
        where all coefficients are zero.
    n_threads : int or None, default=None
        Threads for kernels and BLAS. None leaves the settings as they are. The result does not
        depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The labels.
    coef_ : ndarray of shape (q, d)
        Coefficients.
    intercept_ : ndarray of shape (q,)
        Intercept.
    transduction_ : ndarray of shape (n,)
        The candidate of every training row that has the largest score.
    n_iter_ : int
        Number of iterations.
    history_ : dict of ndarray of shape (n_iter_,)
        ``objective`` and ``gradient_norm`` after every iteration.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    Notes
    -----
    This is the problem of the publication with the squared hinge loss of its experiments. There it
    is solved as one binary support vector machine with q d features and a row for every term of the
    sum. Here the solution is the same, but those rows are never made: an iteration takes two
    products of X with a matrix of the size of W, O(n d q). Rows are taken in blocks; memory is
    that of some thirty matrices of the size of W. Sparse rows are not made dense.

    With scaled features, an intercept made predictions worse on four published data sets with 13 to
    78 labels, and much better on artificial rows with 219 labels of very different frequency.

    The method is L-BFGS. It works with features of one scale, which are uncorrelated if a matrix of
    shape (d, d) is no larger than X: this takes fewer iterations, the problem remains the same.

    References
    ----------
    T. Cour, B. Sapp and B. Taskar, Learning from partial labels, Journal of Machine Learning
    Research 12, 2011.

    Examples
    --------
    >>> from hera_fast.baselines import CLPLClassifier
    >>> X = [[-0.6], [-0.5], [-0.4], [0.4], [0.5], [0.6]]
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = CLPLClassifier().fit(X, Y)
    >>> model.predict([[-0.5], [0.5]]).tolist()
    ['a', 'b']
    >>> round(float(model.history_["objective"][-1]), 2)
    9.73
    """

    n_iter_: int
    history_: dict[str, _Array]

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "C": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = False,
        max_iter: int = 1000,
        tol: float = 1e-4,
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads

    def _learn(self, X: Any, Y: _Array) -> None:
        """Minimise the objective."""
        problem = _Problem(X, Y, self.C, self.fit_intercept)
        start = np.zeros(problem.size)
        problem.evaluate(start)
        first_norm = problem.gradient_norm
        objectives: list[float] = []
        norms: list[float] = []

        def record(intermediate_result: OptimizeResult) -> None:
            objectives.append(float(intermediate_result.fun))
            # The last point at which the objective was evaluated is the one that was accepted.
            norms.append(problem.gradient_norm)
            if norms[-1] <= self.tol * first_norm:
                raise StopIteration

        options = {"maxiter": self.max_iter, "maxfun": np.inf, "ftol": 0.0, "gtol": 0.0}
        result = minimize(
            problem.evaluate, start, jac=True, method="L-BFGS-B", callback=record, options=options
        )
        self._keep(problem.coefficients(result.x), X.dtype)
        self.n_iter_ = len(norms)
        self.history_ = {"objective": np.array(objectives), "gradient_norm": np.array(norms)}
        last_norm = norms[-1] if norms else first_norm
        if not last_norm <= self.tol * first_norm:
            reached = f"The norm of the gradient is {last_norm / first_norm:.1e} of its first one."
            if self.n_iter_ == self.max_iter:
                advice = "Increase max_iter or tol, or scale the features."
            else:
                advice = f"{X.dtype} allows no more steps: increase tol, or scale the features."
            warn_unconverged(self, f"{reached} {advice}")


class _Problem:
    """The objective as a function of a vector u, with W = T u for a fixed matrix T."""

    def __init__(self, X: Any, Y: _Array, C: float, fit_intercept: bool) -> None:
        self._X, self._Y, self._C = X, Y, C
        self._losses = np.empty(X.shape[0])
        self._T = _transformation(X, C, fit_intercept)
        self._shape = self._T.shape[0], Y.shape[1]
        self.size = self._shape[0] * self._shape[1]
        self.gradient_norm = 0.0

    def coefficients(self, u: _Array) -> _Array:
        """Return W, the last row of which is the intercept if there is one."""
        W: _Array = self._T @ u.reshape(self._shape)
        return W

    def evaluate(self, u: _Array) -> tuple[float, _Array]:
        """Return the objective and its gradient; `gradient_norm` is the one by W."""
        W = self.coefficients(u)
        gradient = W + self._C * sum_derivatives(self._X, W, self._differentiate)
        objective = float(np.sum(W * W)) / 2 + self._C * float(self._losses.sum())
        self.gradient_norm = float(np.linalg.norm(gradient))
        return objective, (self._T.T @ gradient).ravel()

    def _differentiate(self, rows: slice, Z: _Array) -> _Array:
        mean_margin_gradient(self._Y[rows], self._losses[rows], Z)
        return Z


def _transformation(X: Any, C: float, fit_intercept: bool) -> Any:
    """Return T with T'HT = I, or just a diagonal of ones, for H = I + 2 C X'X.

    If all hinges of a label were at work, H would be the second derivatives by its coefficients.
    X has a column of ones if there is an intercept.
    """
    n, d = X.shape
    rows = row_blocks(X)
    # Such a matrix is to be no larger than X.
    if d * d > (X.nnz if sparse.issparse(X) else X.size):
        squares = np.append(_column_squares(rows), [n] * fit_intercept)
        return sparse.diags_array(1 / np.sqrt(1 + 2 * C * squares))
    H = cross_product(rows, rows)
    if fit_intercept:
        sums = column_sums(rows)[:, np.newaxis]
        H = np.block([[H, sums], [sums.T, np.array([[n]])]])
    H *= 2 * C
    H[np.diag_indices_from(H)] += 1
    scales = 1 / np.sqrt(np.diagonal(H))
    H *= scales * scales[:, np.newaxis]
    # Columns of X may depend on each other, and products of X are rounded. T need not be exact.
    H[np.diag_indices_from(H)] += max(1e-10, 64 * d * np.finfo(X.dtype).eps)
    return solve_triangular(np.linalg.cholesky(H), np.diag(scales), lower=True).T


def _column_squares(rows: Any) -> _Array:
    def add(block: slice, total: _Array) -> None:
        total += np.asarray((rows[block] * rows[block]).sum(axis=0))

    return sum_blocks(add, rows.shape[0], rows.shape[1:], rows.shape[1])
