"""How the time of a fit grows with the number of rows and of labels."""

from __future__ import annotations

import json
import time
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
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
    picture = Picture(figsize=(8, 3.6), layout="constrained")
    for axis, (series, lines) in zip(picture.subplots(1, 2), found.items(), strict=False):
        fixed = "100 labels" if series == "rows" else "10,000 rows"
        for (name, line), marker in zip(lines.items(), "os", strict=False):
            sizes, seconds, _ = np.transpose(line["points"])
            axis.loglog(sizes, seconds, marker + "-", label=f"{name}: slope {line['slope']:.2f}")
        first = next(iter(lines.values()))["points"]
        sizes = np.array([first[0][0], first[-1][0]], dtype=float)
        axis.loglog(sizes, first[0][1] * sizes / sizes[0], ":", color="gray", label="slope 1")
        axis.set_xticks([size for size, *_ in first], [f"{size:,}" for size, *_ in first])
        axis.minorticks_off()
        axis.set_xlabel(f"{series} ({fixed}, {N_FEATURES} features, 2 candidates per row)")
        axis.set_ylabel("processor seconds of a fit, one thread")
        axis.legend(frameon=False)
    picture.savefig(path, metadata={"Date": None})
