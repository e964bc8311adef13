"""Partial-label learning: every row carries a set of candidate labels, one of them is true."""

from __future__ import annotations

from hera_fast import kernels, svd, threads
from hera_fast._version import __version__
from hera_fast.estimator import HERAClassifier, hera

__all__ = ["HERAClassifier", "__version__", "hera", "kernels", "svd", "threads"]
