"""Options that several commands have, and how they are read."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
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
    "add_threads_option",
    "add_validation_options",
    "check_output",
    "positive_integer",
    "seed",
    "settings_of",
    "source_of",
    "value_of",
]


# Of the help, whatever the width of the terminal.
_WIDTH = 79


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
    text = f"{summary[0].upper()}{summary[1:]}. {description}".strip()
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description="\n\n".join(textwrap.fill(part, _WIDTH) for part in text.split("\n\n")),
        epilog=_examples_text(examples) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress, no notes (as without a terminal)"
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def _examples_text(examples: Sequence[tuple[str, str]]) -> str:
    width = max(len(arguments) for arguments, _ in examples)
    lines = [f"  hera-fast {arguments:<{width}}  {what}".rstrip() for arguments, what in examples]
    if max(map(len, lines)) > _WIDTH:
        lines = [f"  hera-fast {arguments}\n      {what}" for arguments, what in examples]
    return "\n".join(["examples:", *lines])


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
        help="between the candidates of a row, not between columns (default: |)",
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
        settings[name] = value_of(value)
    return settings


def value_of(text: str) -> Any:
    """Read a value as JSON or Python write it; anything else is text.

    Examples
    --------
    >>> from hera_fast.cli.options import value_of
    >>> value_of("0.1"), value_of("null"), value_of("True"), value_of("rbf")
    (0.1, None, True, 'rbf')
    """
    constants = {"None": None, "True": True, "False": False}
    try:
        return constants[text] if text in constants else json.loads(text)
    except ValueError:
        return text


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
        "--seed", type=seed, default=0, metavar="N", help="shuffles the folds (default: 0)"
    )


def add_threads_option(parser: argparse.ArgumentParser) -> None:
    """Add the number of threads."""
    parser.add_argument(
        "--threads",
        type=positive_integer,
        metavar="N",
        help="threads to compute with (default: one for each processor); the result is the same",
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
    number = _integer(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def seed(text: str) -> int:
    """Read a seed, for argparse.

    Examples
    --------
    >>> from hera_fast.cli.options import seed
    >>> seed("7")
    7
    """
    number = _integer(text)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"must be from 0 to 4294967295, got {number}")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def check_output(path: Path, *inputs: str) -> None:
    """Raise an error before any work if a file could not be written there.

    Parameters
    ----------
    path : Path
        Where the file is to be.
    *inputs : str
        Files that the command reads, none of which is to be replaced.

    Raises
    ------
    UsageError
        If it is one of the inputs.
    OSError
        If there is no such folder, it cannot be written to, or the path is a folder.

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
    if not os.access(path.absolute().parent, os.W_OK):
        raise PermissionError(f"the folder of {path} cannot be written to: choose another one")
    for name in inputs:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise UsageError(f"--out would replace {name}: choose another name")
