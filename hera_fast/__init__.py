"""Partial-label learning: every row carries a set of candidate labels, one of them is true."""

from __future__ import annotations

from hera_fast import kernels, svd, threads
from hera_fast._version import __version__

__all__ = ["__version__", "kernels", "svd", "threads"]
