"""Compare callables on a machine that others use as well.

All candidates run in turn, round after round, on one thread, and only the shortest time of each
counts: whatever disturbs a run makes it longer. The clock is the processor time of this process,
which stands still while another process has the core. (With several threads it would add them up;
here there is one.) After a few common rounds a slow candidate pauses until the others have used as
much time, so that close races are decided by many runs.

A comparison ends when nothing has become faster for a while and every bar is met, or when its
budget of processor time is used up. So a disturbed run costs time instead of a wrong verdict, and
a bar that is not met has had every chance.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

import pytest

SAMPLE_SECONDS = 0.003
COMMON_ROUNDS = 4
LEAST_ROUNDS = 6
QUIET_ROUNDS = 4
QUIET_SECONDS = 0.5
BUDGET_SECONDS = 4.0
BUDGET_WITHOUT_BARS = 1.5


@dataclass(frozen=True)
class Candidate:
    """Something to time, and the number of rows it works on: times are per row."""

    call: Callable[[], object]
    rows: int = 1


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


def minimum_times(
    candidates: dict[str, Candidate],
    satisfied: Callable[[dict[str, float]], bool] = lambda best: True,
    budget: float = BUDGET_SECONDS,
) -> dict[str, float]:
    """Shortest processor time per row of each candidate."""
    repeats = {name: _repeats(candidate.call) for name, candidate in candidates.items()}
    best = dict.fromkeys(candidates, math.inf)
    spent = dict.fromkeys(candidates, 0.0)
    order = list(candidates)
    start = last_change = time.process_time()
    rounds = last_change_round = 0
    collecting = gc.isenabled()
    gc.disable()
    try:
        while True:
            least = min(spent.values())
            for name in order:
                if rounds >= COMMON_ROUNDS and spent[name] > 2 * least:
                    continue
                seconds = _sample(candidates[name].call, repeats[name])
                spent[name] += seconds * repeats[name]
                seconds /= candidates[name].rows
                if seconds < 0.995 * best[name]:
                    last_change, last_change_round = time.process_time(), rounds
                best[name] = min(best[name], seconds)
            # Nobody always runs after the same neighbour, whose data are in the cache.
            order.reverse()
            rounds += 1
            if rounds < LEAST_ROUNDS:
                continue
            quiet = (
                rounds - last_change_round > QUIET_ROUNDS
                and time.process_time() - last_change > QUIET_SECONDS
            )
            if (quiet and satisfied(best)) or time.process_time() - start > budget:
                return best
    finally:
        if collecting:
            gc.enable()


def _sample(call: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def _repeats(call: Callable[[], object]) -> int:
    """How many calls make a sample that the clock resolves well."""
    call()
    return max(1, math.ceil(SAMPLE_SECONDS / max(_sample(call, 1), 1e-7)))


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
