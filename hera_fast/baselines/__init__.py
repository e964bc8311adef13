"""The methods that HERA's paper compares with."""

from __future__ import annotations

__all__: list[str] = []
