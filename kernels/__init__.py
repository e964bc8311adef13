"""Compiled kernels: C-contiguous float32 or float64 arrays in, arrays out."""

from __future__ import annotations

__all__: list[str] = []
