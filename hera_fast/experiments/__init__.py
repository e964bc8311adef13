"""The experiments of the paper: what is computed, how it is kept, what the paper prints."""

from __future__ import annotations
