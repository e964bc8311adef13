"""Predictions for Dask collections, chunk by chunk, and neighbours among rows on workers.

Graphs are written out: a task gets its chunks and the model, which is one node of the graph. With a
current client it is sent when the prediction is asked for, once, so that the graph itself stays
small.

The nearest of training rows that are in chunks themselves are found by a task for each chunk of
queries and each chunk of training rows. Distances are merged along a tree, and a second task for
each such pair takes the few rows that remain out of their chunk: no more than the neighbours ever
travels.
"""

from __future__ import annotations

import itertools
import pickle
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import blake2b
from io import BytesIO
from typing import Any

import numba
import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from hera_fast.block_neighbors import (
    Nearest,
    Taken,
    as_kind_of,
    merge_nearest,
    queries_at_once,
    score_nearest,
    search_rows,
    take_rows,
)
from hera_fast.candidates import check_candidates, csr_candidates
from hera_fast.extras import require
from hera_fast.frames import column_array, frame_cells, frame_numbers
from hera_fast.inputs import check_weights
from hera_fast.lazy_arrays import is_dask
from hera_fast.threads import threads

__all__ = ["dask_neighbor_scores", "dask_score", "lazy_predictions", "neighbor_scores_on_workers"]

_Array = np.ndarray[Any, Any]

# How many lists of neighbours are merged by one task.
_FAN_IN = 16
# How many numbers a sparse row is expected to have, of which nobody knows.
_SPARSE_WIDTH = 256
_PURPOSE = "a Dask array"


# ---- predictions --------------------------------------------------------------------------------


def lazy_predictions(model: Any, X: Any, kind: str, candidates: Any = None) -> Any:
    """Predict the rows of a Dask collection when they are needed.

    Parameters
    ----------
    model : PartialLabelClassifier
        Fitted.
    X : dask Array or DataFrame of shape (m, d)
        Rows.
    kind : {"labels", "decisions", "probabilities"}
        What to return.
    candidates : dask Array, DataFrame or Series, or array-like, optional
        Candidates of these rows.

    Returns
    -------
    predictions : dask Array
        With the chunks of rows that X has.

    Notes
    -----
    With a current client the model is sent to its scheduler at once, and the result can be
    computed by this client only. Memory maps in the model are opened again where they are needed:
    workers must be able to read the file.

    Examples
    --------
    >>> import dask.array
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.dask_prediction import lazy_predictions
    >>> model = HERAClassifier().fit([[0.0], [0.1], [1.0], [1.1]], [{0}, {0, 1}, {1}, {1}])
    >>> X = dask.array.from_array([[0.0], [1.0], [0.2]], chunks=(2, 1))
    >>> lazy_predictions(model, X, "labels").compute(scheduler="synchronous").tolist()
    [0, 1, 0]
    """
    queries, scorer, neighbors = _prepared(model, X)
    if candidates is not None:
        candidates = _candidate_rows(candidates, model.classes_, queries)
    q = len(model.classes_)
    widths = {"labels": (), "decisions": () if q == 2 else (q,), "probabilities": (q,)}
    dtype = model.classes_.dtype if kind == "labels" else model._precision()
    firsts = _first_rows(queries)
    return _chunkwise(
        kind,
        [partial(_predict_chunk, kind, model.n_threads, *where) for where in firsts],
        [scorer, queries, candidates, neighbors],
        (queries.chunks[0], *((width,) for width in widths[kind])),
        np.empty(0, dtype),
    )


def dask_score(model: Any, X: Any, y: Any, sample_weight: Any = None) -> tuple[float, bool]:
    """Compute the accuracy for a Dask collection.

    Parameters
    ----------
    model : PartialLabelClassifier
        Fitted.
    X : dask Array or DataFrame of shape (m, d)
        Rows.
    y : dask Array, DataFrame or Series, or array-like
        The true labels, or candidates.
    sample_weight : dask Array, or array-like of shape (m,), optional
        Weights of the rows.

    Returns
    -------
    score : float
    is_known : bool
        Whether any label in `y` is one that the model knows.

    Examples
    --------
    >>> import dask.array
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.dask_prediction import dask_score
    >>> model = HERAClassifier().fit([[0.0], [0.1], [1.0], [1.1]], [{0}, {0, 1}, {1}, {1}])
    >>> X = dask.array.from_array([[0.0], [1.0], [0.2]], chunks=(2, 1))
    >>> dask_score(model, X, [0, 1, 0])
    (1.0, True)
    """
    needs_sizes = sample_weight is not None or not is_dask(y)
    queries, scorer, neighbors = _prepared(model, X, needs_sizes=needs_sizes)
    labels = _candidate_rows(y, model.classes_, queries, unknown="ignore")
    if sample_weight is not None:
        if is_dask(sample_weight):
            sample_weight = sample_weight.compute()
        # Looked at without the rows, of which only the number counts.
        rows = np.broadcast_to(0.0, (queries.shape[0], 1))
        sample_weight = _as_chunks(check_weights(sample_weight, rows), queries.chunks[0])
    sums = _chunkwise(
        "score",
        [partial(_score_chunk, model.n_threads, *where) for where in _first_rows(queries)],
        [scorer, queries, labels, sample_weight, neighbors],
        ((1,) * len(queries.chunks[0]), (3,)),
        np.empty(0),
    )
    hits, total, n_known = sums.compute().sum(axis=0)
    return float(hits / total), bool(n_known > 0)


def _prepared(model: Any, X: Any, *, needs_sizes: bool = False) -> tuple[Any, Any, Any]:
    """Return checked rows, the model as it is sent, and scores from neighbours if it needs them."""
    check_is_fitted(model)
    rows = _rows(model, X)
    if needs_sizes and not _sizes_are_known(rows):
        rows = _copy(rows).compute_chunk_sizes()
    scorer = _sent(partial(_restored, type(model), model._scoring_state()))
    queries = _chunkwise(
        "rows",
        [partial(_check_chunk, *where) for where in _first_rows(rows)],
        [scorer, rows],
        rows.chunks,
        _meta(rows, model._precision()),
    )
    return queries, scorer, model._neighbors_on_workers(queries)


def _rows(model: Any, X: Any) -> Any:
    """Return rows as a Dask array with whole rows, after a look at what is known of them."""
    array = require("dask.array", "dask", _PURPOSE)
    is_frame = hasattr(type(X), "to_dask_array")
    if not is_frame and not isinstance(X, array.Array):
        raise TypeError(f"X must be a Dask array or data frame, got {type(X).__name__}")
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got {X.ndim}")
    if not is_frame and 0 in X.shape:
        raise ValueError(f"X must have rows and columns, got shape {X.shape}")
    if is_frame:
        validate_data(model, X._meta, reset=False, skip_check_array=True)
        meta = np.empty((0, len(X.columns)))
        return X.map_partitions(frame_numbers, meta=meta)
    validate_data(model, np.empty((0, X.shape[1])), reset=False, skip_check_array=True)
    if np.dtype(X.dtype).kind not in "biufO":
        raise TypeError(f"X must hold real numbers, got {X.dtype}")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def _candidate_rows(Y: Any, classes: _Array, queries: Any, unknown: str = "error") -> Any:
    """Return candidates as a Dask array with the chunks of the rows."""
    array = require("dask.array", "dask", _PURPOSE)
    if not is_dask(Y):
        if not _sizes_are_known(queries):
            raise ValueError(
                "the sizes of the chunks of X are not known: call X.compute_chunk_sizes(), or "
                "X.to_dask_array(lengths=True) if it is a data frame"
            )
        options: dict[str, Any] = {"classes": classes, "unknown": unknown, "allow_empty": True}
        matrix, _ = csr_candidates(Y, n_samples=queries.shape[0], **options)
        return _as_chunks(matrix, queries.chunks[0])
    if not isinstance(Y, array.Array):
        Y = _without_frame(Y, classes)
    chunks, sizes = Y.chunks[0], queries.chunks[0]
    if Y.ndim == 2 and Y.shape[1] not in (1, len(classes)):
        raise ValueError(
            f"found {Y.shape[1]} columns of candidates, expected {len(classes)}: one for each class"
        )
    if _sizes_are_known(Y) and _sizes_are_known(queries):
        if Y.shape[0] != queries.shape[0]:
            raise ValueError(
                f"found {Y.shape[0]} rows of candidates for {queries.shape[0]} rows of X"
            )
        Y = Y.rechunk((sizes, *((-1,) * (Y.ndim - 1))))
    elif len(chunks) != len(sizes):
        raise ValueError(
            f"the candidates have {len(chunks)} chunks and X has {len(sizes)}, of sizes that are "
            "not all known: call compute_chunk_sizes() for both of them"
        )
    return Y if Y.ndim == 1 or len(Y.chunks[1]) == 1 else Y.rechunk({1: -1})


def _without_frame(Y: Any, classes: _Array) -> Any:
    """Return a series as an array, and a data frame with its columns in the order of the labels."""
    names = Y.columns
    if Y.ndim == 1 or (len(names) == 1 and len(classes) > 1):
        labels = Y if Y.ndim == 1 else Y[names[0]]
        return labels.map_partitions(column_array, meta=np.empty(0, np.object_))
    # A row for each column, with a single candidate, shows where the columns belong.
    columns, _ = check_candidates(
        type(Y._meta)(np.eye(len(names), dtype=bool), columns=names), classes=classes
    )
    order = columns.argmax(axis=0)
    return Y.map_partitions(_reordered, order, meta=np.empty((0, len(order)), np.bool_))


def _reordered(frame: Any, order: _Array) -> _Array:
    _, cells = frame_cells(frame)
    return cells[:, order]


# ---- what happens to a chunk --------------------------------------------------------------------


def _predict_chunk(
    kind: str,
    n_threads: int | None,
    first_row: int | None,
    chunk: int,
    sent: _Sent,
    X: Any,
    candidates: Any,
    neighbors: _Array | None,
) -> _Array:
    model, X, n_rows = sent.unpacked(), _plain(X), X.shape[0]
    allowed = None
    if n_rows and candidates is not None:
        with _counted_from(first_row, chunk, is_known=first_row == 0):
            allowed = model._allowed(candidates, n_rows)
    with _threads(n_threads):
        scored = _scored(model, X, neighbors)
        if kind == "labels":
            labels: _Array = model.classes_[model._best_columns(scored, n_rows, allowed)]
            return labels
        if kind == "decisions":
            decisions: _Array = model._decisions(scored, n_rows)
            return decisions
        probabilities: _Array = model._probabilities(scored, n_rows, allowed)
        return probabilities


def _score_chunk(
    n_threads: int | None,
    first_row: int | None,
    chunk: int,
    sent: _Sent,
    X: Any,
    y: Any,
    weights: _Array | None,
    neighbors: _Array | None,
) -> _Array:
    """Return the weight of the rows that are right, of all rows, and whether labels are known."""
    model, X, n_rows = sent.unpacked(), _plain(X), X.shape[0]
    if n_rows == 0:
        return np.zeros((1, 3))
    with _counted_from(first_row, chunk, is_known=first_row == 0):
        right, _ = check_candidates(
            y, n_samples=n_rows, classes=model.classes_, unknown="ignore", allow_empty=True
        )
    with _threads(n_threads):
        best = model._best_columns(_scored(model, X, neighbors), n_rows, None)
    hits = right[np.arange(n_rows), best]
    weights = np.ones(n_rows) if weights is None else weights
    return np.array([[weights[hits].sum(), weights.sum(), right.any()]])


def _scored(model: Any, X: Any, neighbors: _Array | None) -> Iterator[tuple[slice, _Array]]:
    if neighbors is None:
        yield from model._score_blocks(X)
    else:
        for rows in model._row_slices(X):
            # A copy, because it is overwritten, and Dask may need it again.
            yield rows, model._scores(X[rows], neighbors[rows].copy())


def _check_chunk(first_row: int | None, chunk: int, sent: _Sent, X: Any) -> Any:
    """Return a chunk as the classifiers want rows."""
    with _counted_from(first_row, chunk, is_known=first_row is not None):
        return sent.unpacked()._checked(_plain(X), first_row or 0)


def _plain(rows: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Make a chunk an array of its own, or CSR."""
    if hasattr(rows, "tocsr"):
        return sparse.csr_array(rows.tocsr(), dtype=dtype)
    # What came over the network may begin anywhere in memory and be read-only, for which kernels
    # would be compiled once more.
    return np.require(rows, dtype, ["C", "A", "W"])


def _threads(n_threads: int | None) -> AbstractContextManager[None]:
    """Use one thread unless more are wanted: Dask does several tasks at a time."""
    return threads(min(n_threads or 1, numba.config.NUMBA_NUM_THREADS))


@contextmanager
def _counted_from(first_row: int | None, chunk: int, *, is_known: bool) -> Iterator[None]:
    """Say in an error where its rows are counted from, unless that is the first one."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if is_known:
            raise
        where = "" if first_row is None else f", which is row {first_row}"
        raise type(error)(
            f"{error} (rows are counted from the first one of chunk {chunk} here{where})"
        ) from None


# ---- neighbours ---------------------------------------------------------------------------------


def dask_neighbor_scores(queries: Any, points: Any, confidence: Any, **options: Any) -> _Array:
    """Score rows in memory by their nearest rows in a Dask array.

    Parameters
    ----------
    queries : ndarray or CSR matrix of shape (m, d)
        Rows.
    points, confidence, **options
        As for :func:`neighbor_scores_on_workers`.

    Returns
    -------
    scores : ndarray of shape (m, q)

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> from hera_fast.dask_prediction import dask_neighbor_scores
    >>> points = dask.array.from_array(np.array([[0.0], [1.0], [5.0]]), chunks=(2, 1))
    >>> confidence = dask.array.from_array(np.eye(3), chunks=(2, 3))
    >>> dask_neighbor_scores(np.array([[0.5]]), points, confidence, n_neighbors=2).tolist()
    [[0.5, 0.5, 0.0]]
    """
    rows = _as_chunks(queries, (queries.shape[0],))
    scores: _Array = neighbor_scores_on_workers(rows, points, confidence, **options).compute()
    return scores


def neighbor_scores_on_workers(
    queries: Any,
    points: Any,
    confidence: Any,
    *,
    n_neighbors: int,
    neighbor_rank: int | None = None,
    multiplicity: _Array | None = None,
    normalize: bool = True,
    n_threads: int | None = None,
) -> Any:
    """Score rows by the confidences of their nearest rows, all of them in chunks.

    Parameters
    ----------
    queries : dask Array of shape (m, d), float32 or float64
        Finite values, in dense or CSR chunks of whole rows.
    points : dask Array of shape (n, d)
        Rows, in dense or sparse chunks of known sizes, of whole rows.
    confidence : dask Array of shape (n, q)
        Their confidences, in the same chunks of rows.
    n_neighbors, neighbor_rank, multiplicity, normalize
        As for :func:`hera_fast.neighborhood.neighbor_scores`.
    n_threads : int or None
        Threads of each task. None means 1.

    Returns
    -------
    scores : dask Array of shape (m, q)
        With the bits that `neighbor_scores` gives for all rows at once.

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> from hera_fast.dask_prediction import neighbor_scores_on_workers
    >>> queries = dask.array.from_array(np.array([[0.5], [4.0]]), chunks=(1, 1))
    >>> points = dask.array.from_array(np.array([[0.0], [1.0], [5.0]]), chunks=(2, 1))
    >>> confidence = dask.array.from_array(np.eye(3), chunks=(2, 3))
    >>> scores = neighbor_scores_on_workers(queries, points, confidence, n_neighbors=2)
    >>> scores.compute(scheduler="synchronous").round(2).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.05, 0.95]]
    """
    dtype, sizes = queries.dtype, queries.chunks[0]
    if _sizes_are_known(queries):
        most = queries_at_once(_width(points), n_neighbors)
        queries = queries.rechunk((_even_parts(sizes, most), -1))
    counts = None
    if multiplicity is not None:
        # More copies than neighbours make no difference, and few bytes are sent then.
        few = np.minimum(multiplicity, n_neighbors).astype(np.min_scalar_type(n_neighbors))
        counts = _sent(partial(_unchanged, few))
    firsts = [int(first) for first in np.cumsum((0, *points.chunks[0]))]
    search = [partial(_search, n_threads, n_neighbors, dtype, *rows) for rows in _ranges(firsts)]
    merge = partial(merge_nearest, n_neighbors=n_neighbors)
    take = [partial(_take, dtype, first) for first in firsts[:-1]]
    finish = partial(_finish, n_threads, neighbor_rank, normalize)

    point_keys, confidence_keys = _keys(points), _keys(confidence)
    count_key = None if counts is None else counts.key
    token = uuid.uuid4().hex
    name = f"neighbors-{token}"
    graph: dict[Any, Any] = {}

    def add(step: str, place: tuple[int, ...], *task: Any) -> Any:
        key = (f"{step}-{token}", *place)
        graph[key] = task
        return key

    for i, query_key in enumerate(_keys(queries)):
        level = [
            add("nearest", (i, j), work, query_key, key, count_key)
            for j, (work, key) in enumerate(zip(search, point_keys, strict=True))
        ]
        height = 0
        while len(level) > 1:
            groups = [level[g : g + _FAN_IN] for g in range(0, len(level), _FAN_IN)]
            level = [add("merged", (i, height, g), merge, keys) for g, keys in enumerate(groups)]
            height += 1
        (nearest,) = level
        taken = [
            add("taken", (i, j), work, nearest, *keys)
            for j, (work, *keys) in enumerate(zip(take, point_keys, confidence_keys, strict=True))
        ]
        add("neighbors", (i, 0), finish, query_key, nearest, taken)
    scores = _array(
        name,
        graph,
        [queries, points, confidence, counts],
        (queries.chunks[0], (confidence.shape[1],)),
        np.empty(0, dtype),
    )
    return scores if queries.chunks[0] == sizes else scores.rechunk((sizes, -1))


def _search(
    n_threads: int | None,
    n_neighbors: int,
    dtype: np.dtype[Any],
    start: int,
    stop: int,
    queries: Any,
    points: Any,
    counts: _Sent | None,
) -> Nearest:
    points = _plain(points, dtype)
    multiplicity = None if counts is None else counts.unpacked()[start:stop]
    with _threads(n_threads):
        return search_rows(
            _plain(as_kind_of(queries, points)),
            start,
            points,
            n_neighbors=n_neighbors,
            multiplicity=multiplicity,
        )


def _take(
    dtype: np.dtype[Any], first_row: int, nearest: Nearest, points: Any, confidence: Any
) -> Taken:
    return take_rows(nearest, first_row, _plain(points, dtype), _plain(confidence, dtype))


def _finish(
    n_threads: int | None,
    neighbor_rank: int | None,
    normalize: bool,
    queries: Any,
    nearest: Nearest,
    taken: list[Taken],
) -> _Array:
    parts = [Taken(each.numbers, _plain(each.rows), _plain(each.confidence)) for each in taken]
    with _threads(n_threads):
        return score_nearest(
            _plain(as_kind_of(queries, parts[0].rows)),
            nearest,
            parts,
            neighbor_rank=neighbor_rank,
            normalize=normalize,
        )


def _width(X: Any) -> int:
    """How many numbers a row has, about."""
    return min(X.shape[1], _SPARSE_WIDTH) if hasattr(X._meta, "tocsr") else int(X.shape[1])


def _even_parts(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    """Divide chunks into about equal parts of at most so many rows."""
    parts: list[int] = []
    for size in sizes:
        n_parts = max(1, -(-size // most))
        bounds = [size * part // n_parts for part in range(n_parts + 1)]
        parts += [stop - start for start, stop in _ranges(bounds)]
    return tuple(parts)


def _ranges(bounds: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(bounds))


# ---- graphs -------------------------------------------------------------------------------------


def _chunkwise(
    name: str,
    works: Sequence[Callable[..., Any]],
    arguments: Sequence[Any],
    chunks: tuple[tuple[int, ...], ...],
    meta: Any,
) -> Any:
    """Make a Dask array by a function for each chunk of rows.

    The arguments are Dask arrays, of which each function gets a chunk, or something that all of
    them get: None, or a Delayed. The chunks are of the kind and the dtype of `meta`.
    """
    name = f"{name}-{uuid.uuid4().hex}"
    columns = [
        _keys(argument) or [getattr(argument, "key", None)] * len(works) for argument in arguments
    ]
    rest = (0,) * (len(chunks) - 1)
    graph = {
        (name, place, *rest): (work, *keys)
        for place, (work, *keys) in enumerate(zip(works, *columns, strict=True))
    }
    return _array(name, graph, arguments, chunks, meta)


def _array(
    name: str,
    graph: dict[Any, Any],
    arguments: Sequence[Any],
    chunks: tuple[tuple[int, ...], ...],
    meta: Any,
) -> Any:
    array = require("dask.array", "dask", _PURPOSE)
    graphs = require("dask.highlevelgraph", "dask", _PURPOSE)
    needed = [argument for argument in arguments if argument is not None]
    layers = graphs.HighLevelGraph.from_collections(name, graph, dependencies=needed)
    return array.Array(layers, name, chunks, dtype=meta.dtype, meta=meta)


def _meta(X: Any, dtype: np.dtype[Any]) -> Any:
    """Return something empty of the kind of the chunks."""
    if hasattr(X._meta, "tocsr"):
        return sparse.csr_array((0, 0), dtype=dtype)
    return np.empty((0,) * X.ndim, dtype)


def _keys(X: Any) -> list[Any]:
    """Return the key of each chunk of rows; none of what is no array."""
    if not hasattr(type(X), "chunks"):
        return []
    return [keys[0] if isinstance(keys, list) else keys for keys in X.__dask_keys__()]


def _copy(X: Any) -> Any:
    """Return the same array as another object: finding the sizes of chunks changes an array."""
    return type(X)(X.dask, X.name, X.chunks, meta=X._meta)


def _sizes_are_known(X: Any) -> bool:
    return all(size == size for size in X.chunks[0])


def _first_rows(X: Any) -> list[tuple[int | None, int]]:
    """Return the number of the first row of each chunk, if it is known, and of the chunk."""
    sizes = X.chunks[0]
    if not _sizes_are_known(X):
        return [(None, chunk) for chunk in range(len(sizes))]
    return [(int(first), chunk) for chunk, first in enumerate(np.cumsum((0, *sizes[:-1])))]


def _as_chunks(rows: Any, sizes: tuple[int, ...]) -> Any:
    """Make a Dask array with these chunks of an array or a CSR matrix in memory."""
    whole = _chunkwise(
        "sent",
        [_Sent.unpacked],
        [_sent(partial(_unchanged, rows))],
        tuple((size,) for size in rows.shape),
        rows[:0],
    )
    return whole.rechunk((sizes, *rows.shape[1:]))


def _unchanged(thing: Any) -> Any:
    return thing


def _restored(cls: type[Any], state: dict[str, Any]) -> Any:
    """Put a model together; its own ``__setstate__`` is not for what was left out."""
    model = object.__new__(cls)
    vars(model).update(state)
    return model


# ---- what is sent once --------------------------------------------------------------------------


class _Sent:
    """What a function makes; pickled, it travels as bytes.

    Unpacked from bytes, arrays are aligned and can be written to. Those that Dask unpacks lie in
    what came over the network, and kernels do not take all of them.
    """

    def __init__(self, make: Callable[[], Any], payload: bytes | None = None) -> None:
        self._make, self._payload = make, payload
        self._unpacked: Any = None

    def __reduce__(self) -> Any:
        return _received, (_pickled(self._make) if self._payload is None else self._payload,)

    def unpacked(self) -> Any:
        if self._unpacked is None:
            self._unpacked = self._make()
        return self._unpacked


def _received(payload: bytes) -> _Sent:
    return _Sent(lambda: pickle.loads(payload)(), payload)


def _sent(make: Callable[[], Any]) -> Any:
    """Return what a function makes as one node for graphs, sent at once if there is a client."""
    delayed = require("dask.delayed", "dask", _PURPOSE)
    client = _current_client()
    if client is None:
        return delayed.delayed(_Sent(make), traverse=False, pure=False)
    payload = _pickled(make)
    key = f"sent-{blake2b(payload, digest_size=16).hexdigest()}"
    with warnings.catch_warnings():
        # Advice to do what is done here.
        warnings.filterwarnings("ignore", "Sending large graph")
        # A task, other than scattered data, is done again when its worker has died.
        future = client.submit(_received, payload, key=key)
    return delayed.Delayed(future.key, {future.key: future})


def _current_client() -> Any:
    """Return the client that computes if nothing else is said, or None."""
    base = require("dask.base", "dask", _PURPOSE)
    try:
        owner = getattr(base.get_scheduler(), "__self__", None)
    except RuntimeError:
        # An asynchronous client computes what it is given, but not here.
        return None
    return owner if hasattr(owner, "submit") else None


def _pickled(thing: Any) -> bytes:
    # A dependency of Dask.
    cloudpickle = require("cloudpickle", "dask", _PURPOSE)

    class Pickler(cloudpickle.Pickler):  # type: ignore[name-defined,misc]
        def reducer_override(self, each: Any) -> Any:
            if isinstance(each, np.memmap) and _is_whole_map(each):
                order = "C" if each.flags.c_contiguous else "F"
                parts = (each.filename, each.dtype, "r", each.offset, each.shape, order)
                return np.memmap, parts
            return super().reducer_override(each)

    file = BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
    return file.getvalue()


def _is_whole_map(rows: np.memmap[Any, Any]) -> bool:
    """Whether it is all of a map; of a part nobody knows where in the file it is."""
    is_whole = rows.filename is not None and not isinstance(rows.base, np.ndarray)
    # Changes of others are in memory only.
    return is_whole and rows.mode in ("r", "r+")
