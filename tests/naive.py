"""Plain NumPy twins of the kernels: same names, same arguments, no cleverness."""

from __future__ import annotations

import numpy as np
