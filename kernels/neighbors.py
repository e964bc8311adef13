"""Exact nearest neighbours at the speed of a single-precision matrix product.

Every search takes three steps, whatever the dtype.

1. *Filter.* Rows are centred, scaled by a power of two, rounded to float32 and extended by two
   columns, so that one matrix product gives ``|x|^2 + |y|^2 - 2 x.y`` for a tile of pairs. The
   squared norms are shrunk by the largest relative error the product can have, which turns each
   entry into a *lower bound* of the squared distance. Each row keeps the few points with the
   smallest bounds.
2. *Rank.* The kept points are ordered by their true distances: squared differences added in
   float64, feature by feature, ties to the lower index. A row is certified when the smallest
   bound it has rejected is above its k-th true distance.
3. *Repeat.* For rows without a certificate (ties, clusters narrower than float32 can resolve)
   the product is taken again in float64, and every point whose bound does not exceed the k-th
   distance found so far is ranked by its true distance.

The result depends neither on block sizes nor on the number of threads, because only true
distances decide.

The error bound, relative to ``|x|^2 + |y|^2``, u being the unit roundoff of the product and v
that of float64: rounding the rows changes a squared distance by up to 4u, the product of length
d + 2 adds 2(d + 2)u / (1 - (d + 2)u) in whatever order BLAS works, rounding the norms u + (d + 2)v
and the float64 distance itself 2(d + 2)v. Shrinking the norms by 2e / (1 - e) with
e = (d + 8)u + (2d + 8)v covers them all. What underflow may add is in an absolute margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from hera_fast.kernels._check import check_arrays
from hera_fast.kernels._jit import exact_helper, helper, inline_helper, kernel
from hera_fast.kernels._launch import blas_threads, launch, run_ranges

__all__ = ["nearest_neighbors", "neighbor_similarity", "self_neighbors"]

Array = NDArray[Any]

SHARED_DIGEST = "21e64aa6b917cec3"  # see _inline

# Rows and columns of a tile: large enough for the matrix product, small enough for the cache.
_QUERY_BLOCK = 768
_POINT_BLOCK = 512
_SELF_BLOCK = 768
# Multiplications that are worth a block of their own, for another thread.
_OPERATIONS_PER_BLOCK = 1 << 22
_CENTRE_SAMPLE = 127
# The error bound of a float32 product says nothing for longer rows.
_MOST_COLUMNS = 1 << 23


def nearest_neighbors(queries: Array, points: Array, distances: Array, indices: Array) -> None:
    """Find the k nearest points of each query, exactly.

    Every call allocates a packed copy of the points in float32.

    Parameters
    ----------
    queries : ndarray of shape (m, d)
        Finite values.
    points : ndarray of shape (n, d)
        Finite values, the same dtype.
    distances : ndarray of shape (m, k)
        Output: squared Euclidean distances, ascending. They are sums of squared differences in
        float64, rounded once if the dtype is float32.
    indices : ndarray of shape (m, k), int64
        Output: rows of `points`. Equal distances are ordered by index.
    """
    sizes = check_arrays(
        "queries[m,d] points[n,d] -> distances[m,k] indices[m,k]:index",
        queries,
        points,
        distances,
        indices,
    )
    if len(queries) == 0:
        return
    _check_sizes(sizes, sizes["n"], "rows")
    search = _start_search(queries, points, distances, indices)
    if search.n_kept < len(points):
        _filter_queries(search)
    _repeat_doubtful(search, is_self=False)


def self_neighbors(points: Array, distances: Array, indices: Array) -> None:
    """Find the k nearest other rows of each row, exactly.

    A row is left out of its own list by its index: other rows equal to it are neighbours at
    distance 0. Each pair of rows is looked at once, which takes little more than half the time
    of :func:`nearest_neighbors`. Every call allocates two packed copies of the points in float32.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Finite values.
    distances : ndarray of shape (n, k)
        Output: squared Euclidean distances, ascending, as in :func:`nearest_neighbors`.
    indices : ndarray of shape (n, k), int64
        Output: rows of `points`. Equal distances are ordered by index.
    """
    sizes = check_arrays(
        "points[n,d] -> distances[n,k] indices[n,k]:index", points, distances, indices
    )
    if len(points) == 0 or (len(points) == 1 and sizes["k"] == 0):
        return
    _check_sizes(sizes, sizes["n"] - 1, "other rows")
    search = _start_search(points, points, distances, indices)
    if search.n_kept < len(points):
        _filter_pairs(search)
    _repeat_doubtful(search, is_self=True)


def neighbor_similarity(
    queries: Array, points: Array, indices: Array, order: int, similarities: Array
) -> None:
    """Weigh the neighbours of each query by a Gaussian whose width follows their distances.

    A query x and its k neighbours form a group of k + 1 points. With sigma the mean over the
    group of the distance from each point to the `order`-th nearest of the others, neighbour y
    weighs ``exp(-|x - y|^2 / sigma^2)``. A neighbour equal to the query weighs 1; if sigma is 0,
    the others weigh 0.

    Parameters
    ----------
    queries : ndarray of shape (m, d)
        Finite values.
    points : ndarray of shape (n, d)
        Finite values, the same dtype.
    indices : ndarray of shape (m, k), int64
        Rows of `points`: the neighbours of each query, in any order.
    order : int
        From 1 to k.
    similarities : ndarray of shape (m, k)
        Output.
    """
    sizes = check_arrays(
        "queries[m,d] points[n,d] indices[m,k]:index -> similarities[m,k]",
        queries,
        points,
        indices,
        similarities,
    )
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)):
        raise TypeError(f"order must be an integer, got {type(order).__name__}")
    if not 1 <= order <= sizes["k"]:
        raise ValueError(
            f"order must be from 1 to the {sizes['k']} column(s) of indices, got {order}"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < len(points):
        raise ValueError(
            f"indices must be from 0 to {len(points) - 1} (rows of points), "
            f"got values from {indices.min()} to {indices.max()}"
        )
    row_cost = (sizes["k"] + 1) ** 2 * sizes["d"] // 2
    # A NumPy integer would be a type of its own to the compiler.
    order = int(order)
    launch(_similarity_rows, len(queries), row_cost, queries, points, indices, order, similarities)


# ---- one search --------------------------------------------------------------------------------


class _Search(NamedTuple):
    """The arguments of a search, and how rows are moved and scaled before they are rounded."""

    queries: Array
    points: Array
    distances: Array
    indices: Array
    doubtful: Array  # per query: -1 if certified, else an upper bound of the k-th distance
    n_kept: int  # points kept by the filter for each query
    centre: Array  # already scaled
    scale: float  # a power of two
    margin: float  # largest error by underflow, in scaled squared units


def _check_sizes(sizes: dict[str, int], n_others: int, others: str) -> None:
    if not 1 <= sizes["d"] < _MOST_COLUMNS:
        raise ValueError(
            f"points must have from 1 to {_MOST_COLUMNS - 1} column(s), got {sizes['d']}"
        )
    if not 1 <= sizes["k"] <= n_others:
        raise ValueError(
            f"distances and indices must have from 1 to {n_others} column(s), as many as points "
            f"has {others}, got {sizes['k']}"
        )


def _start_search(queries: Array, points: Array, distances: Array, indices: Array) -> _Search:
    n, d = points.shape
    k = distances.shape[1]
    # The median of a sample is near the data, whatever outliers there are, and never overflows.
    sample = np.sort(points[:: -(-n // _CENTRE_SAMPLE)], axis=0)
    centre = sample[len(sample) // 2].astype(np.float64)
    # Entries of at most 2^31: neither squares nor their sums leave the range of float32.
    largest = max(float(points.max()), -float(points.min()))
    scale = math.ldexp(1.0, min(30 - math.frexp(largest)[1], 1000))
    underflow = math.ldexp(1.0, -120) + math.ldexp(1.0, -1022) * scale * scale
    return _Search(
        queries,
        points,
        distances,
        indices,
        doubtful=np.full(len(queries), np.inf),
        # A few more than k: enough to certify all rows of continuous data, and most rows of
        # data with ties. An odd number, see _replace_root.
        n_kept=(k + 3 + k // 16) | 1,
        centre=centre * scale,
        scale=scale,
        margin=(d + 8) * underflow,
    )


def _pack(start: int, stop: int, search: _Search, rows: Array, is_right: bool, out: Array) -> None:
    """Write ``[x, |x|^2, 1]``, or ``[-2x, 1, |x|^2]`` for the right factor of a product."""
    d = rows.shape[1]
    error = (d + 8) * float(np.finfo(out.dtype).eps) / 2 + (2 * d + 8) * 2.0**-53
    shrink = 1 - 2 * error / (1 - error)
    _pack_rows(start, stop, rows, search.centre, search.scale, shrink, is_right, out)


def _filter_queries(search: _Search) -> None:
    points = search.points
    n, d = points.shape
    right = np.empty((n, d + 2), np.float32)
    launch(_pack, n, 2 * d, search, points, True, right)

    def filter_rows(start: int, stop: int) -> None:
        rows = search.queries[start:stop]
        left = np.empty((len(rows), d + 2), np.float32)
        _pack(0, len(rows), search, rows, False, left)
        thresholds, bounds, kept = _empty_lists(len(rows), search.n_kept)
        buffer = np.empty(len(rows) * _POINT_BLOCK, np.float32)
        for first in range(0, n, _POINT_BLOCK):
            tile = _multiply(left, right[first : first + _POINT_BLOCK], buffer)
            _keep_smallest(tile, first, thresholds, bounds, kept)
        _rank_kept(
            0,
            len(rows),
            rows,
            points,
            bounds,
            kept,
            search.scale,
            search.margin,
            search.distances[start:stop],
            search.indices[start:stop],
            search.doubtful[start:stop],
        )

    _run_over_blocks(filter_rows, len(search.queries), n * d)


def _filter_pairs(search: _Search) -> None:
    points = search.points
    n, d = points.shape
    left = np.empty((n, d + 2), np.float32)
    right = np.empty((n, d + 2), np.float32)
    launch(_pack, n, 2 * d, search, points, False, left)
    launch(_pack, n, 2 * d, search, points, True, right)
    thresholds, bounds, kept = _empty_lists(n, search.n_kept)
    n_threads = numba.get_num_threads()
    block = _even_block(n, _SELF_BLOCK, 2 * n_threads, n * d)
    buffers: list[Array] = []

    def compare(i: int, j: int) -> None:
        try:
            buffer = buffers.pop()  # atomic: no other thread has this one
        except IndexError:
            buffer = np.empty(block * block, np.float32)
        rows, columns = slice(i * block, (i + 1) * block), slice(j * block, (j + 1) * block)
        tile = _multiply(left[rows], right[columns], buffer)
        if i == j:
            np.fill_diagonal(tile, np.inf)
            _keep_smallest(tile, j * block, thresholds[rows], bounds[rows], kept[rows])
        else:
            _keep_smallest_both(tile, i * block, j * block, thresholds, bounds, kept)
        buffers.append(buffer)

    with _blas_for(n_threads):
        for pairs in _rounds(-(-n // block)):
            run_ranges(compare, pairs, n_threads)
    launch(
        _rank_kept,
        n,
        search.n_kept * d,
        points,
        points,
        bounds,
        kept,
        search.scale,
        search.margin,
        search.distances,
        search.indices,
        search.doubtful,
    )


def _repeat_doubtful(search: _Search, is_self: bool) -> None:
    points = search.points
    n, d = points.shape
    doubtful_rows = np.flatnonzero(search.doubtful >= 0)

    def repeat_rows(start: int, stop: int) -> None:
        numbers = doubtful_rows[start:stop]
        rows = search.queries[numbers]
        limits = search.doubtful[numbers]
        own = numbers if is_self else np.full(len(rows), -1, np.int64)
        left = np.empty((len(rows), d + 2))
        _pack(0, len(rows), search, rows, False, left)
        right = np.empty((_POINT_BLOCK, d + 2))
        best = np.full((len(rows), search.distances.shape[1]), np.inf)
        best_indices = np.full(best.shape, n, np.int64)
        buffer = np.empty(len(rows) * _POINT_BLOCK)
        for first in range(0, n, _POINT_BLOCK):
            block = points[first : first + _POINT_BLOCK]
            _pack(0, len(block), search, block, True, right)
            _rank_within_limit(
                _multiply(left, right[: len(block)], buffer),
                first,
                rows,
                points,
                own,
                limits,
                search.scale,
                search.margin,
                best,
                best_indices,
            )
        with np.errstate(over="ignore"):  # beyond float32 the distance is infinite
            search.distances[numbers] = best
        search.indices[numbers] = best_indices

    _run_over_blocks(repeat_rows, len(doubtful_rows), n * d)


def _empty_lists(n_rows: int, length: int) -> tuple[Array, Array, Array]:
    """Return for each row its threshold, and bounds and indices of the points it keeps."""
    bounds = np.full((n_rows, length), np.inf, np.float32)
    return bounds[:, 0].copy(), bounds, np.full(bounds.shape, -1, np.int64)


def _multiply(left: Array, right: Array, buffer: Array) -> Array:
    """Return ``left @ right.T``, stored in `buffer`."""
    tile = buffer[: len(left) * len(right)].reshape(len(left), len(right))
    # A row beyond the range of the dtype gives NaN or infinity here, and is repeated.
    with np.errstate(over="ignore", invalid="ignore"):
        np.dot(left, right.T, out=tile)
    return tile


# ---- work for threads --------------------------------------------------------------------------


def _even_block(n_rows: int, largest: int, multiple: int, row_cost: int) -> int:
    """Return the rows per block such that the number of blocks is a multiple of `multiple`.

    Little work is not divided.
    """
    n_blocks = -(-n_rows // (largest * multiple)) * multiple
    worthwhile = _OPERATIONS_PER_BLOCK // row_cost
    return min(n_rows, max(-(-n_rows // n_blocks), worthwhile))


def _run_over_blocks(work: Callable[[int, int], None], n_rows: int, row_cost: int) -> None:
    if n_rows == 0:
        return
    n_threads = numba.get_num_threads()
    block = _even_block(n_rows, _QUERY_BLOCK, n_threads, row_cost)
    ranges = [(start, min(start + block, n_rows)) for start in range(0, n_rows, block)]
    with _blas_for(min(n_threads, len(ranges))):
        run_ranges(work, ranges, n_threads)


def _blas_for(n_threads: int) -> AbstractContextManager[None]:
    """Keep BLAS from starting threads inside several threads."""
    return blas_threads(1) if n_threads > 1 else nullcontext()


def _rounds(n_blocks: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs of blocks in rounds in which no block occurs twice, as in a tournament.

    A pair may then write to the lists of both its blocks while other pairs are compared.
    """
    yield [(i, i) for i in range(n_blocks)]
    last = n_blocks - 1 + n_blocks % 2  # if the number is odd, who meets the last one rests
    for turn in range(last):
        pairs = [(turn, last)]
        pairs += [((turn + i) % last, (turn - i) % last) for i in range(1, (last + 1) // 2)]
        yield [(min(pair), max(pair)) for pair in pairs if max(pair) < n_blocks]


# ---- compiled ----------------------------------------------------------------------------------


@kernel
def _pack_rows(
    start: int,
    stop: int,
    rows: Array,
    centre: Array,
    scale: float,
    shrink: float,
    is_right: bool,
    out: Array,
) -> None:
    d = rows.shape[1]
    factor = -2.0 if is_right else 1.0
    for i in range(start, stop):
        squares = 0.0
        for f in range(d):
            out[i, f] = np.float64(rows[i, f]) * scale - centre[f]
            rounded = np.float64(out[i, f])
            squares += rounded * rounded
            out[i, f] = factor * rounded
        out[i, d] = 1.0 if is_right else shrink * squares
        out[i, d + 1] = shrink * squares if is_right else 1.0


@kernel
def _keep_smallest(tile: Array, first: int, thresholds: Array, bounds: Array, kept: Array) -> None:
    """Offer the entries of each row of the tile to the list of that row."""
    width = tile.shape[1]
    marks = np.zeros(-(-width // 8) * 8, np.uint8)
    marked = np.empty(len(marks), np.int64)
    for r in range(tile.shape[0]):
        values = tile[r]
        _mark_below(values, thresholds[r], marks)
        for h in range(_find_marks(marks, marked)):
            value = values[marked[h]]
            if value < thresholds[r]:
                _replace_root(bounds[r], kept[r], value, first + marked[h])
                thresholds[r] = bounds[r, 0]


@kernel
def _keep_smallest_both(
    tile: Array, first_row: int, first_column: int, thresholds: Array, bounds: Array, kept: Array
) -> None:
    """Offer each entry to the list of its row and to the list of its column."""
    height, width = tile.shape
    column_thresholds = thresholds[first_column : first_column + width]
    marks = np.zeros(-(-width // 8) * 8, np.uint8)
    marked = np.empty(len(marks), np.int64)
    for r in range(height):
        values = tile[r]
        row = first_row + r
        _mark_below_either(values, thresholds[row], column_thresholds, marks)
        for h in range(_find_marks(marks, marked)):
            value = values[marked[h]]
            column = first_column + marked[h]
            if value < thresholds[row]:
                _replace_root(bounds[row], kept[row], value, column)
                thresholds[row] = bounds[row, 0]
            if value < thresholds[column]:
                _replace_root(bounds[column], kept[column], value, row)
                thresholds[column] = bounds[column, 0]


@kernel
def _rank_kept(
    start: int,
    stop: int,
    queries: Array,
    points: Array,
    bounds: Array,
    kept: Array,
    scale: float,
    margin: float,
    distances: Array,
    indices: Array,
    doubtful: Array,
) -> None:
    """Order the kept points by true distance.

    `doubtful` becomes -1 for a certified row, else the k-th distance so far.
    """
    k = distances.shape[1]
    n_candidates = kept.shape[1] - 1
    candidates = np.empty(n_candidates, np.int64)
    found = np.empty(n_candidates)
    for i in range(start, stop):
        # A list that is not full met NaN: numbers too large for float32.
        if not bounds[i, 0] < np.inf:
            doubtful[i] = np.inf
            continue
        # The root of the heap only serves as the threshold. Large bounds come first: turned
        # round, there is less to sort.
        for c in range(n_candidates):
            candidates[c] = kept[i, n_candidates - c]
        _true_distances(queries[i], points, candidates, found)
        _sort(found, candidates)
        certified = bounds[i, 0] > _scaled(found[k - 1], scale, margin)
        doubtful[i] = -1.0 if certified else found[k - 1]
        for c in range(k):
            distances[i, c] = found[c]
            indices[i, c] = candidates[c]


@kernel
def _rank_within_limit(
    tile: Array,
    first: int,
    queries: Array,
    points: Array,
    own: Array,
    limits: Array,
    scale: float,
    margin: float,
    best: Array,
    best_indices: Array,
) -> None:
    """Rank every point that may be as near as the k-th so far, in ascending order of index."""
    width = tile.shape[1]
    k = best.shape[1]
    marks = np.zeros(-(-width // 8) * 8, np.uint8)
    candidates = np.empty(k + len(marks), np.int64)
    found = np.empty(len(candidates))
    for r in range(tile.shape[0]):
        # Nothing is nearer than k points at distance 0, and later points lose the tie.
        if best[r, k - 1] == 0.0:
            continue
        _mark_up_to(tile[r], _scaled(min(best[r, k - 1], limits[r]), scale, margin), marks)
        if first <= own[r] < first + width:
            marks[own[r] - first] = 0
        end = k + _find_marks(marks, candidates[k:])
        if end == k:
            continue
        for c in range(k):
            candidates[c] = best_indices[r, c]
            found[c] = best[r, c]
        for c in range(k, end):
            candidates[c] += first
        _true_distances(queries[r], points, candidates[k:end], found[k:end])
        _sort(found[:end], candidates[:end])
        for c in range(k):
            best_indices[r, c] = candidates[c]
            best[r, c] = found[c]


@kernel
def _similarity_rows(
    start: int,
    stop: int,
    queries: Array,
    points: Array,
    indices: Array,
    order: int,
    similarities: Array,
) -> None:
    k = indices.shape[1]
    squares = np.zeros((k + 1, k + 1))
    nearest = np.empty(k + 1)
    numbers = np.empty(k + 1, np.int64)
    for i in range(start, stop):
        query = queries[i]
        largest = 0.0
        for j in range(k):
            largest = max(largest, _largest_half_difference(query, points[indices[i, j]]))
        # In units of the largest difference nothing overflows, and only the negligible vanishes.
        scale = 1.0
        if 0.0 < largest < np.inf:
            scale = math.ldexp(1.0, min(-math.frexp(largest)[1], 1000))
        for a in range(k):
            first = points[indices[i, a]]
            squares[a, k] = squares[k, a] = _half_distance(first, query, scale)
            for b in range(a):
                second = points[indices[i, b]]
                squares[a, b] = squares[b, a] = _half_distance(first, second, scale)
        sigma = 0.0
        for a in range(k + 1):
            for b in range(k + 1):
                nearest[b] = squares[a, b]
                numbers[b] = b
            _sort(nearest, numbers)
            # The point itself, at distance 0, comes before the others.
            sigma += math.sqrt(nearest[order])
        sigma /= k + 1
        for j in range(k):
            similarities[i, j] = _gaussian(math.sqrt(squares[k, j]), sigma)


@inline_helper
def _mark_below(values: Array, threshold: float, marks: Array) -> None:
    for c in range(len(values)):
        marks[c] = values[c] < threshold


@inline_helper
def _mark_below_either(values: Array, threshold: float, thresholds: Array, marks: Array) -> None:
    for c in range(len(values)):
        marks[c] = (values[c] < threshold) | (values[c] < thresholds[c])


@inline_helper
def _mark_up_to(values: Array, limit: float, marks: Array) -> None:
    # NaN counts as marked.
    for c in range(len(values)):
        marks[c] = not values[c] > limit


@inline_helper
def _find_marks(marks: Array, found: Array) -> int:
    """Write the positions of the marks, looking at eight at a time: they are rare."""
    n_found = 0
    words = marks.view(np.uint64)
    for w in range(len(words)):
        if words[w] != 0:
            for c in range(8 * w, 8 * w + 8):
                found[n_found] = c
                n_found += int(marks[c])
    return n_found


@inline_helper
def _replace_root(values: Array, indices: Array, value: float, index: int) -> None:
    """Replace the root of a max-heap of odd size; equal values may come in any order."""
    size = len(values)
    hole = 0
    child = 1
    while child < size:
        # Branches here would be mispredicted half of the time.
        child += int(values[child + 1] > values[child])
        if values[child] <= value:
            break
        values[hole] = values[child]
        indices[hole] = indices[child]
        hole = child
        child = 2 * hole + 1
    values[hole] = value
    indices[hole] = index


@helper
def _sort(values: Array, indices: Array) -> None:
    """Sort pairs by value, equal values by index (Shell's method)."""
    size = len(values)
    gap = 1
    while 3 * gap + 1 < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            value, index = values[i], indices[i]
            j = i
            while j >= gap and (
                values[j - gap] > value or (values[j - gap] == value and indices[j - gap] > index)
            ):
                values[j] = values[j - gap]
                indices[j] = indices[j - gap]
                j -= gap
            values[j] = value
            indices[j] = index
        gap //= 3


@exact_helper
def _true_distances(query: Array, points: Array, candidates: Array, found: Array) -> None:
    last = len(candidates) - 1
    for c in range(0, len(candidates), 4):
        c1, c2, c3 = min(c + 1, last), min(c + 2, last), min(c + 3, last)
        found[c], found[c1], found[c2], found[c3] = _four_distances(
            query,
            points[candidates[c]],
            points[candidates[c1]],
            points[candidates[c2]],
            points[candidates[c3]],
        )
    for c in range(len(candidates)):
        if np.isnan(found[c]):
            found[c] = np.inf


@exact_helper
def _four_distances(
    x: Array, y0: Array, y1: Array, y2: Array, y3: Array
) -> tuple[float, float, float, float]:
    # Each sum is taken in the order of the features; four at a time hide the latency.
    sum0 = sum1 = sum2 = sum3 = 0.0
    for f in range(len(x)):
        value = np.float64(x[f])
        difference0 = value - y0[f]
        difference1 = value - y1[f]
        difference2 = value - y2[f]
        difference3 = value - y3[f]
        sum0 += difference0 * difference0
        sum1 += difference1 * difference1
        sum2 += difference2 * difference2
        sum3 += difference3 * difference3
    return sum0, sum1, sum2, sum3


@exact_helper
def _scaled(distance: float, scale: float, margin: float) -> float:
    # Not distance * scale^2: the square may be out of range.
    return distance * scale * scale + margin


@helper
def _largest_half_difference(x: Array, y: Array) -> float:
    largest = 0.0
    for f in range(len(x)):
        largest = max(largest, abs(_half_difference(np.float64(x[f]), np.float64(y[f]), 1.0)))
    return largest


@helper
def _half_distance(x: Array, y: Array, scale: float) -> float:
    """Squared distance of x / 2 and y / 2 in units of 1 / scale."""
    total = 0.0
    for f in range(len(x)):
        difference = _half_difference(np.float64(x[f]), np.float64(y[f]), scale)
        total += difference * difference
    return total


@exact_helper
def _half_difference(x: float, y: float, scale: float) -> float:
    # Halves, because the difference of two finite numbers may be infinite.
    return (0.5 * x - 0.5 * y) * scale


@helper
def _gaussian(distance: float, sigma: float) -> float:
    if distance == 0.0:
        return 1.0
    if sigma == 0.0:
        return 0.0
    ratio = distance / sigma
    return math.exp(-ratio * ratio)
