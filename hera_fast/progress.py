"""One line that says how far a run is."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

from hera_fast.run import State

__all__ = ["Progress"]

# Seconds between two lines: rewritten on a terminal, kept in a file.
_TERMINAL_INTERVAL = 0.1
_FILE_INTERVAL = 5.0
_CLEAR_TO_END = "\x1b[K"
# No stream, a pipe that nobody reads, a stream that is closed or has no file number.
_FAILURES = (AttributeError, OSError, ValueError)


class Progress:
    r"""Show the state of a run after each iteration.

    On a terminal one line is rewritten, at most ten times per second. Elsewhere lines are added,
    at most one in five seconds. The first and the last state are shown in any case. If the stream
    fails, the run goes on in silence.

    Parameters
    ----------
    stream : text stream, default=None
        Where to write. None means what ``sys.stderr`` is at the time.

    Examples
    --------
    >>> import io
    >>> from types import SimpleNamespace
    >>> from hera_fast.progress import Progress
    >>> stream = io.StringIO()
    >>> progress = Progress(stream)
    >>> progress(SimpleNamespace(iteration=1, max_iter=9, objective=2.5, primal_residual=0.1,
    ...                          dual_residual=float("nan"), change=1.0, rank=3, penalty=0.5,
    ...                          seconds=0.25))
    >>> progress.close()
    >>> stream.getvalue()
    '1/9  objective 2.5  change 1  primal 0.1  dual -  rank 3  penalty 0.5  0.2 s\n'
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._shown_at = -float("inf")
        self._pending: str | None = None
        self._line_is_open = False

    def __call__(self, state: State) -> None:
        """Show a state, unless the last one was shown just before.

        Parameters
        ----------
        state : object
            With the numbers ``iteration``, ``max_iter``, ``objective``, ``primal_residual``,
            ``dual_residual``, ``change``, ``rank``, ``penalty`` and ``seconds``. NaN stands for
            what is not known.
        """
        self._pending = _describe(state)
        now = time.monotonic()
        interval = _TERMINAL_INTERVAL if self._is_terminal() else _FILE_INTERVAL
        if now - self._shown_at >= interval or state.iteration >= state.max_iter:
            self._shown_at = now
            self._show()

    def close(self) -> None:
        """Show the last state, if that was not done yet, and end the line."""
        self._show()
        if self._line_is_open:
            self._line_is_open = False
            self._write("\n")

    def _show(self) -> None:
        if self._pending is None:
            return
        if self._is_terminal():
            self._write("\r" + self._pending[: self._width()] + _CLEAR_TO_END)
            self._line_is_open = True
        else:
            self._write(self._pending + "\n")
        self._pending = None

    def _is_terminal(self) -> bool:
        with suppress(*_FAILURES):
            return bool(self._target().isatty())
        return False

    def _width(self) -> int:
        """Columns that a line may fill: a full one would move the cursor to the next line."""
        columns = 0
        with suppress(*_FAILURES):
            columns = os.get_terminal_size(self._target().fileno()).columns
        return (columns or shutil.get_terminal_size().columns) - 1

    def _write(self, text: str) -> None:
        with suppress(*_FAILURES):
            self._target().write(text)
            self._target().flush()

    def _target(self) -> Any:
        return sys.stderr if self._stream is None else self._stream


def _describe(state: State) -> str:
    parts = [
        f"{state.iteration}/{state.max_iter}",
        f"objective {_number(state.objective, 6)}",
        f"change {_number(state.change)}",
    ]
    if state.penalty > 0:  # otherwise there is no constraint to tell about
        parts += [
            f"primal {_number(state.primal_residual)}",
            f"dual {_number(state.dual_residual)}",
            f"rank {state.rank}",
            f"penalty {_number(state.penalty)}",
        ]
    return "  ".join([*parts, f"{state.seconds:.1f} s"])


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}g}" if value == value else "-"
