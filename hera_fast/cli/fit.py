"""To be written: fit."""

from __future__ import annotations

import argparse
from typing import Any

from hera_fast.cli.options import add_command
from hera_fast.cli.terminal import Output

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    add_command(commands, "fit", run, summary="to be written")


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    raise NotImplementedError
