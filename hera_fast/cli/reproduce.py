"""``hera-fast reproduce``: the tables and figures of the paper."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path
from typing import Any

from hera_fast.atomic import replacing
from hera_fast.cli.options import (
    UsageError,
    add_command,
    add_jobs_option,
    add_run_option,
    add_validation_options,
)
from hera_fast.cli.terminal import Output
from hera_fast.experiments.catalogue import (
    EXPERIMENTS,
    available_sets,
    check_sets,
    run_experiment,
)
from hera_fast.experiments.plans import Scope
from hera_fast.experiments.records import Record
from hera_fast.experiments.texts import describe_seconds, text_tables, to_markdown
from hera_fast.report import draw_record

__all__ = ["add_parser", "run"]

_ALL = "all"
# Longer tables are for the file and the report.
_MOST_ROWS = 40


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "reproduce",
        run,
        summary="compute a table or figure of the paper",
        description="Every cell of a table is kept as soon as it is computed. After an interrupt, "
        "or a power cut, the same command goes on where it stopped. Published numbers stand beside "
        "ours. The data sets are looked for in the folder that HERA_FAST_DATA names.",
        examples=[
            ("reproduce table-real", "accuracies on the real data sets"),
            ("reproduce table-uci --fast", "three kinds of candidates instead of 28"),
            ("reproduce all --fast --run-dir run", "everything, in small"),
            ("report run", "then look at run/report.html"),
        ],
    )
    summaries = {name: experiment.summary for name, experiment in EXPERIMENTS.items()}
    width = max(map(len, summaries))
    lines = [f"  {name:<{width}}  {what}" for name, what in {**summaries, _ALL: "all"}.items()]
    parser.epilog = "\n".join(["experiments:", *lines, "", parser.epilog or ""])
    parser.add_argument(
        "experiment",
        choices=[*EXPERIMENTS, _ALL],
        metavar="EXPERIMENT",
        help="one of those below",
    )
    parser.add_argument("--fast", action="store_true", help="a part of it, in minutes")
    parser.add_argument(
        "--datasets",
        metavar="NAMES",
        help="only these data sets of the experiment, such as lost,msrcv2",
    )
    add_validation_options(parser, folds=10)
    add_jobs_option(parser)
    add_run_option(parser, default="hera-fast-run")


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Compute what is missing, then show it."""
    if arguments.folds < 2:
        raise UsageError("--folds must be 2 or more")
    names = list(EXPERIMENTS) if arguments.experiment == _ALL else [arguments.experiment]
    wanted = arguments.datasets.split(",") if arguments.datasets else None
    if wanted is not None and len(names) > 1:
        raise UsageError(f"--datasets needs one experiment, not {_ALL}")
    scopes = {name: _scope(name, wanted, arguments, out) for name in names}
    try:
        results = _run_all(scopes, arguments, out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what was finished is kept in {arguments.run_dir}, and the same command "
            "goes on from there"
        ) from None
    out.text(f"Look at it in a browser: hera-fast report {shlex.quote(str(arguments.run_dir))}")
    out.data(run_dir=str(arguments.run_dir), results=results)


def _run_all(
    scopes: dict[str, Scope], arguments: argparse.Namespace, out: Output
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, scope in scopes.items():
        start = time.perf_counter()
        records = run_experiment(
            *(name, scope, arguments.run_dir),
            command=_command(name, arguments),
            n_jobs=arguments.jobs,
            is_shown=out.shows_progress,
            note=out.note,
        )
        for record in records:
            results[record.name] = record.body
            _show(record, arguments.run_dir, out)
        out.note(f"{name} took {describe_seconds(time.perf_counter() - start)}")
    return results


def _scope(
    name: str, wanted: list[str] | None, arguments: argparse.Namespace, out: Output
) -> Scope:
    try:
        check_sets(name, wanted)
    except ValueError as error:
        raise UsageError(str(error)) from None
    found, missing = available_sets(name, fast=arguments.fast, wanted=wanted)
    if not found:
        sets = ", ".join(missing)
        raise FileNotFoundError(
            f"{name} needs at least one of the data sets {sets}. {next(iter(missing.values()))}"
        )
    if missing:
        out.warn(f"{name} is computed without {', '.join(missing)}, which are not on this machine")
    return Scope(found, arguments.fast, arguments.folds, arguments.seed)


def _command(name: str, arguments: argparse.Namespace) -> str:
    parts = ["hera-fast", "reproduce", name]
    if arguments.fast:
        parts.append("--fast")
    if arguments.datasets:
        parts += ["--datasets", arguments.datasets]
    return shlex.join([*parts, "--folds", str(arguments.folds), "--seed", str(arguments.seed)])


def _show(record: Record, run_dir: Path, out: Output) -> None:
    folder = run_dir / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.name}.md"
    with replacing(path, "table") as file:
        file.write(to_markdown(record).encode())
    out.text(f"\n{record.title}", strong=True)
    for table in text_tables(record):
        if len(table.rows) > _MOST_ROWS:
            continue
        out.text()
        out.table(table.header, table.rows, title=table.title)
        for note in table.notes:
            out.prose(note)
    prediction = record.body.get("prediction")
    if prediction and prediction["cells_done"] < prediction["cells_full"]:
        out.text()
        out.prose(
            f"{prediction['cells_done']} cells took "
            f"{describe_seconds(prediction['seconds_done'])} with {prediction['processes']} "
            f"processes; all 28 kinds of candidates, {prediction['cells_full']} cells, would take "
            f"about {describe_seconds(prediction['seconds_full'])}"
        )
    out.text(f"\nTable: {path}")
    if record.kind == "curves":
        picture = run_dir / "figures" / f"{record.name}.png"
        picture.parent.mkdir(exist_ok=True)
        try:
            draw_record(record, picture)
            out.text(f"Figure: {picture}")
        except ImportError as error:
            out.warn(str(error))
