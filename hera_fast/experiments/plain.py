"""Values that JSON knows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Turn arrays and numbers of NumPy into what JSON knows; NaN and infinity become None.

    Parameters
    ----------
    value : object
        Of dicts, sequences, arrays, texts and numbers.

    Returns
    -------
    value : object
        Of dicts, lists, texts, numbers, bools and None.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.experiments.plain import plain
    >>> plain({"a": np.array([1.0, np.nan]), 2: np.int64(3)})
    {'a': [1.0, None], '2': 3}
    """
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
