"""``hera-fast completion``: what the Tab key adds to a command."""

from __future__ import annotations

import argparse
from typing import Any

from hera_fast.cli.options import add_command
from hera_fast.cli.terminal import Output
from hera_fast.extras import require

__all__ = ["add_parser", "run"]

_SHELLS = ("bash", "zsh", "tcsh")
# Arguments that are files or folders, by what stands for them in the help.
_FILES, _FOLDERS = ("DATA", "MODEL", "FILE"), ("RUN_DIR",)


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "completion",
        run,
        summary="print a script that completes commands with the Tab key",
        description="Needs shtab: pip install 'hera-fast[cli]'.",
        examples=[
            ("completion bash > ~/.hera-fast.bash", "and in ~/.bashrc: . ~/.hera-fast.bash"),
            ("completion zsh > ~/.zfunc/_hera-fast", "a folder of $fpath, before compinit"),
            ("completion tcsh > ~/.hera-fast.csh", "and in ~/.cshrc: source ~/.hera-fast.csh"),
        ],
    )
    parser.add_argument("shell", choices=_SHELLS, help="your shell")


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    shtab = require("shtab", "cli", "completion")
    _mark_files(arguments.root, shtab)
    script = shtab.complete(arguments.root, shell=arguments.shell)
    out.data(shell=arguments.shell, script=script)
    out.text(script)


def _mark_files(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Tell shtab which arguments are files."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_files(command, shtab)
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
