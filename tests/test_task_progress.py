"""Progress of tasks: lines in a file, a bar on a terminal, silence when nobody listens."""

from __future__ import annotations

import io
import sys

import pytest
from absent import hide

from hera_fast import task_progress as module
from hera_fast.task_progress import task_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Broken:
    def isatty(self):
        raise OSError

    def write(self, text):
        raise OSError


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def run(n_tasks, clock=None, seconds=1.0, is_shown=True):
    with task_progress("a [bold] task", n_tasks, is_shown=is_shown) as advance:
        for _ in range(n_tasks):
            if clock is not None:
                clock.now += seconds
            advance()


def test_lines(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    run(12, clock)
    assert sys.stderr.getvalue().splitlines() == [
        "a [bold] task: 5/12 after 5 s, about 7 s left",
        "a [bold] task: 10/12 after 10 s, about 2 s left",
        "a [bold] task: 12/12 after 12 s",
    ]


def test_slow_tasks_have_a_line_each(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    run(3, clock, seconds=60)
    assert sys.stderr.getvalue().splitlines() == [
        "a [bold] task: 1/3 after 60 s, about 120 s left",
        "a [bold] task: 2/3 after 120 s, about 60 s left",
        "a [bold] task: 3/3 after 180 s",
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_nothing_unless_asked(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream())
    run(3, is_shown=False)
    assert sys.stderr.getvalue() == ""


def test_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(3)
    text = sys.stderr.getvalue()
    assert "a [bold] task" in text
    assert "3/3" in text
    assert "after" not in text


def test_lines_on_a_terminal_without_rich(monkeypatch):
    hide(monkeypatch, "rich")
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(3)
    assert sys.stderr.getvalue().startswith("a [bold] task: 3/3 after 0 s")


@pytest.mark.parametrize("stream", [None, Broken()])
def test_nobody_listens(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    run(3)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
@pytest.mark.parametrize("error", [ImportError, KeyboardInterrupt])
def test_errors_pass(monkeypatch, stream, error):
    monkeypatch.setattr(sys, "stderr", stream())
    with pytest.raises(error, match="mine"), task_progress("", 3, is_shown=True):
        raise error("mine")
