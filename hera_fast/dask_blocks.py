"""Blocks of rows on the workers of a Dask cluster.

Each worker that takes part has one actor, which carries a contiguous part of the blocks and keeps
what belongs to them until the fit is over. Work goes to the actors directly, because a task of the
scheduler takes ten times as long to begin. What the actors take over, and what they leave behind,
are ordinary tasks on their workers.
"""

from __future__ import annotations

import itertools
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numba
import numpy as np
from scipy import sparse

from hera_fast.blocks import Batch, Block, Blocks, Candidates, LocalCarrier, MemoryStore, WorkerLost
from hera_fast.extras import require
from hera_fast.kernels._launch import blas_threads
from hera_fast.threads import threads

__all__ = ["DaskBlocks", "current_client", "place_blocks"]

_Array = np.ndarray[Any, Any]

# Seconds after which it is asked whether a worker still lives.
_PATIENCE = 2.0
# How often that is asked before an error is believed that may come from there.
_LOOKS = 10
# Seconds to wait for a new worker when there is none.
_PATIENCE_WITHOUT_WORKERS = 60.0

#: The carriers of this process, on a worker, for tasks on it.
_carriers: weakref.WeakValueDictionary[str, _Carrier] = weakref.WeakValueDictionary()


def current_client() -> Any:
    """Return the current client of Dask, or raise an error that says how to make one."""
    distributed = require("distributed", "dask", "a Dask array")
    try:
        client = distributed.default_client()
    except ValueError:
        raise RuntimeError(
            "X is a Dask array, but there is no client. Make one first, for example with "
            "dask.distributed.Client(), which starts workers on this machine."
        ) from None
    if client.asynchronous:
        raise RuntimeError("The current client of Dask is asynchronous: fit needs another one.")
    return client


# ---- on the workers -----------------------------------------------------------------------------


class _Carrier:
    """An actor: carries blocks on a worker."""

    def __init__(self, token: str, n_blocks: int, n_threads: int) -> None:
        self._carrier = LocalCarrier(n_blocks)
        self._n_threads = min(n_threads, numba.config.NUMBA_NUM_THREADS)
        _carriers[token] = self

    def run(self, batch: Batch) -> tuple[bool, Any]:
        """Do the work; errors are told apart from those of the connection."""
        try:
            with threads(self._n_threads), blas_threads(1):
                return True, self._carrier.run(batch)
        except Exception as error:
            # With its frames it would keep the blocks.
            return False, error.with_traceback(None)

    def close(self) -> tuple[bool, Any]:
        """Let go of all blocks."""
        self._carrier = LocalCarrier(0)
        return True, None

    def take(self, first: int, blocks: list[Block]) -> None:
        """Take blocks with consecutive numbers."""
        for number, block in enumerate(blocks, first):
            self._carrier.take(number, block, MemoryStore())

    def put(self, number: int, pieces: dict[int, Any]) -> tuple[bool, Any]:
        """Keep pieces of blocks."""
        try:
            # What came over the network may begin anywhere in memory, and may be read-only.
            self._carrier.put(number, {block: np.array(piece) for block, piece in pieces.items()})
        except Exception as error:
            return False, error.with_traceback(None)
        return True, None

    def pieces(self, blocks: Sequence[int], number: int) -> list[Any]:
        """Return pieces of blocks as they are stored."""
        return [self._carrier.stored(block, number) for block in blocks]


@cache
def _warmed(warm: Callable[..., None], *arguments: Any) -> None:
    """Compile once for each process."""
    warm(*arguments)


def _deliver(
    token: str,
    first: int,
    first_row: int,
    bounds: list[int],
    dtype: str,
    X: Any,
    Y: Any,
    weights: Any,
    warm: tuple[Any, ...],
) -> None:
    """Give a chunk of rows to the carrier of this process, in blocks with these bounds."""
    from hera_fast.training_rows import read_candidates

    _warmed(*warm)
    X = _plain_rows(X, np.dtype(dtype))
    Y = read_candidates(Y.tocsr() if sparse.issparse(Y) else Y, first_row)
    if X.shape[0] != bounds[-1] or Y.shape[0] != bounds[-1]:
        raise ValueError(
            f"the chunk that begins with row {first_row} has {X.shape[0]} rows and "
            f"{Y.shape[0]} rows of candidates, but {bounds[-1]} were expected"
        )
    blocks = [
        Block(
            first_row + start,
            X[start:stop],
            Candidates(Y[start:stop]),
            None
            if weights is None
            else np.require(weights[start:stop], np.float64, ["C", "A", "W"]),
        )
        for start, stop in itertools.pairwise(bounds)
    ]
    _carriers[token].take(first, blocks)


def _plain_rows(X: Any, dtype: np.dtype[Any]) -> Any:
    if hasattr(X, "tocsr"):
        return sparse.csr_array(X.tocsr(), dtype=dtype)
    # What came over the network may begin anywhere in memory, and be read-only.
    return np.require(X, dtype, ["C", "A", "W"])


def _collect(token: str, blocks: list[int], number: int, finish: Callable[..., Any]) -> Any:
    """Make something of the pieces of blocks on this worker."""
    return finish(_carriers[token].pieces(blocks, number))


# ---- on the client ------------------------------------------------------------------------------


class _Remote:
    """The client's side of a carrier."""

    actor: Any

    def __init__(self, client: Any, address: str) -> None:
        self._client, self.address = client, address
        # Several workers may be one process.
        self.token = uuid.uuid4().hex
        self.blocks: list[int] = []

    def submit(self, batch: Batch) -> Callable[[], Any]:
        """Begin with a batch; return a function that waits for its result."""
        return self._begin("run", batch)

    def put(self, number: int, pieces: dict[int, Any]) -> None:
        """Keep pieces of blocks."""
        self._begin("put", number, pieces)()

    def close(self) -> None:
        """Let the worker forget all blocks, if it lives; nobody waits for it."""
        with suppress(Exception):
            self.actor.close()

    def _begin(self, name: str, *arguments: Any) -> Callable[[], Any]:
        try:
            future = getattr(self.actor, name)(*arguments)
        except Exception as error:
            raise self.judged(error) from error
        return lambda: self._wait(future)

    def _wait(self, future: Any) -> Any:
        while True:
            try:
                succeeded, result = future.result(timeout=_PATIENCE)
                break
            except TimeoutError:
                self.check()
            except Exception as error:
                raise self.judged(error) from error
        if not succeeded:
            raise result
        return result

    def check(self) -> None:
        """Raise an error if the worker has died."""
        if self.address not in _workers(self._client):
            raise WorkerLost(f"the worker {self.address} has died")

    def judged(self, error: BaseException) -> BaseException:
        """Return the error itself, unless it came because the worker has died."""
        lost = WorkerLost(f"the worker {self.address} cannot be reached ({error!r})")
        if isinstance(error, OSError) or "Actor was lost" in str(error):
            return lost
        if isinstance(error, (MemoryError, TypeError, ValueError)):
            return error
        # It takes a moment until the scheduler knows.
        for _ in range(_LOOKS):
            if self.address not in _workers(self._client):
                return lost
            time.sleep(_PATIENCE / _LOOKS)
        return error


def _workers(client: Any) -> dict[str, int]:
    """Return how many threads each worker has; none if the scheduler cannot be reached."""
    try:
        threads_of: dict[str, int] = client.nthreads()
    except Exception:
        return {}
    return threads_of


class DaskBlocks(Blocks):
    """Blocks that are on workers.

    Parameters
    ----------
    client : distributed.Client
        The client.
    carriers : list
        One for each worker.
    n_blocks : int
        How many blocks there are.
    chunks : list of (carrier, list of int)
        For each chunk of the rows who has it, and the numbers of its blocks.
    """

    def __init__(
        self,
        client: Any,
        carriers: list[_Remote],
        n_blocks: int,
        chunks: list[tuple[_Remote, list[int]]],
    ) -> None:
        super().__init__(carriers, n_blocks)
        self._client, self._remotes = client, carriers
        self._chunks = chunks

    def close(self) -> None:
        """Let the workers forget all blocks."""
        for remote in self._remotes:
            remote.close()

    def tasks(self, number: int, finish: Callable[..., Any]) -> list[Any]:
        """Leave something behind on the workers: a future for each chunk.

        Parameters
        ----------
        number : int
            Of the pieces that `finish` gets, a list for each chunk.
        finish : callable
            Makes of them what is left behind.

        Returns
        -------
        futures : list
        """
        futures = [
            self._client.submit(
                *(_collect, remote.token, blocks, number, finish),
                workers=[remote.address],
                pure=False,
            )
            for remote, blocks in self._chunks
        ]
        _wait_for(futures, self._remotes)
        return futures


def place_blocks(
    client: Any,
    chunks: Sequence[tuple[Any, Any, Any]],
    bounds: Sequence[_Array],
    dtype: np.dtype[Any],
    n_threads: int | None,
    warm: tuple[Any, ...],
) -> DaskBlocks:
    """Put chunks of rows on workers.

    Parameters
    ----------
    client : distributed.Client
        The client.
    chunks : sequence of (X, Y, weights)
        For each chunk what there is of it: delayed objects, futures or arrays.
    bounds : sequence of ndarray
        Where the blocks of each chunk begin, and where the last one ends.
    dtype : dtype
        What the rows are to be.
    n_threads : int or None
        Threads of each worker. None takes as many as the worker has for tasks.
    warm : tuple
        A function and arguments that let a worker compile what it needs.

    Returns
    -------
    DaskBlocks
    """
    capacities = _workers(client)
    if not capacities:
        with suppress(Exception):
            client.wait_for_workers(1, timeout=_PATIENCE_WITHOUT_WORKERS)
        capacities = _workers(client)
    if not capacities:
        raise WorkerLost("the cluster has no workers, or its scheduler cannot be reached")
    addresses = sorted(capacities)
    sizes = np.array([chunk_bounds[-1] for chunk_bounds in bounds])
    owners = _contiguous_parts(sizes, len(addresses))
    addresses = [addresses[owner] for owner in range(max(owners) + 1)]
    n_blocks = sum(len(chunk_bounds) - 1 for chunk_bounds in bounds)
    remotes = [_Remote(client, address) for address in addresses]
    try:
        _start_carriers(client, remotes, n_blocks, n_threads, capacities)
        places = _deliver_chunks(client, chunks, bounds, [remotes[o] for o in owners], dtype, warm)
    except BaseException:
        for remote in remotes:
            remote.close()
        raise
    return DaskBlocks(client, remotes, n_blocks, places)


def _start_carriers(
    client: Any,
    remotes: list[_Remote],
    n_blocks: int,
    n_threads: int | None,
    capacities: dict[str, int],
) -> None:
    actors = [
        client.submit(
            *(_Carrier, remote.token, n_blocks, n_threads or capacities[remote.address]),
            actor=True,
            workers=[remote.address],
            pure=False,
        )
        for remote in remotes
    ]
    _wait_for(actors, remotes)
    for remote, actor in zip(remotes, actors, strict=True):
        try:
            remote.actor = actor.result()
        except Exception as error:
            raise remote.judged(error) from error


def _deliver_chunks(
    client: Any,
    chunks: Sequence[tuple[Any, Any, Any]],
    bounds: Sequence[_Array],
    owners: list[_Remote],
    dtype: np.dtype[Any],
    warm: tuple[Any, ...],
) -> list[tuple[_Remote, list[int]]]:
    """Give each chunk to its carrier; return who has which blocks."""
    places, deliveries, first, first_row = [], [], 0, 0
    parts = _computed(client, chunks, owners)
    for arguments, chunk_bounds, remote in zip(parts, bounds, owners, strict=True):
        numbers = list(range(first, first + len(chunk_bounds) - 1))
        places.append((remote, numbers))
        remote.blocks += numbers
        deliveries.append(
            client.submit(
                *(_deliver, remote.token, first, first_row, chunk_bounds.tolist(), dtype.str),
                *(*arguments, warm),
                workers=[remote.address],
                pure=False,
            )
        )
        first, first_row = first + len(numbers), first_row + int(chunk_bounds[-1])
    _wait_for(deliveries, owners)
    return places


def _computed(
    client: Any, chunks: Sequence[tuple[Any, Any, Any]], remotes: Sequence[_Remote]
) -> list[list[Any]]:
    """Have delayed parts of chunks computed on the workers where they are needed.

    All parts of a worker at once: what they have in common is sent and computed once.
    """
    parts = [list(chunk) for chunk in chunks]
    wanted: dict[str, list[tuple[int, int]]] = {}
    for place, (chunk, remote) in enumerate(zip(parts, remotes, strict=True)):
        delayed = [i for i, part in enumerate(chunk) if hasattr(part, "__dask_graph__")]
        wanted.setdefault(remote.address, []).extend((place, i) for i in delayed)
    for address, places in wanted.items():
        collections = [parts[place][i] for place, i in places]
        futures = client.compute(collections, workers=[address], allow_other_workers=True)
        for (place, i), future in zip(places, futures, strict=True):
            parts[place][i] = future
    return parts


def _contiguous_parts(sizes: _Array, n_parts: int) -> list[int]:
    """Divide chunks of these sizes into contiguous parts of about the same size, none empty."""
    n_parts = min(n_parts, len(sizes))
    middles = np.cumsum(sizes) - sizes / 2
    parts = np.floor(middles * n_parts / sizes.sum()).astype(int).tolist()
    owners: list[int] = []
    for part in parts:
        owners.append(min(part, owners[-1] + 1) if owners else 0)
    return owners


def _wait_for(futures: list[Any], remotes: list[_Remote]) -> None:
    """Wait until all are done; raise their errors, or one that a worker has died."""
    distributed = require("distributed", "dask", "a Dask array")
    while True:
        try:
            distributed.wait(futures, timeout=_PATIENCE)
            break
        except TimeoutError:
            for remote in remotes:
                remote.check()
    for future in futures:
        if future.status == "error":
            error = future.exception()
            for remote in remotes:
                error = remote.judged(error)
            raise error
        if future.status != "finished":
            raise WorkerLost(f"a task is {future.status}, because a worker has died")
