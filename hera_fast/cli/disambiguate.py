"""``hera-fast disambiguate``: which candidate of each training row is true."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hera_fast.cli.csv_output import STANDARD_OUTPUT, write_csv
from hera_fast.cli.fitting import Fit, add_model_options, fit_model, make_classifier, say_fitted
from hera_fast.cli.options import (
    UsageError,
    add_command,
    add_data_options,
    add_run_option,
    check_output,
    settings_of,
    source_of,
)
from hera_fast.cli.terminal import Output, bars, printable
from hera_fast.experiments.disambiguation import Picks, describe_fit
from hera_fast.experiments.records import (
    Record,
    about_run,
    describe_data,
    name_record,
    save_record,
)

__all__ = ["add_parser", "run"]

_Array = np.ndarray[Any, Any]

_COLUMNS = ("row", "label", "confidence", "runner_up", "margin", "candidates")
_DOUBTFUL = 10
# So that a row of the table fits into 80 columns.
_LONGEST_LABEL = 16


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "disambiguate",
        run,
        summary="pick the true one of the candidates of each row",
        description="Writes CSV with the columns row (from 0), label, confidence, runner_up, "
        "margin (the difference of their confidences, 1 if there is one candidate), candidates "
        "and, if DATA has the true labels, target and right. Ctrl-C ends the fit and writes "
        "nothing.",
        examples=[
            ("disambiguate faces.csv --out names.csv", "a label for each row"),
            ("disambiguate faces.csv --out names.csv --sort doubtful", "what to look at first"),
            ("disambiguate lost --run-dir runs/lost", "figures for hera-fast report"),
        ],
    )
    add_data_options(parser)
    parser.add_argument(
        *("-o", "--out"),
        type=Path,
        metavar="FILE",
        help="where the labels go, - for the standard output (default: a summary only)",
    )
    parser.add_argument(
        "--sort",
        choices=("row", "doubtful"),
        default="row",
        help="as in DATA, or the smallest margin first (default: row)",
    )
    add_run_option(parser)
    add_model_options(parser)


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    classifier = make_classifier(arguments.method, settings_of(arguments), arguments.seed)
    if out.as_json and arguments.out == STANDARD_OUTPUT:
        raise UsageError("--json and --out - both want the standard output: name a file")
    if arguments.out not in (None, STANDARD_OUTPUT):
        check_output(arguments.out, arguments.data)
    if arguments.run_dir is not None:
        # Before the work: a folder that cannot be made is no place for its result.
        arguments.run_dir.mkdir(parents=True, exist_ok=True)
    bunch = source_of(arguments).load()
    fit = fit_model(arguments, bunch, classifier, out)
    body = describe_fit(fit.model, bunch, dataset=arguments.data)
    if arguments.out is not None:
        order = fit.picks.by_doubt() if arguments.sort == "doubtful" else np.arange(body["rows"])
        header = [*_COLUMNS, *([] if bunch.target is None else ["target", "right"])]
        write_csv(arguments.out, header, _cells(order, fit.picks, bunch, arguments.separator))
    out.data(source=arguments.data, out=arguments.out and str(arguments.out))
    out.data(method=arguments.method, **fit.figures)
    out.data(histogram=body["histogram"], doubtful=body["doubtful"][:_DOUBTFUL])
    # Nothing but the table goes to the standard output.
    if arguments.out != STANDARD_OUTPUT:
        _summarise(fit, body, out)
        if arguments.out is not None:
            out.text(f"\n{body['rows']} labels: {printable(str(arguments.out))}")
    if arguments.run_dir is not None:
        path = save_record(arguments.run_dir, _record(arguments, bunch, body))
        out.data(record=str(path))
        say = out.note if arguments.out == STANDARD_OUTPUT else out.text
        say(f"record: {printable(str(path))}")
        command = f"hera-fast report {shlex.quote(str(arguments.run_dir))}"
        say(f"  {printable(command)}  shows it")


def _cells(order: _Array, picks: Picks, bunch: Bunch, separator: str) -> Iterator[list[Any]]:
    names = [str(name) for name in bunch.target_names.tolist()]
    matrix = bunch.candidates
    for row in order.tolist():
        own = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        best, second = int(picks.best[row]), int(picks.runner_up[row])
        cells = [
            *(row, names[best], float(picks.confidence[row])),
            *("" if second < 0 else names[second], float(picks.margin[row])),
            separator.join([names[column] for column in own]),
        ]
        if bunch.target is not None:
            truth = int(bunch.target[row])
            cells += [names[truth], "true" if truth == best else "false"]
        yield cells


def _summarise(fit: Fit, body: dict[str, Any], out: Output) -> None:
    say_fitted(fit, out)
    edges, counts = body["histogram"]["edges"], body["histogram"]["counts"]
    out.text("\nconfidence in the picked label, rows", strong=True)
    # Two bins in one, so that it fits beside the rest.
    places = range(0, len(counts), 2)
    out.text(
        bars(
            [f"{edges[place]:.1f} to {edges[place + 2]:.1f}" for place in places],
            [counts[place] + counts[place + 1] for place in places],
        )
    )
    doubtful = [row for row in body["doubtful"][:_DOUBTFUL] if row["runner_up"] is not None]
    if not doubtful:
        return
    out.text()
    truth = doubtful[0]["truth"] is not None
    out.table(
        ["row", "label", "confidence", "runner-up", "margin", *(["truth"] if truth else [])],
        [
            [
                str(row["row"]),
                _short(row["label"]),
                f"{row['confidence']:.3f}",
                _short(row["runner_up"]),
                f"{row['margin']:.3f}",
                *([_short(row["truth"])] if truth else []),
            ]
            for row in doubtful
        ],
        title="most doubtful rows",
    )


def _short(label: Any) -> str:
    return printable(str(label), most=_LONGEST_LABEL)


def _record(arguments: argparse.Namespace, bunch: Bunch, body: dict[str, Any]) -> Record:
    stem = Path(arguments.data).stem
    settings = {
        "method": arguments.method,
        "seed": arguments.seed,
        "scale": not arguments.no_scale,
        **settings_of(arguments),
    }
    data = describe_data(arguments.data, stem, bunch)
    return Record(
        name=name_record("disambiguation", stem, data["sha256"], settings),
        kind="disambiguation",
        title=f"Candidates of {stem}",
        body=body,
        about=about_run(shlex.join(["hera-fast", *arguments.argv]), settings),
        datasets=[data],
    )
