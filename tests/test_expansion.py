"""A short file does not get to fill the memory."""

from __future__ import annotations

import pytest

from hera_fast.expansion import check_expansion, largest_expansion

GIB = 1 << 30


@pytest.mark.parametrize("stored", [0, 1, GIB // 100, GIB // 100 + 1, GIB])
def test_limit(stored):
    limit = largest_expansion(stored)
    assert limit == max(GIB, 100 * stored)
    check_expansion(limit, stored, "X")
    with pytest.raises(ValueError, match=f"^X would unfold from {stored} bytes to {limit + 1}, "):
        check_expansion(limit + 1, stored, "X")
