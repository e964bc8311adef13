"""Figures of a fit: confidence, convergence, and how labels belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hera_fast.experiments.records import Record
from hera_fast.plotting import (
    ConfidenceDisplay,
    ConvergenceDisplay,
    CoOccurrenceDisplay,
    NoiseFactorsDisplay,
)
from hera_fast.report.formats import as_numbers, join_words
from hera_fast.report.panel import SQUARE, Panel, capital, in_short

__all__ = ["label_panels"]

_Array = np.ndarray[Any, Any]


def label_panels(record: Record) -> list[Panel]:
    """Make the figures of a disambiguation; parts that are not there have none.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.label_panels import label_panels
    >>> body = {"histogram": {"edges": [0, 0.5, 1], "counts": [1, 3], "wrong": None}}
    >>> [panel.title for panel in label_panels(Record("mine", "disambiguation", "Mine", body))]
    ['Confidence in the picked labels']
    """
    makers = (_confidence_panels, _history_panels, _co_occurrence_panels, _factor_panels)
    return [panel for make in makers for panel in make(record.body)]


def _confidence_panels(body: Mapping[str, Any]) -> list[Panel]:
    histogram = body.get("histogram") or {}
    edges, counts = as_numbers(histogram.get("edges")), as_numbers(histogram.get("counts"))
    counts = np.nan_to_num(counts)
    if not counts.any():
        return []
    wrong = histogram.get("wrong")
    wrong = None if wrong is None else np.nan_to_num(as_numbers(wrong))
    display = ConfidenceDisplay(edges, counts, wrong=wrong)
    middle = (edges[:-1] + edges[1:]) / 2
    sure = counts[middle > 0.9].sum() / counts.sum()
    description = (
        f"Histogram of the confidence in the picked labels of {counts.sum():.0f} training rows. "
        f"{sure:.0%} of them have a confidence above 0.9, "
        f"{counts[middle < 0.5].sum() / counts.sum():.0%} one below 0.5."
    )
    if wrong is not None:
        description += f" {wrong.sum():.0f} labels are wrong."
    return [Panel("Confidence in the picked labels", description, display)]


def _history_panels(body: Mapping[str, Any]) -> list[Panel]:
    history = {
        str(name): as_numbers(values)
        for name, values in (body.get("history") or {}).items()
        if isinstance(values, list)
    }
    # The change decides when a fit stops; without it, whatever there is.
    for name in sorted(history, key=lambda name: name != "change"):
        values = history[name][np.isfinite(history[name])]
        if len(values):
            description = (
                f"{capital(name.replace('_', ' '))} in {len(history[name])} iterations: "
                f"{in_short(values)}."
            )
            display = ConvergenceDisplay(history)
            return [Panel("Convergence", description, display, options={"figure": name})]
    return []


def _matrix(rows: Any) -> _Array:
    return np.array([as_numbers(row) for row in rows or ()], np.float64)


def _co_occurrence_panels(body: Mapping[str, Any]) -> list[Panel]:
    part = body.get("co_occurrence") or {}
    labels, matrix = [str(label) for label in part.get("labels") or ()], _matrix(part.get("matrix"))
    if not labels or not np.isfinite(matrix).any():
        return []
    display = CoOccurrenceDisplay(matrix, labels)
    others = np.where(np.eye(len(labels), dtype=bool) | ~np.isfinite(matrix), -1, matrix)
    texts = [
        f"with {labels[i]}, {labels[j]} in {others[i, j]:.0%}"
        for i, j in zip(*np.unravel_index(np.argsort(-others, None)[:3], others.shape), strict=True)
        if others[i, j] > 0
    ]
    description = f"How often {len(labels)} labels are candidates together."
    if texts:
        description += f" Most often: {join_words(texts)} of the rows."
    return [Panel("Labels that are candidates together", description, display, size=SQUARE)]


def _factor_panels(body: Mapping[str, Any]) -> list[Panel]:
    part = body.get("factors") or {}
    labels, loadings = (
        [str(label) for label in part.get("labels") or ()],
        _matrix(part.get("loadings")),
    )
    values = as_numbers(part.get("singular_values"))
    if not labels or not np.nan_to_num(loadings).any():
        return []
    display = NoiseFactorsDisplay(values, loadings, labels)
    strongest = [
        join_words([labels[i] for i in np.argsort(-np.nan_to_num(np.abs(row)), kind="stable")[:3]])
        for row in loadings
    ]
    texts = [f"{i + 1}: {names}" for i, names in enumerate(strongest)]
    description = (
        "Labels that are false candidates together, by the leading factors of E. The strongest "
        f"labels of each factor: {'; '.join(texts)}."
    )
    return [Panel("Leading factors of the noise E", description, display, size=SQUARE)]
