"""How Hypothesis works in all tests."""

from __future__ import annotations

from hypothesis import settings

# Compilation makes the first example slow; the examples are the same in every run.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("repeatable")
