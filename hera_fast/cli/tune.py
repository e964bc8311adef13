"""``hera-fast tune``: parameters that suit the data, found without true labels."""

from __future__ import annotations

import argparse
import shlex
import time
import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline

from hera_fast.cli.fitting import (
    make_classifier,
    name_model,
    preparation_steps,
    refuse_interrupted,
)
from hera_fast.cli.options import (
    UsageError,
    add_command,
    add_data_options,
    add_settings_option,
    add_threads_option,
    add_validation_options,
    check_output,
    settings_of,
    source_of,
    value_of,
)
from hera_fast.cli.terminal import Output, printable
from hera_fast.estimator import HERAClassifier
from hera_fast.pipeline_files import save_model
from hera_fast.scores import MEASURES
from hera_fast.selection import DEFAULT_GRID, HERAClassifierCV
from hera_fast.threads import threads

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "tune",
        run,
        summary="search for parameters that suit the data, without true labels",
        description="Each setting is fitted to all folds but one and judged by how well its "
        "predictions for that fold agree with the candidates there. Scores compare settings; they "
        "are no accuracies. Ctrl-C ends the search and writes nothing.",
        examples=[
            ("tune faces.csv", "16 settings, 5 folds"),
            ("tune faces.csv --out model.hera", "and fit the best one"),
            ("tune faces.csv --try alpha=0.1,1,10 --try kernel=rbf,None", "your own settings"),
        ],
    )
    add_data_options(parser)
    parser.add_argument(
        *("-o", "--out"), type=Path, metavar="FILE", help="where the best model goes, if wanted"
    )
    add_validation_options(parser, folds=5)
    parser.add_argument(
        "--scoring",
        choices=sorted(MEASURES),
        default="candidate_lift",
        metavar="NAME",
        help=f"how predictions are judged: {', '.join(sorted(MEASURES))} (default: candidate_lift)",
    )
    parser.add_argument(
        "--try",
        dest="grid",
        metavar="NAME=VALUE,...",
        action="append",
        default=[],
        help="values of a parameter, in all combinations with others; may be given again",
    )
    add_settings_option(parser)
    parser.add_argument("--no-scale", action="store_true", help="take features as they are")
    add_threads_option(parser)


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    settings = settings_of(arguments)
    grid = _grid(arguments.grid)
    points = list(ParameterGrid(grid))
    for name in settings:
        if any(name in point for point in points):
            raise UsageError(f"--set {name}: the search tries values of it. Name some with --try")
    for point in points:
        make_classifier("hera", settings | point, arguments.seed)
    if arguments.folds < 2:
        raise UsageError("--folds must be 2 or more")
    if arguments.out is not None:
        check_output(arguments.out, arguments.data)
    bunch = source_of(arguments).load()
    steps = preparation_steps(bunch.data, scale=not arguments.no_scale)
    rows = make_pipeline(*steps).fit_transform(bunch.data) if steps else bunch.data
    search = HERAClassifierCV(
        grid,
        estimator=make_classifier("hera", settings, arguments.seed),
        cv=arguments.folds,
        scoring=arguments.scoring,
        random_state=arguments.seed,
        verbose=int(out.shows_progress),
    )
    start = time.perf_counter()
    with threads(arguments.threads), warnings.catch_warnings():
        # It is an error here, with a message of its own.
        warnings.filterwarnings("ignore", "HERA was interrupted", ConvergenceWarning)
        search.fit(rows, bunch.candidates)
    refuse_interrupted(search.best_estimator_)
    seconds = time.perf_counter() - start
    options = _as_options(settings | search.best_params_)
    out.data(
        source=arguments.data,
        scoring=arguments.scoring,
        folds=search.n_splits_,
        seed=arguments.seed,
        seconds=round(seconds, 3),
        best=search.best_params_,
        best_score=search.best_score_,
        best_options=options,
        settings=_settings(search.cv_results_),
        model=None if arguments.out is None else str(arguments.out),
    )
    if arguments.out is not None:
        model = make_pipeline(*steps, search.best_estimator_) if steps else search.best_estimator_
        name_model(model, bunch)
        save_model(model, arguments.out)
    _show(search, options, seconds, arguments, out)


def _grid(texts: list[str]) -> Any:
    if not texts:
        return DEFAULT_GRID
    grid: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not (name and sign and values):
            raise UsageError(f"--try wants NAME=VALUE,VALUE, got {text!r}")
        if name in grid:
            raise UsageError(f"--try {name} is there twice: put all values into one")
        grid[name] = [value_of(value) for value in values.split(",")]
    return grid


def _settings(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings, the best one first."""
    order = results["rank_test_score"].argsort(kind="stable")
    return [
        {
            "rank": int(results["rank_test_score"][place]),
            "mean": float(results["mean_test_score"][place]),
            "deviation": float(results["std_test_score"][place]),
            "parameters": results["params"][place],
        }
        for place in order
    ]


def _as_options(parameters: dict[str, Any]) -> str:
    """Write parameters as the command line takes them."""
    return " ".join(f"--set {shlex.quote(f'{name}={value}')}" for name, value in parameters.items())


def _show(
    search: HERAClassifierCV,
    options: str,
    seconds: float,
    arguments: argparse.Namespace,
    out: Output,
) -> None:
    settings = _settings(search.cv_results_)
    title = f"{len(settings)} settings, {search.n_splits_} folds, {seconds:.1f} s"
    out.text(title, strong=True)
    out.text(f"rank  {arguments.scoring:<18}  what is not as in HERAClassifier()")
    out.text("-" * 78)
    usual = HERAClassifier().get_params()
    for setting in settings:
        score = f"{setting['mean']:.4f} ± {setting['deviation']:.4f}"
        other = {k: v for k, v in setting["parameters"].items() if v != usual[k]}
        text = " ".join(f"{name}={value}" for name, value in other.items()) or "nothing"
        out.beside(f"{setting['rank']:>4}  {score:<18}  ", printable(text))
    out.text("\nThe best one:")
    if arguments.out is None:
        data = shlex.quote(arguments.data)
        command = f"  hera-fast fit {data} --out model.hera"
        gap = " " if len(f"{command} {options}") < 80 else " \\\n    "
        out.text(printable(command) + gap + printable(options))
    else:
        out.text(f"  {printable(options)}")
        out.text(f"model: {printable(str(arguments.out))}")
