"""What `fit` works on: rows with candidates, in one place or in blocks, and results for users."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from hera_fast.blocks import (
    AtCandidates,
    Block,
    Blocks,
    Candidates,
    LocalCarrier,
    MemoryStore,
    raw,
)
from hera_fast.candidates import csr_candidates
from hera_fast.inputs import check_finite, check_not_tiny, largest_magnitude
from hera_fast.products import BLOCK_ROWS
from hera_fast.run import Solution
from hera_fast.scratch import DiskStore, ScratchFile, check_space

__all__ = [
    "FileRows",
    "Source",
    "TrainingRows",
    "WholeRows",
    "block_bounds",
    "check_rows",
    "is_lazy",
    "rows_in_blocks",
]

_Array = np.ndarray[Any, Any]

# A block takes about this much memory for each array with its rows.
_BLOCK_BYTES = 1 << 26
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Source(Protocol):
    """Something whose rows can be put where they are worked on."""

    def place(self) -> TrainingRows:
        """Put them there."""


@dataclass
class TrainingRows:
    """Rows in blocks of this process, with candidates.

    Attributes
    ----------
    rows : Rows
        Where they are.
    X, Y, sample_weight : object
        Rows, candidates and weights as the solver is given them.
    classes : ndarray of shape (q,)
        The labels.
    shape : tuple of int
        Numbers of rows and of features.
    dtype : dtype
        float32 or float64.
    source : array
        The rows as they were given.
    weights : ndarray of shape (n,) or None
        Their weights, as they were given.
    """

    rows: Any
    X: Any
    Y: Any
    sample_weight: Any
    classes: _Array
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    source: Any
    weights: _Array | None

    def place(self) -> TrainingRows:
        """Return these rows: they are where they are worked on."""
        return self

    def close(self) -> None:
        """Forget what belongs to the rows, where that does not happen by itself."""

    def results(self, solution: Solution) -> tuple[Any, Any, Any]:
        """Return confidences, noise, and the column of the best candidate of each row."""
        rows, P = self.rows, solution.P
        confidence = sparse.vstack(rows.gather(confidence_matrix, raw(P)), format="csr")
        if solution.multipliers:
            noise = sparse.vstack(rows.gather(noise_matrix, solution.E, raw(P)), format="csr")
        else:
            noise = confidence.copy()
            noise.data = 1 - noise.data
        best = np.concatenate(rows.gather(best_candidates, P, self.Y))
        return confidence, noise, best


class WholeRows(TrainingRows):
    """Rows in one place, with candidates."""

    def results(self, solution: Solution) -> tuple[Any, Any, Any]:
        """Return confidences, noise, and the column of the best candidate of each row."""
        # Y - P is not negative, so this only brings E nearer to it.
        noise = np.maximum(solution.E, 0) if solution.multipliers else solution.E
        return solution.P, noise, best_candidates(solution.P, self.Y)


def best_candidates(P: _Array, Y: _Array) -> _Array:
    """Return the column of the best candidate of each row."""
    best: _Array = np.where(Y, P, -1).argmax(axis=1)
    return best


def confidence_matrix(P: Any) -> Any:
    """Return confidences as CSR, with an entry for each candidate if there are none elsewhere."""
    return P.matrix() if isinstance(P, AtCandidates) else sparse.csr_array(P)


def noise_matrix(E: _Array, P: Any) -> Any:
    """Return the noise as CSR, without what is below zero, and at the candidates if P is there."""
    noise = np.maximum(E, 0)
    if isinstance(P, AtCandidates):
        return AtCandidates(P.candidates, noise).matrix()
    return sparse.csr_array(noise)


# ---- blocks of this process ---------------------------------------------------------------------


class FileRows:
    """Rows of a file or a larger array, read when they are needed.

    Parameters
    ----------
    source : object
        With `shape`, `dtype` and slices of rows: an array, a memory map, a Zarr array, a CSR
        matrix.
    start, stop : int
        Which rows.
    dtype : dtype
        What to read them as.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.training_rows import FileRows
    >>> FileRows(np.arange(6).reshape(3, 2), 1, 3, np.dtype(float)).unpack().tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    """

    #: A store need not put it there.
    is_on_disk = True

    def __init__(self, source: Any, start: int, stop: int, dtype: np.dtype[Any]) -> None:
        self._source = source
        self._start, self._stop, self._dtype = start, stop, dtype

    def unpack(self) -> Any:
        """Return the rows."""
        block = self._source[self._start : self._stop]
        if sparse.issparse(block):
            return sparse.csr_array(block, dtype=self._dtype)
        if not isinstance(block, np.memmap):
            return np.ascontiguousarray(block, dtype=self._dtype)
        rows: _Array = np.array(block, self._dtype, order="C")
        _let_go(self._source)
        return rows

    def pack(self, rows: Any) -> None:
        """Do nothing: rows do not change."""


def _let_go(source: np.memmap[Any, Any]) -> None:
    """Let the system have back the memory of a map, which would count as that of this process.

    Not of a map whose changes are in memory only.
    """
    if source.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        source._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def is_lazy(X: Any) -> bool:
    """Whether rows are read on demand, like those of Zarr arrays."""
    # Of the type: a data frame may have columns with these names.
    kind = type(X)
    return not isinstance(X, np.ndarray) and hasattr(kind, "chunks") and hasattr(kind, "dtype")


def block_bounds(bounds: _Array, width: int, itemsize: int, most: int | None) -> _Array:
    """Divide blocks of rows further, so that none takes too much memory.

    Parameters
    ----------
    bounds : ndarray of int
        Where blocks begin, and where the last one ends.
    width : int
        How many numbers belong to a row in the widest array.
    itemsize : int
        Bytes of a number.
    most : int or None
        Rows of a block at most. None chooses.

    Returns
    -------
    bounds : ndarray of int

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.training_rows import block_bounds
    >>> block_bounds(np.array([0, 5, 6]), 1, 8, 2).tolist()
    [0, 2, 4, 5, 6]
    """
    if most is None:
        most = max(1, _BLOCK_BYTES // (width * itemsize * BLOCK_ROWS)) * BLOCK_ROWS
    starts = [np.arange(start, stop, most) for start, stop in itertools.pairwise(bounds)]
    return np.append(np.concatenate(starts), bounds[-1])


def rows_in_blocks(
    X: Any,
    Y: Any,
    sample_weight: _Array | None,
    *,
    width: Callable[[int, int], tuple[int, int]],
    most: int | None,
    on_disk: bool,
) -> TrainingRows:
    """Divide rows into blocks of this process.

    Parameters
    ----------
    X : array, memory map, Zarr array or CSR matrix of shape (n, d)
        Rows.
    Y : array-like
        Their candidates; a Zarr array or memory map is read block by block.
    sample_weight : ndarray of shape (n,) or None
        Their weights.
    width : callable
        Given the numbers of features and labels, how many numbers belong to a row in the widest
        array, and in all arrays that are kept.
    most : int or None
        Rows of a block at most. None chooses.
    on_disk : bool
        Whether what belongs to rows is kept on disk.

    Returns
    -------
    TrainingRows

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.training_rows import rows_in_blocks
    >>> X, Y = np.arange(6.0).reshape(3, 2), np.eye(3, dtype=bool)
    >>> def width(d, q):
    ...     return max(d, q), d + q
    >>> training = rows_in_blocks(X, Y, None, width=width, most=2, on_disk=False)
    >>> training.rows.sum(np.sum, training.X, 0).tolist()
    [6.0, 9.0]
    """
    n, d = X.shape
    dtype = np.dtype(X.dtype) if X.dtype in _FLOATS else np.dtype(np.float64)
    is_read = is_lazy(Y) or isinstance(Y, np.memmap)
    reads_candidates = is_read and len(Y.shape) == 2 and Y.shape[1] > 1
    if is_read and not reads_candidates:
        Y = np.array(Y[...])  # one label for each row
    if reads_candidates:
        if Y.shape[0] != n:
            raise ValueError(f"found {Y.shape[0]} rows of candidates for {n} rows of X")
        candidates, classes = None, np.arange(Y.shape[1])
    else:
        candidates, classes = csr_candidates(Y, n_samples=n)
    widest, kept = width(d, len(classes))
    if on_disk:
        check_space(n * kept * dtype.itemsize)
    bounds = block_bounds(np.array([0, n]), widest, dtype.itemsize, most)
    carrier = LocalCarrier(len(bounds) - 1)
    file = ScratchFile() if on_disk else None
    for number, (start, stop) in enumerate(zip(bounds.tolist(), bounds[1:].tolist(), strict=False)):
        part = (
            read_candidates(Y[start:stop], start) if candidates is None else candidates[start:stop]
        )
        part_weights = None if sample_weight is None else sample_weight[start:stop]
        block = Block(start, FileRows(X, start, stop, dtype), Candidates(part), part_weights)
        carrier.take(number, block, MemoryStore() if file is None else DiskStore(file))
    rows = Blocks([carrier], len(bounds) - 1)
    check_rows(rows, dtype)
    weights = None if sample_weight is None else rows.weights
    return TrainingRows(rows, rows.X, rows.Y, weights, classes, (n, d), dtype, X, sample_weight)


def read_candidates(part: Any, start: int) -> Any:
    """Check the candidates of a block of rows that begins with row `start`; CSR."""
    try:
        return csr_candidates(part)[0]
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{error} (rows are counted from row {start} here, where the block begins)"
        ) from None


def check_rows(rows: Any, dtype: np.dtype[Any]) -> None:
    """Raise an error unless the rows of all blocks are finite, and neither too large nor too small.

    Parameters
    ----------
    rows : Blocks
        The blocks.
    dtype : dtype
        That of the rows.
    """
    check_not_tiny(max(rows.gather(_checked_magnitude, rows.X, rows.first_row)), dtype)


def _checked_magnitude(X: Any, first_row: int) -> float:
    check_finite(X, None, first_row)
    return largest_magnitude(X, None, first_row)
