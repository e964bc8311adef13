"""Partial-label learning: every row carries a set of candidate labels, one of them is true."""

from __future__ import annotations

from hera_fast import kernels

__version__ = "0.1.0.dev0"

__all__ = ["__version__", "kernels"]
