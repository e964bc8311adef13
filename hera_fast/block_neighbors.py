"""Scores from the nearest training rows where these come in blocks.

The nearest rows in each block are found exactly and merged, ties to the lower number. Then the
rows that remain are taken from their blocks, because the weights depend on the distances among
neighbours too. The steps are functions of a single block, so that they can be done here, one block
after the other, or by tasks elsewhere. Only true distances decide, so that blocks do not change a
bit of the result: it is the one of :func:`hera_fast.neighborhood.neighbor_scores` for all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hera_fast.kernels._check import check_arrays
from hera_fast.neighborhood import (
    NO_POINT,
    add_up,
    canonical,
    check_counts,
    check_csr,
    count_rows,
    query_blocks,
    search_blocks,
    weigh,
)
from hera_fast.training_rows import FileRows

__all__ = [
    "Nearest",
    "RowBlocks",
    "Taken",
    "as_kind_of",
    "block_neighbor_scores",
    "merge_nearest",
    "queries_at_once",
    "score_nearest",
    "search_rows",
    "take_rows",
]

_Array = np.ndarray[Any, Any]

# A block of training rows takes about this much memory.
_BLOCK_BYTES = 1 << 26
# Numbers in the neighbours of the queries that are looked at together.
_TAKEN_NUMBERS = 1 << 24


class Nearest(NamedTuple):
    """The nearest rows of each query, among some of the rows.

    Attributes
    ----------
    squares : ndarray of shape (m, k), float64
        Squared distances, ascending.
    numbers : ndarray of shape (m, k), int64
        The numbers of the rows among all. Equal distances are ordered by number.
    """

    squares: _Array
    numbers: _Array


class Taken(NamedTuple):
    """Rows that are somebody's neighbours.

    Attributes
    ----------
    numbers : ndarray of shape (n,), int64
        Their numbers among all rows, ascending.
    rows : ndarray or CSR matrix of shape (n, d)
        The rows.
    confidence : ndarray or CSR matrix of shape (n, q)
        Their confidences.
    """

    numbers: _Array
    rows: Any
    confidence: Any


class RowBlocks:
    """Blocks of rows of an array or a file, with their confidences.

    Iterating again reads the rows again.

    Parameters
    ----------
    rows : array, memory map, Zarr array or CSR matrix of shape (n, d)
        The rows.
    confidence : ndarray or CSR matrix of shape (n, q)
        Their confidences.
    dtype : dtype
        What rows and confidences are wanted as, float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.block_neighbors import RowBlocks
    >>> blocks = RowBlocks(np.array([[1], [2]]), np.eye(2), np.dtype(float))
    >>> [(first_row, rows.tolist()) for first_row, rows, _ in blocks]
    [(0, [[1.0], [2.0]])]
    """

    def __init__(self, rows: Any, confidence: Any, dtype: np.dtype[Any]) -> None:
        self._rows, self._confidence, self._dtype = rows, confidence, dtype

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield the number of the first row of each block, its rows and their confidences."""
        n = self._rows.shape[0]
        most = max(1, _BLOCK_BYTES // (_width(self._rows) * self._dtype.itemsize))
        # Whole chunks of a file, none of which then has to be read twice.
        together = (getattr(self._rows, "chunks", None) or (1,))[0]
        size = max(1, most // together) * together
        for start in range(0, n, size):
            stop = min(start + size, n)
            rows = FileRows(self._rows, start, stop, self._dtype).unpack()
            yield start, rows, self._confidence[start:stop].astype(self._dtype, copy=False)


def block_neighbor_scores(
    queries: Any,
    blocks: Iterable[tuple[int, Any, Any]],
    out: _Array,
    *,
    n_neighbors: int,
    neighbor_rank: int | None = None,
    multiplicity: _Array | None = None,
    normalize: bool = True,
) -> None:
    """Do what :func:`hera_fast.neighborhood.neighbor_scores` does with rows that come in blocks.

    Parameters
    ----------
    queries : ndarray or CSR matrix of shape (m, d), float32 or float64
        Finite values.
    blocks : iterable of (int, array, array)
        The number of the first row of each block, its rows, of the kind and the dtype of
        `queries`, and their confidences, dense or CSR. Blocks follow each other without gaps. If
        there are many queries, the blocks are gone through several times, so a generator will not
        do.
    out : ndarray of shape (m, q)
        Output, of the same dtype.
    n_neighbors, neighbor_rank, multiplicity, normalize
        As for :func:`hera_fast.neighborhood.neighbor_scores`.

    Raises
    ------
    TypeError
        For an argument of the wrong type or dtype.
    ValueError
        For a wrong shape or value, or if there is no point that counts.

    Notes
    -----
    The result has the same bits as that for all rows at once. In memory are one block, twice in
    single precision, and the neighbours of some queries: about 130 MB of them at most.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.block_neighbors import block_neighbor_scores
    >>> blocks = [
    ...     (0, np.array([[0.0], [1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])),
    ...     (2, np.array([[5.0]]), np.array([[0.0, 1.0]])),
    ... ]
    >>> scores = np.empty((2, 2))
    >>> block_neighbor_scores(np.array([[0.5], [0.4]]), blocks, scores, n_neighbors=2)
    >>> scores.round(2).tolist()
    [[0.5, 0.5], [0.71, 0.29]]
    """
    check_counts(n_neighbors, neighbor_rank)
    size = queries_at_once(_width(queries), n_neighbors)
    # Without any query, the blocks are checked all the same.
    for start in range(0, max(1, queries.shape[0]), size):
        part = slice(start, start + size)
        nearest, taken = _pass(queries[part], blocks, out[part], n_neighbors, multiplicity)
        out[part] = score_nearest(
            queries[part], nearest, taken, neighbor_rank=neighbor_rank, normalize=normalize
        )


def _pass(
    queries: Any,
    blocks: Iterable[tuple[int, Any, Any]],
    out: _Array,
    n_neighbors: int,
    multiplicity: _Array | None,
) -> tuple[Nearest, list[Taken]]:
    """Go through all blocks once, keeping what are the nearest rows so far."""
    m, n = queries.shape[0], 0
    nearest = Nearest(np.empty((m, 0)), np.empty((m, 0), np.int64))
    taken: list[Taken] = []
    for first_row, rows, confidence in blocks:
        _check_block(queries, rows, confidence, out)
        n = first_row + rows.shape[0]
        copies = None if multiplicity is None else multiplicity[first_row:n]
        found = search_rows(queries, first_row, rows, n_neighbors=n_neighbors, multiplicity=copies)
        nearest = merge_nearest([nearest, found], n_neighbors)
        needed = np.unique(nearest.numbers)
        taken = [_without_others(each, needed) for each in taken]
        taken.append(take_rows(nearest, first_row, rows, confidence))
    if multiplicity is not None and len(multiplicity) != n:
        raise ValueError(f"multiplicity must have shape ({n},), got {multiplicity.shape}")
    return nearest, taken


def _without_others(taken: Taken, needed: _Array) -> Taken:
    kept = np.isin(taken.numbers, needed)
    return taken if kept.all() else Taken(*(each[kept] for each in taken))


def _check_block(queries: Any, rows: Any, confidence: Any, out: _Array) -> None:
    if sparse.issparse(queries) or sparse.issparse(rows):
        check_arrays("-> out[m,q]", out)
        check_csr(queries, rows, len(out), confidence.shape[0], out.dtype)
    else:
        check_arrays("queries[m,d] points[n,d] -> out[m,q]", queries, rows, out)
    expected = rows.shape[0], out.shape[1]
    if confidence.shape != expected:
        raise ValueError(f"confidence must have shape {expected}, got {confidence.shape}")
    if confidence.dtype != out.dtype:
        raise TypeError(f"confidence must be {out.dtype} like out, got {confidence.dtype}")


# ---- steps, each of one block or one group of queries -------------------------------------------


def search_rows(
    queries: Any,
    first_row: int,
    rows: Any,
    *,
    n_neighbors: int,
    multiplicity: _Array | None = None,
) -> Nearest:
    """Find the nearest rows of one block.

    Parameters
    ----------
    queries : ndarray or CSR matrix of shape (m, d)
        Finite values.
    first_row : int
        The number of the first row of the block.
    rows : ndarray or CSR matrix of shape (n, d)
        The block; of the kind and the dtype of `queries`.
    n_neighbors : int
        How many to find. There are fewer if the block has no more.
    multiplicity : ndarray of shape (n,), integers, default=None
        How often each row counts. None means once.

    Returns
    -------
    nearest : Nearest

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.block_neighbors import search_rows
    >>> found = search_rows(np.array([[0.9]]), 10, np.array([[0.0], [1.0], [5.0]]), n_neighbors=2)
    >>> found.numbers.tolist()
    [[11, 10]]
    """
    counted = count_rows(rows, n_neighbors, multiplicity)
    if sparse.issparse(rows):
        queries = canonical(queries)
    else:
        # Distances of float32 rows are rounded to float32 at the end, which would make ties of
        # different distances in different blocks.
        queries = queries.astype(np.float64, copy=False)
        counted = counted._replace(rows=counted.rows.astype(np.float64, copy=False))
    shape = queries.shape[0], min(n_neighbors, counted.n_copies)
    nearest = Nearest(np.empty(shape), np.empty(shape, np.int64))
    if shape[1]:
        for start, squares, indices in search_blocks(queries, counted, shape[1]):
            part = slice(start, start + len(squares))
            nearest.squares[part] = squares
            nearest.numbers[part] = first_row + counted.original(indices)
    return nearest


def merge_nearest(parts: Sequence[Nearest], n_neighbors: int) -> Nearest:
    """Find the nearest of rows that are the nearest in some blocks.

    Parameters
    ----------
    parts : sequence of Nearest
        For the same queries, in the order of the blocks.
    n_neighbors : int
        How many to keep, if there are as many.

    Returns
    -------
    nearest : Nearest

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.block_neighbors import Nearest, merge_nearest
    >>> first = Nearest(np.array([[1.0, 4.0]]), np.array([[1, 0]]))
    >>> second = Nearest(np.array([[1.0, 9.0]]), np.array([[2, 3]]))
    >>> merge_nearest([first, second], 3).numbers.tolist()
    [[1, 2, 0]]
    """
    squares, numbers = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    # Stable: of equal distances, the one that comes first has the lower number.
    order = np.argsort(squares, axis=1, kind="stable")[:, :n_neighbors]
    return Nearest(*(np.take_along_axis(each, order, axis=1) for each in (squares, numbers)))


def take_rows(nearest: Nearest, first_row: int, rows: Any, confidence: Any) -> Taken:
    """Copy the rows of a block that are among the nearest.

    Parameters
    ----------
    nearest : Nearest
        The nearest rows.
    first_row : int
        The number of the first row of the block.
    rows : ndarray or CSR matrix of shape (n, d)
        The block.
    confidence : ndarray or CSR matrix of shape (n, q)
        The confidences of its rows.

    Returns
    -------
    taken : Taken

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.block_neighbors import Nearest, take_rows
    >>> nearest = Nearest(np.array([[1.0, 4.0]]), np.array([[7, 3]]))
    >>> take_rows(nearest, 6, np.array([[0.0], [1.0]]), np.eye(2)).rows.tolist()
    [[1.0]]
    """
    numbers = np.unique(nearest.numbers)
    start, stop = np.searchsorted(numbers, (first_row, first_row + rows.shape[0]))
    numbers = numbers[start:stop]
    return Taken(numbers, rows[numbers - first_row], confidence[numbers - first_row])


def score_nearest(
    queries: Any,
    nearest: Nearest,
    taken: Sequence[Taken],
    *,
    neighbor_rank: int | None = None,
    normalize: bool = True,
) -> _Array:
    """Add up the label confidences of the nearest rows, weighted by similarity.

    Parameters
    ----------
    queries : ndarray or CSR matrix of shape (m, d)
        Finite values.
    nearest : Nearest
        Their nearest rows.
    taken : sequence of Taken
        These rows, in the order of the blocks.
    neighbor_rank, normalize
        As for :func:`hera_fast.neighborhood.neighbor_scores`.

    Returns
    -------
    scores : ndarray of shape (m, q)

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.block_neighbors import score_nearest, search_rows, take_rows
    >>> queries, rows = np.array([[0.5]]), np.array([[0.0], [1.0], [5.0]])
    >>> nearest = search_rows(queries, 0, rows, n_neighbors=2)
    >>> score_nearest(queries, nearest, [take_rows(nearest, 0, rows, np.eye(3))]).tolist()
    [[0.5, 0.5, 0.0]]
    """
    m, k = nearest.numbers.shape
    if k == 0:
        raise ValueError(NO_POINT)
    numbers = np.concatenate([each.numbers for each in taken])
    rows = _stacked([each.rows for each in taken])
    confidence = _stacked([each.confidence for each in taken])
    if sparse.issparse(rows):
        queries, rows = canonical(queries), canonical(rows)
    scores = np.empty((m, confidence.shape[1]), queries.dtype)
    for start, stop in query_blocks(queries, k):
        indices = np.searchsorted(numbers, nearest.numbers[start:stop])
        weights = weigh(queries[start:stop], rows, indices, neighbor_rank, normalize=normalize)
        add_up(weights, indices, confidence, scores[start:stop])
    return scores


def _stacked(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


# ---- sizes and kinds ----------------------------------------------------------------------------


def queries_at_once(width: int, n_neighbors: int) -> int:
    """Return for how many queries the neighbours may be in memory at the same time.

    Parameters
    ----------
    width : int
        Numbers in a row.
    n_neighbors : int
        Neighbours of a query.

    Returns
    -------
    n_queries : int

    Examples
    --------
    >>> from hera_fast.block_neighbors import queries_at_once
    >>> queries_at_once(100, 10)
    16777
    """
    return max(1, _TAKEN_NUMBERS // (width * n_neighbors))


def as_kind_of(queries: Any, rows: Any) -> Any:
    """Make queries dense or sparse, as other rows are.

    Parameters
    ----------
    queries : ndarray or CSR matrix of shape (m, d)
        Rows.
    rows : ndarray or CSR matrix of shape (n, d), or an array in a file
        Other rows.

    Returns
    -------
    queries : ndarray or CSR matrix of shape (m, d)

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from hera_fast.block_neighbors import as_kind_of
    >>> as_kind_of(sparse.csr_array([[0.0, 1.0]]), np.eye(2)).tolist()
    [[0.0, 1.0]]
    """
    if sparse.issparse(queries) == sparse.issparse(rows):
        return queries
    return queries.toarray() if sparse.issparse(queries) else sparse.csr_matrix(queries)


def _width(rows: Any) -> int:
    """How many numbers a row has, about."""
    if sparse.issparse(rows):
        width = 1 + rows.nnz // max(1, rows.shape[0])
    else:
        width = max(1, rows.shape[1])
    return int(width)
