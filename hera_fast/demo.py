"""Run the kernels on a data set of the shape of Yahoo! News: ``python -m hera_fast.demo``.

The data are random: 22,991 rows, 219 labels of which few are frequent, 1.91 candidates per row.
Every kernel runs on all rows. Plain NumPy is given a part of the rows where it needs all pairs
of labels or all pairs of rows; its time is then scaled to the whole set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hera_fast import kernels
from hera_fast.svd import singular_value_threshold
from hera_fast.threads import threads

__all__ = ["main"]

Array = NDArray[Any]

N_ROWS, N_FEATURES, N_LABELS = 22_991, 163, 219
N_CANDIDATES = 1.91
N_QUERIES, N_NEIGHBORS = 2_299, 10
PLOT = Path("out", "demo", "kernels.png")


class Case(NamedTuple):
    """A kernel, the same computation in NumPy, and what the kernel wrote for NumPy's rows."""

    name: str
    ours: Callable[[], object]
    numpy: Callable[[], Array]
    output: Array
    share: float = 1.0


class Result(NamedTuple):
    """Seconds for all rows, and the largest difference from NumPy relative to its largest entry."""

    name: str
    first_call: float
    ours: float
    numpy: float
    difference: float


def main() -> None:
    """Measure every kernel, print a table and write a plot."""
    cases = make_cases(np.random.default_rng(0))
    print(f"{N_ROWS} rows, {N_LABELS} labels, {N_CANDIDATES:.1f} candidates per row, float64")
    print("One thread, also for NumPy; smallest processor time of several interleaved runs\n")
    print(f"{'':28}{'first call':>11}{'hera-fast':>11}{'NumPy':>13}{'ratio':>8}{'difference':>12}")
    results = []
    for case in cases:
        # Processor time on one thread depends little on what else the machine is doing.
        with threads(1):
            result = measure(case)
        results.append(result)
        print(
            f"{result.name:28}{result.first_call:9.2f} s{1e3 * result.ours:8.1f} ms"
            f"{1e3 * result.numpy:9.0f} ms{'*' if case.share < 1 else ' '}"
            f"{result.numpy / result.ours:7.0f}{result.difference:12.0e}"
        )
    print("\nfirst call: with compilation, or with loading from the cache of an earlier run")
    print(
        f"nearest_neighbors: {N_NEIGHBORS} for each of {N_QUERIES} rows "
        f"among the other {N_ROWS - N_QUERIES}, {N_FEATURES} features"
    )
    print("* measured on part of the rows, scaled to all of them")
    plot(results)


def measure(case: Case) -> Result:
    """Time the first call, compare the results, time the following calls."""
    first_call = seconds(case.ours, perf_counter)
    expected = case.numpy()
    difference = float(np.abs(case.output - expected).max() / np.abs(expected).max())
    runs: list[tuple[float, float]] = []
    while len(runs) < 2 or np.sum(runs) < 1:
        runs.append((seconds(case.ours, process_time), seconds(case.numpy, process_time)))
    ours, numpy = np.min(runs, axis=0)
    return Result(case.name, first_call, ours, numpy / case.share, difference)


def seconds(function: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start


def plot(results: list[Result]) -> None:
    """Draw the times as bars and say where the picture is."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("No plot: it needs matplotlib (pip install 'hera-fast[plot]').", file=sys.stderr)
        return
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows = np.arange(len(results))
    ours = np.array([1e3 * result.ours for result in results])
    numpy = np.array([1e3 * result.numpy for result in results])
    axes.hlines(rows, ours, numpy, color="lightgray")
    axes.plot(ours, rows, "o", color="tab:blue", label="hera-fast")
    axes.plot(numpy, rows, "o", color="tab:gray", label="NumPy")
    for row, ratio in enumerate(numpy / ours):
        axes.annotate(
            f"× {ratio:.0f}", (np.sqrt(ours[row] * numpy[row]), row - 0.1), ha="center", va="bottom"
        )
    axes.set_xscale("log")
    axes.set_yticks(rows, [result.name for result in results])
    axes.set_ylim(len(results) - 0.5, -0.7)
    axes.set_xlabel("milliseconds of processor time, one thread")
    axes.legend(loc="lower right")
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=150)
    print(f"Plot: {PLOT}")


def make_cases(rng: np.random.Generator) -> list[Case]:
    """The data and the calls."""
    Y, P = make_labels(rng)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    Z = X @ rng.standard_normal((N_FEATURES, N_LABELS)) / np.sqrt(N_FEATURES)
    loss, dZ, dP, projected = np.empty(N_ROWS), *np.empty((3, N_ROWS, N_LABELS))

    queries, points = X[:N_QUERIES].copy(), X[N_QUERIES:].copy()
    distances = np.empty((N_QUERIES, N_NEIGHBORS))
    indices = np.empty((N_QUERIES, N_NEIGHBORS), dtype=np.int64)

    noise, low_rank = Y - P, np.empty_like(P)
    threshold = float(np.sqrt(np.linalg.eigvalsh(noise.T @ noise)[-21]))  # keeps 20

    few, some = 16, 512  # rows for NumPy: all pairs of labels, all pairs of rows
    z, p = Z[:few], P[:few]

    def fused() -> Array:
        pairs = numpy_pairs(z, p)
        numpy_loss(*pairs)
        numpy_score_gradient(*pairs)
        return numpy_confidence_gradient(*pairs)

    return [
        Case(
            "ranking_loss",
            lambda: kernels.ranking_loss(Z, P, loss),
            lambda: numpy_loss(*numpy_pairs(z, p)),
            loss[:few],
            few / N_ROWS,
        ),
        Case(
            "ranking_score_gradient",
            lambda: kernels.ranking_score_gradient(Z, P, dZ),
            lambda: numpy_score_gradient(*numpy_pairs(z, p)),
            dZ[:few],
            few / N_ROWS,
        ),
        Case(
            "ranking_confidence_gradient",
            lambda: kernels.ranking_confidence_gradient(Z, P, dP),
            lambda: numpy_confidence_gradient(*numpy_pairs(z, p)),
            dP[:few],
            few / N_ROWS,
        ),
        Case(
            "ranking_gradients",
            lambda: kernels.ranking_gradients(Z, P, loss, dZ, dP),
            fused,
            dP[:few],
            few / N_ROWS,
        ),
        Case(
            "project_simplex",
            lambda: kernels.project_simplex(Z, Y, projected),
            lambda: numpy_simplex(Z, Y),
            projected,
        ),
        Case(
            "nearest_neighbors",
            lambda: kernels.nearest_neighbors(queries, points, distances, indices),
            lambda: numpy_neighbors(queries[:some], points),
            distances[:some],
            some / N_QUERIES,
        ),
        Case(
            "singular_value_threshold",
            lambda: singular_value_threshold(noise, threshold, out=low_rank),
            lambda: numpy_threshold(noise, threshold),
            low_rank,
        ),
    ]


def make_labels(rng: np.random.Generator) -> tuple[Array, Array]:
    """Candidate sets with a long tail of rare labels, and random confidences over them."""
    frequency = 1 / np.arange(1, N_LABELS + 1)
    n_candidates = 1 + rng.poisson(N_CANDIDATES - 1, N_ROWS)
    # Whose bell rings first: drawing without replacement, in proportion to the frequency.
    rings = rng.exponential(1 / frequency, (N_ROWS, N_LABELS))
    Y = rings <= np.take_along_axis(np.sort(rings), n_candidates[:, None] - 1, axis=1)
    P = Y * rng.random(Y.shape)
    return Y, P / P.sum(axis=1, keepdims=True)


def numpy_pairs(Z: Array, P: Array) -> tuple[Array, Array]:
    """Differences of scores and of confidences for all pairs of labels."""
    return Z[:, :, None] - Z[:, None, :], P[:, :, None] - P[:, None, :]


def numpy_loss(d: Array, p: Array) -> Array:
    result: Array = (p**2 * np.log1p(np.exp(-(d**2)))).sum(axis=(1, 2)) / N_LABELS**2
    return result


def numpy_score_gradient(d: Array, p: Array) -> Array:
    result: Array = (p**2 * d / (1 + np.exp(d**2))).sum(axis=2) * (-4 / N_LABELS**2)
    return result


def numpy_confidence_gradient(d: Array, p: Array) -> Array:
    result: Array = (p * np.log1p(np.exp(-(d**2)))).sum(axis=2) * (4 / N_LABELS**2)
    return result


def numpy_neighbors(queries: Array, points: Array) -> Array:
    squares = (queries**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * queries @ points.T
    nearest: Array = np.sort(np.partition(squares, N_NEIGHBORS)[:, :N_NEIGHBORS])
    return nearest


def numpy_simplex(V: Array, Y: Array) -> Array:
    candidates = np.where(Y, V, -np.inf)
    descending = np.sort(candidates)[:, ::-1]
    sums = np.cumsum(np.where(np.isfinite(descending), descending, 0), axis=1)
    shifts = (sums - 1) / np.arange(1, N_LABELS + 1)
    last = (descending > shifts).sum(axis=1) - 1
    result: Array = np.maximum(candidates - np.take_along_axis(shifts, last[:, None], axis=1), 0)
    return result


def numpy_threshold(A: Array, threshold: float) -> Array:
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    result: Array = (U * np.maximum(s - threshold, 0)) @ Vt
    return result


if __name__ == "__main__":
    main()
