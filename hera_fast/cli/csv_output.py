"""Tables of results as CSV, in a file or on the standard output."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from hera_fast.atomic import replacing
from hera_fast.cli.terminal import is_terminal, printable

__all__ = ["STANDARD_OUTPUT", "write_csv"]

#: Instead of the name of a file.
STANDARD_OUTPUT = Path("-")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    r"""Write a table in UTF-8, with line feeds at the ends of lines.

    A file appears under its name when it is complete. On a terminal, what could move its cursor is
    replaced; everywhere else cells are written as they are.

    Parameters
    ----------
    path : Path
        The file, or `STANDARD_OUTPUT`.
    header : sequence of str
        Names of the columns.
    rows : iterable of sequences
        Text and numbers. Floats are written so that they come back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hera_fast.cli.csv_output import write_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels.csv")
    ...     write_csv(path, ["row", "label"], [[0, "cat"], [1, "owl, big"]])
    ...     path.read_text()
    'row,label\n0,cat\n1,"owl, big"\n'
    """
    if path != STANDARD_OUTPUT:
        with replacing(path, "table") as file:
            _write(file, header, rows)
        return
    if sys.stdout is None:
        raise OSError("the standard output is closed: name a file with --out")
    if is_terminal(sys.stdout):
        header = [_shown(cell) for cell in header]
        rows = ([_shown(cell) for cell in row] for row in rows)
    sys.stdout.flush()
    _write(sys.stdout.buffer, header, rows)


def _shown(cell: Any) -> Any:
    return printable(cell) if isinstance(cell, str) else cell


def _write(file: BinaryIO, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    # Only with this line end are all line breaks within a cell quoted in every Python version.
    writer = csv.writer(_Lines(file), lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    file.flush()


class _Lines:
    """What the csv module writes to, a line at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        return self._file.write(f"{line[:-2]}\n".encode())
