"""Compare callables on a machine that others use as well.

All candidates run in turn, round after round, on one thread, and only the shortest time of each
counts: whatever disturbs a run makes it longer. The clock is the processor time of this process,
which stands still while another process has the core. (With several threads it would add them up;
here there is one.) After a few common rounds a slow candidate pauses until the others have used as
much time, so that close races are decided by many runs.

A comparison ends when nothing has become faster for a while and the caller is satisfied, or when
its budget of processor time is used up. So a disturbed run costs time instead of a wrong verdict.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Candidate", "minimum_times"]

_SAMPLE_SECONDS = 0.003
_COMMON_ROUNDS = 4
_LEAST_ROUNDS = 6
_QUIET_ROUNDS = 4
_QUIET_SECONDS = 0.5
_BUDGET_SECONDS = 4.0


@dataclass(frozen=True)
class Candidate:
    """Something to time, and the number of rows it works on: times are per row.

    Parameters
    ----------
    call : callable
        Called without arguments.
    rows : int, default=1
        What its time is divided by.
    repeats : int or None, default=None
        Calls that make a sample. None finds out how many the clock needs, by two calls that do
        not count.

    Examples
    --------
    >>> from hera_fast.stopwatch import Candidate
    >>> Candidate(lambda: sum(range(100)), rows=100).rows
    100
    """

    call: Callable[[], object]
    rows: int = 1
    repeats: int | None = None


def minimum_times(
    candidates: Mapping[str, Candidate],
    satisfied: Callable[[dict[str, float]], bool] = lambda best: True,
    budget: float = _BUDGET_SECONDS,
    *,
    least_rounds: int = _LEAST_ROUNDS,
) -> dict[str, float]:
    """Return the shortest processor time per row of each candidate, in seconds.

    Parameters
    ----------
    candidates : mapping of str to Candidate
        What runs in turn.
    satisfied : callable
        Gets the times so far; while it returns something false, the comparison goes on.
    budget : float, default=4.0
        Processor seconds after which it ends in any case.
    least_rounds : int, default=6
        Rounds that are run in any case.

    Returns
    -------
    times : dict of str to float

    Examples
    --------
    >>> from hera_fast.stopwatch import Candidate, minimum_times
    >>> few, many = (Candidate(lambda n=n: sum(range(n))) for n in (10, 10_000))
    >>> times = minimum_times({"few": few, "many": many}, budget=0.1)
    >>> sorted(times), min(times.values()) > 0
    (['few', 'many'], True)
    """
    repeats = {name: each.repeats or _repeats(each.call) for name, each in candidates.items()}
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
                if rounds >= _COMMON_ROUNDS and spent[name] > 2 * least:
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
            if rounds < least_rounds:
                continue
            quiet = (
                rounds - last_change_round > _QUIET_ROUNDS
                and time.process_time() - last_change > _QUIET_SECONDS
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
    return max(1, math.ceil(_SAMPLE_SECONDS / max(_sample(call, 1), 1e-7)))
