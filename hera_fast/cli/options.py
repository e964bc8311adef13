"""Options that several commands have, and how they are read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hera_fast.cli.terminal import Output
from hera_fast.experiments.sources import Source

__all__ = [
    "UsageError",
    "add_command",
    "add_data_options",
    "add_jobs_option",
    "add_run_option",
    "add_settings_option",
    "add_validation_options",
    "check_output",
    "positive_integer",
    "settings_of",
    "source_of",
]


class UsageError(Exception):
    """Arguments that make no sense together; ends the process with code 2."""


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace, Output], None],
    *,
    summary: str,
    description: str = "",
    examples: Sequence[tuple[str, str]] = (),
) -> argparse.ArgumentParser:
    """Add a command that explains itself by examples.

    Parameters
    ----------
    commands : object
        What ``ArgumentParser.add_subparsers`` returned.
    name : str
        The command.
    run : callable
        What to do with the arguments.
    summary : str
        A line that stands in the list of commands.
    description : str, default=""
        What else is to be said.
    examples : sequence of (str, str)
        Arguments, and what they do.

    Returns
    -------
    parser : argparse.ArgumentParser
        For the arguments of the command. It has ``--json`` and ``--quiet`` already.

    Examples
    --------
    >>> import argparse
    >>> from hera_fast.cli.options import add_command
    >>> commands = argparse.ArgumentParser().add_subparsers()
    >>> parser = add_command(commands, "greet", print, summary="say hello")
    >>> parser.parse_args(["--json"]).json
    True
    """
    width = max((len(arguments) for arguments, _ in examples), default=0)
    lines = [f"  hera-fast {arguments:<{width}}  {what}".rstrip() for arguments, what in examples]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {description}".strip(),
        epilog="\n".join(["examples:", *lines]) if lines else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress, no notes (as without a terminal)"
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_data_options(parser: argparse.ArgumentParser, *, name: str = "data") -> None:
    """Add the data set, and what the columns of a table are called."""
    parser.add_argument(
        name,
        metavar="DATA",
        help="a file (.csv .tsv .npz .mat .parquet .svm), or the name of a data set: digits, "
        "which is always there, or lost, msrcv2, ... in the folder HERA_FAST_DATA",
    )
    group = parser.add_argument_group("columns of a .csv, .tsv or .parquet file")
    group.add_argument(
        "--candidates", metavar="NAME", help="with the candidate labels (default: candidates)"
    )
    group.add_argument(
        "--target", metavar="NAME", help="with the true label (default: target, if there is one)"
    )
    group.add_argument(
        *("--separator", "--sep"),
        metavar="TEXT",
        default="|",
        help="between candidates (default: |)",
    )


def source_of(arguments: argparse.Namespace) -> Source:
    """Return the data set that the options of :func:`add_data_options` name."""
    return Source(
        arguments.data,
        candidate_column=arguments.candidates,
        target_column=arguments.target,
        separator=arguments.separator,
    )


def add_settings_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``, for parameters of the classifier."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a parameter of HERAClassifier, such as n_components=500; may be given again",
    )


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that ``--set`` gives; text that is no JSON stays text.

    Parameters
    ----------
    arguments : argparse.Namespace
        With ``set``.

    Returns
    -------
    settings : dict

    Raises
    ------
    UsageError
        If there is no name, or it is there twice.

    Examples
    --------
    >>> from argparse import Namespace
    >>> from hera_fast.cli.options import settings_of
    >>> settings_of(Namespace(set=["nu=0.1", "kernel=rbf", "calibration=null"]))
    {'nu': 0.1, 'kernel': 'rbf', 'calibration': None}
    """
    settings: dict[str, Any] = {}
    for text in arguments.set:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise UsageError(f"--set wants NAME=VALUE, got {text!r}")
        if name in settings:
            raise UsageError(f"--set {name} is there twice")
        constants = {"None": None, "True": True, "False": False}
        try:
            settings[name] = constants[value] if value in constants else json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def add_validation_options(parser: argparse.ArgumentParser, *, folds: int) -> None:
    """Add the number of folds and the seed."""
    parser.add_argument(
        "--folds",
        type=positive_integer,
        default=folds,
        metavar="N",
        help=f"folds of the cross-validation (default: {folds})",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="shuffles the folds (default: 0)"
    )


def add_jobs_option(parser: argparse.ArgumentParser) -> None:
    """Add the number of processes."""
    parser.add_argument(
        "--jobs",
        type=positive_integer,
        metavar="N",
        help="processes that work at the same time (default: one for each processor)",
    )


def add_run_option(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Add the folder that keeps what `report` shows."""
    shown = f" (default: {default})" if default else ""
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=None if default is None else Path(default),
        metavar="RUN_DIR",
        help=f"folder that keeps results for `hera-fast report`{shown}",
    )


def positive_integer(text: str) -> int:
    """Read a number that is 1 or more, for argparse.

    Examples
    --------
    >>> from hera_fast.cli.options import positive_integer
    >>> positive_integer("3")
    3
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def check_output(path: Path) -> None:
    """Raise an error before any work if a file could not be written there.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hera_fast.cli.options import check_output
    >>> check_output(Path("labels.csv"))
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist: make it first")
