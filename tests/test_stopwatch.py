"""The stopwatch: what it calls, in which order, when it ends. Never how long something takes."""

from __future__ import annotations

import gc

import pytest

from hera_fast import stopwatch
from hera_fast.stopwatch import Candidate, minimum_times


class Clock:
    """A processor clock that moves only when a candidate works."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def process_time(self):
        return self.now

    def candidate(self, name, seconds, **options):
        durations = iter(seconds) if isinstance(seconds, list) else None

        def call():
            self.calls.append(name)
            self.now += seconds if durations is None else next(durations)

        return Candidate(call, **options)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stopwatch, "time", clock)
    return clock


def test_shortest_time_per_row(clock):
    disturbed = [3.0, 2.0, 5.0]
    times = minimum_times(
        {
            "disturbed": clock.candidate("disturbed", disturbed, repeats=1),
            "rows": clock.candidate("rows", 4.0, rows=8, repeats=1),
        },
        budget=0,
        least_rounds=3,
    )
    assert times == {"disturbed": 2.0, "rows": 0.5}


def test_candidates_take_turns(clock):
    candidates = {name: clock.candidate(name, 1.0, repeats=1) for name in "ab"}
    minimum_times(candidates, budget=0, least_rounds=3)
    assert "".join(clock.calls) == "abbaab"


def test_short_calls_are_repeated(clock):
    times = minimum_times({"short": clock.candidate("short", 0.001)}, budget=0, least_rounds=1)
    assert times["short"] == pytest.approx(0.001)
    assert len(clock.calls) == 2 + 3  # two to find out that three make a sample


def test_a_slow_candidate_pauses(clock):
    candidates = {
        "slow": clock.candidate("slow", 1.0, repeats=1),
        "fast": clock.candidate("fast", 0.01, repeats=1),
    }
    minimum_times(candidates, budget=0, least_rounds=20)
    assert clock.calls.count("slow") == 4
    assert clock.calls.count("fast") == 20


def test_ends_when_settled_and_satisfied(clock):
    seen = []
    candidates = {"only": clock.candidate("only", 0.25, repeats=1)}
    minimum_times(candidates, lambda best: seen.append(dict(best)) or len(seen) == 2, budget=100)
    assert seen == 2 * [{"only": 0.25}]
    assert clock.now < 5


def test_ends_with_the_budget(clock):
    minimum_times({"only": clock.candidate("only", 1.0, repeats=1)}, lambda best: False, budget=9.5)
    assert clock.now == 10


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_as_before(enabled):
    def fail():
        assert not gc.isenabled()
        raise KeyError

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError):
            minimum_times({"broken": Candidate(fail, repeats=1)})
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
