"""Settings of the tests and the benchmarks that must hold before Numba is imported."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

# Numba's cache does not see edits in other files than the cached function's own, so the cache
# directory is named after the contents of all kernels.
_root = Path(__file__).parent
_sources = sorted((_root / "kernels").glob("*.py"))
_digest = hashlib.sha256(b"".join(source.read_bytes() for source in _sources)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(_root / "out" / f"numba-cache-{_digest}"))
