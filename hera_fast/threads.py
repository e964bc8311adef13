"""How many threads the kernels and BLAS may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import TypeVar

import numba

from hera_fast.kernels._launch import blas_threads, run_ranges

__all__ = ["on_threads", "threads"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@contextmanager
def threads(n_threads: int | None = None) -> Iterator[None]:
    """Use `n_threads` threads in kernels and in BLAS inside a ``with`` block.

    Both settings are restored when the block is left, also by an exception.

    Parameters
    ----------
    n_threads : int or None, default=None
        From 1 to ``numba.config.NUMBA_NUM_THREADS``. None leaves everything as it is.

    Notes
    -----
    The kernels' setting is Numba's thread mask, which belongs to the calling Python thread. The
    BLAS setting belongs to the process: while several Python threads are in such blocks at the
    same time, the block entered last decides for all, and the value from before the first comes
    back when the last is left.

    Examples
    --------
    >>> import numba
    >>> from hera_fast.threads import threads
    >>> with threads(1):
    ...     numba.get_num_threads()
    1
    """
    if n_threads is None:
        yield
        return
    most = numba.config.NUMBA_NUM_THREADS
    if isinstance(n_threads, bool) or not isinstance(n_threads, Integral):
        raise TypeError(f"n_threads must be an integer or None, got {n_threads!r}")
    if not 1 <= n_threads <= most:
        raise ValueError(f"n_threads must be from 1 to {most} (NUMBA_NUM_THREADS), got {n_threads}")
    before = numba.get_num_threads()
    numba.set_num_threads(n_threads)
    try:
        with blas_threads(int(n_threads)):
            yield
    finally:
        numba.set_num_threads(before)


def on_threads(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Do a long piece of work for each of a few items, at the same time if threads are free.

    Parameters
    ----------
    work : callable
        Gets an item. The kernels that it calls share the threads with those of the other items.
    items : sequence
        A few.

    Returns
    -------
    results : list
        What `work` returned, in the order of the items.

    Examples
    --------
    >>> from hera_fast.threads import on_threads
    >>> on_threads(abs, [-1, 2])
    [1, 2]
    """
    results: dict[int, _Result] = {}
    n_threads = numba.get_num_threads()

    def take(place: int, _: int) -> None:
        before = numba.get_num_threads()
        numba.set_num_threads(max(1, n_threads // len(items)))
        try:
            results[place] = work(items[place])
        finally:
            numba.set_num_threads(before)

    run_ranges(take, [(place, place + 1) for place in range(len(items))], n_threads)
    return [results[place] for place in range(len(items))]
