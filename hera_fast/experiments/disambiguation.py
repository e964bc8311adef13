"""placeholder"""

from __future__ import annotations
from typing import Any


def describe_fit(model: Any, bunch: Any) -> dict[str, Any]:
    raise NotImplementedError
