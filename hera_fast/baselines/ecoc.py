"""PL-ECOC: binary machines for columns of a code, and labels decoded from what they say."""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from hera_fast.baselines.base import Baseline, linear_scores, warn_unconverged
from hera_fast.baselines.machines import (
    estimator_scores,
    fit_estimators,
    fit_kernel_map,
    fit_machines,
    kernel_features,
)
from hera_fast.kernel_maps import map_rows
from hera_fast.products import cross_product, multiply_rows, row_blocks

__all__ = ["PLECOCClassifier"]

_Array = np.ndarray[Any, Any]

# Columns that are drawn at once; half of them are smooth.
_BATCH = 64
_MOST_BATCHES = 100
# When fewer of the smooth ones are good, the next ones are smoother.
_FEW = 4
_MOST_SMOOTHINGS = 8
# Rows that a column needs on either side, or one if labels get no code of their own otherwise.
_LEAST_SIDE = 5
# Larger scores of machines, whose exponentials float32 could not add, count as this.
_LARGEST_SCORE = 50.0


class PLECOCClassifier(Baseline):
    """Partial-label classifier by error-correcting output codes (PL-ECOC).

    Every column of the code gives each label a side, 1 or -1. Training rows whose candidates all
    lie on one side become examples of a binary machine h, the others are not used by it. Nothing
    has to be disambiguated. With the code M, of shape (q, L), and

        H[j, l] = share of the training rows with candidate j that h_l puts on the side M[j, l],

    whose rows are scaled to sum to one, the label of x is the one with the least loss

        sum_l H[j, l] exp(-M[j, l] h_l(x)).

    Parameters
    ----------
    estimator : classifier or None, default=None
        A binary classifier with `fit` and `predict`; its `decision_function` gives h, without one
        2 p - 1 with the probability p of the positive side, else the predicted side. None: support
        vector machines with a Gaussian kernel, to which alone `C`, `gamma`, `n_components`,
        `max_iter` and `tol` apply.
    code_length : int or None, default=None
        L, the number of columns. None stands for ``ceil(20 * log2(q))``.
    min_rows : float, default=0.1
        The share of the training rows that a column must be able to use.
    C : float, default=3.0
        Weight of the errors of the machines.
    gamma : float, "scale", "auto" or "median", default="median"
        The kernel is ``exp(-gamma |x - y|^2)``. ``"scale"`` and ``"auto"`` are what they are for
        :class:`~sklearn.svm.SVC`: ``1 / (d * X.var())`` and ``1 / d``. ``"median"`` takes the
        inverse of the median squared distance between training rows.
    n_components : int, default=500
        Number of features of the kernel map, at most the number of rows.
    max_iter : int, default=1000
        Most passes over the rows of a machine.
    tol : float, default=0.1
        A machine is done when the projected derivatives by its dual variables differ by at most
        `tol`.
    n_threads : int or None, default=None
        Threads for kernels, BLAS and the copies of `estimator`. None leaves the settings as they
        are. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the code, for the rows that make up the kernel map, and for the seeds of the copies of
        `estimator`.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The labels.
    code_ : ndarray of shape (q, L), int8
        M: 1 or -1; 0 for a label that is nobody's candidate.
    performance_ : ndarray of shape (q, L)
        H. Equal shares for a label whose rows are never on the right side; 0 for a label that is
        nobody's candidate.
    coef_ : ndarray of shape (L, n_components)
        Coefficients of the machines for the features of the kernel map. Only without `estimator`.
    intercept_ : ndarray of shape (L,)
        Their intercepts. Only without `estimator`.
    n_iter_ : int
        Most passes that a machine made. Only without `estimator`.
    estimators_ : list of length L
        The fitted copies of `estimator`, if there is one.
    transduction_ : ndarray of shape (n,)
        The candidate of every training row that has the least loss.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    Notes
    -----
    What differs from the publication:

    - They train support vector machines with the hinge loss on the kernel itself, with C = 1 and
      gamma = 1 / d. Here the loss is squared, the kernel is approximated on `n_components` rows
      that all machines share, and the intercept is regularised like any other coefficient. On two
      published data sets the accuracy differed by 0.015 at most, each with its best C, and `fit`
      took a tenth of the time. ``estimator=SVC(gamma="auto")`` is what they have. The defaults of
      `C`, `gamma` and `code_length` were chosen with the true labels of four published data sets.
    - Their code has ``ceil(10 * log2(q))`` columns. With twice as many the accuracy was about two
      points higher on two of these sets, and depended less on `random_state`.
    - No column is drawn twice, nor its opposite: it would train the same machine again. With few
      labels the code has all columns there are, and is shorter than `code_length`.
    - They toss a coin for the side of each label. Columns of that kind can use few rows when the
      candidate sets are large, next to none with seven candidates each. Here they are half of
      those drawn. For the other half labels get numbers from a normal distribution, every label
      takes the mean over the labels that it shares rows with, itself included, and those above the
      median are on one side. Labels that occur together then are more often on the same side, and
      more rows can be used. When less than an eighth of these columns are good, the next ones take
      means of means, and so on, up to 8 times and again from the start. 6400 columns are drawn at
      most.
    - They ask for 5 rows on either side. When too few columns have them to give each label a code
      of its own, as in small data sets, one row on either side is enough. When there are too few
      columns even so, `fit` warns. Labels with the same code differ by their row of H at best;
      without any column the most frequent candidate is predicted.
    - Scores of machines are clipped to [-50, 50].

    A pass over the rows of a machine takes ``O(n * n_components)`` and the machines run in
    parallel. Memory is ``O(n (n_components + L))``.

    Features should have comparable scales: put a :class:`~sklearn.preprocessing.StandardScaler` in
    front.

    References
    ----------
    M.-L. Zhang, F. Yu and C.-Z. Tang, Disambiguation-free partial label learning, IEEE Transactions
    on Knowledge and Data Engineering 29(10), 2017.

    Examples
    --------
    >>> from hera_fast.baselines import PLECOCClassifier
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = PLECOCClassifier(random_state=0).fit(X, Y)
    >>> model.predict([[0.05], [1.15]]).tolist()
    ['a', 'b']
    >>> model.transduction_.tolist()
    ['a', 'a', 'a', 'b', 'b', 'b']
    """

    code_: _Array
    performance_: _Array
    coef_: _Array
    intercept_: _Array
    n_iter_: int
    estimators_: list[Any]
    _frequency: _Array
    _feature_map: Nystroem | None

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "estimator": [HasMethods(["fit", "predict"]), None],
        "code_length": [Interval(Integral, 1, None, closed="left"), None],
        "min_rows": [Interval(Real, 0, 1, closed="both")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"scale", "auto", "median"}),
        ],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        code_length: int | None = None,
        min_rows: float = 0.1,
        C: float = 3.0,
        gamma: float | str = "median",
        n_components: int = 500,
        max_iter: int = 1000,
        tol: float = 0.1,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.code_length = code_length
        self.min_rows = min_rows
        self.C = C
        self.gamma = gamma
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads
        self.random_state = random_state

    def _learn(self, X: Any, Y: _Array) -> _Array | None:
        random = check_random_state(self.random_state)
        candidates = sparse.csr_array(Y, dtype=np.float32)
        counts = Y.sum(axis=0)
        self._frequency = (counts / len(Y)).astype(X.dtype)
        self.code_ = self._draw_code(candidates, counts > 0, random)
        offsets, rows, signs = _entries(_sides(candidates, self.code_), X.dtype)
        if self.estimator is None:
            scores, n_iter = self._train(X, offsets, rows, signs, random)
            self.n_iter_ = int(n_iter.max(initial=0))
            n_open = int((n_iter == self.max_iter).sum())
            if n_open:
                warn_unconverged(
                    self,
                    f"That concerns {n_open} of {len(n_iter)} machines. Increase max_iter, "
                    "decrease C, or scale the features.",
                )
        else:
            self._feature_map = None
            self.estimators_ = fit_estimators(
                self.estimator, X, offsets, rows, signs, random_state=random
            )
            scores = self._machine_scores(X)
        self.performance_ = _performance(candidates, counts, self.code_, scores).astype(X.dtype)
        # The machines have scored the training rows, and need not do it again.
        return _decode(scores, self.code_, self.performance_) if self.code_.shape[1] else None

    def _draw_code(self, candidates: Any, used: _Array, random: np.random.RandomState) -> _Array:
        """Draw the code, and warn if it is not what was asked for."""
        n, q = candidates.shape
        length = self.code_length
        if length is None:
            length = math.ceil(20 * math.log2(q))
        least_rows = max(math.ceil(self.min_rows * n), 1)
        chosen = candidates[:, np.flatnonzero(used)]
        columns, is_all = _draw_columns(chosen, length, least_rows, _LEAST_SIDE, random)
        if columns.shape[1] < length and not _tells_apart(columns):
            columns, is_all = _draw_columns(chosen, length, least_rows, 1, random)
        if columns.shape[1] < length and not (is_all and _tells_apart(columns)):
            _warn_short(columns, length, least_rows)
        code = np.zeros((q, columns.shape[1]), dtype=np.int8)
        code[used] = np.where(columns, 1, -1)
        return code

    def _train(
        self, X: Any, offsets: _Array, rows: _Array, signs: _Array, random: np.random.RandomState
    ) -> tuple[_Array, _Array]:
        """Train the machines; return their scores of the training rows, and their passes."""
        self._feature_map = fit_kernel_map(
            X, gamma=self.gamma, n_components=self.n_components, random_state=random
        )
        features = kernel_features(self._feature_map, X)
        coef, n_iter = fit_machines(
            features, offsets, rows, signs, C=self.C, tol=self.tol, max_iter=self.max_iter
        )
        self.coef_, self.intercept_ = np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy()
        return linear_scores(features[:, :-1], self.coef_, self.intercept_), n_iter

    def _machine_scores(self, X: Any) -> _Array:
        """Score rows by all machines: positive for the side 1."""
        if self._feature_map is None:
            return estimator_scores(self.estimators_, X)
        return linear_scores(map_rows(self._feature_map, X), self.coef_, self.intercept_)

    def _scores(self, X: Any) -> _Array:
        """The losses, with the opposite sign."""
        if self.code_.shape[1] == 0:
            return np.tile(self._frequency, (X.shape[0], 1))
        return _decode(self._machine_scores(X), self.code_, self.performance_)

    def _row_width(self) -> int:
        width: int = max(super()._row_width(), self.code_.shape[1], self.n_components)
        return width


def _draw_columns(
    candidates: Any,
    length: int,
    least_rows: int,
    least_side: int,
    random: np.random.RandomState,
) -> tuple[_Array, bool]:
    """Draw distinct columns, up to `length`, that enough rows can use.

    The columns are of shape (q, L), bool, for labels that are all candidates of some row. The
    second result tells whether every column that there is has been looked at.
    """
    q = candidates.shape[1]
    shared = (candidates.T @ candidates).toarray().astype(np.float64)
    means = shared / shared.sum(axis=1, keepdims=True)
    # Opposite columns are the same one.
    n_all = 2 ** (q - 1)
    found: list[_Array] = []
    seen: set[bytes] = set()
    n_smoothings = 1
    for _ in range(_MOST_BATCHES):
        numbers = random.standard_normal((q, _BATCH))
        smooth = numbers[:, 1::2]
        for _ in range(n_smoothings):
            smooth = means @ smooth
        numbers[:, 1::2] = smooth - np.median(smooth, axis=0)
        columns = numbers > 0
        sides = _sides(candidates, np.where(columns, 1, -1))
        n_positive, n_negative = (sides > 0).sum(axis=0), (sides < 0).sum(axis=0)
        good = n_positive + n_negative >= least_rows
        good &= np.minimum(n_positive, n_negative) >= least_side
        for column, is_good in zip(columns.T, good, strict=True):
            key = np.packbits(column ^ column[0]).tobytes()
            if key not in seen:
                seen.add(key)
                if is_good:
                    found.append(column)
            if len(found) == length or len(seen) == n_all:
                return np.array(found).reshape(-1, q).T, len(seen) == n_all
        if good[1::2].sum() < _FEW:
            n_smoothings = n_smoothings % _MOST_SMOOTHINGS + 1
    return np.array(found).reshape(-1, q).T, False


def _sides(candidates: Any, code: _Array) -> _Array:
    """On which side all candidates of a row are in a column: 1 or -1, or 0 for on both."""
    sums = candidates @ code.astype(np.float32)
    sizes = candidates.sum(axis=1)[:, np.newaxis]
    sides: _Array = (sums == sizes).astype(np.int8) - (sums == -sizes)
    return sides


def _tells_apart(columns: _Array) -> bool:
    """Whether no two labels have the same code."""
    return len(np.unique(columns, axis=0)) == len(columns)


def _warn_short(columns: _Array, length: int, least_rows: int) -> None:
    n_codes = len(np.unique(columns, axis=0))
    message = (
        f"PLECOCClassifier found {columns.shape[1]} of code_length={length} columns in which "
        f"{least_rows} training rows or more have all their candidates on one side, some of them "
        "on either side. "
    )
    if n_codes < len(columns):
        message += f"Only {n_codes} of {len(columns)} labels can be told apart. "
    message += "The candidate sets are large: try a smaller min_rows, or another method."
    # The caller of fit: past _draw_code, _learn, fit and the wrapper around it.
    warnings.warn(message, UserWarning, stacklevel=6)


def _entries(sides: _Array, dtype: np.dtype[Any]) -> tuple[_Array, _Array, _Array]:
    """The rows and signs of each column's machine, as `fit_machines` takes them."""
    n_columns = sides.shape[1]
    columns, rows = np.nonzero(sides.T)
    offsets = np.searchsorted(columns, np.arange(n_columns + 1))
    return offsets, rows.copy(), sides[rows, columns].astype(dtype)


def _performance(candidates: Any, counts: _Array, code: _Array, scores: _Array) -> _Array:
    """H, from the scores of the training rows."""
    positive = cross_product(row_blocks(candidates), (scores > 0).astype(candidates.dtype))
    n_rows = counts[:, np.newaxis].astype(np.float64)
    right = np.where(code > 0, positive, n_rows - positive)
    # Without any, all machines are equally bad.
    right[(right == 0).all(axis=1)] = 1
    right[counts == 0] = 0
    shares: _Array = right / np.maximum(right.sum(axis=1, keepdims=True), 1)
    return shares


def _decode(scores: _Array, code: _Array, performance: _Array) -> _Array:
    """Minus the losses of the labels."""
    np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE, out=scores)
    errors = np.concatenate([np.exp(-scores), np.exp(scores)], axis=1)
    weights = np.concatenate([performance * (code > 0), performance * (code < 0)], axis=1)
    result = np.empty((len(scores), len(code)), dtype=scores.dtype)
    multiply_rows(errors, np.ascontiguousarray(-weights.T), result, np.zeros(len(code)))
    return result
