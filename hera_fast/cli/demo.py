"""``hera-fast demo``: handwritten digits are learned from candidate labels.

The digits come with scikit-learn. Each is hidden among false candidates, and HERA has to find it
again. Logistic regression shows what the result is worth: trained on a random candidate of each
row, and on the true labels that HERA never sees.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from hera_fast.atomic import replacing
from hera_fast.cli.options import UsageError, add_command, check_output
from hera_fast.cli.terminal import Output, is_terminal
from hera_fast.data_sets import load_digits_partial
from hera_fast.estimator import HERAClassifier
from hera_fast.extras import require
from hera_fast.threads import threads

__all__ = ["add_parser", "run"]

_Array = np.ndarray[Any, Any]

_PICTURE = "hera-fast-demo.png"
_FORMATS = (".png", ".svg", ".pdf")
_FALSE_CANDIDATES = 2
# Rows that are enough to have everything compiled.
_FEW = 50
_PIXEL_MAXIMUM = 16
# Confidences from each of these on, up to the one before, are a line of a table.
_LEVELS = (0.99, 0.9, 0.5, 0.0)
_MAX_ITER = 1000
# Of the texts beside each other, and of the digits in the picture.
_COLUMNS, _GAP = 24, "  "
_TILE_ROWS, _TILE_COLUMNS = 5, 6
# Two colours that the colour-blind tell apart.
_RIGHT, _WRONG = "#0072B2", "#D55E00"


class Data(NamedTuple):
    """Training rows with candidates and the hidden labels; rows that no method has seen."""

    X: _Array
    Y: _Array
    y: _Array
    X_new: _Array
    y_new: _Array


class Result(NamedTuple):
    """What a method reached: shares of rows whose true label it found, None where meaningless."""

    method: str
    learns_from: str
    seconds: float | None
    training: float | None
    held_out: float | None


class Example(NamedTuple):
    """A training row, what was learned about it, and why it is shown."""

    title: str
    row: int
    candidates: list[int]
    confidence: list[float]
    truth: int


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        run,
        summary="a first look: learn handwritten digits from candidate labels",
        description="It brings its own data and takes some 15 seconds the first time, most of "
        "them for compilation, then about five.",
        examples=[
            ("demo", f"also draws {_PICTURE} here, if matplotlib is installed"),
            ("demo --out digits.svg", "draws another file"),
        ],
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(_PICTURE),
        metavar="FILE",
        help=f"the picture, {', '.join(_FORMATS)} (default: {_PICTURE})",
    )


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Train, tell what was found, draw it."""
    if arguments.out.suffix.lower() not in _FORMATS:
        raise UsageError(f"--out must end with {', '.join(_FORMATS)}, got {arguments.out}")
    check_output(arguments.out)
    data = _make_data()
    out.text("Handwritten digits that are learned from candidate labels", strong=True)
    out.text(
        f"The digits of scikit-learn, 8 x 8 pixels: {len(data.y)} to learn from, "
        f"{len(data.y_new)} held out.\nEach comes with three candidates: the true label and "
        "two false ones, most often\nof digits that look like it. HERA is not told which is which."
    )
    out.text()
    out.note("Compiling the kernels: some 10 seconds the first time, later they are loaded")
    model = HERAClassifier(random_state=0, verbose=int(out.shows_progress))
    # The data are small, and threads that wait for each other would blur the times.
    with threads(1):
        start = perf_counter()
        HERAClassifier().fit(data.X[:_FEW], data.Y[:_FEW]).predict(data.X_new[:_FEW])
        preparation = perf_counter() - start
        out.note("Training")
        results = _compare(model, data)
    examples, levels = _pick_examples(model, data), _levels(model, data)
    _show_results(results, preparation, out)
    _show_examples(examples, data, out)
    _show_levels(levels, out)
    picture = _draw(model, data, results, arguments.out, out)
    if picture is not None:
        out.text(f"Picture: {picture}")
    out.data(
        preparation_seconds=preparation,
        rows={"training": len(data.y), "held_out": len(data.y_new)},
        candidates_per_row=float(data.Y.sum(axis=1).mean()),
        methods=[result._asdict() for result in results],
        examples=[example._asdict() for example in examples],
        confidence=levels,
        picture=None if picture is None else str(picture),
    )


def _make_data() -> Data:
    digits = load_digits_partial(p=1.0, r=_FALSE_CANDIDATES)
    X, Y = digits.data / _PIXEL_MAXIMUM, digits.candidates.toarray().astype(bool)
    X, X_new, Y, _, y, y_new = train_test_split(X, Y, digits.target, test_size=0.3, random_state=0)
    return Data(X, Y, y, X_new, y_new)


def _compare(model: HERAClassifier, data: Data) -> list[Result]:
    """Fit the model, and what is possible without disambiguation or with the true labels."""
    rng = np.random.default_rng(0)
    guess = np.where(data.Y, rng.random(data.Y.shape), 0).argmax(axis=1)
    results = [Result("random choice", "-", None, float(np.mean(guess == data.y)), None)]
    for labels, target in [("a random candidate", guess), ("the truth", data.y)]:
        start = perf_counter()
        reference = LogisticRegression(max_iter=_MAX_ITER).fit(data.X, target)
        seconds = perf_counter() - start
        chosen = np.where(data.Y, reference.predict_proba(data.X), 0).argmax(axis=1)
        found = None if target is data.y else float(np.mean(chosen == data.y))
        score = float(reference.score(data.X_new, data.y_new))
        results.append(Result("logistic regression", labels, seconds, found, score))
    start = perf_counter()
    model.fit(data.X, data.Y)
    seconds = perf_counter() - start
    found = float(np.mean(model.transduction_ == data.y))
    score = float(model.score(data.X_new, data.y_new))
    results.insert(2, Result("HERA", "all candidates", seconds, found, score))
    return results


def _pick_examples(model: HERAClassifier, data: Data) -> list[Example]:
    """Pick a row that was clear, one in doubt, and the worst mistake."""
    sure, is_right = _picked(model, data)
    clear = np.flatnonzero(is_right & (sure > _LEVELS[0]))[0]
    doubtful = np.where(is_right, sure, np.inf).argmin()
    wrong = np.where(is_right, -np.inf, sure).argmax()
    examples = []
    for title, row in [("clear", clear), ("in doubt", doubtful), ("wrong", wrong)]:
        candidates = np.flatnonzero(data.Y[row])
        examples.append(
            Example(
                *(title, int(row), candidates.tolist()),
                confidence=model.confidence_[row, candidates].tolist(),
                truth=int(data.y[row]),
            )
        )
    return examples


def _picked(model: HERAClassifier, data: Data) -> tuple[_Array, _Array]:
    """Return the confidence in the label that was picked for each row, and whether it is true."""
    return model.confidence_.max(axis=1), model.transduction_ == data.y


def _true_confidence(model: HERAClassifier, data: Data) -> _Array:
    confidence: _Array = model.confidence_[np.arange(len(data.y)), data.y]
    return confidence


def _levels(model: HERAClassifier, data: Data) -> list[dict[str, Any]]:
    """Tell how many rows have a confidence in each range, and how many of them are right."""
    sure, is_right = _picked(model, data)
    levels, above = [], np.inf
    for least in _LEVELS:
        inside = (sure >= least) & (sure < above)
        n_rows, n_right = int(inside.sum()), int((inside & is_right).sum())
        levels.append({"from": least, "to": min(above, 1.0), "rows": n_rows, "right": n_right})
        above = least
    return levels


def _show_results(results: list[Result], preparation: float, out: Output) -> None:
    out.table(
        ["", "learns from", "seconds", "training rows", "held-out rows"],
        [
            [
                result.method,
                result.learns_from,
                "-" if result.seconds is None else f"{result.seconds:.2f}",
                _percent(result.training),
                _percent(result.held_out),
            ]
            for result in results
        ],
        title="True label found, and seconds on one thread",
    )
    out.text(
        "On training rows a method picks one of the three candidates.\n"
        f"Before, {preparation:.1f} s for compiling the kernels, or loading what was compiled."
    )
    out.text()


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _show_examples(examples: list[Example], data: Data, out: Output) -> None:
    """Draw some digits as text, their candidates and confidences below."""
    shades = " ░▒▓█" if _has_blocks() else " .:+#"
    columns = [_example_lines(example, data.X[example.row], shades) for example in examples]
    out.text("Three training rows, and the confidence in their candidates", strong=True)
    for cells in zip(*columns, strict=True):
        out.text(_GAP.join(f"{cell:{_COLUMNS}}" for cell in cells).rstrip())
    out.text("* marks the true label, which HERA has not seen.")
    out.text()


def _has_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return is_terminal(sys.stdout) and "utf" in encoding.lower()


def _example_lines(example: Example, pixels: _Array, shades: str) -> list[str]:
    lines = [f"row {example.row}: {example.title}"]
    levels = np.ceil(pixels.reshape(8, 8) * (len(shades) - 1)).astype(int)
    # Twice, because a character is about twice as high as wide.
    lines += ["".join(2 * shades[level] for level in row) for row in levels]
    room = _COLUMNS - len("* 0 0.00 ")
    for label, confidence in zip(example.candidates, example.confidence, strict=True):
        mark = "*" if label == example.truth else " "
        bar = round(room * confidence) * shades[-1]
        lines.append(f"{mark} {label} {confidence:.2f} {bar}")
    return lines


def _show_levels(levels: list[dict[str, Any]], out: Output) -> None:
    rows = [
        [
            f"{level['from']:.2f} to {level['to']:.2f}",
            str(level["rows"]),
            str(level["right"]),
            f"{level['right'] / level['rows']:.1%}" if level["rows"] else "-",
        ]
        for level in levels
    ]
    out.table(
        ["confidence", "rows", "right", "share"], rows, title="What a confidence is worth here"
    )
    out.text()


def _draw(
    model: HERAClassifier, data: Data, results: list[Result], path: Path, out: Output
) -> Path | None:
    """Draw digits that were found, confidences, and results; return where the picture is."""
    try:
        backend = require("matplotlib.backends.backend_agg", "plot", "the picture")
        figures = require("matplotlib.figure", "plot", "the picture")
    except ImportError as error:
        out.warn(f"no picture: {error}")
        return None
    figure = figures.Figure(figsize=(12, 3.8), layout="constrained")
    backend.FigureCanvasAgg(figure)
    digits, confidence, accuracy = figure.subplots(1, 3)
    _draw_digits(digits, model, data)
    _draw_confidence(confidence, model, data)
    _draw_accuracy(accuracy, results)
    with replacing(path, "picture") as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=150)
    return path


def _draw_digits(axes: Any, model: HERAClassifier, data: Data) -> None:
    """Draw digits with their candidates, the one that was picked in colour."""
    tile, n_tiles = 12, _TILE_ROWS * _TILE_COLUMNS
    page = np.zeros((_TILE_ROWS * tile, _TILE_COLUMNS * tile))
    # At equal distances from the worst row to the best: as many are wrong as among all rows.
    order = np.argsort(_true_confidence(model, data), kind="stable")
    rows = order[(np.arange(n_tiles) * 2 + 1) * len(order) // (2 * n_tiles)]
    for number, row in enumerate(rows):
        top, left = (tile * place for place in divmod(number, _TILE_COLUMNS))
        page[top + 1 : top + 9, left + 2 : left + 10] = data.X[row].reshape(8, 8)
        picked = model.transduction_[row]
        color = _RIGHT if picked == data.y[row] else _WRONG
        for place, label in enumerate(np.flatnonzero(data.Y[row])):
            shown = {"color": color, "weight": "bold"} if label == picked else {"color": "gray"}
            where = left + 2.5 + 3 * place, top + 10.2
            axes.text(*where, str(label), ha="center", va="center", fontsize=8, **shown)
    axes.imshow(page, cmap="gray_r")
    axes.set_axis_off()
    title = (
        f"{n_tiles} digits from hard to easy; the label picked\nis blue if right, orange if wrong"
    )
    axes.set_title(title, fontsize=10)


def _draw_confidence(axes: Any, model: HERAClassifier, data: Data) -> None:
    learned = np.sort(_true_confidence(model, data))
    percent = np.linspace(0, 100, len(learned))
    equal = np.sort(1 / data.Y.sum(axis=1))
    axes.plot(percent, equal, color="gray", label="before: all candidates alike")
    axes.plot(percent, learned, color=_RIGHT, label="after")
    axes.set_xlabel("% of training rows, sorted")
    axes.set_title("Confidence in the true label", fontsize=11)
    axes.legend(fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_accuracy(axes: Any, results: list[Result]) -> None:
    shown = [result for result in results if result.held_out is not None]
    drawn = axes.barh(
        [f"{result.method}\n{result.learns_from}" for result in shown],
        [100 * (result.held_out or 0) for result in shown],
        color=[_RIGHT if result.method == "HERA" else "silver" for result in shown],
    )
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    axes.invert_yaxis()
    axes.set(xlabel="%", xlim=(0, 115), xticks=range(0, 101, 25))
    axes.set_title("Held-out digits that are right", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
