"""The two decorators every compiled function goes through: the only place with ``njit(``.

A *kernel* works on the rows ``start <= i < stop`` of its arrays, holds no Python object and
releases the GIL, so that :func:`hera_fast.kernels._launch.launch` can spread row ranges over
ordinary threads. One thread owns a row and the machine code is the same for every thread count,
hence the same bits. Numba's own ``parallel=True`` is not used: its ``workqueue`` layer aborts the
process on concurrent calls, and its ``omp`` layer does not survive ``fork``.

Numba's on-disk cache notices edits only in the file of the cached function, so a kernel and the
helpers it calls must live in one module.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Set HERA_FAST_CACHE=0 where neither the installation nor the home directory is writable.
_CACHE = os.environ.get("HERA_FAST_CACHE", "1") != "0"

# Sums may be reordered and products fused, which is what lets LLVM vectorise a reduction.
# NaN and infinity keep their meaning.
_FAST = {"contract", "nsz", "arcp", "afn", "reassoc"}
# The same without reordering: rounding by adding and subtracting a constant survives.
_ORDERED = {"contract", "nsz"}


def kernel(function: _Function) -> _Function:
    """Compile a function of a row range that is called from Python.

    ``error_model="numpy"`` matters: the branch that raises ``ZeroDivisionError`` would keep
    every loop with a division from being vectorised.
    """
    return _compile(function, _FAST)


def helper(function: _Function) -> _Function:
    """Compile a function that is called from kernels of the same module."""
    return _compile(function, _FAST)


def ordered_helper(function: _Function) -> _Function:
    """Compile a helper whose additions must happen in the written order."""
    return _compile(function, _ORDERED)


def inline_helper(function: _Function) -> _Function:
    """Compile a helper into its caller: right for what is called for every row.

    A call passes every array as seven words and counts references, which takes longer than a
    row of a few labels.
    """
    return _compile(function, _FAST, forceinline=True)


def exact_helper(function: _Function) -> _Function:
    """Compile a helper whose every operation is rounded as written, as NumPy would do it."""
    return _compile(function, set())


def _compile(function: _Function, fastmath: set[str], forceinline: bool = False) -> _Function:
    compiled: _Function = njit(
        cache=_CACHE,
        nogil=True,
        error_model="numpy",
        fastmath=fastmath,
        forceinline=forceinline,
    )(function)
    return compiled
