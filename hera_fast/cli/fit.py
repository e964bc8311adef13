"""``hera-fast fit``: a model from rows with candidates."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from hera_fast.cli.fitting import add_model_options, fit_model, make_classifier, say_fitted
from hera_fast.cli.options import (
    add_command,
    add_data_options,
    check_output,
    settings_of,
    source_of,
)
from hera_fast.cli.terminal import Output, printable
from hera_fast.pipeline_files import save_model

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "fit",
        run,
        summary="learn from rows with candidates, and write a model",
        description="Missing values become the median of their column, features are scaled, and "
        "both are part of the model. Ctrl-C ends the fit and writes nothing.",
        examples=[
            ("fit faces.csv --out model.hera", "then: hera-fast predict"),
            ("fit faces.csv --candidates names --sep ';' --out model.hera", "other columns"),
            ("fit faces.csv --out model.hera --set n_components=500", "a parameter"),
            ("fit lost --out lost.hera --method hera-paper", "as in the paper"),
        ],
    )
    add_data_options(parser)
    parser.add_argument(
        *("-o", "--out"), type=Path, required=True, metavar="FILE", help="where the model goes"
    )
    add_model_options(parser)


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    classifier = make_classifier(arguments.method, settings_of(arguments), arguments.seed)
    check_output(arguments.out, arguments.data)
    bunch = source_of(arguments).load()
    fit = fit_model(arguments, bunch, classifier, out)
    save_model(fit.model, arguments.out)
    out.data(source=arguments.data, model=str(arguments.out), method=arguments.method)
    out.data(**fit.figures)
    say_fitted(fit, out)
    path = str(arguments.out)
    out.text(f"model:           {printable(path)}")
    out.text("\nTo use it:")
    out.text(f"  hera-fast predict {printable(shlex.quote(path))} new.csv --out labels.csv")
    out.text(f"  hera_fast.load_model({printable(ascii(path))})  in Python")
