"""Settings that must hold before Numba is imported, and the markers of the suite."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

# Numba's cache does not see edits in other files than the cached function's own, so the tests
# use a cache directory named after the contents of all kernels.
_sources = sorted((Path(__file__).parent.parent / "kernels").glob("*.py"))
_digest = hashlib.sha256(b"".join(source.read_bytes() for source in _sources)).hexdigest()[:16]
os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"hera-fast-test-cache-{_digest}")
)

from hypothesis import settings  # noqa: E402

# Compilation makes the first example slow; the examples are the same in every run.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("repeatable")
