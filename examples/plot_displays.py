"""The displays of hera_fast.plotting on handwritten digits with candidates.

A fit, a comparison of three methods, and a figure against a setting; six displays in one picture.

    python examples/plot_displays.py

Takes about half a minute; writes ``out/examples/displays.png``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier, compare, cross_validate_partial, load_digits_partial
from hera_fast.baselines import CLPLClassifier, PLKNNClassifier
from hera_fast.plotting import (
    ConfidenceDisplay,
    ConvergenceDisplay,
    CoOccurrenceDisplay,
    CriticalDifferenceDisplay,
    CurveDisplay,
    NoiseFactorsDisplay,
)

N_FOLDS = 5
SHARES = (0.2, 0.5, 0.8)
PICTURE = Path("out", "examples", "displays.png")


def methods():
    return {"HERA": HERAClassifier(), "PL-KNN": PLKNNClassifier(), "CLPL": CLPLClassifier()}


def results():
    """Figures of all folds, with candidates for more and more rows."""
    tables = []
    for p in SHARES:
        digits = load_digits_partial(p=p)
        rows = slice(0, 400)
        table = cross_validate_partial(
            *(methods(), digits.data[rows], digits.candidates[rows], digits.target[rows]),
            cv=N_FOLDS,
        )
        tables.append({name: np.asarray(table[name]) for name in table})
        tables[-1]["p"] = np.full(len(tables[-1]["fold"]), p)
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def main():
    digits = load_digits_partial()
    model = make_pipeline(StandardScaler(), HERAClassifier(random_state=0))
    model.fit(digits.data, digits.candidates)
    figures = results()
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    CurveDisplay.from_results(
        figures, "p", x_label="share of rows with false labels", ax=axes[0, 0]
    )
    hardest = {name: values[figures["p"] == SHARES[-1]] for name, values in figures.items()}
    CriticalDifferenceDisplay.from_comparison(compare(hardest), ax=axes[0, 1])
    ConvergenceDisplay.from_estimator(model, ax=axes[0, 2])
    ConfidenceDisplay.from_estimator(model, y_true=digits.target, ax=axes[1, 0])
    CoOccurrenceDisplay.from_candidates(digits.candidates, ax=axes[1, 1])
    NoiseFactorsDisplay.from_estimator(model, ax=axes[1, 2])
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)
    print(f"Picture: {PICTURE}")


if __name__ == "__main__":
    main()
