"""The ratio table: its structure, and that both sides of each ratio do the same. No times."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from hera_fast.cli import bench, main
from hera_fast.ratios import Case, Ratio, measure


@pytest.fixture
def hasty(monkeypatch):
    """One round each: figures that mean nothing."""
    monkeypatch.setattr(bench, "_FAST", (0.0, 1))


def test_json(capsys, hasty):
    assert main(["bench", "--fast", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"ratios", "machine", "versions", "settings", "command", "created"} == set(result)
    assert result["settings"] == {"threads": 1, "dtype": "float64", "fast": True}
    assert {"hera-fast", "numpy", "scipy", "scikit-learn", "numba"} <= set(result["versions"])
    assert len(result["ratios"]) == bench._N_CASES
    for row in result["ratios"]:
        assert set(row) == {"what", "size", "peer", "ours", "theirs", "ratio", "scores"}
        assert all(math.isfinite(row[key]) and row[key] > 0 for key in ("ours", "theirs", "ratio"))
    fits = [row for row in result["ratios"] if row["scores"] is not None]
    assert len(fits) == 2
    assert all(0.9 < score <= 1 for row in fits for score in row["scores"])


def test_text(capsys, monkeypatch):
    cases = [
        Case("sum", "10x10", "NumPy", lambda: np.float64(1), lambda: np.float64(1)),
        Case("fit", "10x10", "other", list, list, scores=(0.9, 0.8)),
    ]
    times = {"sum": (0.0012, 0.0006), "fit": (2.5, 5.0)}
    monkeypatch.setattr(bench, "make_cases", lambda: iter(cases))
    monkeypatch.setattr(
        bench,
        "measure",
        lambda case, **_: Ratio(case.what, case.size, case.peer, *times[case.what], case.scores),
    )
    assert main(["bench"]) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    assert ["sum", "10x10", "NumPy", "1.2", "0.6", "2.00"] in lines
    assert ["fit", "10x10", "other", "2500", "5000", "0.50"] in lines
    assert "Slower than the other: sum (2.0 times)\n" in text
    assert "fit: 90.0% of the held-out digits are right" in text
    assert "numba" in text


@pytest.mark.parametrize("other", [np.array([1.0, 2.0001]), np.ones(3), np.array([1.0, np.nan])])
def test_a_wrong_result_is_an_error(other):
    case = Case("two numbers", "2", "something", lambda: np.array([1.0, 2.0]), lambda: other)
    with pytest.raises(RuntimeError, match="two numbers: hera-fast and something differ"):
        measure(case, budget=0, least_rounds=1)


def test_all_of_several_results_are_compared():
    case = Case("pair", "1", "other", lambda: (np.ones(1), np.ones(1)), lambda: (np.ones(1), 2))
    with pytest.raises(RuntimeError, match="pair"):
        measure(case, budget=0, least_rounds=1)


def test_results_that_share_memory_are_told_apart():
    out = np.empty(1)

    def write(value):
        out[0] = value
        return out

    case = Case("in place", "1", "other", lambda: write(1.0), lambda: write(2.0))
    with pytest.raises(RuntimeError, match="in place"):
        measure(case, budget=0, least_rounds=1)
