"""Ratios of times with their bars: what is recorded, and when it counts as missed.

Times come from :mod:`hera_fast.stopwatch`. A comparison ends when its times have settled and every
bar is met, or when its budget is used up: a bar that is not met has had every chance.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

import pytest

from hera_fast.stopwatch import Candidate, minimum_times

__all__ = ["FIGURES", "Candidate", "Figure", "compare", "minimum_times", "record"]

BUDGET_SECONDS = 4.0
BUDGET_WITHOUT_BARS = 1.5


@dataclass(frozen=True)
class Figure:
    """One measured number beside its bar; both are better when smaller."""

    kernel: str
    shape: str
    dtype: str
    against: str
    value: float
    bar: float | None = None
    kind: str = "ratio"  # or "error", "seconds"
    ours: float | None = None  # seconds per row
    theirs: float | None = None

    @property
    def ok(self) -> bool:
        return self.bar is None or bool(self.value <= self.bar)


FIGURES: list[Figure] = []


def record(figures: Iterable[Figure], unreached: Container[str] = ()) -> None:
    """Put figures into the report, then fail if one misses its bar.

    `unreached` names opponents whose bars are known to be out of reach on the machine that the
    documentation describes: missing one of these is an expected failure.
    """
    figures = list(figures)
    FIGURES.extend(figures)
    wrong, known = [], []
    for f in figures:
        text = (
            f"{f.kernel}, {f.shape}, {f.dtype}: {f.kind} {f.value:.4g} against {f.against}, "
            f"the bar is {f.bar or 0:.4g}"
        )
        if not f.ok:
            (known if f.against in unreached else wrong).append(text)
    if wrong:
        pytest.fail("; ".join(wrong), pytrace=False)
    if known:
        pytest.xfail("; ".join(known))


def compare(
    kernel: str,
    shape: str,
    dtype: str,
    candidates: dict[str, Candidate],
    ours: str,
    bars: dict[str, float],
    budget: float | None = None,
    unreached: Container[str] = (),
) -> list[Figure]:
    """Time `ours` against every other candidate; `bars` are the largest allowed ratios."""

    def satisfied(best: dict[str, float]) -> bool:
        return all(
            best[ours] <= bar * best[name]
            for name, bar in bars.items()
            if name in best and name not in unreached
        )

    if budget is None:
        budget = BUDGET_SECONDS if bars else BUDGET_WITHOUT_BARS
    best = minimum_times(candidates, satisfied, budget)
    return [
        Figure(
            *(kernel, shape, dtype, name, best[ours] / best[name], bars.get(name)),
            ours=best[ours],
            theirs=best[name],
        )
        for name in candidates
        if name != ours
    ]
