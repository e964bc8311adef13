"""What a command says: text and tables for people, or one JSON object for programs."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from hera_fast.experiments.plain import plain

__all__ = ["Output", "aligned", "bars", "is_terminal", "percent", "printable"]

_GAP = "  "
_ELLIPSIS = "…"
# A terminal that does not tell, and what is read later.
_DEFAULT_WIDTH = 80


class Output:
    """Where a command writes.

    Results go to ``sys.stdout``: as text, or as one JSON object at the end. Notes, warnings and
    errors go to ``sys.stderr``, so that they do not mix with results that are piped.

    Parameters
    ----------
    as_json : bool, default=False
        Print no text but one JSON object with all that was given to :meth:`data`.
    quiet : bool, default=False
        Write no notes and show no progress. Neither is shown where ``sys.stderr`` is no terminal.

    Examples
    --------
    >>> from hera_fast.cli.terminal import Output
    >>> out = Output()
    >>> out.table(["label", "rows"], [["cat", "12"], ["dog", "7"]])
    label  rows
    -----------
    cat      12
    dog       7
    >>> out = Output(as_json=True)
    >>> out.text("not shown")
    >>> out.data(rows=19)
    >>> out.close()
    {
      "rows": 19
    }
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self._data: dict[str, Any] = {}
        self.shows_progress = not quiet and is_terminal(sys.stderr)

    def text(self, text: str = "", *, strong: bool = False) -> None:
        """Write lines for people."""
        if not self.as_json:
            _write(sys.stdout, _emphasised(text) if strong else text)

    def prose(self, text: str) -> None:
        """Write a paragraph, in lines that fit the terminal."""
        width = _width() if is_terminal(sys.stdout) else None
        self.text(text if width is None else textwrap.fill(text, width))

    def beside(self, start: str, text: str) -> None:
        """Write a text beside its beginning, in lines that fit the terminal."""
        if is_terminal(sys.stdout):
            indent = " " * len(start)
            text = textwrap.fill(text, max(_width() - len(start), 20)).replace("\n", "\n" + indent)
        self.text(start + text)

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = ""
    ) -> None:
        """Write a table for people; too many columns for the terminal go below each other."""
        if self.as_json:
            return
        if title:
            self.text(title, strong=True)
        self.text(aligned(header, rows, width=_width() if is_terminal(sys.stdout) else None))

    def data(self, **values: Any) -> None:
        """Add what programs are told."""
        self._data |= values

    def note(self, text: str) -> None:
        """Say something beside the result, to people who are watching."""
        if self.shows_progress:
            _write(sys.stderr, text)

    def warn(self, text: str) -> None:
        """Say what users should know in any case."""
        _write(sys.stderr, _fitting(f"hera-fast: warning: {printable(text, keep_lines=True)}"))

    def error(self, text: str) -> None:
        """Say why there is no result."""
        _write(sys.stderr, _fitting(f"hera-fast: error: {printable(text, keep_lines=True)}"))

    def close(self) -> None:
        """Write the JSON object, if that is wanted."""
        if self.as_json:
            _write(sys.stdout, json.dumps(plain(self._data), indent=2, ensure_ascii=not _is_utf8()))


def aligned(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = None
) -> str:
    """Align a table of texts: the first column to the left, the others to the right.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of sequence of str
        As many cells each.
    width : int or None, default=None
        The most columns of text. What does not fit goes below, beside the first column again.

    Returns
    -------
    text : str
        Lines without the last line break.

    Examples
    --------
    >>> from hera_fast.cli.terminal import aligned
    >>> print(aligned(["", "a", "b"], [["x", "10", "2"]], width=7))
        a
    -----
    x  10
    <BLANKLINE>
       b
    ----
    x  2
    """
    table = [[printable(cell) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    blocks = []
    columns = list(range(1, len(widths)))
    while True:
        shown = [0]
        while columns and (
            len(shown) == 1
            or width is None
            or sum(widths[c] + len(_GAP) for c in [*shown, columns[0]]) - len(_GAP) <= width
        ):
            shown.append(columns.pop(0))
        lines = [_line([row[c] for c in shown], [widths[c] for c in shown]) for row in table]
        total = sum(widths[c] for c in shown) + len(_GAP) * (len(shown) - 1)
        blocks.append("\n".join([lines[0], "-" * total, *lines[1:]]))
        if not columns:
            return "\n\n".join(blocks)


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    parts = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return _GAP.join(parts).rstrip()


def bars(labels: Sequence[str], counts: Sequence[float], *, width: int | None = None) -> str:
    """Draw counts as bars of text.

    Parameters
    ----------
    labels : sequence of str
        What is counted.
    counts : sequence of float
        How many; none is negative.
    width : int or None, default=None
        The most columns of text. None takes those of the terminal.

    Returns
    -------
    text : str
        A line for each label.

    Examples
    --------
    >>> from hera_fast.cli.terminal import bars
    >>> print(bars(["one", "two"], [4, 2], width=14))
    one  4 #######
    two  2 ###
    """
    width = _width() if width is None else width
    names, numbers = [printable(label) for label in labels], [f"{count:g}" for count in counts]
    indent = max(map(len, names), default=0)
    digits = max(map(len, numbers), default=0)
    room = max(width - indent - digits - len(_GAP) - 1, 1)
    scale = room / max([*counts, 1e-300])
    mark = _bar_character()
    return "\n".join(
        f"{name:>{indent}}{_GAP}{number:>{digits}} {mark * int(count * scale)}".rstrip()
        for name, number, count in zip(names, numbers, counts, strict=True)
    )


def printable(text: str, *, keep_lines: bool = False, most: int | None = None) -> str:
    r"""Replace what could move the cursor or recolour the terminal, and shorten.

    Parameters
    ----------
    text : str
        From a file, for example.
    keep_lines : bool, default=False
        Whether line breaks stay.
    most : int or None, default=None
        The most characters.

    Returns
    -------
    text : str
        Nothing but printable characters.

    Examples
    --------
    >>> from hera_fast.cli.terminal import printable
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    >>> printable("abcdef", most=4)
    'abc…'
    """
    clean = "".join(
        c if c.isprintable() or (keep_lines and c == "\n") else ascii(c)[1:-1] for c in text
    )
    if most is not None and len(clean) > most:
        clean = clean[: most - 1] + _ELLIPSIS
    return clean


def percent(share: float) -> str:
    """Write a share for people.

    Examples
    --------
    >>> from hera_fast.cli.terminal import percent
    >>> percent(0.125), percent(0.00012)
    ('12.5%', '0.012%')
    """
    return f"{100 * share:.1f}%" if share >= 0.001 or not share else f"{100 * share:.2g}%"


def _write(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A terminal that knows few characters is no reason to fail.
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


def is_terminal(stream: TextIO) -> bool:
    """Tell whether somebody is looking at what is written to a stream.

    Examples
    --------
    >>> import io
    >>> from hera_fast.cli.terminal import is_terminal
    >>> is_terminal(io.StringIO())
    False
    """
    with suppress(AttributeError, OSError, ValueError):
        return stream.isatty()
    return False


def _fitting(text: str) -> str:
    """The text in lines that fit the terminal, if somebody reads the messages there."""
    if not is_terminal(sys.stderr):
        return text
    # Names of files and options stay in one piece.
    wrapper = textwrap.TextWrapper(_width(), break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapper.fill(line) for line in text.split("\n"))


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"


def _emphasised(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if is_terminal(sys.stdout) else text


def _width() -> int:
    return shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns


def _bar_character() -> str:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return "█" if is_terminal(sys.stdout) and "utf" in encoding.lower() else "#"
