"""The command line: ``hera-fast``, or ``python -m hera_fast``."""

from __future__ import annotations

from hera_fast.cli.main import main

__all__ = ["main"]
