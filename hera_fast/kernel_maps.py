"""Features whose inner products approximate a kernel.

All functions look at distinct rows only, in the order of their first occurrence. A row that
occurs twice therefore does exactly what it does when it occurs once with twice the weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import (
    euclidean_distances,
    linear_kernel,
    manhattan_distances,
    rbf_kernel,
)
from sklearn.utils import check_random_state

from hera_fast import kernels
from hera_fast.kernels._launch import blas_threads
from hera_fast.products import each_block
from hera_fast.rows import WHOLE, Rows

__all__ = ["KERNELS", "fit_kernel_map", "map_rows", "median_gamma"]

_Array = np.ndarray[Any, Any]

# Bytes that tell rows apart.
_KEY_SIZE = 16
# Rows whose distances are looked at.
_SAMPLE = 1000
# Eigenvalues of the kernel below this part of their mean count as this part. Rows in few columns
# have many eigenvalues close to 0, and dividing by their roots would show nothing but the rounding
# errors of float32.
_SMALLEST_EIGENVALUE = 1e-4
# Their mean counts as this at least: the inverse roots have to fit into float32.
_SMALLEST_MEAN = 1e-70

#: The kernels: inner products, ``exp(-gamma |x - y|^2)``, ``exp(-gamma |x - y|_1)``.
KERNELS = ("linear", "rbf", "laplacian")


def fit_kernel_map(
    X: Any,
    *,
    kernel: str = "rbf",
    gamma: float | str = "median",
    n_components: int,
    random_state: int | np.random.RandomState | None,
    sample_weight: _Array | None = None,
    rows: Rows = WHOLE,
) -> Nystroem:
    """Fit Nystroem features of a kernel.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float32 or float64
        Rows, at least one of them with a positive weight.
    kernel : {"rbf", "laplacian", "linear"}, default="rbf"
        ``exp(-gamma |x - y|^2)``, ``exp(-gamma |x - y|_1)``, or the inner product: then the
        features are those of the rows' projections onto the chosen ones.
    gamma : float or "median", default="median"
        Positive. ``"median"`` takes it from :func:`median_gamma`. Not used by the linear kernel.
    n_components : int
        Number of rows the kernel is compared with, chosen at random: all distinct ones if there
        are no more.
    random_state : int, RandomState instance or None
        Decides which rows these are.
    sample_weight : ndarray of shape (n,), default=None
        Rows with weight 0 take no part.
    rows : Rows, default=WHOLE
        Where the rows are.

    Returns
    -------
    feature_map : Nystroem
        Fitted. Its features of rows in the dtype of `X` have this dtype, and `transform` returns
        arrays whatever the global output setting is.

    Notes
    -----
    The features of x are the kernel values of x and the chosen rows, times the inverse root of the
    kernel matrix of these rows. It is formed in double precision from eigenvalues of at least 1e-4
    of their mean, where `Nystroem` itself goes down to 1e-12: the inner products of float32 and of
    float64 features then agree to about three digits or better, and would differ by more than 1
    otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.kernel_maps import fit_kernel_map
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> features = fit_kernel_map(X, gamma=1.0, n_components=3, random_state=0).transform(X)
    >>> (features @ features.T).round(3).tolist()
    [[1.0, 0.368, 0.0], [0.368, 1.0, 0.018], [0.0, 0.018, 1.0]]
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(map(repr, KERNELS))}; got {kernel!r}")
    random = check_random_state(random_state)
    numbers, weights = _distinct_rows(X, sample_weight, rows)
    if isinstance(gamma, str):
        if gamma != "median":
            raise ValueError(f"gamma must be a positive number or 'median', got {gamma!r}")
        gamma = (
            1.0
            if kernel == "linear"
            else _median_gamma(*(X, numbers, weights, random, kernel, rows))
        )
    elif isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise TypeError(f"gamma must be a positive number or 'median', got {gamma!r}")
    elif not 0 < gamma < np.inf:
        raise ValueError(f"gamma must be a positive number or 'median', got {gamma}")
    if n_components < 1:
        raise ValueError(f"n_components must be at least 1, got {n_components}")
    components, indices = _landmarks(X, numbers, n_components, random, rows)
    dtype = components.dtype
    components = components.astype(np.float64)
    settings = {} if kernel == "linear" else {"gamma": float(gamma)}
    feature_map = Nystroem(kernel, n_components=len(indices), random_state=0, **settings)
    feature_map.set_output(transform="default")
    # Its own fit would choose among these rows again, and decompose their kernel for a root that
    # has to be replaced.
    with blas_threads(1):  # the same bits on any number of threads
        values = _kernel_values(kernel, components, components, float(gamma))
        feature_map.normalization_ = _inverse_root(values).astype(dtype)
    feature_map.components_ = components.astype(dtype)
    feature_map.component_indices_ = indices
    feature_map.n_features_in_ = components.shape[1]
    return feature_map


def _landmarks(
    X: Any, numbers: _Array, n_components: int, random: np.random.RandomState, rows: Rows = WHOLE
) -> tuple[Any, _Array]:
    """Choose rows; return them and their numbers."""
    indices = numbers[np.sort(random.permutation(len(numbers))[:n_components])]
    return _take(X, indices, rows), indices


def _take(X: Any, numbers: _Array, rows: Rows) -> Any:
    """Return rows with certain numbers, which are in ascending order."""
    parts = rows.gather(_rows_among, X, rows.first_row, numbers)
    if len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.vstack(parts)


def _rows_among(X: Any, first: int, numbers: _Array) -> Any:
    start, stop = np.searchsorted(numbers, (first, first + X.shape[0]))
    return X[numbers[start:stop] - first]


def median_gamma(
    X: Any,
    random_state: int | np.random.RandomState | None,
    sample_weight: _Array | None = None,
    kernel: str = "rbf",
) -> float:
    """Return the inverse of the median squared distance between rows.

    Each pair of different rows counts with the product of its weights; equal rows do not count.
    The median is the smallest distance up to which lies at least half of the weight.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float32 or float64
        Rows, at least one of them with a positive weight.
    random_state : int, RandomState instance or None
        Decides which 1000 rows are looked at, if more are distinct.
    sample_weight : ndarray of shape (n,), default=None
        Non-negative. None means 1 for all rows.
    kernel : {"rbf", "laplacian"}, default="rbf"
        ``"laplacian"`` takes the sums of absolute differences instead of squared distances.

    Returns
    -------
    gamma : float
        1.0 if all rows are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.kernel_maps import median_gamma
    >>> median_gamma(np.array([[0.0], [2.0], [2.0]]), random_state=0)
    0.25
    """
    numbers, weights = _distinct_rows(X, sample_weight)
    return _median_gamma(X, numbers, weights, check_random_state(random_state), kernel)


def _median_gamma(
    X: Any,
    numbers: _Array,
    weights: _Array,
    random: np.random.RandomState,
    kernel: str,
    rows: Rows = WHOLE,
) -> float:
    if len(numbers) > _SAMPLE:
        chosen = np.sort(random.permutation(len(numbers))[:_SAMPLE])
        numbers, weights = numbers[chosen], weights[chosen]
    sample = _take(X, numbers, rows).astype(np.float64)
    if not sparse.issparse(sample):
        # Far from the origin the products of the rows say little about their distances.
        sample -= sample.mean(axis=0)
    first, second = np.triu_indices(len(numbers), 1)
    with blas_threads(1):
        if kernel == "laplacian":
            distances = _manhattan(sample, sample)[first, second]
        else:
            distances = euclidean_distances(sample, squared=True)[first, second]
    pairs = np.flatnonzero(distances)
    if len(pairs) == 0:
        return 1.0
    distances = distances[pairs]
    if (weights == weights[0]).all():
        # All pairs weigh the same, and need not be sorted.
        middle = (len(distances) - 1) // 2
        return float(1 / np.partition(distances, middle)[middle])
    order = np.argsort(distances, kind="stable")
    weight_up_to = np.cumsum((weights[first] * weights[second])[pairs][order])
    median = distances[order[np.searchsorted(weight_up_to, weight_up_to[-1] / 2)]]
    return float(1 / median)


def _distinct_rows(X: Any, sample_weight: Any, rows: Rows = WHOLE) -> tuple[_Array, _Array]:
    """Return the first row of each kind that has a weight, and the weight of its kind."""
    kinds: dict[bytes, int] = {}
    numbers, kind, weights = [], [], []
    for present, keys, weight in rows.gather(_keys_of_rows, X, sample_weight, rows.first_row):
        numbers.append(present)
        weights.append(weight)
        kind += [
            kinds.setdefault(keys[place : place + _KEY_SIZE], len(kinds))
            for place in range(0, len(keys), _KEY_SIZE)
        ]
    if not kind:
        raise ValueError("X must have at least one row with a positive weight, got none")
    kind_of_row = np.array(kind, np.intp)
    _, first = np.unique(kind_of_row, return_index=True)
    total = np.bincount(kind_of_row, np.concatenate(weights))
    return np.concatenate(numbers)[first], total


def _keys_of_rows(
    X: Any, sample_weight: _Array | None, first_row: int
) -> tuple[_Array, bytes, _Array]:
    """Return the numbers of the rows with a weight, what equal ones have in common, and weights."""
    weights = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight)
    present = np.flatnonzero(weights)
    return first_row + present, b"".join(_row_keys(X, present)), weights[present]


def _row_keys(X: Any, present: _Array) -> Iterator[bytes]:
    """Yield for each row with a weight what it shares with equal rows only."""
    if sparse.issparse(X) and not (X.has_canonical_format and X.data.all()):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    for i in present:
        if sparse.issparse(X):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            key = blake2b(X.data[entries].tobytes(), digest_size=_KEY_SIZE)
            key.update(X.indices[entries].tobytes())
        else:
            # Adding 0 turns -0 into 0.
            key = blake2b((X[i] + 0).tobytes(), digest_size=_KEY_SIZE)
        yield key.digest()


def _kernel_values(kernel: str, X: Any, Y: Any, gamma: float) -> _Array:
    """Return the kernel of all pairs of rows, in their dtype."""
    values: Any
    if kernel == "linear":
        values = linear_kernel(X, Y, dense_output=True)
    elif kernel == "rbf":
        if not sparse.issparse(X):
            # Far from the origin the products of the rows say little about their distances.
            centre = Y.mean(axis=0)
            X, Y = X - centre, Y - centre
        values = rbf_kernel(X, Y, gamma=gamma)
    else:
        values = _manhattan(X, Y)
        values *= -gamma
        np.exp(values, out=values)
    return values  # type: ignore[no-any-return]


def _manhattan(X: Any, Y: Any) -> _Array:
    distances: _Array
    if sparse.issparse(X) or sparse.issparse(Y):
        distances = manhattan_distances(_sorted_rows(X), _sorted_rows(Y))
        distances = distances.astype(X.dtype, copy=False)
    else:
        distances = np.empty((X.shape[0], Y.shape[0]), X.dtype)
        kernels.manhattan_distances(X, Y, distances)
    return distances


def _sorted_rows(X: Any) -> sparse.csr_array:
    """Copy rows as scikit-learn's sums of absolute differences want them: no longer indices.

    Rows that are not sorted it would sort in place, while other threads read them.
    """
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    rows = sparse.csr_array((X.data.copy(), indices, indptr), shape=X.shape)
    rows.sum_duplicates()
    return rows


def _inverse_root(values: _Array) -> _Array:
    """Return the symmetric inverse root of a kernel matrix.

    In other axes the features would be other ones: a Gaussian discriminant that shrinks the
    variance of each feature by a part of it would do nothing in the principal axes.
    """
    # Faster than the default where all eigenvectors are wanted.
    eigenvalues, vectors = linalg.eigh(values, driver="evd")
    least = _SMALLEST_EIGENVALUE * max(float(eigenvalues.mean()), _SMALLEST_MEAN)
    root: _Array = (vectors / np.sqrt(np.maximum(eigenvalues, least))) @ vectors.T
    return root


def map_rows(feature_map: Nystroem | None, X: Any) -> Any:
    """Apply a kernel map in its dtype, if there is one; the same bits on any number of threads."""
    if feature_map is None:
        return X
    components, root = feature_map.components_, feature_map.normalization_.T
    if isinstance(components, np.memmap):
        # From a file that joblib has mapped; kernels want plain arrays.
        components = np.asarray(components)
    if sparse.issparse(X) != sparse.issparse(components):
        X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
    mapped = np.empty((X.shape[0], len(root)), dtype=X.dtype)

    def transform(rows: slice) -> None:
        values = _kernel_values(feature_map.kernel, X[rows], components, feature_map.gamma)
        np.matmul(values, root, out=mapped[rows])

    each_block(transform, X.shape[0], len(root) * (X.shape[1] + len(root)))
    return mapped
