"""The binary machines from which PL-ECOC and PALOC are made.

A machine has rows with signs, written as in :func:`hera_fast.kernels.train_machines`: machine k has
the entries from ``offsets[k]`` to ``offsets[k + 1]`` of `rows` and `signs`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.utils.parallel import Parallel, delayed

from hera_fast import kernel_maps
from hera_fast.kernel_maps import map_rows
from hera_fast.kernels import train_machines
from hera_fast.kernels._launch import blas_threads

__all__ = [
    "estimator_scores",
    "fit_estimators",
    "fit_kernel_map",
    "fit_machines",
    "kernel_features",
]

_Array = np.ndarray[Any, Any]


def fit_kernel_map(
    X: Any,
    *,
    gamma: float | str,
    n_components: int,
    random_state: int | np.random.RandomState | None,
) -> Nystroem:
    """Fit features of the kernel ``exp(-gamma |x - y|^2)``, on which machines are linear.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float32 or float64
        Rows.
    gamma : float, "scale", "auto" or "median"
        Positive. ``"scale"`` and ``"auto"`` are what they are for :class:`sklearn.svm.SVC`:
        ``1 / (d * X.var())``, or ``1 / d`` if all entries are equal, and ``1 / d``. ``"median"`` is
        the inverse of the median squared distance between rows.
    n_components : int
        Number of features. With as many as there are distinct rows, the kernel is exact but for
        its smallest eigenvalues.
    random_state : int, RandomState instance or None
        Decides which rows make up the features.

    Returns
    -------
    feature_map : Nystroem
        For :func:`kernel_features`.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.baselines.machines import fit_kernel_map
    >>> X = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> fit_kernel_map(X, gamma="scale", n_components=2, random_state=0).gamma
    0.5
    """
    if gamma in ("scale", "auto"):
        variance = _variance(X) if gamma == "scale" else 1.0
        gamma = 1 / (X.shape[1] * (variance or 1.0))
    return kernel_maps.fit_kernel_map(
        X, gamma=gamma, n_components=n_components, random_state=random_state
    )


def _variance(X: Any) -> float:
    """Variance of all entries."""
    if not sparse.issparse(X):
        return float(X.var(dtype=np.float64))
    size = X.shape[0] * X.shape[1]
    mean = X.data.sum(dtype=np.float64) / size
    squares = np.square(X.data - mean, dtype=np.float64).sum()
    return float((squares + (size - X.nnz) * mean**2) / size)


def kernel_features(feature_map: Nystroem, X: Any) -> _Array:
    """Map rows, and append a column of ones for the intercepts.

    Parameters
    ----------
    feature_map : Nystroem
        Fitted by :func:`fit_kernel_map`.
    X : ndarray or CSR matrix of shape (m, d)
        Rows, in the dtype of those that the map was fitted to.

    Returns
    -------
    features : ndarray of shape (m, n_components + 1)
        The same bits on any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.baselines.machines import fit_kernel_map, kernel_features
    >>> X = np.array([[0.0], [9.0]])
    >>> feature_map = fit_kernel_map(X, gamma=1.0, n_components=2, random_state=0)
    >>> kernel_features(feature_map, X).round(6).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    """
    mapped = map_rows(feature_map, X)
    return np.concatenate([mapped, np.ones((len(mapped), 1), mapped.dtype)], axis=1)


def fit_machines(
    features: _Array,
    offsets: _Array,
    rows: _Array,
    signs: _Array,
    *,
    C: float,
    tol: float,
    max_iter: int,
    balanced: bool = False,
) -> tuple[_Array, _Array]:
    """Train linear machines with the squared hinge loss, on several threads.

    Parameters
    ----------
    features : ndarray of shape (n, m)
        Rows, with a constant column if machines are to have an intercept.
    offsets, rows, signs : ndarray
        The entries of the machines.
    C : float
        Weight of the errors.
    tol : float
        When a machine is done.
    max_iter : int
        Most passes over the rows of a machine.
    balanced : bool, default=False
        Whether rows of both signs have the same weight together in each machine.

    Returns
    -------
    coef : ndarray of shape (M, m)
        The scores of a row x are ``coef @ x``.
    n_iter : ndarray of shape (M,)
        Passes of each machine: `max_iter` for one that may not have converged, 0 for one without
        rows of both signs, whose scores are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.baselines.machines import fit_machines
    >>> features = np.array([[1.0, 1.0], [-1.0, 1.0]])
    >>> rows, signs = np.array([0, 1]), np.array([1.0, -1.0])
    >>> coef, _ = fit_machines(
    ...     features, np.array([0, 2]), rows, signs, C=100.0, tol=1e-6, max_iter=1000
    ... )
    >>> coef.round(2).tolist()
    [[1.0, 0.0]]
    """
    n_machines = len(offsets) - 1
    coef = np.empty((n_machines, features.shape[1]), dtype=features.dtype)
    n_iter = np.empty(n_machines, dtype=np.int64)
    train_machines(features, offsets, rows, signs, C, balanced, tol, max_iter, coef, n_iter)
    return coef, n_iter


def fit_estimators(
    estimator: Any,
    X: Any,
    offsets: _Array,
    rows: _Array,
    signs: _Array,
    *,
    random_state: np.random.RandomState,
) -> list[Any]:
    """Fit a copy of a binary classifier for each machine, on several threads.

    Parameters
    ----------
    estimator : classifier
        With `fit` and `predict`; its labels will be 1 and -1.
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    offsets, rows, signs : ndarray
        The entries of the machines.
    random_state : RandomState instance
        Gives each copy that has parameters called `random_state` a seed of its own.

    Returns
    -------
    estimators : list
        Fitted copies; None for a machine without rows of both signs.

    Notes
    -----
    Threads help with classifiers that release the lock of the interpreter, as those of libsvm and
    liblinear do.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import LinearSVC
    >>> from hera_fast.baselines.machines import fit_estimators
    >>> X, offsets = np.array([[1.0], [-1.0]]), np.array([0, 2, 3])
    >>> rows, signs = np.array([0, 1, 1]), np.array([1.0, -1.0, 1.0])
    >>> fit_estimators(
    ...     LinearSVC(), X, offsets, rows, signs, random_state=np.random.RandomState(0)
    ... )
    [LinearSVC(random_state=209652396), None]
    """
    n_machines = len(offsets) - 1
    seeds = random_state.randint(np.iinfo(np.int32).max, size=n_machines)

    def fit(k: int) -> Any:
        entries = slice(offsets[k], offsets[k + 1])
        labels = signs[entries].astype(np.int64)
        if len(np.unique(labels)) < 2:
            return None
        copy = clone(estimator)
        names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
        copy.set_params(**dict.fromkeys(names, int(seeds[k])))
        return copy.fit(X[rows[entries]], labels)

    return _on_threads(fit, n_machines)


def estimator_scores(estimators: list[Any], X: Any) -> _Array:
    """Score rows by binary classifiers: positive for the label 1.

    Parameters
    ----------
    estimators : list
        As returned by :func:`fit_estimators`.
    X : ndarray or CSR matrix of shape (m, d)
        Rows.

    Returns
    -------
    scores : ndarray of shape (m, M), of the dtype of X
        Values of `decision_function`; where there is none 2 p - 1 with the probability p of the
        label 1; where there is none either the predicted labels. 0 where the classifier is None.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from hera_fast.baselines.machines import estimator_scores
    >>> X = np.array([[1.0], [-1.0]])
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X, [1, -1])
    >>> estimator_scores([tree, None], X).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
    scores = np.zeros((X.shape[0], len(estimators)), dtype=X.dtype)

    def score(k: int) -> None:
        estimator = estimators[k]
        if estimator is None:
            return
        if hasattr(estimator, "decision_function"):
            scores[:, k] = estimator.decision_function(X)
        elif hasattr(estimator, "predict_proba"):
            scores[:, k] = 2 * estimator.predict_proba(X)[:, 1] - 1
        else:
            scores[:, k] = estimator.predict(X)

    _on_threads(score, len(estimators))
    return scores


def _on_threads(work: Any, n_machines: int) -> list[Any]:
    """Call ``work(k)`` for each machine; what scikit-learn is set to holds on all threads."""
    with blas_threads(1):  # the same bits on any number of threads
        results: list[Any] = Parallel(n_jobs=numba.get_num_threads(), backend="threading")(
            delayed(work)(k) for k in range(n_machines)
        )
    return results
