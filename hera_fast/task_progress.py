"""How many of several tasks are done, and how long the others will take."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["task_progress"]

# Seconds between two lines.
_INTERVAL = 5.0
# No stream, a pipe that nobody reads, a stream that is closed.
_FAILURES = (AttributeError, OSError, ValueError)


@contextmanager
def task_progress(what: str, n_tasks: int, *, is_shown: bool) -> Iterator[Callable[[], None]]:
    """Show on ``sys.stderr`` how far a run is, inside a ``with`` block.

    On a terminal it is a bar, if rich is installed. Elsewhere lines are added, at most one in five
    seconds and one at the end. If the stream fails, the run goes on in silence.

    Parameters
    ----------
    what : str
        What is being done.
    n_tasks : int
        How many tasks there are.
    is_shown : bool
        False shows nothing.

    Yields
    ------
    advance : callable
        To be called after each task.

    Examples
    --------
    >>> from hera_fast.task_progress import task_progress
    >>> with task_progress("squares", 3, is_shown=False) as advance:
    ...     for number in range(3):
    ...         advance()
    """
    if not is_shown:
        yield lambda: None
        return
    bar = _bar() if _is_terminal() else None
    if bar is None:
        yield _Lines(what, n_tasks).advance
        return
    with bar:
        task = bar.add_task(what, total=n_tasks)
        yield lambda: bar.advance(task)


def _bar() -> Any:
    """Make a progress bar, or None without rich."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        # All tasks so far say how long the others will take.
        speed_estimate_period=float("inf"),
    )


class _Lines:
    """Adds a line from time to time."""

    def __init__(self, what: str, n_tasks: int) -> None:
        self._what = what
        self._n_tasks = n_tasks
        self._n_done = 0
        self._start = self._shown_at = time.monotonic()
        self._lock = threading.Lock()

    def advance(self) -> None:
        with self._lock:
            self._advance()

    def _advance(self) -> None:
        self._n_done += 1
        now = time.monotonic()
        if now - self._shown_at < _INTERVAL and self._n_done < self._n_tasks:
            return
        self._shown_at = now
        seconds = now - self._start
        line = f"{self._what}: {self._n_done}/{self._n_tasks} after {seconds:.0f} s"
        if self._n_done < self._n_tasks:
            left = seconds / self._n_done * (self._n_tasks - self._n_done)
            line += f", about {left:.0f} s left"
        with suppress(*_FAILURES):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _is_terminal() -> bool:
    with suppress(*_FAILURES):
        return sys.stderr.isatty()
    return False
