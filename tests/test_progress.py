from __future__ import annotations

import io
import os
import sys
from types import SimpleNamespace

import pytest

from hera_fast import progress as module
from hera_fast.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Broken:
    def __init__(self, error):
        self.error = error

    def __getattr__(self, name):
        def fail(*arguments):
            raise self.error

        return fail


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def columns(monkeypatch):
    """Set the width of terminals without a file number."""
    return lambda number: monkeypatch.setenv("COLUMNS", str(number))


def state(iteration, **changes):
    values = {
        "max_iter": 1000,
        "objective": 1234.5678,
        "primal_residual": 0.00123,
        "dual_residual": 4.5e-7,
        "change": 0.1,
        "rank": 12,
        "penalty": 2.0,
        "seconds": 3.14,
    }
    return SimpleNamespace(iteration=iteration, **(values | changes))


def run(stream, clock, n_iterations, seconds, **changes):
    progress = Progress(stream)
    for iteration in range(1, n_iterations + 1):
        progress(state(iteration, **changes))
        clock.now += seconds
    progress.close()


def iterations(lines):
    return [int(line.partition("/")[0]) for line in lines]


def test_a_line_says_everything(clock):
    stream = io.StringIO()
    run(stream, clock, 1, 0, primal_residual=float("nan"))
    assert stream.getvalue() == (
        "1/1000  objective 1234.57  change 0.1  primal -  dual 4.5e-07  rank 12  penalty 2  3.1 s\n"
    )


def test_a_line_leaves_out_a_constraint_that_is_not_there(clock):
    stream = io.StringIO()
    run(stream, clock, 1, 0, penalty=0.0)
    assert stream.getvalue() == "1/1000  objective 1234.57  change 0.1  3.1 s\n"


def test_a_file_gets_few_lines_with_the_first_and_the_last(clock):
    stream = io.StringIO()
    run(stream, clock, 24, 0.5)
    assert iterations(stream.getvalue().splitlines()) == [1, 11, 21, 24]
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_the_last_line_is_not_written_twice(clock):
    stream = io.StringIO()
    run(stream, clock, 4, 0.5, max_iter=4)
    assert iterations(stream.getvalue().splitlines()) == [1, 4]


def test_the_last_iteration_allowed_is_shown_at_once(clock):
    stream = io.StringIO()
    progress = Progress(stream)
    progress(state(1, max_iter=2))
    progress(state(2, max_iter=2))
    assert iterations(stream.getvalue().splitlines()) == [1, 2]


def test_a_terminal_has_one_line_that_changes(clock, columns):
    columns(200)
    stream = Terminal()
    run(stream, clock, 26, 0.03125)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\x1b[K\n")
    start, *lines = text.split("\r")
    assert start == ""
    assert iterations(lines) == [1, 5, 9, 13, 17, 21, 25, 26]
    assert all(line.rstrip("\n").endswith("3.1 s\x1b[K") for line in lines)


def test_a_line_fits_into_the_terminal(clock, columns):
    columns(30)
    stream = Terminal()
    run(stream, clock, 1, 0)
    assert len(stream.getvalue().strip("\r\n").removesuffix("\x1b[K")) == 29


def test_the_width_is_that_of_the_stream(clock, columns, monkeypatch):
    columns(200)
    stream = Terminal()
    stream.fileno = lambda: 77
    sizes = {77: os.terminal_size((20, 5))}
    monkeypatch.setattr(module.os, "get_terminal_size", sizes.__getitem__)
    run(stream, clock, 1, 0)
    assert len(stream.getvalue().strip("\r\n").removesuffix("\x1b[K")) == 19


def test_a_terminal_that_does_not_know_its_width(clock, columns, monkeypatch):
    columns(40)
    stream = Terminal()
    stream.fileno = lambda: 77
    monkeypatch.setattr(module.os, "get_terminal_size", lambda number: os.terminal_size((0, 0)))
    run(stream, clock, 1, 0)
    assert len(stream.getvalue().strip("\r\n").removesuffix("\x1b[K")) == 39


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_nothing_is_written_about_a_run_without_iterations(clock, make):
    stream = make()
    run(stream, clock, 0, 0)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_closing_twice_adds_nothing(clock, make):
    stream = make()
    progress = Progress(stream)
    progress(state(1))
    progress.close()
    before = stream.getvalue()
    progress.close()
    assert stream.getvalue() == before


def test_standard_error_is_looked_up_when_it_is_needed(clock, monkeypatch):
    progress = Progress()
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    progress(state(1))
    assert iterations(stream.getvalue().splitlines()) == [1]


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError("full"), ValueError("closed")])
def test_a_stream_that_fails_is_no_reason_to_stop(clock, error):
    run(Broken(error), clock, 3, 10)


def test_a_stream_that_is_closed_meanwhile(clock):
    stream = io.StringIO()
    progress = Progress(stream)
    progress(state(1))
    stream.close()
    clock.now += 10
    progress(state(2))
    progress.close()


def test_no_standard_error_at_all(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    run(None, clock, 3, 10)


def test_other_errors_are_not_hidden(clock):
    with pytest.raises(KeyboardInterrupt):
        run(Broken(KeyboardInterrupt()), clock, 1, 0)
