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
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

# A range should keep a thread busy for about this many basic operations: waking a helper costs
# some 50 microseconds.
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
    # list.pop is atomic, so the list itself is the queue.
    ranges = ranges[::-1]

    def take() -> None:
        while True:
            try:
                start, stop = ranges.pop()
            except IndexError:
                return
            work(start, stop)

    n_helpers = min(n_threads, len(ranges)) - 1
    futures = [_helper_pool().submit(take) for _ in range(n_helpers)]
    try:
        take()
    finally:
        ranges.clear()
        # A helper that never started has nothing left to do; the others are waited for, because
        # they write into the caller's arrays.
        running = [future for future in futures if not future.cancel()]
        errors = [future.exception() for future in running]
    for error in errors:
        if error is not None:
            raise error


def _helper_pool() -> ThreadPoolExecutor:
    global _helpers
    with _helpers_lock:
        if _helpers is None:
            n_helpers = max(1, numba.config.NUMBA_NUM_THREADS - 1)
            _helpers = ThreadPoolExecutor(n_helpers, thread_name_prefix="hera-fast")
        return _helpers


def _forget_helpers() -> None:
    """Start afresh in a forked child, where the parent's threads do not exist."""
    global _helpers, _helpers_lock, _blas_lock, _blas_users
    _helpers, _helpers_lock, _blas_lock = None, threading.Lock(), threading.Lock()
    _blas_users = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


_blas_lock = threading.Lock()
_blas_users = 0
_blas_original: Any = None


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, so it is done once, on first use: by then
    # NumPy and SciPy have loaded theirs.
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(limit: int) -> Iterator[None]:
    """Limit BLAS to `limit` threads inside the block.

    The limit is a property of the process. When blocks overlap in time on several Python
    threads, the last one to be entered decides, and the last one to be left restores what was
    there before the first.
    """
    global _blas_users, _blas_original
    with _blas_lock:
        limiter = _controller().limit(limits=limit)
        if _blas_users == 0:
            _blas_original = limiter
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_original.restore_original_limits()
