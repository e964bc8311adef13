"""``hera-fast report``: one page that shows what a run directory holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hera_fast.cli.options import UsageError, add_command, check_output
from hera_fast.cli.terminal import Output
from hera_fast.experiments.records import load_records

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command.

    Examples
    --------
    >>> import argparse
    >>> from hera_fast.cli import report
    >>> parser = argparse.ArgumentParser()
    >>> report.add_parser(parser.add_subparsers())
    >>> parser.parse_args(["report", "runs/paper"]).run_dir.name
    'paper'
    """
    parser = add_command(
        commands,
        "report",
        run,
        summary="show the results of a run directory as one page",
        description="Tables that sort, figures, doubtful rows, and how all of it was made, in one "
        "HTML file that needs no network.",
        examples=[
            ("report runs/paper", "writes runs/paper/report.html"),
            ("report runs/paper --out paper.html", "writes paper.html"),
        ],
    )
    parser.add_argument(
        "run_dir",
        type=Path,
        metavar="RUN_DIR",
        help="folder that reproduce, evaluate or disambiguate wrote results to",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: RUN_DIR/report.html)"
    )


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Write the page, and say where it is."""
    records = load_records(arguments.run_dir)
    if arguments.out is not None:
        check_output(arguments.out)
        if arguments.out.suffix.lower() not in (".html", ".htm"):
            raise UsageError(f"--out must name an HTML file, got {arguments.out}")
    # Only now, because all commands would wait for it.
    from hera_fast.report import write_report
    from hera_fast.report.formats import format_bytes

    path = write_report(arguments.run_dir, arguments.out)
    size = path.stat().st_size
    out.text(f"{path}: {len(records)} result{'s' * (len(records) != 1)}, {format_bytes(size)}")
    out.data(path=str(path), bytes=size, records=[record.name for record in records])
