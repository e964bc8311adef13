"""Run a row kernel on several threads, and keep BLAS out of its way.

Numba's thread mask says how many threads a call may use (``NUMBA_NUM_THREADS``,
``numba.set_num_threads``, :func:`hera_fast.threads.threads`). The calling thread always works
itself; helpers only take row ranges nobody has taken yet. A call therefore never waits for a busy
helper, any number of Python threads may call kernels at once, and a forked child simply starts
helpers of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

# A range should keep a thread busy for about this many basic operations: waking a helper costs
# some 100 microseconds.
_OPERATIONS_PER_RANGE = 1 << 17
_RANGES_PER_THREAD = 8

_helpers: ThreadPoolExecutor | None = None
_helpers_lock = threading.Lock()


def launch(kernel: Callable[..., None], n_rows: int, row_cost: int, *arguments: Any) -> None:
    """Call ``kernel(start, stop, *arguments)`` so that every row below `n_rows` is done once.

    Parameters
    ----------
    kernel : callable
        Works on the rows ``start <= i < stop`` and touches no other row of its outputs.
    n_rows : int
        Number of rows.
    row_cost : int
        Rough number of basic operations per row; decides whether threads pay.
    *arguments
        Passed through.
    """
    rows = max(1, _OPERATIONS_PER_RANGE // max(1, row_cost))
    if n_rows <= rows:
        kernel(0, n_rows, *arguments)
        return
    n_threads = numba.get_num_threads()
    if n_threads == 1:
        kernel(0, n_rows, *arguments)
        return
    rows = max(rows, -(-n_rows // (n_threads * _RANGES_PER_THREAD)))
    run_ranges(
        lambda start, stop: kernel(start, stop, *arguments),
        [(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)],
        n_threads,
    )


def run_ranges(
    work: Callable[[int, int], None], ranges: list[tuple[int, int]], n_threads: int
) -> None:
    """Call ``work(start, stop)`` once for each range, on up to `n_threads` threads.

    Returns when all are done; the first error is raised, and nothing is still running then.
    """
    job = _Job(work, ranges)
    try:
        # Without further threads, as at the end of the interpreter, the caller does everything.
        with suppress(RuntimeError):
            for _ in range(min(n_threads, len(ranges)) - 1):
                _helper_pool().submit(job.help)
        job.take()
    finally:
        job.close()
    if job.errors:
        raise job.errors[0]


class _Job:
    """Ranges that the caller and its helpers take until none is left."""

    def __init__(self, work: Callable[[int, int], None], ranges: list[tuple[int, int]]) -> None:
        self.errors: list[BaseException] = []
        self._work = work
        self._ranges = ranges[::-1]
        self._closed = False
        self._n_helping = 0
        self._changed = threading.Condition()

    def take(self) -> None:
        while True:
            try:
                # This is atomic, so the list itself is the queue.
                start, stop = self._ranges.pop()
            except IndexError:
                return
            self._work(start, stop)

    def help(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._n_helping += 1
        try:
            self.take()
        except BaseException as error:
            self._ranges.clear()
            self.errors.append(error)
        finally:
            with self._changed:
                self._n_helping -= 1
                self._changed.notify()

    def close(self) -> None:
        """Wait for the helpers at work, which write into the caller's arrays.

        An interrupt does not cut this short; it is raised afterwards.
        """
        self._ranges.clear()
        interrupt = None
        while True:
            try:
                with self._changed:
                    self._closed = True
                    self._changed.wait_for(lambda: self._n_helping == 0)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        # A helper that is busy elsewhere may keep the job for long, but not the caller's arrays.
        del self._work
        if interrupt is not None:
            raise interrupt


def _helper_pool() -> ThreadPoolExecutor:
    global _helpers
    with _helpers_lock:
        if _helpers is None:
            _helpers = ThreadPoolExecutor(
                max(1, numba.config.NUMBA_NUM_THREADS - 1),
                thread_name_prefix="hera-fast",
                # What a helper calls runs on this helper alone.
                initializer=numba.set_num_threads,
                initargs=(1,),
            )
        return _helpers


class _Block:
    """A block that limits BLAS, being executed by the current Python thread."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.owner = threading.get_ident()


_blas_lock = threading.Lock()
_blas_blocks: list[_Block] = []
_blas_original: list[int] = []


@contextmanager
def blas_threads(n_threads: int) -> Iterator[None]:
    """Limit BLAS to `n_threads` threads inside the block.

    The limit is a property of the process. Of several blocks that are being executed, nested or
    on several Python threads, the one entered last decides; when all are left, the limit from
    before the first is back.
    """
    block = _Block(n_threads)
    with _blas_lock:
        if not _blas_original:
            _blas_original[:] = [library.num_threads for library in _blas_libraries()]
        _blas_blocks.append(block)
        _apply_blas_limit()
    try:
        yield
    finally:
        with _blas_lock:
            _blas_blocks.remove(block)
            _apply_blas_limit()
            if not _blas_blocks:
                _blas_original.clear()


def _apply_blas_limit() -> None:
    for library, original in zip(_blas_libraries(), _blas_original, strict=True):
        library.set_num_threads(_blas_blocks[-1].n_threads if _blas_blocks else original)


@cache
def _blas_libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401  (only libraries that are loaded can be found)

    # Finding them takes milliseconds, so it is done once.
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _start_afresh() -> None:
    """Forget the other threads in a forked child, where they do not exist."""
    global _helpers, _helpers_lock, _blas_lock
    _helpers, _helpers_lock, _blas_lock = None, threading.Lock(), threading.Lock()
    own = threading.get_ident()
    _blas_blocks[:] = [block for block in _blas_blocks if block.owner == own]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
