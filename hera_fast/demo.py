"""Learn handwritten digits from candidate labels: ``python -m hera_fast.demo``.

The digits come with scikit-learn. Their labels are hidden in sets of candidates, and HERA has to
find them again. Logistic regression shows what the result is worth: trained on a random candidate
of each row, and on the true labels that HERA never sees.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from hera_fast import HERAClassifier
from hera_fast.threads import threads

__all__ = ["main"]

_Array = np.ndarray[Any, Any]

P_NEXT, P_OTHER = 0.7, 0.2
HERA_SETTINGS: dict[str, dict[str, Any]] = {
    "HERA": {"random_state": 0},
    "HERA, one discriminant": {"calibration": "gaussian", "kernel": "rbf", "random_state": 0},
}
PLOT = Path("out", "demo", "hera.png")


class Data(NamedTuple):
    """Training rows with candidates and the hidden labels; rows that no method has seen."""

    X: _Array
    Y: _Array
    y: _Array
    X_new: _Array
    y_new: _Array


class Result(NamedTuple):
    """Cells of a line of the table; the last two are shares of rows, NaN where meaningless."""

    method: str
    iterations: str
    seconds: str
    new_rows: float
    training_rows: float


def main() -> None:
    """Train, print a table, write a plot."""
    # The data are small, and threads that wait for each other would blur the times.
    with threads(1):
        compare_methods()


def compare_methods() -> None:
    rng = np.random.default_rng(0)
    data = make_data(rng)
    print("Handwritten digits (scikit-learn's load_digits) with candidate labels. Beside the true")
    print(
        f"one, the next digit is a candidate with probability {P_NEXT}, any other with {P_OTHER}."
    )
    print(
        f"{len(data.X)} rows for training, {len(data.X_new)} held out, {data.X.shape[1]} features, "
        f"{data.Y.shape[1]} labels, {data.Y.sum(axis=1).mean():.2f} candidates per row\n"
    )
    start = perf_counter()
    for settings in HERA_SETTINGS.values():
        HERAClassifier(**settings).fit(data.X[:50], data.Y[:50]).predict(data.X_new[:50])
    print(f"Compiling, or loading what was compiled: {perf_counter() - start:.1f} s, on 50 rows")
    models: dict[str, HERAClassifier] = {}
    learned = []
    for method, settings in HERA_SETTINGS.items():
        print(f"Training {method}", flush=True)
        models[method] = HERAClassifier(**settings, verbose=1)
        learned.append(train_hera(method, models[method], data))
    below, above = train_references(data, rng)
    results = [*below, *learned, above]

    print(f"\n{'':40}{'':>10}{'':>9}   true label found in")
    print(f"{'':40}{'iterations':>10}{'seconds':>9}{'held-out':>11}{'training rows':>15}")
    for method, iterations, seconds, *shares in results:
        new, training = ("-" if np.isnan(share) else f"{share:.1%}" for share in shares)
        print(f"{method:40}{iterations:>10}{seconds:>9}{new:>11}{training:>15}")
    print("\nOn training rows a method chooses among the candidates; references are in [brackets].")
    plot(models, data, results)


def make_data(rng: np.random.Generator) -> Data:
    """Hide each digit among others, most often the next one; 9 is followed by 0."""
    digits, labels = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(digits / 16, labels, test_size=0.3, random_state=0)
    rows = np.arange(len(y))
    Y = rng.random((len(y), 10)) < P_OTHER
    Y[rows, (y + 1) % 10] = rng.random(len(y)) < P_NEXT
    Y[rows, y] = True
    return Data(X, Y, y, X_new, y_new)


def train_hera(method: str, model: HERAClassifier, data: Data) -> Result:
    start = perf_counter()
    model.fit(data.X, data.Y)
    seconds = f"{perf_counter() - start:.2f}"
    found = float(np.mean(model.transduction_ == data.y))
    return Result(method, str(model.n_iter_), seconds, model.score(data.X_new, data.y_new), found)


def train_references(data: Data, rng: np.random.Generator) -> tuple[list[Result], Result]:
    """What is possible without disambiguation, and with the true labels."""
    guess = np.where(data.Y, rng.random(data.Y.shape), 0).argmax(axis=1)
    chance = Result("[a random candidate]", "-", "-", np.nan, float(np.mean(guess == data.y)))
    results = []
    for labels, target in [("random candidates", guess), ("true labels", data.y)]:
        start = perf_counter()
        model = LogisticRegression(max_iter=1000).fit(data.X, target)
        seconds = f"{perf_counter() - start:.2f}"
        chosen = np.where(data.Y, model.predict_proba(data.X), 0).argmax(axis=1)
        found = np.nan if target is data.y else float(np.mean(chosen == data.y))
        name, score = f"[LogisticRegression, {labels}]", model.score(data.X_new, data.y_new)
        results.append(Result(name, str(model.n_iter_.max()), seconds, score, found))
    return [chance, results[0]], results[1]


def plot(models: dict[str, HERAClassifier], data: Data, results: list[Result]) -> None:
    """Draw how the runs converged and what they found, and say where the picture is."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("No plot: it needs matplotlib (pip install 'hera-fast[plot]').", file=sys.stderr)
        return
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    convergence, confidence, bars = figure.subplots(1, 3)
    colors = dict(zip(models, ("tab:blue", "navy"), strict=True))

    for method, model in models.items():
        iterations, change = range(1, model.n_iter_ + 1), model.history_["change"]
        convergence.semilogy(iterations, change, ".-", color=colors[method], label=method)
    convergence.axhline(model.tol, color="gray", linestyle=":", label="tolerance of the latter")
    convergence.set(title="Relative change of the objective", xlabel="iteration")
    convergence.xaxis.get_major_locator().set_params(integer=True)
    convergence.legend(fontsize="small")

    percent, rows = np.linspace(0, 100, len(data.y)), np.arange(len(data.y))
    equal = np.sort(1 / data.Y.sum(axis=1))
    confidence.plot(percent, equal, color="gray", label="before: candidates are equal")
    for method, model in models.items():
        learned = np.sort(model.confidence_[rows, data.y])
        confidence.plot(percent, learned, color=colors[method], label=method)
    confidence.set(title="Confidence in the true label", xlabel="% of training rows, sorted")
    confidence.legend(fontsize="small")

    shown = [result for result in results if not np.isnan(result.new_rows)]
    drawn = bars.barh(
        [result.method.strip("[]").replace(", ", ",\n") for result in shown],
        [100 * result.new_rows for result in shown],
        color=[colors.get(result.method, "silver") for result in shown],
    )
    bars.bar_label(drawn, fmt="%.1f", padding=3)
    bars.invert_yaxis()
    bars.set(
        title="Held-out rows that are right", xlabel="%", xlim=(0, 112), xticks=range(0, 101, 25)
    )

    for axes in (convergence, confidence, bars):
        axes.spines[["top", "right"]].set_visible(False)
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=150)
    print(f"Plot: {PLOT}")


if __name__ == "__main__":
    main()
