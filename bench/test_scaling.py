"""How the time of a fit grows with the number of rows and of labels."""

from __future__ import annotations

import json
import time
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator
from ratio import Figure, record
from report import OUT
from shapes import rows_with_truth
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier

ROWS = (5_000, 10_000, 20_000, 40_000)
LABELS = (50, 100, 200, 400, 800)
N_FEATURES, N_CANDIDATES = 100, 2.0
#: rows x labels of each series; the other number is fixed.
SERIES = {
    "rows": [(n, 100) for n in ROWS],
    "labels": [(10_000, q) for q in LABELS],
}
SETTINGS = {"default": {}, "low-rank noise": {"nu": 0.1}}
SLOPE = 1.15
REPEATS = 3


def measure(n, q, settings):
    """Processor seconds of a fit on one thread, and how many iterations it took."""
    rows = rows_with_truth(n, N_FEATURES, q, N_CANDIDATES)
    model = HERAClassifier(n_threads=1, **settings)
    best = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(REPEATS):
            start = time.process_time()
            model.fit(rows.X, rows.Y)
            best = min(best, time.process_time() - start)
    return best, model.n_iter_


def slope(sizes, seconds):
    """Exponent of the power law through the points."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@pytest.fixture(scope="module")
def results():
    """Every series; written to a file and drawn when all are there."""
    found = {}
    yield found
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "scaling.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, OUT / "scaling.svg")


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("series", SERIES)
def test_slope(results, series, settings):
    points = []
    for n, q in SERIES[series]:
        seconds, iterations = measure(n, q, SETTINGS[settings])
        points.append((n if series == "rows" else q, seconds, iterations))
    sizes, seconds, _ = zip(*points, strict=True)
    found = slope(sizes, seconds)
    results.setdefault(series, {})[settings] = {"points": points, "slope": found}
    # Thresholding singular values needs a product of labels x labels for every row.
    bar = None if (series, settings) == ("labels", "low-rank noise") else SLOPE
    record([Figure(f"growth with {series}", settings, "float64", "slope", found, bar)])


def draw(found, path):
    """Times of fits, with the number of iterations at each point."""
    picture = Picture(figsize=(9, 4), layout="constrained")
    picture.suptitle(f"Processor seconds of a fit on one thread; {N_FEATURES} features")
    for axis, (series, lines) in zip(picture.subplots(1, 2), found.items(), strict=False):
        for (name, line), marker in zip(lines.items(), "os", strict=False):
            sizes, seconds, iterations = np.transpose(line["points"])
            each = slope(sizes, seconds / iterations)
            label = f"{name}: slope {line['slope']:.2f}, of an iteration {each:.2f}"
            axis.loglog(sizes, seconds, marker + "-", label=label)
            for *point, count in line["points"]:
                axis.annotate(
                    f"{count}", point, (0, -4), textcoords="offset points", va="top", fontsize=8
                )
        first = next(iter(lines.values()))["points"]
        sizes = np.array([first[0][0], first[-1][0]], dtype=float)
        axis.loglog(sizes, first[0][1] * sizes / sizes[0], ":", color="gray", label="slope 1")
        axis.set_xticks([size for size, *_ in first], [f"{size:,}" for size, *_ in first])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        bottom, top = axis.get_ylim()
        axis.set_ylim(0.7 * bottom, 8 * top)
        fixed = "100 labels" if series == "rows" else "10,000 rows"
        axis.set_xlabel(f"{series}, with {fixed}; at the points: iterations")
        axis.legend(frameon=False, loc="upper left", fontsize=9)
    picture.savefig(path, metadata={"Date": None})
