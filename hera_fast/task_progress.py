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
def task_progress(
    what: str, n_tasks: int, *, is_shown: bool, total: float | None = None
) -> Iterator[Callable[..., None]]:
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
    total : float or None, default=None
        How much work all tasks are, where some are longer than others. None counts the tasks.

    Yields
    ------
    advance : callable
        To be called after each task, with its part of the total if there is one.

    Examples
    --------
    >>> from hera_fast.task_progress import task_progress
    >>> with task_progress("squares", 3, is_shown=False) as advance:
    ...     for number in range(3):
    ...         advance()
    """
    if not is_shown:
        yield lambda work=1.0: None
        return
    total = n_tasks if total is None else total
    bar = _bar() if _is_terminal() else None
    if bar is None:
        yield _Lines(what, n_tasks, total).advance
        return
    with bar:
        task = bar.add_task(what, total=total, done=0, n_tasks=n_tasks)

        def advance(work: float = 1.0) -> None:
            done = bar.tasks[0].fields["done"] + 1
            bar.update(task, advance=work, done=done)

        yield advance


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
        progress.TextColumn("{task.fields[done]}/{task.fields[n_tasks]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        # All tasks so far say how long the others will take.
        speed_estimate_period=float("inf"),
    )


class _Lines:
    """Adds a line from time to time."""

    def __init__(self, what: str, n_tasks: int, total: float) -> None:
        self._what = what
        self._n_tasks, self._total = n_tasks, total
        self._n_done, self._work = 0, 0.0
        self._start = self._shown_at = time.monotonic()
        self._lock = threading.Lock()

    def advance(self, work: float = 1.0) -> None:
        with self._lock:
            self._advance(work)

    def _advance(self, work: float) -> None:
        self._n_done += 1
        self._work += work
        now = time.monotonic()
        if now - self._shown_at < _INTERVAL and self._n_done < self._n_tasks:
            return
        self._shown_at = now
        seconds = now - self._start
        line = f"{self._what}: {self._n_done}/{self._n_tasks} after {seconds:.0f} s"
        if self._n_done < self._n_tasks:
            left = seconds / self._work * (self._total - self._work)
            line += f", about {left:.0f} s left"
        with suppress(*_FAILURES):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _is_terminal() -> bool:
    with suppress(*_FAILURES):
        return sys.stderr.isatty()
    return False
