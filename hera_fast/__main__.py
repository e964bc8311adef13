"""``python -m hera_fast`` is ``hera-fast``."""

from __future__ import annotations

import sys

from hera_fast.cli import main

if __name__ == "__main__":
    sys.exit(main())
