"""Artificial candidates: the true label of each row and false labels drawn beside it."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state

from hera_fast.candidates import check_labels
from hera_fast.kernels._launch import blas_threads

__all__ = ["draw_subsets", "make_partial_labels", "mark_candidates"]

_Array = np.ndarray[Any, Any]

# Entries of a block of posteriors: 32 MB, a few times over.
_BLOCK_ENTRIES = 1 << 22
# Below the logarithm of every positive number, by far more than the noise that is added to it.
_LOG_ZERO = -1e4


def make_partial_labels(
    y: Any,
    *,
    p: float | None = None,
    r: int = 1,
    epsilon: float | None = None,
    coupling: str = "independent",
    noise: str = "uniform",
    X: Any = None,
    estimator: Any = None,
    classes: Any = None,
    sparse_output: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Any:
    """Hide true labels among false ones that are drawn at random.

    There are three ways to draw them:

    - ``p`` and ``r``: ``round(n * p)`` rows, chosen at random, get `r` distinct false labels each,
      and every set of `r` false labels is equally likely;
    - ``epsilon``: all rows get one false label. Each class has a coupled label, drawn once; a row
      of the class gets it with probability `epsilon`, and otherwise one of the other q - 2 false
      labels, all equally likely;
    - ``p``, ``r`` and ``noise="instance"``: as in the first way, but labels that a classifier
      confuses with the true one are more likely.

    Draw candidates for training rows only, after test rows have been set apart.

    Parameters
    ----------
    y : array-like of shape (n,)
        The true labels, strings or numbers.
    p : float, default=None
        Share of the rows that get false labels, from 0 to 1. Python's ``round`` makes a number of
        rows of it: the nearest one, and the even one of two that are equally near.
    r : int, default=1
        How many false labels these rows get, from 1 to q - 1.
    epsilon : float, default=None
        Probability of the coupled label, from 0 to 1. It implies ``p=1`` and ``r=1``, and needs
        three classes.
    coupling : {"independent", "matching"}, default="independent"
        How coupled labels are drawn. With ``"independent"``, that of each class is any of the
        others. With ``"matching"``, classes form pairs at random, and each is coupled with the
        other of its pair; if the number of classes is odd, a random one remains, whose coupled
        label is any of the others.
    noise : {"uniform", "instance"}, default="uniform"
        ``"instance"`` draws the false labels of a row one after the other without replacement, with
        probabilities proportional to the posterior of a classifier for this row. Labels whose
        posterior is zero, such as classes that no row has, are drawn when no others are left.
    X : array-like or sparse matrix of shape (n, d), default=None
        The features, for ``noise="instance"`` alone.
    estimator : classifier, default=None
        Gives the posterior by its ``predict_proba``, for ``noise="instance"`` alone. A clone of it
        is fitted to `X` and `y`. None means logistic regression on standardised features.
    classes : array-like of shape (q,), default=None
        The labels of the columns. None means all that occur in `y`, sorted: name them when `y` is
        a part of the data that may lack some.
    sparse_output : bool, default=False
        Return a sparse array. Nothing of size n times q is made then.
    random_state : int, RandomState instance or None, default=None
        Decides what is drawn. The classifier is not affected: give it its own.

    Returns
    -------
    Y : ndarray of bool, shape (n, q), or csr_array of bool
        The candidates. Column j belongs to ``classes[j]``.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If an argument is out of its range, or does not go with the others.

    Examples
    --------
    >>> from hera_fast.partial_labels import make_partial_labels
    >>> y = ["cat", "dog", "owl", "cat"]
    >>> make_partial_labels(y, p=0.5, r=1, random_state=0).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 1, 1],
           [1, 0, 1]])
    >>> make_partial_labels(y, epsilon=1.0, random_state=0).astype(int)
    array([[1, 1, 0],
           [0, 1, 1],
           [0, 1, 1],
           [1, 1, 0]])
    """
    _check_options(p, r, epsilon, coupling, noise, X, estimator)
    random = check_random_state(random_state)
    truth, labels = _encode(y, classes)
    n, q = len(truth), len(labels)
    if epsilon is not None:
        if q < 3:
            raise ValueError(f"epsilon needs at least 3 classes, got {q}: use p and r")
        rows, false = np.arange(n), _draw_coupled(truth, q, epsilon, coupling, random)
    else:
        if r > q - 1:
            raise ValueError(f"r must be at most {q - 1}, as there are {q} classes; got {r}")
        assert p is not None
        rows = np.sort(random.choice(n, round(n * float(p)), replace=False))
        if noise == "instance":
            check_consistent_length(X, truth)
            with blas_threads(1):  # the same bits on any number of threads
                false = _draw_confusable(X, truth, labels, rows, r, estimator, random)
        else:
            others = draw_subsets(len(rows), q - 1, r, random)
            false = others + (others >= truth[rows, np.newaxis])
    return mark_candidates(truth, np.repeat(rows, r), false.ravel(), q, sparse_output=sparse_output)


def draw_subsets(n_subsets: int, n_items: int, size: int, random: np.random.RandomState) -> _Array:
    """Draw subsets of the integers from 0 to `n_items` - 1, all of one size.

    Parameters
    ----------
    n_subsets : int
        How many.
    n_items : int
        How many integers there are to choose from.
    size : int
        Size of the subsets, at most `n_items`.
    random : RandomState instance
        Decides.

    Returns
    -------
    ndarray of int64, shape (n_subsets, size)
        Distinct integers in each row. All subsets are equally likely; all orders are not.

    Notes
    -----
    This is Floyd's algorithm for all subsets at once: it takes memory for the result, and no array
    of `n_subsets` times `n_items` entries.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.partial_labels import draw_subsets
    >>> draw_subsets(3, 10, 2, np.random.RandomState(0))
    array([[5, 3],
           [0, 7],
           [3, 9]])
    """
    drawn = np.empty((size, n_subsets), np.int64)
    for step in range(size):
        last = n_items - size + step
        item = random.randint(last + 1, size=n_subsets)
        taken = (drawn[:step] == item).any(axis=0)
        drawn[step] = np.where(taken, last, item)
    return drawn.T


def mark_candidates(
    truth: _Array, rows: _Array, columns: _Array, n_classes: int, *, sparse_output: bool
) -> Any:
    """Return the candidates that consist of the true and the false labels.

    Parameters
    ----------
    truth : ndarray of int, shape (n,)
        Column of the true label of each row.
    rows, columns : ndarray of int, shape (m,)
        Where the false labels are; none of them twice.
    n_classes : int
        Number of columns.
    sparse_output : bool
        Whether the result is sparse.

    Returns
    -------
    ndarray of bool, shape (n, n_classes), or csr_array of bool in canonical format

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.partial_labels import mark_candidates
    >>> truth, rows, columns = np.array([0, 2]), np.array([1]), np.array([0])
    >>> mark_candidates(truth, rows, columns, 3, sparse_output=False).astype(int)
    array([[1, 0, 0],
           [1, 0, 1]])
    """
    shape = len(truth), n_classes
    rows = np.concatenate([np.arange(len(truth)), rows])
    columns = np.concatenate([truth, columns])
    if sparse_output:
        return sparse.csr_array((np.ones(len(rows), np.bool_), (rows, columns)), shape=shape)
    candidates = np.zeros(shape, np.bool_)
    candidates[rows, columns] = True
    return candidates


def _check_options(
    p: Any, r: Any, epsilon: Any, coupling: Any, noise: Any, X: Any, estimator: Any
) -> None:
    if coupling not in ("independent", "matching"):
        raise ValueError(f"coupling must be 'independent' or 'matching', got {coupling!r}")
    if noise not in ("uniform", "instance"):
        raise ValueError(f"noise must be 'uniform' or 'instance', got {noise!r}")
    if isinstance(r, bool) or not isinstance(r, Integral):
        raise TypeError(f"r must be an integer, got {r!r}")
    if r < 1:
        raise ValueError(f"r must be at least 1, got {r}; for no false labels use p=0")
    for name, value in (("p", p), ("epsilon", epsilon)):
        if value is not None:
            _check_share(name, value)
    if epsilon is None:
        if p is None:
            raise ValueError(
                "give p, the share of rows that get false labels, or epsilon, the probability of "
                "the coupled label"
            )
        if coupling != "independent":
            raise ValueError(f"coupling={coupling!r} needs epsilon")
    else:
        if p not in (None, 1) or r != 1:
            raise ValueError(f"epsilon implies p=1 and r=1, got p={p} and r={r}: leave them out")
        if noise != "uniform":
            raise ValueError(f"epsilon and noise={noise!r} cannot be combined: choose one")
    if noise == "instance" and X is None:
        raise ValueError("noise='instance' needs the features X")
    if noise == "uniform" and not (X is None and estimator is None):
        raise ValueError("X and estimator are used with noise='instance' only: leave them out")


def _check_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number from 0 to 1, got {value!r}")
    if not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value}")


def _encode(y: Any, classes: Any) -> tuple[_Array, _Array]:
    """Return the column of each true label, and the labels of the columns."""
    if sparse.issparse(y) or getattr(y, "ndim", 1) != 1:
        raise ValueError(f"y must be 1-d, with one true label per row, got the shape {y.shape}")
    return check_labels(y, classes=classes)


def _draw_coupled(
    truth: _Array, q: int, epsilon: float, coupling: str, random: np.random.RandomState
) -> _Array:
    """Return the false label of each row."""
    partner = random.randint(q - 1, size=q)
    partner += partner >= np.arange(q)
    if coupling == "matching":
        first, second = random.permutation(q)[: q - q % 2].reshape(2, -1)
        partner[first], partner[second] = second, first
    coupled = partner[truth]
    # Any label but these two: step over the smaller one, then over the larger one.
    other = random.randint(q - 2, size=len(truth))
    other += other >= np.minimum(truth, coupled)
    other += other >= np.maximum(truth, coupled)
    return np.where(random.random_sample(len(truth)) < epsilon, coupled, other)


def _draw_confusable(
    X: Any,
    truth: _Array,
    labels: _Array,
    rows: _Array,
    r: int,
    estimator: Any,
    random: np.random.RandomState,
) -> _Array:
    """Return `r` false labels for each of the rows, the likelier the higher their posterior."""
    false = np.empty((len(rows), r), np.int64)
    model = _fit(X, labels[truth], estimator)
    known, _ = check_labels(model.classes_, classes=labels)
    for block in _blocks(len(rows), len(labels)):
        posterior = _posterior(model, X, rows[block], len(known))
        keys = np.full((len(posterior), len(labels)), _LOG_ZERO)
        logarithms = np.full_like(posterior, _LOG_ZERO)
        np.log(posterior, where=posterior > 0, out=logarithms)
        keys[:, known] = logarithms
        # The largest of logarithm + Gumbel noise: a weighted draw without replacement.
        keys += random.gumbel(size=keys.shape)
        keys[np.arange(len(keys)), truth[rows[block]]] = -np.inf
        false[block] = np.argpartition(-keys, r - 1, axis=1)[:, :r]
    return false


def _fit(X: Any, y: _Array, estimator: Any) -> Any:
    if estimator is None:
        # Centring would make sparse features dense.
        scaler = StandardScaler(with_mean=not sparse.issparse(X))
        estimator = make_pipeline(scaler, LogisticRegression(max_iter=1000))
    elif not hasattr(estimator, "predict_proba"):
        raise TypeError(f"estimator must have a method predict_proba, which {estimator!r} has not")
    return clone(estimator).fit(X, y)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    size = max(1, _BLOCK_ENTRIES // n_columns)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def _posterior(model: Any, X: Any, rows: _Array, n_columns: int) -> _Array:
    posterior = np.asarray(model.predict_proba(_safe_indexing(X, rows)), np.float64)
    if posterior.shape != (len(rows), n_columns):
        raise ValueError(
            f"predict_proba returned an array of shape {posterior.shape} for {len(rows)} rows and "
            f"{n_columns} classes"
        )
    wrong = ~(posterior >= 0).all(axis=1)
    if wrong.any():
        row = rows[int(np.argmax(wrong))]
        raise ValueError(f"predict_proba returned NaN or a negative number for row {row} of X")
    return posterior
