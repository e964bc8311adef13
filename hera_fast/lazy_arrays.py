"""Arrays that are not in memory: which they are, and how they get there."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from hera_fast.extras import require
from hera_fast.training_rows import is_lazy

__all__ = ["in_memory", "is_dask"]


def is_dask(X: Any) -> bool:
    """Whether something is a Dask collection.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    is_dask : bool

    Examples
    --------
    >>> from hera_fast.lazy_arrays import is_dask
    >>> is_dask([1.0])
    False
    """
    return hasattr(X, "__dask_graph__") and type(X).__module__.startswith("dask")


def in_memory(value: Any) -> Any:
    """Bring an array into memory that is on workers or in a file.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    value : object
        For a Dask array, a Zarr array or a memory map an array, or a CSR array if the chunks are
        sparse. All else as it is.

    Examples
    --------
    >>> import dask.array
    >>> from hera_fast.lazy_arrays import in_memory
    >>> in_memory(dask.array.arange(3, chunks=2))
    array([0, 1, 2])
    >>> in_memory("text")
    'text'
    """
    if is_dask(value):
        dask = require("dask", "dask", "a Dask array")
        # Put together here: what Dask would make of sparse chunks depends on its version.
        return _joined(dask.compute(*value.to_delayed().ravel()))
    if is_lazy(value):
        return np.asarray(value[:])
    return np.asarray(value) if isinstance(value, np.memmap) else value


def _joined(chunks: Any) -> Any:
    if any(hasattr(chunk, "tocsr") for chunk in chunks):
        # Chunks of other sparse types are not SciPy's.
        rows = [chunk.tocsr() if hasattr(chunk, "tocsr") else chunk for chunk in chunks]
        return sparse.csr_array(sparse.vstack(rows, format="csr"))
    return np.concatenate(chunks)
