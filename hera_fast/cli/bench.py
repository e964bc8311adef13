"""``hera-fast bench``: how fast this machine runs hera-fast, beside what else is installed."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from hera_fast.cli.options import add_command
from hera_fast.cli.terminal import Output
from hera_fast.experiments.records import about_run
from hera_fast.ratios import Ratio, make_cases, measure
from hera_fast.task_progress import task_progress

__all__ = ["add_parser", "run"]

_N_CASES = 14
# Processor seconds of a comparison, and its rounds at least.
_THOROUGH, _FAST = (3.0, 6), (0.25, 2)


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        summary="time kernels and fits against NumPy, SciPy and scikit-learn",
        description="All run in turn on one thread, and the shortest processor times count. A "
        "ratio is our time divided by the other: below 1, hera-fast is faster.",
        examples=[
            ("bench", "half a minute, and as much again the first time"),
            ("bench --fast --json", "fewer rounds, for programs"),
        ],
    )
    parser.add_argument("--fast", action="store_true", help="fewer rounds, for rougher figures")


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Measure the ratios and show them."""
    budget, least_rounds = _FAST if arguments.fast else _THOROUGH
    ratios = []
    with task_progress("bench", _N_CASES, is_shown=out.shows_progress) as advance:
        for case in make_cases():
            ratios.append(measure(case, budget=budget, least_rounds=least_rounds))
            advance()
    command = "hera-fast bench --fast" if arguments.fast else "hera-fast bench"
    about = about_run(command, {"threads": 1, "dtype": "float64", "fast": arguments.fast})
    _show(ratios, about, out)
    out.data(ratios=[{**asdict(ratio), "ratio": ratio.ratio} for ratio in ratios], **about)


def _show(ratios: list[Ratio], about: dict[str, Any], out: Output) -> None:
    machine = about["machine"]
    out.text(f"{machine['processor']}, {machine['processors']} processors, {machine['system']}")
    out.prose(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    out.text()
    out.table(
        ["", "size", "against", "ours", "theirs", "ratio"],
        [
            [
                *(ratio.what, ratio.size, ratio.peer),
                *(_milliseconds(ratio.ours), _milliseconds(ratio.theirs), f"{ratio.ratio:.2f}"),
            ]
            for ratio in ratios
        ],
        title="Milliseconds for a call on one thread, float64",
    )
    out.text("A ratio below 1 means that hera-fast is faster.")
    slower = [ratio for ratio in ratios if ratio.ratio > 1]
    if slower:
        out.prose(
            "Slower than the other: " + "; ".join(f"{r.what} ({r.ratio:.1f} times)" for r in slower)
        )
    for ratio in ratios:
        if ratio.scores is not None:
            ours, theirs = ratio.scores
            out.prose(
                f"{ratio.what}: {ours:.1%} of the held-out digits are right, learned from "
                f"candidates; logistic regression, which is told the truth, has {theirs:.1%}."
            )


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"
