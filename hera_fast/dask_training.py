"""Dask collections to learn from, and what is left of a fit on the workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.blocks import AtCandidates, raw
from hera_fast.candidates import csr_candidates
from hera_fast.dask_blocks import DaskBlocks, current_client, place_blocks
from hera_fast.extras import require
from hera_fast.frames import frame_numbers
from hera_fast.inputs import check_weights
from hera_fast.lazy_arrays import is_dask
from hera_fast.run import Solution
from hera_fast.training_rows import (
    TrainingRows,
    best_candidates,
    block_bounds,
    check_rows,
    confidence_matrix,
    noise_matrix,
)

__all__ = ["DaskSource", "DaskTraining"]

_Array = np.ndarray[Any, Any]


class DaskSource:
    """Rows with candidates in a Dask array, which can be put on workers again and again.

    Parameters
    ----------
    X : dask Array of shape (n, d)
        Rows, in dense or sparse chunks.
    Y : dask Array of shape (n, q), or array-like
        Their candidates: zeros and ones, in dense or sparse chunks; or any other form in memory.
    sample_weight : array-like or dask Array of shape (n,), or None
        Their weights.
    width : callable
        Given the numbers of features and labels, how many numbers belong to a row in the widest
        array, and in all arrays that are kept.
    most : int or None
        Rows of a block at most. None chooses.
    n_threads : int or None
        Threads of each worker. None takes as many as the worker has for tasks.
    warm : tuple
        A function and arguments that let a worker compile what it needs.
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any,
        *,
        width: Callable[[int, int], tuple[int, int]],
        most: int | None,
        n_threads: int | None,
        warm: tuple[Any, ...],
    ) -> None:
        self.client = current_client()
        X = _with_whole_rows(X, "X", 2)
        self.X = X
        self.shape: tuple[int, int] = X.shape
        is_float = X.dtype in (np.float32, np.float64)
        self.dtype = np.dtype(X.dtype) if is_float else np.dtype(np.float64)
        self._n_threads, self._warm = n_threads, warm
        starts = np.concatenate([[0], np.cumsum(X.chunks[0])])
        names = np.asarray(Y.columns) if is_dask(Y) and hasattr(Y, "columns") else None
        if is_dask(Y) and Y.ndim == 1:
            Y = Y.compute()
        if is_dask(Y):
            Y = _with_whole_rows(Y, "Y", 2)
            if Y.shape[0] != X.shape[0]:
                raise ValueError(
                    f"found {Y.shape[0]} rows of candidates for {X.shape[0]} rows of X"
                )
            self.classes = np.arange(Y.shape[1]) if names is None else names
            candidates = _chunks(Y.rechunk((X.chunks[0], -1)))
        else:
            matrix, self.classes = csr_candidates(Y, n_samples=X.shape[0])
            candidates = [matrix[a:b] for a, b in itertools.pairwise(starts)]
        if is_dask(sample_weight):
            sample_weight = sample_weight.compute()
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, np.broadcast_to(0.0, (X.shape[0], 1)))
        self.weights = sample_weight
        width_of_rows, _ = width(X.shape[1], len(self.classes))
        self._bounds = [
            block_bounds(np.array([0, size]), width_of_rows, self.dtype.itemsize, most)
            for size in X.chunks[0]
        ]
        self._parts = [
            (rows, labels, None if sample_weight is None else sample_weight[a:b])
            for rows, labels, a, b in zip(_chunks(X), candidates, starts, starts[1:], strict=False)
        ]

    def place(self) -> DaskTraining:
        """Put the rows on the workers that there are now."""
        rows = place_blocks(
            *(self.client, self._parts, self._bounds, self.dtype, self._n_threads, self._warm)
        )
        try:
            check_rows(rows, self.dtype)
        except BaseException:
            rows.close()
            raise
        weights = None if self.weights is None else rows.weights
        return DaskTraining(
            *(rows, rows.X, rows.Y, weights, self.classes, self.shape, self.dtype),
            *(self.X, self.weights),
        )


class DaskTraining(TrainingRows):
    """Rows on workers, with candidates."""

    def close(self) -> None:
        """Let the workers forget what belongs to the rows."""
        self.rows.close()

    def results(self, solution: Solution) -> tuple[Any, Any, Any]:
        """Return confidences, noise and best candidates as Dask arrays, on the workers."""
        rows: DaskBlocks = self.rows
        make = rows.make
        confidence = self._array(make(confidence_matrix, raw(solution.P)))
        if solution.multipliers:
            noise = make(noise_matrix, solution.E, raw(solution.P))
        else:
            noise = make(_noise_of_confidence, raw(solution.P))
        best = make(best_candidates, solution.P, self.Y)
        return confidence, self._array(noise), self._array(best)

    def _array(self, held: Any) -> Any:
        """Make a Dask array of something that has rows."""
        dask_array = require("dask.array", "dask", "a Dask array")
        delayed = require("dask.delayed", "dask", "a Dask array")
        self.rows.flush()
        is_matrix = not isinstance(self.rows.gather(_shape_of, held)[0], int)
        arrays = []
        for future, n_rows in zip(
            self.rows.tasks(held.number, _together), self.source.chunks[0], strict=True
        ):
            if is_matrix:
                shape: tuple[int, ...] = (n_rows, len(self.classes))
                meta = sparse.csr_array((0, 0), dtype=self.dtype)
            else:
                shape, meta = (n_rows,), np.empty(0, np.intp)
            arrays.append(
                dask_array.from_delayed(delayed.delayed(future), shape, dtype=meta.dtype, meta=meta)
            )
        return dask_array.concatenate(arrays)


def _noise_of_confidence(P: AtCandidates) -> Any:
    noise = confidence_matrix(P)
    noise.data = 1 - noise.data
    return noise


def _shape_of(piece: Any) -> Any:
    return len(piece) if isinstance(piece, np.ndarray) else piece.shape


def _together(pieces: list[Any]) -> Any:
    if sparse.issparse(pieces[0]):
        return sparse.vstack(pieces, format="csr")
    return np.concatenate(pieces)


def _with_whole_rows(X: Any, name: str, n_dimensions: int) -> Any:
    """Return an array whose chunks hold whole rows."""
    if hasattr(X, "to_dask_array"):
        is_single = all(kind == np.float32 for kind in X.dtypes)
        meta = np.empty((0, len(X.columns)), np.float32 if is_single else np.float64)
        X = X.map_partitions(frame_numbers, meta=meta)
        X.compute_chunk_sizes()
    if not hasattr(X, "chunks"):
        raise TypeError(f"{name} must be a Dask array or data frame, got {type(X).__name__}")
    if len(X.shape) != n_dimensions:
        raise ValueError(f"{name} must have {n_dimensions} dimensions, got shape {X.shape}")
    if any(size != size for sizes in X.chunks for size in sizes):
        raise ValueError(
            f"the sizes of the chunks of {name} are not known: call {name}.compute_chunk_sizes()"
        )
    if 0 in X.shape:
        raise ValueError(f"{name} must have rows and columns, got shape {X.shape}")
    # Empty chunks have nothing to say.
    rows = tuple(size for size in X.chunks[0] if size)
    return X.rechunk((rows, -1))


def _chunks(X: Any) -> list[Any]:
    return [each[0] for each in X.to_delayed()]
