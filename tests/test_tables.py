"""Tables with and without pandas."""

from __future__ import annotations

import numpy as np
import pytest
from absent import hide

from hera_fast.tables import make_table

ROWS = [{"name": "a", "n": 3, "mean": 0.5}, {"name": "b", "n": 4, "mean": 0.25}]


def test_frame():
    pandas = pytest.importorskip("pandas")
    table = make_table(ROWS, ["mean", "name"])
    assert isinstance(table, pandas.DataFrame)
    expected = pandas.DataFrame({"mean": [0.5, 0.25], "name": ["a", "b"]})
    pandas.testing.assert_frame_equal(table, expected)


def test_dict(monkeypatch):
    hide(monkeypatch, "pandas")
    table = make_table(ROWS, ["n", "name", "mean"])
    assert list(table) == ["n", "name", "mean"]
    assert [column.dtype.kind for column in table.values()] == ["i", "U", "f"]
    assert [column.tolist() for column in table.values()] == [[3, 4], ["a", "b"], [0.5, 0.25]]


@pytest.mark.parametrize("has_pandas", [True, False])
def test_no_rows(monkeypatch, has_pandas):
    if has_pandas:
        pytest.importorskip("pandas")
    else:
        hide(monkeypatch, "pandas")
    table = make_table([], ["n", "name"])
    assert list(table) == ["n", "name"]
    assert all(np.shape(table[name]) == (0,) for name in table)
