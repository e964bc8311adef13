"""Synthetic partial-label data: rows that can be learned, with false labels that co-occur."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from hera_fast.partial_labels import draw_subsets, mark_candidates

__all__ = ["make_partial_classification"]

_Array = np.ndarray[Any, Any]


class _Recipe(NamedTuple):
    n_samples: int
    n_features: int
    n_classes: int
    n_candidates: float
    imbalance: float
    co_occurrence: float
    class_sep: float


_DEFAULT = _Recipe(1000, 20, 5, 2.0, 0.0, 0.5, 1.0)

# The last three numbers reproduce what was measured on the first four sets: the power law that fits
# the label counts best, the share of false candidates that are one of the three most frequent
# companions of the true label, and the accuracy of logistic regression on standardised features
# and true labels in three folds (0.80, 0.59, 0.08, 0.75). Those of the last two are assumed: names
# in captions, long-tailed, and accuracies of 0.6 to 0.7.
_LIKE = {
    "lost": _Recipe(1122, 108, 16, 2.23, 0.9, 0.9, 0.9),
    "msrcv2": _Recipe(1758, 48, 23, 3.16, 0.8, 0.7, 0.65),
    "fg-net": _Recipe(1002, 262, 78, 7.48, 0.7, 0.4, 0.2),
    "birdsong": _Recipe(4998, 38, 13, 2.18, 0.9, 0.95, 0.65),
    "soccer-player": _Recipe(17472, 279, 171, 2.09, 1.0, 0.8, 0.8),
    "yahoo-news": _Recipe(22991, 163, 219, 1.91, 1.0, 0.8, 0.9),
}

_CLUSTERS = 3
_CLUSTER_DISTANCE = 8.0
_STRETCH = 2.0
_NEGATIVE_SLOPE = 0.3
_COMPANIONS = 8
_COMPANION_DECAY = 0.5
_BLOCK_ROWS = 4096


def make_partial_classification(
    n_samples: int | None = None,
    n_features: int | None = None,
    n_classes: int | None = None,
    n_candidates: float | None = None,
    *,
    imbalance: float | None = None,
    co_occurrence: float | None = None,
    class_sep: float | None = None,
    like: str | None = None,
    dtype: Any = np.float64,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[_Array, Any, _Array]:
    """Make rows with candidate labels of which the true one can be learned.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows n.
    n_features : int, default=20
        Number of features d.
    n_classes : int, default=5
        Number of labels q, at least 2.
    n_candidates : float, default=2
        Expected number of candidates of a row, from 1 to q. Each row has one true label, and the
        number of its false ones is binomial with this mean in all: almost a Poisson number if q is
        large, and never more than there are.
    imbalance : float, default=0
        Label j, from 0 on, is the true one with a probability proportional to
        ``(1 + j)**-imbalance``. 0 means that all are equally likely; real sets have about 1.
    co_occurrence : float, default=0.5
        Each label has eight random companions, or all others if there are no more, and each of
        them comes half as often as the one before. This is the probability that a false candidate
        is drawn from the companions of the true label that are left; the others are drawn from
        all labels that are left. From 0, where nothing co-occurs, to 1.
    class_sep : float, default=1
        How far the labels are apart, from 0 on: the root mean square distance between clusters of
        different labels is eight times as much, where the noise of a feature has the standard
        deviation 1.
    like : str, default=None
        Take what is not given from a real data set: ``"lost"``, ``"msrcv2"``, ``"fg-net"``,
        ``"birdsong"``, ``"soccer-player"`` or ``"yahoo-news"``.
    dtype : dtype, default=float64
        Of the features: float64 or float32.
    random_state : int, RandomState instance or None, default=None
        Decides what is drawn. An integer gives the same bits on any number of threads.

    Returns
    -------
    X : ndarray of shape (n, d)
        The features.
    Y : csr_array of bool, shape (n, q)
        The candidates.
    y : ndarray of int64, shape (n,)
        The true labels, from 0 to q - 1.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If an argument is out of its range.

    Notes
    -----
    A label has three clusters, closer together than those of different labels. Few directions tell
    them apart: the scale of their centres falls by a factor e with each quarter of the features.
    The noise of a label is Gaussian and stretched in a direction of its own. In the end, negative
    features are multiplied by 0.3, which leaves skewed and bent clusters: neither linear nor
    Gaussian models fit exactly.

    No array of n times q or q times q entries is made.

    Examples
    --------
    >>> from hera_fast.synthetic import make_partial_classification
    >>> X, Y, y = make_partial_classification(n_samples=4, n_classes=3, random_state=0)
    >>> X.shape, y.tolist()
    ((4, 20), [1, 2, 1, 1])
    >>> Y.toarray().astype(int)
    array([[0, 1, 1],
           [1, 0, 1],
           [1, 1, 1],
           [0, 1, 1]])
    >>> X, Y, y = make_partial_classification(like="lost", n_samples=100, random_state=0)
    >>> X.shape, Y.shape
    ((100, 108), (100, 16))
    """
    if like is not None and like not in _LIKE:
        raise ValueError(f"like must be one of {', '.join(map(repr, _LIKE))}; got {like!r}")
    given = (n_samples, n_features, n_classes, n_candidates, imbalance, co_occurrence, class_sep)
    preset = _DEFAULT if like is None else _LIKE[like]
    recipe = _check(_Recipe(*map(_first_given, given, preset)))
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")
    random = check_random_state(random_state)
    shares = np.arange(1.0, recipe.n_classes + 1) ** -recipe.imbalance
    y = random.choice(recipe.n_classes, recipe.n_samples, p=shares / shares.sum()).astype(np.int64)
    # First, because it takes memory for a while.
    rows, columns = _draw_false_labels(y, recipe, random)
    Y = mark_candidates(y, rows, columns, recipe.n_classes, sparse_output=True)
    return _draw_features(y, recipe, dtype, random), Y, y


def _first_given(value: Any, preset: Any) -> Any:
    return preset if value is None else value


def _check(recipe: _Recipe) -> _Recipe:
    for name, least in (("n_samples", 1), ("n_features", 1), ("n_classes", 2)):
        value = getattr(recipe, name)
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} must be an integer, got {value!r}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    for name, least, most in (
        ("n_candidates", 1, recipe.n_classes),
        ("imbalance", 0, math.inf),
        ("co_occurrence", 0, 1),
        ("class_sep", 0, math.inf),
    ):
        value = getattr(recipe, name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not least <= float(value) <= most or math.isinf(value):
            limits = f"at least {least}" if most == math.inf else f"from {least} to {most}"
            why = ", the number of classes" if name == "n_candidates" else ""
            raise ValueError(f"{name} must be {limits}{why}; got {value}")
    return recipe


def _draw_false_labels(
    y: _Array, recipe: _Recipe, random: np.random.RandomState
) -> tuple[_Array, _Array]:
    """Return rows and columns of all false candidates."""
    q, rows = recipe.n_classes, np.arange(len(y))
    companions = _draw_companions(q, random)
    n_false = random.binomial(q - 1, (recipe.n_candidates - 1) / (q - 1), len(y))
    n_near = np.minimum(random.binomial(n_false, recipe.co_occurrence), companions.shape[1])
    n_other = n_false - n_near
    # The shortest of exponential waiting times: a weighted draw without replacement.
    waiting = random.standard_exponential((len(y), companions.shape[1]))
    waiting /= _COMPANION_DECAY ** np.arange(companions.shape[1])
    near = np.take_along_axis(companions[y], np.argsort(waiting, axis=1), axis=1)
    is_near = np.arange(companions.shape[1]) < n_near[:, np.newaxis]
    false_rows, false_columns = [np.repeat(rows, n_near)], [near[is_near]]
    # The labels that are taken come first, in ascending order.
    taken = np.sort(np.column_stack([y, np.where(is_near, near, q)]), axis=1)
    kind = n_near * q + n_other
    order = np.argsort(kind, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
        n_taken, size = 1 + n_near[group[0]], n_other[group[0]]
        others = draw_subsets(len(group), q - n_taken, size, random)
        for label in taken[group, :n_taken].T:
            others += others >= label[:, np.newaxis]
        false_rows.append(np.repeat(group, size))
        false_columns.append(others.ravel())
    return np.concatenate(false_rows), np.concatenate(false_columns)


def _draw_companions(q: int, random: np.random.RandomState) -> _Array:
    """Return some other labels for each label, in random order."""
    companions = draw_subsets(q, q - 1, min(_COMPANIONS, q - 1), random)
    companions += companions >= np.arange(q)[:, np.newaxis]
    order = np.argsort(random.random_sample(companions.shape), axis=1)
    return np.take_along_axis(companions, order, axis=1)


def _draw_features(y: _Array, recipe: _Recipe, dtype: Any, random: np.random.RandomState) -> _Array:
    n, d, q = len(y), recipe.n_features, recipe.n_classes
    scale = np.exp(-4 * np.arange(d) / d)
    # Centres of different labels differ by four such vectors: two labels, two offsets.
    scale *= recipe.class_sep * _CLUSTER_DISTANCE / 2 / np.linalg.norm(scale)
    centres = random.standard_normal((q, _CLUSTERS, d))
    centres += random.standard_normal((q, 1, d))
    centres *= scale
    directions = random.standard_normal((q, d)) * (_STRETCH / math.sqrt(d))
    cluster = random.randint(_CLUSTERS, size=n)
    along = random.standard_normal(n)
    X = np.empty((n, d), dtype)
    for start in range(0, n, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        labels = y[rows]
        block = random.standard_normal((len(labels), d))
        block += along[rows, np.newaxis] * directions[labels]
        block += centres[labels, cluster[rows]]
        X[rows] = np.maximum(block, _NEGATIVE_SLOPE * block)
    return X
