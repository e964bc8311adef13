"""``hera-fast evaluate``: methods compared by cross-validation on a data set."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from hera_fast.cli.options import (
    UsageError,
    add_command,
    add_data_options,
    add_jobs_option,
    add_run_option,
    add_validation_options,
    source_of,
)
from hera_fast.cli.terminal import Output
from hera_fast.experiments.cells import Cell, Result, run_cells
from hera_fast.experiments.methods import METHODS, SEVEN, check_names
from hera_fast.experiments.plans import compare_results, list_methods
from hera_fast.experiments.records import (
    Record,
    about_run,
    describe_data,
    name_record,
    save_record,
)
from hera_fast.experiments.tables import validation_results
from hera_fast.experiments.texts import text_tables

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "evaluate",
        run,
        summary="compare methods on a data set by cross-validation",
        description="All methods get the same folds, default parameters, and features scaled on "
        "the training folds. With true labels in the data, accuracies are compared; without, how "
        "far above chance predictions are candidates of held-out rows.",
        examples=[
            ("evaluate digits --folds 3", "all seven methods"),
            ("evaluate faces.csv --methods hera,pl-knn,paloc", "three of them"),
            ("evaluate lost --run-dir run", "keep the results; goes on after an interrupt"),
        ],
    )
    add_data_options(parser)
    parser.add_argument(
        "--methods",
        default=",".join(SEVEN),
        metavar="NAMES",
        help=f"with commas between them, of {', '.join(METHODS)} (default: {','.join(SEVEN)}); the "
        "others are compared with the first one",
    )
    parser.add_argument(
        "--ordered",
        action="store_true",
        help="labels are numbers on a scale, such as ages: also say how many predictions are "
        "within 3 and 5",
    )
    add_validation_options(parser, folds=10)
    add_jobs_option(parser)
    add_run_option(parser)


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Compare the methods."""
    methods = arguments.methods.split(",")
    try:
        check_names(methods)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.folds < 2:
        raise UsageError("--folds must be 2 or more")
    source = source_of(arguments)
    bunch = source.load()
    if arguments.folds > bunch.data.shape[0]:
        raise ValueError(
            f"{arguments.data} has {bunch.data.shape[0]} rows, too few for {arguments.folds} folds"
        )
    cells = [
        Cell(
            *(source, method),
            folds=arguments.folds,
            seed=arguments.seed,
            ordered=arguments.ordered,
        )
        for method in methods
    ]
    results = _compute(cells, arguments, out)
    name = Path(arguments.data).stem
    body = {
        "reference": methods[0],
        "methods": list_methods(methods),
        "results": [
            {**result, "dataset": name, "group": name}
            for result in validation_results(cells, results)
        ],
        "published": None,
    }
    settings = {
        "methods": methods,
        "folds": arguments.folds,
        "seed": arguments.seed,
        "ordered": arguments.ordered,
    }
    data = describe_data(name, name, bunch)
    record = Record(
        name=name_record("evaluate", name, data["sha256"], settings),
        kind="comparison",
        title=f"Methods on {name}",
        body=body,
        about=about_run(shlex.join(["hera-fast", *arguments.argv]), settings),
        datasets=[data],
    )
    _show(record, arguments, out)


def _compute(cells: list[Cell], arguments: argparse.Namespace, out: Output) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="hera-fast-") as scratch:
        try:
            return run_cells(
                *(cells, arguments.run_dir or Path(scratch)),
                n_jobs=arguments.jobs,
                what="evaluate",
                is_shown=out.shows_progress,
                note=out.note,
            )
        except KeyboardInterrupt:
            kept = "nothing was kept; with --run-dir it would go on"
            if arguments.run_dir is not None:
                kept = f"what was finished is kept in {arguments.run_dir}, and the same command "
                kept += "goes on from there"
            raise KeyboardInterrupt(f"interrupted; {kept}") from None


def _show(record: Record, arguments: argparse.Namespace, out: Output) -> None:
    for table in text_tables(record):
        out.table(table.header, table.rows, title=table.title)
        for note in table.notes:
            out.prose(note)
        out.text()
    metric = "inductive" if "inductive" in record.body["results"][0]["figures"] else "lift"
    reference = record.body["reference"]
    comparison = compare_results(record.body["results"], metric=metric, reference=reference)
    titles = {method["name"]: method["title"] for method in record.body["methods"]}
    ranks = {
        titles[name]: rank
        for name, rank in zip(comparison.ranks["estimator"], comparison.ranks["rank"], strict=True)
    }
    ordered = sorted(ranks.items(), key=lambda each: each[1])
    out.prose("average ranks over folds: " + ", ".join(f"{n} {rank:.2f}" for n, rank in ordered))
    if arguments.run_dir is not None:
        path = save_record(arguments.run_dir, record)
        out.text(f"Kept in {path}; hera-fast report {shlex.quote(str(arguments.run_dir))} shows it")
    out.data(
        source=arguments.data,
        **record.body,
        settings=record.about["settings"],
        metric=metric,
        summary=_rows(comparison.summary),
        tests=_rows(comparison.tests),
        ranks=ranks,
    )


def _rows(table: Any) -> list[dict[str, Any]]:
    """Turn a table of columns into rows."""
    names = list(table)
    columns = [np.asarray(table[name]).tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
