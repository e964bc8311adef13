"""Which command is meant, and what becomes of its errors."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from hera_fast._version import __version__
from hera_fast.cli import (
    bench,
    completion,
    demo,
    disambiguate,
    evaluate,
    fit,
    info,
    predict,
    report,
    reproduce,
    tune,
)
from hera_fast.cli.options import UsageError
from hera_fast.cli.terminal import Output, printable

__all__ = ["main", "make_parser"]

_COMMANDS = (
    *(demo, info, fit, predict, disambiguate, evaluate, tune),
    *(reproduce, report, bench, completion),
)
_DONE, _FAILED, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_EPILOG = """\
examples:
  hera-fast demo                                  a first look, without any data
  hera-fast info faces.csv                        what is in a file
  hera-fast disambiguate faces.csv --out names.csv
  hera-fast fit faces.csv --out model.hera
  hera-fast predict model.hera new.csv --out labels.csv
  hera-fast COMMAND --help                        more examples

exit codes: 0 done, 1 the data or the run failed, 2 wrong usage, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        The arguments. None takes those of the process.

    Returns
    -------
    code : int
        0 if it is done, 1 if the data or the run failed, 130 after an interrupt. Wrong usage ends
        the process with 2.

    Examples
    --------
    >>> from hera_fast.cli import main
    >>> main(["info", "digits", "--json"])  # doctest: +ELLIPSIS
    {
      "source": "digits",
      ...
    }
    0
    """
    parser = make_parser()
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv:
        # Someone who types the name alone wants to know what there is.
        parser.print_help(sys.stderr)
        return _USAGE
    arguments = parser.parse_args(argv)
    arguments.argv = argv
    out = Output(as_json=arguments.json, quiet=arguments.quiet)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: out.warn(str(message))
        try:
            arguments.run(arguments, out)
            out.close()
        except UsageError as error:
            arguments.parser.error(printable(str(error)))
        except KeyboardInterrupt as error:
            out.error(str(error) or "interrupted")
            return _INTERRUPTED
        except BrokenPipeError:
            # Nobody reads on; without this, Python would complain once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _DONE
        except (ImportError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
            out.error(_message(error))
            return _FAILED
    return _DONE


def _message(error: Exception) -> str:
    """What is said of an error, without its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        hint = ": check its name" if isinstance(error, FileNotFoundError) else ""
        return f"{error.filename}: {error.strerror}{hint}"
    if isinstance(error, OSError) and error.strerror and error.errno is not None:
        return error.strerror
    return str(error) or type(error).__name__


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands.

    Returns
    -------
    parser : argparse.ArgumentParser

    Examples
    --------
    >>> from hera_fast.cli.main import make_parser
    >>> make_parser().parse_args(["info", "faces.csv"]).data
    'faces.csv'
    """
    parser = argparse.ArgumentParser(
        prog="hera-fast",
        description="Partial-label learning: every row has candidate labels, one of them is true.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # For the command that describes all of them to a shell.
    parser.set_defaults(root=parser)
    parser.add_argument("--version", action="version", version=f"hera-fast {__version__}")
    commands: Any = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser
