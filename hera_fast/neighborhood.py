"""The nearest rows of a row, and what they say about its label.

Queries are taken block by block: the search, the weights of the neighbours and the weighted sum of
their confidences are done for one block before the next one is looked at, so memory does not grow
with the number of queries. No block size and no number of threads changes a bit of the result.

Sparse rows are never made dense. Their search follows the one of
:mod:`hera_fast.kernels.neighbors`: a product gives for each pair a lower and an upper bound of the
squared distance, which differ by the rounding error the product may have; only the points whose
lower bound is not above the k-th smallest upper bound are ranked, by their true distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hera_fast.kernels._check import check_arrays
from hera_fast.kernels.neighbors import nearest_neighbors, neighbor_similarity, self_neighbors

__all__ = ["nearest_rows", "neighbor_scores", "neighbor_weights"]

_Array = np.ndarray[Any, Any]

# Entries of a temporary array, a few of which exist at a time: 8 MB each, and less for sparse rows,
# which take several times as much in the course of a calculation.
_BLOCK_ENTRIES = 1 << 20
_SPARSE_ENTRIES = 1 << 18
_DENSE_QUERIES = 8192
_SPARSE_QUERIES = 128
_SPARSE_POINTS = 4096

NO_POINT = "points must have at least one row that counts, got none"


def nearest_rows(points: Any, queries: Any = None, *, n_neighbors: int) -> tuple[_Array, _Array]:
    """Find the nearest points of each query, or the nearest other points of each point.

    Parameters
    ----------
    points : ndarray or CSR matrix of shape (n, d), float32 or float64
        Finite values.
    queries : ndarray or CSR matrix of shape (m, d), default=None
        Finite values; of the kind and the dtype of `points`. None means the points themselves,
        each of which is left out of its own list: points equal to it are neighbours at distance 0.
    n_neighbors : int
        k, at least 1. All points are neighbours if there are no more than that.

    Returns
    -------
    distances : ndarray of shape (m, k), of the same dtype
        Euclidean distances, ascending.
    indices : ndarray of shape (m, k), int64
        Rows of `points`. Equal distances are ordered by index.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.neighborhood import nearest_rows
    >>> distances, indices = nearest_rows(np.array([[0.0], [1.0], [5.0]]), n_neighbors=1)
    >>> distances.ravel().tolist(), indices.ravel().tolist()
    ([1.0, 1.0, 4.0], [1, 0, 1])
    """
    _check_positive("n_neighbors", n_neighbors)
    is_self = queries is None
    queries = points if is_self else queries
    m, n = queries.shape[0], points.shape[0]
    k = min(int(n_neighbors), n - is_self)
    squares, indices = np.empty((m, k), points.dtype), np.empty((m, k), np.int64)
    is_sparse = sparse.issparse(points)
    if k == 0:
        pass
    elif is_self and not is_sparse:
        self_neighbors(points, squares, indices)
    else:
        if is_sparse:
            queries, points = canonical(queries), canonical(points)
        search = _search_sparse if is_sparse else _search_dense
        for start, stop in query_blocks(queries, k):
            found = search(queries[start:stop], points, k + is_self)
            if is_self:
                found = _leave_out(np.arange(start, stop), *found)
            squares[start:stop], indices[start:stop] = found
    return np.sqrt(squares, out=squares), indices


def neighbor_scores(
    queries: Any,
    points: Any,
    confidence: _Array,
    out: _Array,
    *,
    n_neighbors: int,
    neighbor_rank: int | None = None,
    multiplicity: _Array | None = None,
    normalize: bool = True,
) -> None:
    """Add up the label confidences of each query's nearest points, weighted by similarity.

    The score of query x is the sum over its k nearest points y of ``w_y`` times the confidence
    of y, with ``w_y = exp(-|x - y|^2 / sigma^2)``. The query and its k neighbours form a group of
    k + 1 points, and sigma is the mean over the group of the distance from each point to the
    `neighbor_rank`-th nearest of the others. If sigma is 0, points equal to the query weigh 1 and
    all others 0.

    Parameters
    ----------
    queries : ndarray or CSR matrix of shape (m, d), float32 or float64
        Finite values.
    points : ndarray or CSR matrix of shape (n, d)
        Finite values; of the kind and the dtype of `queries`.
    confidence : ndarray of shape (n, q)
        One row per point, of the same dtype.
    out : ndarray of shape (m, q)
        Output, of the same dtype.
    n_neighbors : int
        k, at least 1. All points are neighbours if there are no more than that.
    neighbor_rank : int, default=None
        From 1 on; no more than k counts as k. None means half of k, rounded up: the width then
        follows the typical distance in the group and is not zero as long as no row occurs in more
        than half of the group.
    multiplicity : ndarray of shape (n,), integers, default=None
        Point j counts as ``multiplicity[j]`` equal points that follow each other, so that a row
        may occur several times among the k neighbours. None means once.
    normalize : bool, default=True
        Whether the weights of each query are divided by their sum. It makes no difference then
        how far they are below the smallest number of the dtype: only their ratios matter.

    Raises
    ------
    TypeError
        For an argument of the wrong type or dtype.
    ValueError
        For a wrong shape or value, or if there is no point that counts.

    Notes
    -----
    The nearest points are found exactly, ties going to the lower index. Dense points are packed
    into a float32 copy; beside it, temporary arrays take some ten megabytes whatever m, n and q,
    as long as k is below a thousand: a group takes memory and time in the square of its size.
    Points with multiplicity 0 make a copy of the others necessary.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.neighborhood import neighbor_scores
    >>> points = np.array([[0.0], [1.0], [5.0]])
    >>> confidence = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> scores = np.empty((2, 2))
    >>> neighbor_scores(np.array([[0.5], [0.4]]), points, confidence, scores, n_neighbors=2)
    >>> scores.round(2).tolist()
    [[0.5, 0.5], [0.71, 0.29]]
    """
    _check_rows(queries, points, confidence, out)
    blocks = _weight_blocks(
        queries, points, n_neighbors, neighbor_rank, multiplicity, normalize=normalize
    )
    for start, weights, indices in blocks:
        add_up(weights, indices, confidence, out[start : start + len(weights)])


def neighbor_weights(
    queries: Any,
    points: Any,
    *,
    n_neighbors: int,
    neighbor_rank: int | None = None,
    normalize: bool = True,
) -> Any:
    """Return the weights by which :func:`neighbor_scores` multiplies confidences.

    They do not depend on the confidences. Where these are many, for the same queries and points,
    the neighbours need to be found only once.

    Parameters
    ----------
    queries, points, n_neighbors, neighbor_rank, normalize
        As for :func:`neighbor_scores`.

    Returns
    -------
    weights : csr_array of shape (m, n)
        k entries in each row. Its product with confidences has the bits of their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.neighborhood import neighbor_weights
    >>> points = np.array([[0.0], [1.0], [5.0]])
    >>> weights = neighbor_weights(np.array([[0.5], [0.4]]), points, n_neighbors=2)
    >>> weights.toarray().round(2).tolist()
    [[0.5, 0.5, 0.0], [0.71, 0.29, 0.0]]
    """
    blocks = list(
        _weight_blocks(queries, points, n_neighbors, neighbor_rank, None, normalize=normalize)
    )
    if not blocks:
        return sparse.csr_array((0, points.shape[0]), dtype=queries.dtype)
    weights = np.concatenate([block for _, block, _ in blocks])
    indices = np.concatenate([block for _, _, block in blocks])
    offsets = np.arange(0, weights.size + 1, weights.shape[1])
    shape = weights.shape[0], points.shape[0]
    return sparse.csr_array((weights.ravel(), indices.ravel(), offsets), shape=shape)


def _weight_blocks(
    queries: Any,
    points: Any,
    n_neighbors: int,
    neighbor_rank: int | None,
    multiplicity: _Array | None,
    *,
    normalize: bool,
) -> Iterator[tuple[int, _Array, _Array]]:
    """Yield the first query of each block, with the weights and indices of the neighbours."""
    check_counts(n_neighbors, neighbor_rank)
    counted = count_rows(points, n_neighbors, multiplicity)
    k = min(int(n_neighbors), counted.n_copies)
    if k == 0:
        raise ValueError(NO_POINT)
    if sparse.issparse(queries):
        queries = canonical(queries)
    for start, _, indices in search_blocks(queries, counted, k):
        block = queries[start : start + len(indices)]
        weights = weigh(block, counted.rows, indices, neighbor_rank, normalize=normalize)
        yield start, weights, counted.original(indices)


# ---- steps that block_neighbors takes as well ---------------------------------------------------


class CountedRows(NamedTuple):
    """The points that count at all."""

    rows: Any
    counts: _Array | None  # how often each of them counts, up to k; None means once
    numbers: _Array | None  # which points they are; None means all of them
    n_copies: int

    def original(self, indices: _Array) -> _Array:
        return indices if self.numbers is None else self.numbers[indices]


def count_rows(points: Any, n_neighbors: int, multiplicity: _Array | None) -> CountedRows:
    counts = _check_multiplicity(multiplicity, points.shape[0])
    if sparse.issparse(points):
        points = canonical(points)
    if counts is None:
        return CountedRows(points, None, None, points.shape[0])
    # More copies than neighbours make no difference, and their sum might overflow.
    counts = np.minimum(counts, n_neighbors).astype(np.int64)
    n_copies = int(counts.sum())
    if counts.all():
        return CountedRows(points, counts, None, n_copies)
    numbers = np.flatnonzero(counts)
    return CountedRows(points[numbers], counts[numbers], numbers, n_copies)


def search_blocks(
    queries: Any, counted: CountedRows, k: int
) -> Iterator[tuple[int, _Array, _Array]]:
    """Yield the first query of each block, with squared distances and indices of k neighbours."""
    rows, counts = counted.rows, counted.counts
    search = _search_sparse if sparse.issparse(rows) else _search_dense
    for start, stop in query_blocks(queries, k):
        squares, indices = search(queries[start:stop], rows, min(k, rows.shape[0]))
        if counts is not None:
            used = _copies(indices, counts, k).ravel()
            squares = np.repeat(squares.ravel(), used).reshape(-1, k)
            indices = np.repeat(indices.ravel(), used).reshape(-1, k)
        yield start, squares, indices


def weigh(
    queries: Any, points: Any, indices: _Array, neighbor_rank: int | None, *, normalize: bool
) -> _Array:
    """Return the weight of each neighbour."""
    k = indices.shape[1]
    rank = (k + 1) // 2 if neighbor_rank is None else min(int(neighbor_rank), k)
    weigh_rows = _weigh_sparse if sparse.issparse(points) else _weigh_dense
    return weigh_rows(queries, points, indices, rank, normalize)


def add_up(weights: _Array, indices: _Array, confidence: Any, out: _Array) -> None:
    m, k = weights.shape
    n, q = confidence.shape
    size = max(1, _BLOCK_ENTRIES // max(1, q))
    for start in range(0, m, size):
        stop = min(start + size, m)
        offsets = np.arange(0, (stop - start) * k + 1, k)
        block = (weights[start:stop].ravel(), indices[start:stop].ravel(), offsets)
        sums = sparse.csr_array(block, shape=(stop - start, n)) @ confidence
        out[start:stop] = sums.toarray() if sparse.issparse(sums) else sums


def query_blocks(queries: Any, k: int) -> Iterator[tuple[int, int]]:
    m = queries.shape[0]
    if sparse.issparse(queries):
        most = min(_SPARSE_QUERIES, _BLOCK_ENTRIES // (k + 1) ** 2)
        yield from _row_blocks(queries.indptr, max(1, most), 1)
        return
    size = max(1, min(_DENSE_QUERIES, _BLOCK_ENTRIES // k))
    for start in range(0, m, size):
        yield start, min(start + size, m)


def check_counts(n_neighbors: Any, neighbor_rank: Any = None) -> None:
    _check_positive("n_neighbors", n_neighbors)
    if neighbor_rank is not None:
        _check_positive("neighbor_rank", neighbor_rank)


def check_csr(queries: Any, points: Any, n_queries: int, n_points: int, dtype: Any) -> None:
    """Check CSR matrices."""
    for name, rows, size in (("queries", queries, n_queries), ("points", points, n_points)):
        if not sparse.issparse(rows) or rows.format != "csr":
            kind = f"{rows.format} matrix" if sparse.issparse(rows) else type(rows).__name__
            raise TypeError(f"{name} must be a CSR matrix if one of them is sparse, got {kind}")
        if rows.dtype != dtype:
            raise TypeError(f"{name} must be {dtype} like confidence, got {rows.dtype}")
        if rows.shape[0] != size:
            raise ValueError(f"{name} must have {size} rows, got {rows.shape[0]}")
    if queries.shape[1] != points.shape[1]:
        raise ValueError(
            f"points must have {queries.shape[1]} columns like queries, got {points.shape[1]}"
        )


def canonical(rows: Any) -> Any:
    """Return rows with each column at most once, in order: sums then go from left to right."""
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def _check_rows(queries: Any, points: Any, confidence: _Array, out: _Array) -> None:
    if not sparse.issparse(queries) and not sparse.issparse(points):
        check_arrays(
            "queries[m,d] points[n,d] confidence[n,q] -> out[m,q]",
            queries,
            points,
            confidence,
            out,
        )
        return
    check_arrays("confidence[n,q] -> out[m,q]", confidence, out)
    check_csr(queries, points, len(out), len(confidence), out.dtype)


def _check_multiplicity(multiplicity: Any, n_points: int) -> _Array | None:
    if multiplicity is None:
        return None
    if type(multiplicity) is not np.ndarray or multiplicity.dtype.kind not in "iu":
        kind = getattr(multiplicity, "dtype", type(multiplicity).__name__)
        raise TypeError(f"multiplicity must be an array of integers, got {kind}")
    if multiplicity.shape != (n_points,):
        raise ValueError(f"multiplicity must have shape ({n_points},), got {multiplicity.shape}")
    if n_points and multiplicity.min() < 0:
        raise ValueError(f"multiplicity must not be negative, got {multiplicity.min()}")
    return multiplicity


def _row_blocks(offsets: _Array, most: int, least: int) -> Iterator[tuple[int, int]]:
    """Divide rows that begin at `offsets` into blocks with a bounded number of entries.

    A block has up to `most` rows, and at least `least` while there are as many.
    """
    n, start = len(offsets) - 1, 0
    while start < n:
        stop = int(np.searchsorted(offsets, offsets[start] + _SPARSE_ENTRIES, "right")) - 1
        stop = min(max(min(stop, start + most), start + least), n)
        yield start, stop
        start = stop


def _copies(indices: _Array, counts: _Array, k: int) -> _Array:
    """Return how often each neighbour is written, k times in all."""
    copies = counts[indices]
    before = np.cumsum(copies, axis=1) - copies
    used: _Array = np.clip(k - before, 0, copies)
    return used


# ---- dense rows --------------------------------------------------------------------------------


def _search_dense(queries: _Array, points: _Array, k: int) -> tuple[_Array, _Array]:
    distances = np.empty((len(queries), k), queries.dtype)
    indices = np.empty((len(queries), k), np.int64)
    nearest_neighbors(queries, points, distances, indices)
    return distances, indices


def _weigh_dense(
    queries: _Array, points: _Array, indices: _Array, rank: int, normalize: bool
) -> _Array:
    weights = np.empty(indices.shape, queries.dtype)
    neighbor_similarity(queries, points, indices, rank, weights)
    if normalize:
        limits = np.finfo(weights.dtype)
        # So small that the ratios have suffered, or that nothing is left to be divided.
        faint = np.flatnonzero(weights.max(axis=1) < limits.tiny / limits.eps)
        size = max(1, _BLOCK_ENTRIES // ((indices.shape[1] + 1) * points.shape[1]))
        for start in range(0, len(faint), size):
            rows = faint[start : start + size]
            squares = _group_squares(queries[rows], points, indices[rows])
            weights[rows] = _gaussian(squares, rank, normalize)
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _group_squares(queries: _Array, points: _Array, indices: _Array) -> _Array:
    """Return the squared distances within each group, the query being its last member."""
    groups = np.concatenate([points[indices], queries[:, np.newaxis]], axis=1).astype(np.float64)
    groups *= _unit_scale(np.abs(groups).max(axis=(1, 2)))[:, np.newaxis, np.newaxis]
    squares = np.empty((*groups.shape[:2], groups.shape[1]))
    for member in range(groups.shape[1]):
        differences = groups - groups[:, member : member + 1]
        differences *= differences
        squares[:, member] = differences.sum(axis=2)
    return squares


def _unit_scale(largest: _Array) -> _Array:
    """Return powers of two that keep squares of numbers up to `largest` within range."""
    return np.ldexp(1.0, np.minimum(-np.frexp(largest)[1], 1000))


def _gaussian(squares: _Array, rank: int, normalize: bool) -> _Array:
    """Return the weights of each group's members for the last one of them.

    If they are to be normalized, the largest one is 1.
    """
    # Place 0 of a sorted row is the member itself.
    sigma = np.sqrt(np.partition(squares, rank, axis=2)[:, :, rank]).mean(axis=1)
    excess = squares[:, -1, :-1].copy()
    if normalize:
        excess -= excess.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weights: _Array = np.exp(-np.square(np.sqrt(excess) / sigma[:, np.newaxis]))
    weights[excess == 0] = 1
    return weights


# ---- sparse rows -------------------------------------------------------------------------------


def _search_sparse(queries: Any, points: Any, k: int) -> tuple[_Array, _Array]:
    m, n = queries.shape[0], points.shape[0]
    transposed = queries.astype(np.float64).T.tocsr()
    query_norms = _squared_norms(queries)[:, np.newaxis]
    # Rounding errors of the product, of the norms and of the true distance, all relative to the
    # sum of the norms and together below twice the number of terms times eps; and underflow.
    terms = queries.shape[1] + 8
    error = 4 * terms * np.finfo(np.float64).eps
    margin = 8 * terms * np.finfo(np.float64).tiny
    best = np.full((m, k), np.inf)
    indices = np.full((m, k), n)
    for start, stop in _row_blocks(points.indptr, max(k, _SPARSE_POINTS), k):
        block = points[start:stop].astype(np.float64)
        # What overflows here is infinite or NaN, and NaN is no reason to leave a point out.
        with np.errstate(over="ignore", invalid="ignore"):
            norms = query_norms + _squared_norms(block)
            bounds = norms - 2 * (block @ transposed).toarray(order="F").T
            norms *= error
            norms += margin
            limits = best[:, -1]
            if stop - start >= k:
                upper = bounds + norms
                upper.partition(k - 1, axis=1)
                limits = np.minimum(limits, upper[:, k - 1])
                del upper
            bounds -= norms
        # Against k points at distance 0 all later ones lose the tie.
        possible = ~(bounds > limits[:, np.newaxis]) & (best[:, -1:] > 0)
        del bounds, norms
        rows, candidates = np.nonzero(possible)
        candidates += start
        found = _squared_distances(queries, rows, points, candidates)
        _keep_nearest(best, indices, rows, found, candidates)
    return best, indices


def _keep_nearest(
    best: _Array, indices: _Array, rows: _Array, found: _Array, candidates: _Array
) -> None:
    """Merge candidates with the nearest points of their rows so far, ties to the lower index."""
    m, k = best.shape
    rows = np.concatenate([np.repeat(np.arange(m), k), rows])
    found = np.concatenate([best.ravel(), found])
    candidates = np.concatenate([indices.ravel(), candidates])
    order = np.lexsort((candidates, found, rows))
    kept = order[np.searchsorted(rows[order], np.arange(m))[:, np.newaxis] + np.arange(k)]
    best[:], indices[:] = found[kept], candidates[kept]


def _leave_out(own: _Array, squares: _Array, indices: _Array) -> tuple[_Array, _Array]:
    """Drop one neighbour of each row: the row itself, or the last one where it is not among them.

    It may be missing where there are many rows equal to it.
    """
    kept = indices != own[:, np.newaxis]
    kept[kept.all(axis=1), -1] = False
    shape = len(own), indices.shape[1] - 1
    return squares[kept].reshape(shape), indices[kept].reshape(shape)


def _weigh_sparse(queries: Any, points: Any, indices: _Array, rank: int, normalize: bool) -> _Array:
    m, k = indices.shape
    distinct, positions = np.unique(indices, return_inverse=True)
    rows = sparse.vstack([points[distinct], queries], format="csr")
    own = len(distinct) + np.arange(m)[:, np.newaxis]
    members = np.concatenate([positions.reshape(m, k), own], axis=1)
    largest = abs(rows).max(axis=1).toarray().ravel().astype(np.float64)
    scales = _unit_scale(largest[members].max(axis=1))
    first, second = np.triu_indices(k + 1, 1)
    squares = np.zeros((m, k + 1, k + 1))
    squares[:, first, second] = squares[:, second, first] = _squared_distances(
        rows,
        members[:, first].ravel(),
        rows,
        members[:, second].ravel(),
        np.repeat(scales, len(first)),
    ).reshape(m, len(first))
    weights = _gaussian(squares, rank, normalize)
    if normalize:
        weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(queries.dtype)


def _squared_distances(
    left: Any, left_rows: _Array, right: Any, right_rows: _Array, scales: _Array | None = None
) -> _Array:
    """Return the squared distance of each pair of rows, both first multiplied by its scale."""
    sizes = left.indptr[left_rows + 1] - left.indptr[left_rows]
    sizes = sizes + (right.indptr[right_rows + 1] - right.indptr[right_rows])
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    squares = np.empty(len(left_rows))
    for start, stop in _row_blocks(offsets, len(left_rows), 1):
        pairs = slice(start, stop)
        scale = None if scales is None else scales[pairs]
        squares[pairs] = _squared_norms(
            _take(left, left_rows[pairs], scale) - _take(right, right_rows[pairs], scale)
        )
    return squares


def _take(rows: Any, numbers: _Array, scales: _Array | None) -> Any:
    taken = rows[numbers].astype(np.float64)
    if scales is not None:
        taken.data *= np.repeat(scales, np.diff(taken.indptr))
    return taken


def _squared_norms(rows: Any) -> _Array:
    """Add up the squares of each row from left to right, as the kernels do."""
    numbers = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    with np.errstate(over="ignore"):
        squares = np.square(rows.data, dtype=np.float64)
    # Without any entry, bincount counts in integers.
    return np.bincount(numbers, squares, minlength=rows.shape[0]).astype(np.float64, copy=False)
